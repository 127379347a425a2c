"""Dantzig-LSTD and RALP against their literal forms in SciPy's `linprog` and in CVXPY."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from sparsetd.operators import td
from sparsetd.penalties import L1, ElasticNet, NoPenalty
from sparsetd.solvers.linear_program import Dantzig, Ralp
from sparsetd.solvers.path_following import Lars
from sparsetd.system import Batch, mean_system


def batch(seed, n=60, d=15, coupling=0.4, sparse=False):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(n, d)), coupling * rng.normal(size=(n, d))
    phi[:, 0] = phi_next[:, 0] = 1.0
    reward = phi[:, :3] @ rng.normal(size=3) + 0.1 * rng.normal(size=n)
    form = sp.csr_array if sparse else np.asarray
    return Batch(form(phi), form(phi_next), reward, np.full(n, 0.9), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))


def solve(solver, data, penalty, factor=None):
    state = solver.update(solver.init(td(), data.n_features, np.float64), data, td())
    return solver.result(state, td(), penalty, factor)


@pytest.mark.parametrize("coupling", [0.4, 1.6])  # a P-matrix and not one: the program does not care
@pytest.mark.parametrize("rho", [0.5, 0.05, 0.005])
def test_dantzig_equals_the_literal_program(coupling, rho):
    data = batch(0, coupling=coupling)
    A, b = mean_system(td(), data)
    d, eye = len(b), np.eye(len(b))
    # min 1ᵀs over [θ, s]: ±θ ≤ s, ±(Aθ − b) ≤ ρ
    rows = np.block([[eye, -eye], [-eye, -eye], [A, 0 * A], [-A, 0 * A]])
    rhs = np.concatenate([np.zeros(2 * d), b + rho, rho - b])
    literal = linprog(np.r_[np.zeros(d), np.ones(d)], rows, rhs, bounds=[(None, None)] * d + [(0, None)] * d)
    theta = cp.Variable(d)
    cp.Problem(cp.Minimize(cp.norm1(theta)), [cp.norm_inf(A @ theta - b) <= rho]).solve(solver=cp.CLARABEL)
    found = solve(Dantzig(), data, L1(rho))
    assert found.status == "converged"
    assert np.abs(found.coef).sum() == pytest.approx(literal.fun, rel=1e-7)
    np.testing.assert_allclose(found.coef, literal.x[:d], atol=1e-6)
    np.testing.assert_allclose(found.coef, theta.value, rtol=1e-5, atol=1e-5)
    assert found.extras["residual"] <= rho * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_dantzig_has_the_smaller_norm_of_the_two(seed):
    data = batch(seed)
    fixed_point = solve(Lars(), data, L1(0.05))
    assert np.abs(solve(Dantzig(), data, L1(0.05)).coef).sum() <= np.abs(fixed_point.coef).sum() + 1e-8


def test_dantzig_leaves_free_features_free():
    data, factor = batch(1), np.where(np.arange(15) == 0, 0.0, 2.0)
    A, b = mean_system(td(), data)
    theta = cp.Variable(15)
    problem = cp.Problem(cp.Minimize(factor @ cp.abs(theta)), [cp.abs(A @ theta - b) <= 0.1 * factor])
    problem.solve(solver=cp.CLARABEL)
    found = solve(Dantzig(), data, L1(0.1), factor)
    np.testing.assert_allclose(found.coef, theta.value, atol=1e-5)


def test_dantzig_reports_infeasible_programs():
    data = batch(2, n=40, d=3)
    stuck = Batch(data.phi, data.phi, data.reward, np.ones(40), data.ratio, data.start, data.interest)  # A = 0
    found = solve(Dantzig(), stuck, L1(1e-3))
    assert found.status == "infeasible"
    np.testing.assert_array_equal(found.coef, np.zeros(3))
    with pytest.raises(ValueError, match="no quadratic term"):
        solve(Dantzig(), data, ElasticNet(1.0))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("budget", [0.5, 3.0, 100.0])
def test_ralp_equals_the_literal_program(budget, sparse):
    data, d = batch(3), 15
    factor = np.where(np.arange(d) == 0, 0.0, 1.0)
    diff = data.phi - 0.9 * data.phi_next
    # min mean(φ)ᵀθ over [θ, s]: (φ − γφ')ᵀθ ≥ r, ±θ ≤ s, Σ_{i>0} s_i ≤ budget
    eye = np.eye(d)
    rows = np.block([[-diff, 0 * diff], [eye, -eye], [-eye, -eye], [np.zeros((1, d)), factor[None]]])
    rhs = np.concatenate([-data.reward, np.zeros(2 * d), [budget]])
    literal = linprog(np.r_[data.phi.mean(0), np.zeros(d)], rows, rhs, bounds=[(None, None)] * d + [(0, None)] * d)
    theta = cp.Variable(d)
    constraints = [diff @ theta >= data.reward, factor @ cp.abs(theta) <= budget]
    cp.Problem(cp.Minimize(data.phi.mean(0) @ theta), constraints).solve(solver=cp.CLARABEL)
    found = solve(Ralp(budget), batch(3, sparse=sparse), NoPenalty(), factor)
    assert found.status == "converged"
    assert found.extras["objective"] == pytest.approx(literal.fun, rel=1e-7)
    np.testing.assert_allclose(found.coef, theta.value, atol=1e-4)
    assert np.abs(found.coef[1:]).sum() <= budget * (1 + 1e-7)


def test_ralp_is_an_upper_bound_and_exact_with_enough_features():
    n, gamma = 6, 0.9  # a deterministic ring, one feature per state
    P, reward = np.roll(np.eye(n), 1, axis=1), np.arange(n) / n
    value = np.linalg.solve(np.eye(n) - gamma * P, reward)
    data = Batch(np.eye(n), P, reward, np.full(n, gamma), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))
    np.testing.assert_allclose(solve(Ralp(100.0), data, NoPenalty()).coef, value, atol=1e-8)
    constant = np.ones((n, 1))
    coarse = Batch(constant, constant, reward, data.discount, data.ratio, data.start, data.interest)
    assert solve(Ralp(100.0), coarse, NoPenalty()).coef[0] >= value.max() - 1e-9


def test_ralp_ignores_rows_of_ratio_zero_and_refuses_traces():
    data, factor = batch(4), np.where(np.arange(15) == 0, 0.0, 1.0)
    ratio = (np.arange(60) % 3 > 0).astype(float)
    masked = Batch(data.phi, data.phi_next, data.reward, data.discount, ratio, data.start, data.interest)
    kept = solve(Ralp(2.0), data[np.flatnonzero(ratio)], NoPenalty(), factor)
    np.testing.assert_allclose(solve(Ralp(2.0), masked, NoPenalty(), factor).coef, kept.coef, atol=1e-8)
    state = Ralp().update(Ralp().init(td(0.5), 15, float), data, td(0.5))
    with pytest.raises(ValueError, match="no traces"):
        Ralp().result(state, td(0.5), NoPenalty())


def test_generation_of_rows_and_columns_ends_at_the_whole_program():
    data, factor = batch(6, n=150, d=220, coupling=1.2), np.where(np.arange(220) == 0, 0.0, 1.0)
    A, b = mean_system(td(), data)
    full = linprog(
        np.tile(factor, 2),
        np.vstack([np.hstack([A, -A]), np.hstack([-A, A])]),
        np.concatenate([b + 0.02 * factor, 0.02 * factor - b]),
    )
    found = solve(Dantzig(), data, L1(0.02), factor)
    assert found.n_iter > 1
    assert factor @ np.abs(found.coef) == pytest.approx(full.fun, rel=1e-6)
    diff, mean = data.phi - 0.9 * data.phi_next, data.phi.mean(0)
    ball = np.tile(factor, 2)[None]
    full = linprog(
        np.concatenate([mean, -mean]), np.vstack([np.hstack([-diff, diff]), ball]), np.append(-data.reward, 5.0)
    )
    found = solve(Ralp(5.0), data, NoPenalty(), factor)
    assert found.n_iter > 1
    assert found.extras["objective"] == pytest.approx(full.fun, rel=1e-6)


def test_ralp_reports_unbounded_programs():
    ones = np.ones(3)
    data = Batch(ones[:, None], 2 * ones[:, None], ones, 0.9 * ones, ones, np.zeros(3, dtype=bool), ones)
    found = solve(Ralp(1.0), data, NoPenalty(), np.zeros(1))  # −0.8 θ ≥ 1: nothing holds θ from below
    assert found.status == "unbounded"
    np.testing.assert_array_equal(found.coef, [0.0])
    np.testing.assert_allclose(solve(Ralp(2.0), data, NoPenalty()).coef, [-2.0])


def test_ralp_reports_infeasible_programs():
    data = batch(5)
    assert solve(Ralp(1e-6), data, NoPenalty()).status == "infeasible"
