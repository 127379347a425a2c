"""The implicit mean system against the plain one of `system.py`, for every operator."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd.operators import OPERATORS
from sparsetd.solvers.mean import MeanOperator, as_weight, formed, mean_operator
from sparsetd.solvers.saddle import newton
from sparsetd.solvers.saddle.newton import Columns
from sparsetd.system import Batch, mean_system

N, D = 40, 7


def make_batch(rng: np.random.Generator, n: int = N, d: int = D, sparse: bool = False, ratio: bool = True) -> Batch:
    phi, phi_next = rng.normal(size=(2, n, d)) * (rng.random((2, n, d)) < 0.6)
    start = rng.random(n) < 0.1
    start[0] = True
    return Batch(
        sp.csr_array(phi) if sparse else phi,
        sp.csr_array(phi_next) if sparse else phi_next,
        rng.normal(size=n),
        np.where(rng.random(n) < 0.1, 0.0, 0.9),
        rng.uniform(0.0, 2.0, size=n) if ratio else np.ones(n),
        start,
        np.ones(n),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.7])
@pytest.mark.parametrize("name", OPERATORS)
def test_products_and_columns_are_those_of_the_mean_system(name: str, lam: float, sparse: bool) -> None:
    operator = OPERATORS[name]
    table = operator(lam=lam) if "lam" in inspect.signature(operator).parameters else operator()
    rng = np.random.default_rng(3)
    batch = make_batch(rng, sparse=sparse)
    A, b = mean_system(table, batch)
    system = mean_operator(table, batch, form=False)
    x, y = rng.normal(size=(2, len(b)))
    index = rng.permutation(len(b))[:5]
    some = np.empty((len(b), 5))
    for rows, values in system.columns(index, chunk=3):
        some[rows] = values
    for ours, plain in [
        (system.b, b),
        (system.apply(x), A @ x),
        (system.adjoint(y), A.T @ y),
        (some, A[:, index]),
        (mean_operator(table, batch, form=True).apply(x), A @ x),
    ]:
        np.testing.assert_allclose(ours, plain, atol=1e-13)


def test_forming_in_chunks_carries_the_trace() -> None:
    table = OPERATORS["tdc"](lam=0.8)
    batch = make_batch(np.random.default_rng(4))
    A, b, _ = formed(MeanOperator(table, batch, as_weight(batch, None)), chunk=7)
    np.testing.assert_allclose(A, mean_system(table, batch)[0], atol=1e-13)
    np.testing.assert_allclose(b, mean_system(table, batch)[1], atol=1e-13)


def test_a_weight_of_zero_leaves_rows_out() -> None:
    rng = np.random.default_rng(5)
    batch, table = make_batch(rng), OPERATORS["tdc"]()
    kept = rng.random(N) < 0.6
    A, b = mean_system(table, batch[kept])
    for form in (False, True):
        weighted = mean_operator(table, batch, kept.astype(float), form=form)
        np.testing.assert_allclose(weighted.adjoint(np.eye(len(b))[2]), A[2], atol=1e-13)
        np.testing.assert_allclose(weighted.b, b, atol=1e-13)


@pytest.mark.parametrize("limit", [0, 30, 10**7])  # 14 rows of 2 columns are 28 numbers, of 4 columns 56
def test_the_triangle_preserves_lengths_and_a_large_block_is_not_kept(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newton, "KEEP_BELOW", limit)
    rng = np.random.default_rng(6)
    batch = make_batch(rng, sparse=True)
    A, b = mean_system(OPERATORS["tdc"](), batch)
    columns = Columns(mean_operator(OPERATORS["tdc"](), batch, form=False))
    columns.extend(np.array([1, 3]))
    assert (columns.values is None) == (limit < 28)
    columns.extend(np.array([9, 3, 4]))
    assert (columns.values is None) == (limit < 56)
    R, x = columns.triangular(), rng.normal(size=4)
    assert sorted(columns.index) == [1, 3, 4, 9]
    assert np.linalg.norm(R[:, :-1] @ x - R[:, -1]) == pytest.approx(np.linalg.norm(A[:, columns.index] @ x - b))
