"""Any split of a stream gives bitwise the model of one call."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from sparsetd.testing.logs import Log, assert_same, fitted, log, streamed


def two_pieces_equal_one(estimator: Any, rows: Log) -> None:
    assert_same(streamed(estimator, rows, ()), streamed(estimator, rows, (17,)), "two pieces")


def uneven_pieces_equal_one(estimator: Any, rows: Log) -> None:
    assert_same(streamed(estimator, rows, ()), streamed(estimator, rows, (1, 2, 5, 31, 47)), "uneven pieces")


def single_rows_equal_one_call(estimator: Any) -> None:
    rows = log(n=18, d=3)
    assert_same(streamed(estimator, rows, ()), streamed(estimator, rows, tuple(range(1, 18))), "single rows")


def sparse_pieces_equal_one(estimator: Any, rows: Log) -> None:
    sparse = rows.with_features(sp.csr_array)
    assert_same(streamed(estimator, sparse, ()), streamed(estimator, sparse, (9, 10, 40)), "CSR pieces")


def long_streams_split_too(estimator: Any) -> None:
    rows = log(n=600, d=3)
    assert_same(streamed(estimator, rows, ()), streamed(estimator, rows, (100, 256, 300, 599)), "pieces of 600 rows")


def one_pass_of_fit_is_a_stream(estimator: Any) -> None:
    rows, once = log(n=600, d=3), {"n_passes": 1} if "n_passes" in estimator.get_params() else {}
    assert_same(fitted(estimator, rows, **once), streamed(estimator, rows, (250,)), "fit against partial_fit")
