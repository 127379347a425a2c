"""Dual balls, proxes and their Jacobians, each against its definition."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from sparsetd.solvers.saddle.newton import _solve_low_rank
from sparsetd.solvers.saddle.norms import FitNorm, without_w
from sparsetd.solvers.saddle.polish import _closed_form
from sparsetd.solvers.saddle.terms import Terms

ORDERS = [1, 2, "inf"]
DUAL = {1: "inf", 2: 2, "inf": 1}


@pytest.mark.parametrize("order", ORDERS)
def test_the_projection_is_the_nearest_point_of_the_dual_ball(order: Any) -> None:
    rng = np.random.default_rng(0)
    norm = FitNorm.of(order, scale=1.5)
    for size in (0.2, 3.0):
        y, u = size * rng.normal(size=6), cp.Variable(6)
        cp.Problem(cp.Minimize(cp.sum_squares(u - y)), [cp.norm(u, DUAL[order]) <= 1.5]).solve(solver="CLARABEL")
        np.testing.assert_allclose(norm.project(y), u.value, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_the_norm_is_the_largest_product_with_its_dual_ball(order: Any) -> None:
    rng = np.random.default_rng(1)
    norm, r, u = FitNorm.of(order, scale=0.7), rng.normal(size=6), cp.Variable(6)
    problem = cp.Problem(cp.Maximize(r @ u), [cp.norm(u, DUAL[order]) <= 0.7])
    assert norm.value(r) == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [0.1, 2.0])
def test_the_jacobian_of_the_norms_prox(order: Any, size: float) -> None:
    norm, v = FitNorm.of(order), size * np.random.default_rng(2).normal(size=6)
    a, u = norm.jacobian(v, 0.8)
    np.testing.assert_allclose(np.diag(a) + np.outer(u, u), _differences(lambda w: norm.prox(w, 0.8), v), atol=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_jacobian_of_the_penaltys_prox(grouped: bool) -> None:
    rng = np.random.default_rng(3)
    label = np.arange(6) // 2 if grouped else None
    terms = Terms(np.full(6, 0.5), np.zeros(6) if grouped else np.full(6, 0.3), label)
    v, step, A = 1.5 * rng.normal(size=6), np.full(6, 0.8), rng.normal(size=(4, 6))
    R = terms.root_columns(A, v, step)
    J = _differences(lambda w: terms.prox(w, step), v)
    np.testing.assert_allclose(R @ R.T, A @ np.diag(step) @ J @ A.T, atol=1e-6)


def _differences(function: Any, v: Any, h: float = 1e-6) -> Any:
    return np.column_stack([(function(v + h * e) - function(v - h * e)) / (2 * h) for e in np.eye(len(v))])


@pytest.mark.parametrize(("n", "columns", "small"), [(20, 5, 0), (20, 5, 3), (20, 5, 20), (20, 30, 4)])
def test_the_low_rank_solve(n: int, columns: int, small: int) -> None:
    rng = np.random.default_rng(4)
    R, diagonal, g = rng.normal(size=(n, columns)), np.ones(n), rng.normal(size=n)
    diagonal[:small] = 1e-2
    y = _solve_low_rank(diagonal, R, g, 0.1)
    np.testing.assert_allclose((np.diag(diagonal) + R @ R.T) @ y, g, atol=1e-9)


def test_the_closed_form_is_stationary_and_knows_its_limits() -> None:
    rng = np.random.default_rng(5)
    A, b, q = rng.normal(size=(8, 3)), rng.normal(size=8), 0.1 * np.ones(3)
    x = _closed_form(A, b, q)
    assert x is not None
    r = A @ x - b
    np.testing.assert_allclose(A.T @ r / np.linalg.norm(r), -q, atol=1e-12)
    assert _closed_form(np.ones((8, 2)), b, q[:2]) is None
    assert _closed_form(A, b, 100.0 * q) is None


def test_the_scale_of_the_norm_without_w() -> None:
    u = np.random.default_rng(6).normal(size=5)
    for order in ORDERS:
        whole = FitNorm.of(order).value(np.append(3.0 * u, u))
        assert whole == pytest.approx(without_w(order, 3.0) * FitNorm.of(order).value(u))
