"""The same rows in another container give the same model."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.testing.logs import Log, assert_close, assert_same, concerns, fitted, log

NAMES = list("abcd")


def _thinned(rows: Log) -> Log:
    """The log with about half of the features zero."""
    keep = np.random.default_rng(7).random(rows.X.shape) < 0.5
    return rows.but(X=rows.X * keep, X_next=rows.X_next * keep[::-1])


def csr_equals_dense(estimator: Any, rows: Log) -> None:
    _assert_close_in(estimator, sp.csr_array, _thinned(rows), "CSR against dense")


def csr_with_unsorted_indices_equals_dense(estimator: Any, rows: Log) -> None:
    def reverse(X: Any) -> Any:
        matrix = sp.csr_array(X)
        for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            matrix.indices[a:b], matrix.data[a:b] = matrix.indices[a:b][::-1].copy(), matrix.data[a:b][::-1].copy()
        matrix.has_sorted_indices = False
        return matrix

    _assert_close_in(estimator, reverse, _thinned(rows), "unsorted CSR against dense")


def csr_with_duplicates_equals_dense(estimator: Any, rows: Log) -> None:
    def halve(X: Any) -> Any:
        matrix = sp.coo_array(X)
        i, j = np.tile(matrix.row, 2), np.tile(matrix.col, 2)
        order = np.argsort(i, kind="stable")
        counts = np.append(0, np.cumsum(np.bincount(i, minlength=matrix.shape[0])))
        return sp.csr_array((np.tile(matrix.data / 2, 2)[order], j[order], counts), shape=matrix.shape)

    _assert_close_in(estimator, halve, _thinned(rows), "CSR with every entry in two halves")


def sparse_and_dense_mix(estimator: Any, rows: Log) -> None:
    rows = _thinned(rows)
    for mixed in (rows.but(X=sp.csr_array(rows.X)), rows.but(X_next=sp.csr_array(rows.X_next))):
        assert_close(fitted(estimator, rows), fitted(estimator, mixed), "one of X and X_next sparse")


def action_blocks_in_csr_equal_dense(estimator: Any) -> None:
    n_actions, rng = 2, np.random.default_rng(3)

    def block(X: Any) -> Any:
        wide = np.zeros((len(X), n_actions, 3))
        wide[np.arange(len(X)), rng.integers(n_actions, size=len(X))] = X
        return wide.reshape(len(X), -1)

    rows = log(n=60, d=3).with_features(block)
    _assert_close_in(estimator, sp.csr_array, rows, "action blocks, CSR against dense")


def prediction_on_csr_equals_dense(estimator: Any, rows: Log) -> None:
    rows = _thinned(rows)
    model = fitted(estimator, rows)
    assert np.allclose(model.predict(rows.X), model.predict(sp.csr_array(rows.X)), rtol=1e-12, atol=1e-12)


def layout_does_not_matter(estimator: Any, rows: Log) -> None:
    strided = rows.but(X=np.repeat(rows.X, 2, axis=1)[:, ::2], X_next=np.asfortranarray(rows.X_next))
    assert_same(fitted(estimator, rows), fitted(estimator, strided), "strided and Fortran arrays")


def read_only_arrays_work(estimator: Any, rows: Log) -> None:
    frozen = log()
    for column in vars(frozen).values():
        column.setflags(write=False)
    assert_same(fitted(estimator, rows), fitted(estimator, frozen), "read-only arrays")


def integers_are_numbers(estimator: Any, rows: Log) -> None:
    whole = rows.but(X=np.rint(3 * rows.X).astype(np.int32), X_next=np.rint(3 * rows.X_next).astype(np.int64))
    real = whole.with_features(np.float64)
    assert_same(fitted(estimator, real, gamma=0.5), fitted(estimator, whole, gamma=0.5), "integer features")


def float32_is_close_to_float64(estimator: Any, rows: Log) -> None:
    double = rows.with_features(np.float32).with_features(np.float64)
    _assert_close_in(estimator, np.float32, double, "float32 against float64", tolerance=2e-3)


def lists_are_arrays(estimator: Any, rows: Log) -> None:
    plain = Log(*(column.tolist() for column in vars(rows).values()))
    assert_same(fitted(estimator, rows), fitted(estimator, plain), "lists")


def pandas_frames_equal_arrays(estimator: Any, rows: Log) -> None:
    concerns(find_spec("pandas") is not None)
    import pandas as pd

    _assert_frame_equals_array(estimator, rows, lambda X: pd.DataFrame(X, columns=NAMES))


def polars_frames_equal_arrays(estimator: Any, rows: Log) -> None:
    concerns(find_spec("polars") is not None)
    import polars as pl

    _assert_frame_equals_array(estimator, rows, lambda X: pl.DataFrame(X, schema=NAMES))


def _assert_frame_equals_array(estimator: Any, rows: Log, frame: Callable[[Any], Any]) -> None:
    model = fitted(estimator, rows.with_features(frame))
    assert_same(fitted(estimator, rows), model, "frames")
    assert list(model.feature_names_in_) == NAMES


def _assert_close_in(estimator: Any, container: Callable[[Any], Any], rows: Log, what: str, **options: Any) -> None:
    assert_close(fitted(estimator, rows), fitted(estimator, rows.with_features(container)), what, **options)
