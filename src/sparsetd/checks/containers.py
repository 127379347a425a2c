"""The same rows in another container give the same model."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.checks.logs import Log, assert_close, assert_same, fitted, log


def _thinned(rows: Log) -> Log:
    """The log with about half of the features zero."""
    keep = np.random.default_rng(7).random(rows.X.shape) < 0.5
    return rows.but(X=rows.X * keep, X_next=rows.X_next * keep[::-1])


def csr_equals_dense(estimator: Any) -> None:
    rows = _thinned(log())
    sparse = rows.but(X=sp.csr_array(rows.X), X_next=sp.csr_array(rows.X_next))
    assert_close(fitted(estimator, rows), fitted(estimator, sparse), "CSR against dense")


def csr_with_unsorted_indices_equals_dense(estimator: Any) -> None:
    rows = _thinned(log())
    reversed_rows = []
    for matrix in (sp.csr_array(rows.X), sp.csr_array(rows.X_next)):
        for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            matrix.indices[a:b], matrix.data[a:b] = matrix.indices[a:b][::-1].copy(), matrix.data[a:b][::-1].copy()
        matrix.has_sorted_indices = False
        reversed_rows.append(matrix)
    sparse = rows.but(X=reversed_rows[0], X_next=reversed_rows[1])
    assert_close(fitted(estimator, rows), fitted(estimator, sparse), "unsorted CSR against dense")


def csr_with_duplicates_equals_dense(estimator: Any) -> None:
    rows = _thinned(log())
    halves = []
    for matrix in (sp.coo_array(rows.X), sp.coo_array(rows.X_next)):
        i, j = np.tile(matrix.row, 2), np.tile(matrix.col, 2)
        order = np.argsort(i, kind="stable")
        counts = np.append(0, np.cumsum(np.bincount(i, minlength=matrix.shape[0])))
        halves.append(sp.csr_array((np.tile(matrix.data / 2, 2)[order], j[order], counts), shape=matrix.shape))
    sparse = rows.but(X=halves[0], X_next=halves[1])
    assert_close(fitted(estimator, rows), fitted(estimator, sparse), "CSR with every entry in two halves")


def sparse_and_dense_mix(estimator: Any) -> None:
    rows = _thinned(log())
    for mixed in (rows.but(X=sp.csr_array(rows.X)), rows.but(X_next=sp.csr_array(rows.X_next))):
        assert_close(fitted(estimator, rows), fitted(estimator, mixed), "one of X and X_next sparse")


def action_blocks_in_csr_equal_dense(estimator: Any) -> None:
    rows, n_actions = log(n=60, d=3), 2
    rng = np.random.default_rng(3)
    blocks = []
    for X in (rows.X, rows.X_next):
        action = rng.integers(n_actions, size=len(X))
        wide = np.zeros((len(X), n_actions, 3))
        wide[np.arange(len(X)), action] = X
        blocks.append(wide.reshape(len(X), -1))
    dense = rows.but(X=blocks[0], X_next=blocks[1])
    sparse = rows.but(X=sp.csr_array(blocks[0]), X_next=sp.csr_array(blocks[1]))
    assert_close(fitted(estimator, dense), fitted(estimator, sparse), "action blocks, CSR against dense")


def prediction_on_csr_equals_dense(estimator: Any) -> None:
    rows = _thinned(log())
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
    real = whole.but(X=whole.X.astype(float), X_next=whole.X_next.astype(float))
    assert_same(fitted(estimator, real, gamma=0.5), fitted(estimator, whole, gamma=0.5), "integer features")


def float32_is_close_to_float64(estimator: Any, rows: Log) -> None:
    single = rows.but(X=rows.X.astype(np.float32), X_next=rows.X_next.astype(np.float32))
    double = single.but(X=single.X.astype(np.float64), X_next=single.X_next.astype(np.float64))
    assert_close(fitted(estimator, double), fitted(estimator, single), "float32 against float64", tolerance=2e-3)


def lists_are_arrays(estimator: Any, rows: Log) -> None:
    plain = Log(*(column.tolist() for column in vars(rows).values()))
    assert_same(fitted(estimator, rows), fitted(estimator, plain), "lists")


def _assert_frame_equals_array(estimator: Any, frame: Any, names: list[str]) -> None:
    rows = log()
    framed = rows.but(X=frame(rows.X, names), X_next=frame(rows.X_next, names))
    model = fitted(estimator, framed)
    assert_same(fitted(estimator, rows), model, "frames")
    assert list(model.feature_names_in_) == names


def pandas_frames_equal_arrays(estimator: Any) -> None:
    if find_spec("pandas"):
        import pandas as pd

        _assert_frame_equals_array(estimator, lambda X, names: pd.DataFrame(X, columns=names), list("abcd"))


def polars_frames_equal_arrays(estimator: Any) -> None:
    if find_spec("polars"):
        import polars as pl

        _assert_frame_equals_array(estimator, lambda X, names: pl.DataFrame(X, schema=names), list("abcd"))
