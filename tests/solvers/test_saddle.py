"""The certified solver against CVXPY on the literal problem, scikit-learn, and the optimality conditions."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from sparsetd.operators import td, tdc
from sparsetd.penalties import L1, Custom, ElasticNet, GroupL1, NoPenalty, Ridge
from sparsetd.solvers.mean import Matrix, mean_operator
from sparsetd.solvers.saddle import Family, FitNorm, Problem, Saddle, Terms, solve, without_w
from sparsetd.solvers.saddle.solver import point_at
from sparsetd.system import Batch, mean_system

D = 12
GROUPS = np.arange(D) // 3


def log(rng: np.random.Generator, n: int = 60, d: int = D) -> Batch:
    phi = rng.normal(size=(n, d))
    phi_next = 0.5 * phi + rng.normal(size=(n, d))
    reward = phi[:, 0] - 2.0 * phi[:, 1] + 0.5 * rng.normal(size=n)
    ratio = rng.uniform(0.5, 1.5, size=n)
    return Batch(phi, phi_next, reward, np.full(n, 0.9), ratio, np.arange(n) % 10 == 0, np.ones(n))


def literal(A: Any, b: Any, order: Any, h: Any, x: Any) -> float:
    """CVXPY's minimum, at the 1e-8 that Clarabel promises: on some processors it cannot deliver more, and warns."""
    problem = cp.Problem(cp.Minimize(cp.norm(A @ x - b, np.inf if order == "inf" else order) + h))
    problem.solve(solver="CLARABEL")
    return float(problem.value)


def posed(name: str, x: Any, rho: float, rho_w: float, k: int) -> tuple[Any, Any]:
    """A penalty of ours and the same in CVXPY."""
    blocks = [(rho_w, x[: (k - 1) * D]), (rho, x[(k - 1) * D :])]
    blocks = blocks[-k:]
    if name == "l1":
        return L1(rho, rho_w), sum(r * cp.norm1(v) for r, v in blocks)
    if name == "ridge":
        return Ridge(rho, rho_w), sum(r / 2 * cp.sum_squares(v) for r, v in blocks)
    if name == "elastic_net":
        h = sum(r * (0.7 * cp.norm1(v) + 0.15 * cp.sum_squares(v)) for r, v in blocks)
        return ElasticNet(rho, rho_w, 0.7), h
    parts = [r * np.sqrt(3) * cp.norm2(v[3 * g : 3 * g + 3]) for r, v in blocks for g in range(D // 3)]
    return GroupL1(GROUPS, rho, rho_w), sum(parts)


@pytest.mark.parametrize("method", ["working_set", "pdhg"])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("name", ["l1", "ridge", "elastic_net", "group"])
@pytest.mark.parametrize("order", [1, 2, "inf"])
def test_agrees_with_cvxpy_on_the_literal_problem(order: Any, name: str, blocks: int, method: str) -> None:
    rng = np.random.default_rng([hash_of(order), blocks, len(name)])
    table = td() if blocks == 1 else tdc(eta=2.0)
    batch = log(rng)
    A, b = mean_system(table, batch)
    x = cp.Variable(len(b))
    rho = {1: 0.5, 2: 0.2, "inf": 0.05}[order]
    penalty, h = posed(name, x, rho, 2 * rho, blocks)
    best = literal(A, b, order, h, x)
    problem = Saddle(order).problem(batch, table, penalty)
    tol = 1e-9 if method == "working_set" else 1e-4  # first-order steps get there, slowly
    point = solve(problem, tol=tol, method=method)
    assert point.relative_gap <= tol
    assert np.count_nonzero(point.x) > 0
    assert point.primal == pytest.approx(best, rel=max(1e-7, tol))
    assert point.dual <= best * (1 + 1e-7)
    if method == "working_set":  # a minimum known to 1e-8 gives its minimiser to the root of that
        np.testing.assert_allclose(point.x, x.value, atol=5e-4)


def hash_of(order: Any) -> int:
    return {1: 1, 2: 2, "inf": 3}[order]


@pytest.mark.parametrize("order", [1, 2, "inf"])
def test_unpenalised_features_agree_with_cvxpy(order: Any) -> None:
    batch = log(np.random.default_rng(7))
    factor = np.ones(D)
    factor[[2, 5]] = 0.0
    A, b = mean_system(td(), batch)
    x = cp.Variable(D)
    best = literal(A, b, order, 0.1 * cp.norm1(cp.multiply(factor, x)), x)
    point = solve(Saddle(order).problem(batch, td(), L1(0.1), factor), tol=1e-9)
    assert np.count_nonzero(point.x) > 2
    assert point.primal == pytest.approx(best, rel=1e-7)
    assert point.relative_gap <= 1e-9


def test_the_minimiser_satisfies_the_optimality_conditions() -> None:
    batch = log(np.random.default_rng(8))
    A, b = mean_system(tdc(), batch)
    point = solve(Saddle().problem(batch, tdc(), L1(0.3, 0.8)), tol=1e-10)
    r = A @ point.x - b
    z, weight = A.T @ r / np.linalg.norm(r), np.repeat([0.8, 0.3], D)
    active = point.x != 0
    assert 0 < active.sum() < D
    np.testing.assert_allclose(z[active], -weight[active] * np.sign(point.x[active]), atol=1e-8)
    assert np.all(np.abs(z[~active]) <= weight[~active])
    assert point.relative_gap < 1e-10


def test_at_gamma_zero_it_is_scikit_learns_lasso_with_the_residual_as_scale() -> None:
    rng = np.random.default_rng(9)
    batch = log(rng)
    batch = Batch(batch.phi, batch.phi_next, batch.reward, np.zeros(60), np.ones(60), batch.start, np.ones(60))
    G, g = batch.phi.T @ batch.phi / 60, batch.phi.T @ batch.reward / 60
    point = solve(Saddle().problem(batch, td(), L1(0.2)))
    assert point.x.any()
    alpha = 0.2 * np.linalg.norm(G @ point.x - g) / D
    lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(G, g)
    np.testing.assert_allclose(point.x, lasso.coef_, atol=1e-7)


def test_without_w_is_the_limit_of_a_heavy_w() -> None:
    batch, eta = log(np.random.default_rng(10)), 2.0
    for order in (1, 2, "inf"):
        with_w = solve(Saddle(order).problem(batch, tdc(eta), L1(0.05, 1e3)), tol=1e-9)
        alone = solve(Saddle(order, without_w(order, eta)).problem(batch, td(), L1(0.05)), tol=1e-9)
        assert alone.x.any()
        assert not with_w.x[:D].any()
        assert with_w.primal == pytest.approx(alone.primal, rel=1e-8)


def test_a_small_rho_fits_exactly_and_is_still_certified() -> None:
    batch = log(np.random.default_rng(11))
    A, b = mean_system(td(), batch)
    point = solve(Saddle().problem(batch, td(), L1(1e-3)), tol=1e-7)
    assert point.relative_gap <= 1e-7
    np.testing.assert_allclose(point.x, np.linalg.solve(A, b), atol=1e-6)


def test_any_dual_point_is_a_lower_bound() -> None:
    rng = np.random.default_rng(12)
    factor = np.ones(D)
    factor[0] = 0.0
    for penalty in (L1(0.2), ElasticNet(0.2, l1_ratio=0.5), GroupL1(GROUPS, 0.1)):
        problem = Saddle().problem(log(rng), td(), penalty, None if isinstance(penalty, GroupL1) else factor)
        best = solve(problem, tol=1e-9)
        for y in rng.normal(size=(20, D)):
            assert problem.point(best.x, y).dual <= best.primal * (1 + 1e-12)


def test_too_many_features_turn_to_first_order_steps() -> None:
    problem = Saddle().problem(log(np.random.default_rng(13)), td(), Ridge(0.5))
    few, all_of_them = (solve(problem, tol=1e-6, max_working=size) for size in (3, 100))
    assert max(few.relative_gap, all_of_them.relative_gap) <= 1e-6
    assert few.primal == pytest.approx(all_of_them.primal, rel=1e-5)


def test_a_warm_start_at_the_solution_is_recognised() -> None:
    problem = Saddle().problem(log(np.random.default_rng(14)), td(), L1(0.2))
    cold = solve(problem)
    n_cold = len(problem.history["relative_gap"])
    warm = solve(problem, start=point_at(problem, cold.x))
    n_warm = len(problem.history["relative_gap"])
    assert n_warm < n_cold
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-12)


def test_the_iteration_limit_is_reported() -> None:
    batch, solver = log(np.random.default_rng(15)), Saddle(tol=1e-10, max_iter=3, method="pdhg")
    state = solver.update(solver.init(td(), D, np.float64), batch, td(), L1(0.1))
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        assert solver.result(state, td(), L1(0.1)).status == "not_converged"


def test_w_that_absorbs_the_residual_is_reported_with_its_share() -> None:
    batch, solver = log(np.random.default_rng(16)), Saddle()
    state = solver.update(solver.init(tdc(), D, np.float64), batch, tdc(), L1(0.5, 0.01))
    with pytest.warns(UserWarning, match=r"w absorbs \d+% of the residual"):
        solution = solver.result(state, tdc(), L1(0.5, 0.01))
    assert 0 < solution.extras["absorbed"] <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solver.result(state, tdc(), L1(0.5, 1e3)).extras["absorbed"] == 0


def test_no_reward_gives_zero_with_a_gap_of_zero() -> None:
    batch = log(np.random.default_rng(17))
    silent = Batch(batch.phi, batch.phi_next, np.zeros(60), batch.discount, batch.ratio, batch.start, batch.interest)
    point = solve(Saddle().problem(silent, td(), L1(0.1)))
    assert not point.x.any()
    assert point.gap == 0


def test_no_penalty_is_lstd() -> None:
    batch = log(np.random.default_rng(18))
    A, b = mean_system(td(), batch)
    point = solve(Saddle().problem(batch, td(), NoPenalty()), tol=1e-6)
    np.testing.assert_allclose(point.x, np.linalg.solve(A, b), atol=1e-5)


@pytest.mark.parametrize("free", [(), (0, 3)])
@pytest.mark.parametrize("order", [1, 2, "inf"])
def test_rho_max_is_where_the_first_feature_enters(order: Any, free: tuple[int, ...]) -> None:
    batch, factor = log(np.random.default_rng(19)), np.ones(D)
    factor[list(free)] = 0.0
    family = Family(mean_operator(td(), batch), FitNorm.of(order), L1(1.0), 1, factor)
    top = family.rho_max()
    above, below = (next(family.solutions([share * top], 1e-9)).x for share in (1.001, 0.98))
    assert not np.delete(above, free).any()
    assert np.delete(below, free).any()


def test_a_custom_penalty_has_no_certificate() -> None:
    with pytest.raises(TypeError, match="conjugate"):
        Terms.of(Custom(lambda x, _: x), 1, D)


def test_an_unknown_norm_or_method_is_refused() -> None:
    with pytest.raises(ValueError, match="fit_norm"):
        FitNorm.of(3)
    with pytest.raises(ValueError, match="method"):
        solve(Problem(Matrix(np.eye(2), np.ones(2)), FitNorm(), Terms.of(L1(0.1), 1, 2)), method="magic")


def test_features_without_penalty_do_not_count_towards_the_limit_of_a_support() -> None:
    A, b = np.eye(4), np.array([5.0, 4.0, 3.0, 2.0])
    family = Family(Matrix(A, b), FitNorm.of(2), L1(1.0), 1, np.array([0.0, 1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(family.last_support(1), [True, True, False, False])
    np.testing.assert_array_equal(family.last_support(0), [True, False, False, False])
