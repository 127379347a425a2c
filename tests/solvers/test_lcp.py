"""LCP-TD reaches LARS-TD's fixed point from any start, and a good start saves pivots."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd.operators import td
from sparsetd.penalties import L1
from sparsetd.solvers.path_following import Lars, Lcp
from sparsetd.system import Batch


def batch(seed, n=80, d=30, coupling=0.4, shift=0.0):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(n, d)), coupling * rng.normal(size=(n, d))
    reward = phi[:, :4] @ rng.normal(size=4) + 0.3 * rng.normal(size=n)
    phi_next = phi_next + shift * np.random.default_rng(seed + 1000).normal(size=(n, d))
    return Batch(phi, phi_next, reward, np.full(n, 0.9), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))


def solve(solver, data, rho, coef_init=None, factor=None):
    state = solver.init(td(), data.n_features, np.float64, coef_init)
    return solver.result(solver.update(state, data, td()), td(), L1(rho), factor)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rho", [0.2, 0.02, 0.002])
def test_same_fixed_point_as_lars_from_any_start(seed, rho):
    data, rng = batch(seed), np.random.default_rng(seed)
    lars = solve(Lars(), data, rho)
    for start in (None, np.zeros(30), rng.normal(size=30), rng.normal(size=30) * (rng.random(30) < 0.3)):
        lcp = solve(Lcp(), data, rho, start)
        assert lcp.status == lars.status == "converged"
        np.testing.assert_array_equal(lcp.coef, lars.coef)  # same active set, same signs: the same bits


def test_more_features_than_samples():
    data = batch(1, n=25, d=80, coupling=0.2)
    lars = solve(Lars(), data, 0.05)
    start = np.random.default_rng(0).normal(size=80)  # 80 non-zeros, of which at most 25 columns are independent
    np.testing.assert_array_equal(solve(Lcp(), data, 0.05, start).coef, lars.coef)
    np.testing.assert_array_equal(solve(Lcp(), data, 0.05).coef, lars.coef)


def test_its_own_solution_costs_no_pivot():
    data = batch(3)
    cold = solve(Lcp(), data, 0.02)
    warm = solve(Lcp(), data, 0.02, cold.coef)
    assert (warm.n_iter, warm.extras["warm"], cold.extras["warm"]) == (0, True, False)
    np.testing.assert_array_equal(warm.coef, cold.coef)


def test_the_previous_policy_saves_pivots():
    saved = []
    for seed in range(5):
        before, after = batch(seed), batch(seed, shift=0.05)
        cold = solve(Lcp(), after, 0.02)
        warm = solve(Lcp(), after, 0.02, solve(Lcp(), before, 0.02).coef)
        np.testing.assert_array_equal(warm.coef, cold.coef)
        saved.append(1 - warm.n_iter / cold.n_iter)
    assert np.mean(saved) > 0.5


def test_features_without_penalty():
    data, factor = batch(4), np.where(np.arange(30) % 10 == 0, 0.0, 1.5)
    lars = solve(Lars(), data, 0.05, factor=factor)
    for start in (None, np.ones(30), lars.coef):
        np.testing.assert_array_equal(solve(Lcp(), data, 0.05, start, factor).coef, lars.coef)


def test_failure_is_reported_and_a_failed_warm_start_falls_back():
    rng, statuses = np.random.default_rng(0), []
    for seed in range(30):
        data = batch(seed, n=60, coupling=1.2)
        cold = solve(Lcp(), data, 0.05)
        warm = solve(Lcp(), data, 0.05, rng.normal(size=30))
        statuses.append((cold.status, warm.status, warm.extras["warm"]))
        if not warm.extras["warm"]:
            assert warm.status == cold.status
            np.testing.assert_array_equal(warm.coef, cold.coef)
    assert {status for status, _, _ in statuses} == {"converged", "ray"}
    assert ("converged", "converged", False) in statuses
