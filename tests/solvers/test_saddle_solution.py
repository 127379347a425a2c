"""What the certified solver hands back beside θ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsetd import LinearTD
from sparsetd.operators import td, tdc
from sparsetd.penalties import L1
from sparsetd.solvers.mean import Matrix
from sparsetd.solvers.saddle import FitNorm, Problem, Saddle, Terms
from sparsetd.system import Batch, mean_system


def rows(n: int = 60, d: int = 4) -> Batch:
    rng = np.random.default_rng(3)
    phi = rng.normal(size=(n, d))
    reward = phi[:, 0] + 0.5 * rng.normal(size=n)
    ones = np.ones(n)
    return Batch(phi, 0.5 * phi + rng.normal(size=(n, d)), reward, 0.9 * ones, ones, np.arange(n) % 10 == 0, ones)


def fitted(table: Any, penalty: Any) -> LinearTD:
    log = rows()
    model = LinearTD(operator=table, penalty=penalty, solver=Saddle(tol=1e-9))
    return model.fit(log.phi, log.reward, log.phi_next, discount=log.discount, start=log.start)


@pytest.mark.filterwarnings("ignore:w absorbs")
def test_w_is_handed_back_with_theta() -> None:
    model, (A, b) = fitted(tdc(2.0), L1(0.1, 0.05)), mean_system(tdc(2.0), rows())
    assert np.count_nonzero(model.aux_) > 0
    value = np.linalg.norm(A @ np.append(model.aux_, model.coef_) - b)
    value += 0.1 * np.abs(model.coef_).sum() + 0.05 * np.abs(model.aux_).sum()
    assert value == pytest.approx(model.objective_, rel=1e-12)


def test_a_system_of_theta_alone_has_no_w() -> None:
    assert fitted(td(), L1(0.1)).aux_ is None


@pytest.mark.parametrize(
    ("applied", "adjoint", "columns", "total"), [(3, 3, 0, 3), (5, 2, 0, 5), (2, 5, 0, 5), (2, 2, 8, 4), (2, 2, 9, 5)]
)
def test_products_are_counted_in_pairs_and_columns_in_quarters(applied, adjoint, columns, total) -> None:
    problem = Problem(Matrix(np.eye(9), np.ones(9)), FitNorm(), Terms.of(L1(0.1), 1, 9))
    for _ in range(applied):
        problem.apply(np.ones(9))
    for _ in range(adjoint):
        problem.adjoint(np.ones(9))
    if columns:
        problem.gather(np.arange(columns))
    assert problem.n_applications == total


@pytest.mark.parametrize("order", [1, 2, "inf"])
@pytest.mark.parametrize("size", [0.1, 5.0])
def test_any_pair_is_certified_from_below(order, size) -> None:
    """y is scaled into the dual ball and under the penalties of the corners, and D(y) = −bᵀy − h*(−Aᵀy)."""
    rng = np.random.default_rng(0)
    A, b, x, y = rng.normal(size=(6, 4)), rng.normal(size=6), rng.normal(size=4), size * rng.normal(size=6)
    l1, l2 = np.array([0.4, 0.3, 0.2, 0.0]), np.array([0.0, 0.5, 1.0, 2.0])
    norm = FitNorm.of(order, scale=1.5)
    point = Problem(Matrix(A, b), norm, Terms(l1, l2, None)).point(x, y)
    assert norm.dual_norm(point.y) <= 1 + 1e-12
    assert abs(A[:, 0] @ point.y) <= l1[0] + 1e-12
    share = point.y / y
    np.testing.assert_allclose(share, share[0])
    assert 0 < share[0] <= 1
    np.testing.assert_allclose(point.z, A.T @ point.y)
    excess = np.maximum(np.abs(point.z) - l1, 0.0)[1:]
    assert point.dual == pytest.approx(-b @ point.y - np.sum(excess**2 / (2 * l2[1:])))
    assert point.primal == pytest.approx(norm.value(A @ x - b) + l1 @ np.abs(x) + l2 @ x**2 / 2)
    assert point.dual <= point.primal
