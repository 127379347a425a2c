"""Dual averaging: the rule against NumPy, and the sparsity that a proximal step does not have."""

from __future__ import annotations

import numpy as np
import pytest
from reference import automatic as oracle

from sparsetd import operators, penalties, solvers
from sparsetd.estimators import PFGTD, RDATD
from sparsetd.system import Batch

TABLES = {"td": operators.td, "tdc": operators.tdc, "gtd2": operators.gtd2}
BALLS = {1: np.inf, 2: 2, "inf": 1}
THETA0 = np.array([0.5, -1.0, 0.0, 2.0, 0.1])


def run(solver, table, columns, penalty, x0=None):
    phi, phi_next, reward, discount, ratio, start = columns
    batch = Batch(phi, phi_next, reward, discount, ratio, start, np.ones(len(reward)))
    state = solver.init(table, phi.shape[1], np.float64, x0)
    solver.update(state, batch, table, penalty)
    return state, solver.result(state, table, penalty)


@pytest.mark.parametrize("fit_norm", [1, 2, "inf"])
@pytest.mark.parametrize("name", TABLES)
def test_points_equal_the_rule(name, fit_norm):
    columns, table = oracle.log(), TABLES[name](lam=0.4)
    solver = solvers.DualAveraging(average="all", fit_norm=fit_norm, sparse=False)
    x0 = np.concatenate([np.zeros(5 * (table.n_blocks - 1)), THETA0])
    state, solution = run(solver, table, columns, penalties.L1(0.03, 0.03), THETA0)
    rows, norm_M = oracle.systems(name, columns, lam=0.4), np.sqrt(np.sum(table.M**2))
    x, y, xs, ys, weights = oracle.dual_averaging(rows, x0, norm_M, 0.3, BALLS[fit_norm], 0.03)
    assert np.allclose(state.x.ravel(), x, rtol=1e-8, atol=1e-10)
    assert np.allclose(state.y.ravel(), y, rtol=1e-8, atol=1e-10)
    assert np.allclose(solution.coef, np.average(xs, axis=0, weights=weights)[-5:], rtol=1e-8, atol=1e-10)
    assert np.allclose(solution.dual.ravel(), np.average(ys, axis=0, weights=weights), rtol=1e-8, atol=1e-10)


def test_the_reported_zeros_are_those_of_most_of_the_weight():
    columns, table = oracle.log(n=100), operators.td()
    penalty, norm_M = penalties.L1(0.3), np.sqrt(np.sum(operators.td().M ** 2))
    _, _, xs, _, weights = oracle.dual_averaging(oracle.systems("td", columns), np.zeros(5), norm_M, 0.3, 2, 0.3)
    for average, rows in (("all", slice(0, None)), ("suffix", slice(32, None))):
        _, solution = run(solvers.DualAveraging(average=average), table, columns, penalty)
        mean = np.average(xs[rows], axis=0, weights=weights[rows])
        share = np.average(xs[rows] != 0, axis=0, weights=weights[rows])
        assert np.allclose(solution.coef, np.where(share > 0.5, mean, 0.0), rtol=1e-8, atol=1e-10)
        assert 0 < np.count_nonzero(solution.coef) < 5


def sparse_log(n=4000, d=60, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d))
    reward = phi[:, :3] @ np.array([1.0, -2.0, 1.5]) + 0.5 * rng.normal(size=n)
    return phi, rng.normal(size=(n, d)), reward, np.zeros(n), np.ones(n), np.ones(n, dtype=bool)


def test_iterates_are_truly_sparse_where_proximal_steps_are_not():
    columns, table, penalty = sparse_log(), operators.td(), penalties.L1(0.3)
    averaging, reported = run(solvers.DualAveraging(), table, columns, penalty)
    proximal, _ = run(solvers.SaddleDistanceOverGradients(), table, columns, penalty)
    assert set(np.flatnonzero(averaging.x[-1])) == set(np.flatnonzero(reported.coef)) == {0, 1, 2}
    assert np.count_nonzero(proximal.x[-1]) > 6


def test_a_penalty_beyond_its_largest_use_gives_zero():
    columns, table = sparse_log(d=10), operators.td()
    state, solution = run(solvers.DualAveraging(), table, columns, penalties.L1(5.0))
    assert not state.x.any()
    assert not solution.coef.any()


@pytest.mark.parametrize("fit_norm", [1, 2, "inf"])
def test_rdatd_without_w_has_the_objective_of_sparse_td(fit_norm):
    """‖(η, 1)‖_m ‖Gθ − g‖_m + ρ‖θ‖₁: dividing both by ‖(η, 1)‖_m changes no minimiser."""
    table, penalty, _ = RDATD(rho_theta=0.6, eta=2.0, fit_norm=fit_norm).triple()
    scale = {1: 3.0, 2: np.sqrt(5.0), "inf": 2.0}[fit_norm]
    assert table.name == "td"
    assert np.isclose(penalty.rho_theta, 0.6 / scale)
    assert RDATD(rho_w=0.5).triple()[0].name == "tdc"


def test_rdatd_finds_the_relevant_features():
    phi, phi_next, reward, discount, *_ = sparse_log()
    model = RDATD(gamma=0.0, rho_theta=0.4).fit(phi, reward, phi_next, discount=discount)
    assert np.array_equal(np.flatnonzero(model.support_), [0, 1, 2])


def test_pfgtd_learns_a_chain():
    X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    model = PFGTD(gamma=0.5, n_passes=2000, average="suffix").fit(X, y)
    assert np.allclose(model.predict(X), [0.25, 0.5, 1.0], atol=0.02)
