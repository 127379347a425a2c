"""Dual balls, proxes and their Jacobians, each against its definition."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from sparsetd.solvers.mean import Matrix
from sparsetd.solvers.saddle.newton import Columns, _solve_low_rank, solve_on_working_set
from sparsetd.solvers.saddle.pdhg import pdhg
from sparsetd.solvers.saddle.problem import RMSPBE, FitNorm, Point, Problem, Terms, without_w
from sparsetd.solvers.saddle.scaling import Units, whitened
from sparsetd.solvers.saddle.solver import point_at, solve
from sparsetd.solvers.saddle.support import _towards, closed_form, polished, sign_search

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
def test_the_dual_norm_says_how_far_a_point_is_outside_the_ball(order: Any) -> None:
    y = np.random.default_rng(4).normal(size=6)
    conjugate = {1: np.abs(y).max(), 2: np.sqrt(y @ y), "inf": np.abs(y).sum()}[order]
    norm = FitNorm.of(order, scale=1.5)
    assert norm.dual_norm(y) == pytest.approx(conjugate / 1.5)
    np.testing.assert_allclose(norm.project(0.999 * y / norm.dual_norm(y)), 0.999 * y / norm.dual_norm(y))


@pytest.mark.parametrize("order", ORDERS)
def test_the_norm_is_the_largest_product_with_its_dual_ball(order: Any) -> None:
    rng = np.random.default_rng(1)
    norm, r, u = FitNorm.of(order, scale=0.7), rng.normal(size=6), cp.Variable(6)
    problem = cp.Problem(cp.Maximize(r @ u), [cp.norm(u, DUAL[order]) <= 0.7])
    assert norm.value(r) == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [0.1, 1.0, 2.0])
def test_the_jacobian_of_the_norms_prox(order: Any, size: float) -> None:
    norm, v = FitNorm.of(order, scale=1.5), size * np.random.default_rng(2).normal(size=6)
    a, u = norm.jacobian(v, 0.8)
    np.testing.assert_allclose(np.diag(a) + np.outer(u, u), _differences(lambda w: norm.prox(w, 0.8), v), atol=1e-6)
    if order == "inf" and size == 1.0:
        assert 1 < np.count_nonzero(u) < 6  # the peaks that share the change


def test_the_conjugate_of_the_penalty_is_its_largest_distance_from_a_line() -> None:
    terms = Terms(np.array([0.5, 0.0, 0.7]), np.array([0.3, 2.0, 0.0]), None)
    z, grid = np.array([1.4, -0.8, 0.6]), np.linspace(-6, 6, 240_001)
    bound = [np.max(z[i] * grid - terms.l1[i] * np.abs(grid) - terms.l2[i] / 2 * grid**2) for i in range(3)]
    assert min(bound[:2]) > 0.1
    assert terms.conjugate(z) == pytest.approx(sum(bound), abs=1e-8)


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


def _point(primal: float, dual: float, zero: float, mark: float = 0.0) -> Point:
    return Point(*(np.full(2, mark) for _ in range(4)), primal=primal, dual=dual, zero=zero)


def test_the_gap_is_relative_to_the_objective_or_to_a_small_share_of_what_nothing_costs() -> None:
    assert _point(4.0, 3.0, 8.0).relative_gap == 0.25
    assert _point(1e-9, 0.0, 2.0).relative_gap == pytest.approx(1e-9 / 2e-4)
    assert _point(3.0, 3.5, 8.0).relative_gap == 0.0, "rounding puts the bound above the objective"
    assert _point(0.0, 0.0, 0.0).relative_gap == 0.0, "nothing to explain"


def test_the_better_primal_is_merged_with_the_better_dual() -> None:
    one, other = _point(4.0, 1.0, 8.0, mark=1.0), _point(5.0, 3.0, 8.0, mark=2.0)
    for merged in (one.merged(other), other.merged(one)):
        assert (merged.primal, merged.dual) == (4.0, 3.0)
        assert (merged.x[0], merged.Ax[0], merged.y[0], merged.z[0]) == (1.0, 1.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("order", "wanted"), [(1, [1.0, -1.0, 0.0, 1.0]), (2, [0.6, -0.6, 0.0, 0.3]), ("inf", [0.5, -0.5, 0.0, 0.0])]
)
def test_a_residual_proposes_a_dual_point_whose_product_with_it_is_its_norm(order: Any, wanted: Any) -> None:
    r = np.array([2.0, -2.0, 0.0, 1.0])
    problem = Problem(Matrix(np.eye(4), -r), FitNorm.of(order, scale=1.5), Terms(np.ones(4), np.zeros(4)))
    y = problem.residual_dual(np.zeros(4))
    np.testing.assert_allclose(y, 1.5 * np.array(wanted) / (0.9 if order == 2 else 1.0))
    assert y @ r == pytest.approx(problem.norm.value(r))
    assert problem.norm.dual_norm(y) == pytest.approx(1.0)
    assert not problem.residual_dual(-r).any(), "an exact fit proposes nothing"


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
    found = closed_form(A, b, q)
    assert found is not None
    r = A @ found[0] - b
    np.testing.assert_allclose(A.T @ r / np.linalg.norm(r), -q, atol=1e-12)
    np.testing.assert_allclose(found[1], r / np.linalg.norm(r), atol=1e-12)
    assert closed_form(np.ones((8, 2)), b, q[:2]) is None
    assert closed_form(A, b, 100.0 * q) is None


def test_the_closed_form_of_an_exact_fit_still_has_a_dual_point() -> None:
    rng = np.random.default_rng(6)
    A, q = rng.normal(size=(8, 3)), 0.1 * np.ones(3)
    found = closed_form(A, A @ [1.0, 2.0, 3.0], q)
    assert found is not None
    np.testing.assert_allclose(found[0], [1.0, 2.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(A.T @ found[1], -q, atol=1e-12)
    assert np.linalg.norm(found[1]) <= 1.0


def test_polishing_a_rough_point_gives_the_solution_and_a_worse_one_is_left_alone() -> None:
    rng = np.random.default_rng(9)
    A, b = rng.normal(size=(30, 12)), rng.normal(size=30)
    problem = Problem(Matrix(A, b), FitNorm.of(2, scale=1.3), Terms(np.ones(12), np.zeros(12)))
    best = sign_search(problem, A, np.zeros(12))
    assert best is not None
    rough, wrong = (problem.point(by * best.x, 0.9 * best.y) for by in (1.01, -1.0))
    assert 0 < np.count_nonzero(best.x) < 12
    np.testing.assert_allclose(polished(problem, rough).x, best.x, atol=1e-12)
    assert polished(problem, rough).relative_gap < 1e-12 < rough.relative_gap
    assert polished(problem, wrong) is wrong


def test_groups_are_never_taken_apart_on_the_way() -> None:
    """A part of a group costs what the whole of it would: a solution on parts is one of another problem."""
    rng = np.random.default_rng(4)
    label = np.arange(90) // 30
    A, weight = rng.normal(size=(90, 90)), 0.25 * np.sqrt(30) * np.ones(90)
    problem = Problem(Matrix(A, A[:, :30].sum(axis=1)), FitNorm.of(2), Terms(weight, np.zeros(90), label))
    columns = Columns(problem.A)
    found = solve_on_working_set(problem, 1e-8, problem.point(np.zeros(90), -A[:, :30].sum(axis=1)), columns, 90)
    assert found.relative_gap <= 1e-8
    taken = np.bincount(label[columns.index], minlength=3)
    assert set(taken) == {0, 30}


@pytest.mark.parametrize("free", [0, 2])
def test_the_sign_search_follows_a_falling_penalty(free: int) -> None:
    rng = np.random.default_rng(7)
    A, b, x = rng.normal(size=(30, 12)), rng.normal(size=30), np.zeros(12)
    sizes = []
    for rho in (6.0, 3.0, 1.0, 0.3, 0.02):
        terms = Terms(np.where(np.arange(12) < free, 0.0, rho), np.zeros(12))
        problem = Problem(Matrix(A, b), FitNorm.of(2, scale=1.3), terms)
        warm, cold = (sign_search(problem, A, start) for start in (x, np.zeros(12)))
        assert warm is not None
        assert cold is not None
        assert warm.relative_gap < 1e-12
        np.testing.assert_allclose(warm.x, cold.x, atol=1e-12)
        x = warm.x
        sizes.append(np.count_nonzero(x))
    assert sizes[0] == free
    assert sizes[-1] == 12


def test_the_sign_search_leaves_other_problems_alone() -> None:
    rng = np.random.default_rng(8)
    A, b, l1 = rng.normal(size=(6, 4)), rng.normal(size=6), np.full(4, 0.3)
    nothing, pairs = np.zeros(4), np.arange(4) // 2
    for order, terms in [(1, Terms(l1, nothing)), (2, Terms(l1, l1)), (2, Terms(l1, nothing, pairs))]:
        assert sign_search(Problem(Matrix(A, b), FitNorm.of(order), terms), A, nothing) is None
    twice = np.hstack([A, A])  # dependent columns have no closed form
    problem = Problem(Matrix(twice, b), FitNorm.of(2), Terms(np.full(8, 0.01), np.zeros(8)))
    assert sign_search(problem, twice, np.ones(8)) is None


def test_the_scale_of_the_norm_without_w() -> None:
    u = np.random.default_rng(6).normal(size=5)
    for order in ORDERS:
        whole = FitNorm.of(order).value(np.append(3.0 * u, u))
        assert whole == pytest.approx(without_w(order, 3.0) * FitNorm.of(order).value(u))
    assert without_w(RMSPBE, 3.0) == 1.0


def test_a_certified_pair_is_orthogonal_to_the_free_columns() -> None:
    """A column without a penalty bounds nothing: its product with a feasible y is 0, and z stays Aᵀy."""
    rng = np.random.default_rng(9)
    A, b = rng.normal(size=(6, 6)), rng.normal(size=6)
    problem = Problem(Matrix(A, b), FitNorm.of(2), Terms(np.where(np.arange(6) < 2, 0.0, 0.5), np.zeros(6)))
    point = problem.point(rng.normal(size=6), rng.normal(size=6))
    np.testing.assert_allclose(point.z, A.T @ point.y, atol=1e-12)
    np.testing.assert_allclose(point.z[:2], 0.0, atol=1e-12)
    assert point.dual <= point.primal


@pytest.mark.parametrize("rank", [2, 4, 5])
def test_whitening_measures_in_the_range_of_the_metric(rank: int) -> None:
    rng = np.random.default_rng(10)
    F, A, b, x = rng.normal(size=(5, rank)), rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    C = F @ F.T
    W, w = whitened(A, b, C)
    r = A @ x - b
    assert np.sum((W @ x - w) ** 2) == pytest.approx(r @ np.linalg.pinv(C, rcond=1e-10, hermitian=True) @ r)


@pytest.mark.parametrize(("order", "l2", "seed", "products"), [(2, 0.1, 1, 79), ("inf", 0.0, 0, 436)])
def test_restarts_and_weights_save_first_order_steps(order: Any, l2: float, seed: int, products: int) -> None:
    """Restarting from the worse of iterate and average takes half as many products again, or three times as many."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(40, 40)) * np.geomspace(0.2, 2.0, 40), rng.normal(size=40)
    problem = Problem(Matrix(A, b), FitNorm.of(order), Terms(np.full(40, 0.5), np.full(40, l2)))
    assert pdhg(problem, 1e-7, point_at(problem)).relative_gap <= 1e-7
    assert problem.n_applied < 1.3 * products


def test_a_rough_solution_is_polished_unless_that_is_not_wanted() -> None:
    rng = np.random.default_rng(12)
    A, b = rng.normal(size=(30, 30)), rng.normal(size=30)
    problem = Problem(Matrix(A, b), FitNorm.of(2), Terms(np.full(30, 0.5), np.zeros(30)))
    gaps = [solve(problem, tol=0.1, method="pdhg", polish=polish).relative_gap for polish in (True, False)]
    assert gaps[0] < 1e-12 < 0.01 < gaps[1] <= 0.1


@pytest.mark.parametrize("centre", [True, False])
def test_columns_in_units_have_one_spread_and_the_constant_is_left_alone(centre: bool) -> None:
    X = np.random.default_rng(12).normal(size=(5000, 4)) * [1.0, 20.0, 0.1, 0.0] + [3.0, 5.0, 0.0, 1.0]
    units = Units.of(X, constant=True, centre=centre)
    even = (X - units.shift) / units.scale
    np.testing.assert_allclose(np.sqrt(np.mean(even[:, :3] ** 2, axis=0)), 1.0)
    assert np.allclose(even[:, :3].mean(axis=0), 0.0) is centre
    np.testing.assert_array_equal(even[:, 3], X[:, 3])
    theta = np.array([1.0, -2.0, 3.0, 4.0])
    np.testing.assert_allclose(even @ theta, X @ units.back(theta))
    np.testing.assert_allclose(units.forth(units.back(theta)), theta)


def test_the_way_to_a_goal_ends_where_the_first_coefficient_reaches_zero() -> None:
    x, support, sign = np.array([1.0, 0.0, 2.0, -3.0]), np.array([0, 2, 3]), np.array([1.0, 0.0, 1.0, -1.0])
    moved, zero = _towards(x, support, np.array([-1.0, -6.0, -4.0]), sign)
    assert zero == 2, "a quarter of the way, and the other one only half-way"
    np.testing.assert_allclose(moved, [0.5, 0.0, 0.0, -3.25])
    moved, zero = _towards(x, support, np.array([2.0, 1.0, -4.0]), sign)
    assert zero is None
    np.testing.assert_allclose(moved, [2.0, 0.0, 1.0, -4.0])
