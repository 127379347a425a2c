"""LARS-TD against scikit-learn's Lasso path, the optimality conditions, enumeration, and matrices it must fail on."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from sklearn.linear_model import lars_path as sklearn_path

from sparsetd.operators import td
from sparsetd.penalties import L1, ElasticNet
from sparsetd.solvers.path_following import ActiveSet, Lars, lars_path
from sparsetd.system import Batch


def path(A, b, rho, factor=None, max_steps=1000):
    return lars_path(lambda i: A[:, i], b, rho, np.ones(len(b)) if factor is None else factor, max_steps)


def last(walk, d):
    theta = np.zeros(d)
    theta[walk.indices[-1]] = walk.values[-1]
    return theta


def check_fixed_point(A, b, theta, rho, factor=1.0, atol=1e-9):
    c, bound = b - A @ theta, rho * factor * np.ones(len(b))
    assert np.all(np.abs(c) <= bound + atol)
    active = theta != 0
    np.testing.assert_allclose(c[active], (bound * np.sign(theta))[active], atol=atol)


def transitions(seed, n, d, gamma=0.9, coupling=0.4):
    """Rows of φ, γφ' and rewards; for a large coupling A is no P-matrix."""
    rng = np.random.default_rng(seed)
    phi, psi = rng.normal(size=(n, d)), gamma * coupling * rng.normal(size=(n, d))
    return phi, psi, phi[:, :4] @ rng.normal(size=4) + 0.3 * rng.normal(size=n)


def mean(phi, psi, reward):
    n = len(reward)
    return phi.T @ (phi - psi) / n, phi.T @ reward / n


def fixed_points(A, b, rho):
    """Every solution, by trying all active sets and signs: exponential, and shares nothing with the solver."""
    d, found = len(b), []
    for size in range(d + 1):
        for idx in map(list, combinations(range(d), size)):
            for signs in product((-1.0, 1.0), repeat=size):
                theta = np.zeros(d)
                theta[idx] = np.linalg.solve(A[np.ix_(idx, idx)], b[idx] - rho * np.array(signs)) if size else 0.0
                ok = np.all(theta[idx] * signs > 0) and np.all(np.abs(b - A @ theta) <= rho + 1e-9)
                if ok:
                    found.append(theta)
    return found


@pytest.mark.parametrize(("n", "d"), [(80, 20), (30, 90)])
def test_without_discount_it_is_the_lasso_path(n, d):
    phi, psi, reward = transitions(0, n, d, gamma=0.0)
    phi = phi @ np.random.default_rng(1).normal(size=(d, d)) / np.sqrt(d)  # correlated, so that features also leave
    A, b = mean(phi, psi, reward)
    walk = path(A, b, 1e-3)
    alphas, _, coefs = sklearn_path(phi, reward, method="lasso", alpha_min=1e-3)
    np.testing.assert_allclose(walk.t, alphas, atol=1e-10)
    for k in range(len(alphas)):
        theta = np.zeros(d)
        theta[walk.indices[k]] = walk.values[k]
        np.testing.assert_allclose(theta, coefs[:, k], atol=1e-9)
    assert any(len(after) < len(before) for before, after in pairwise(walk.indices)), "no drop step was tested"


@pytest.mark.parametrize("seed", range(20))
def test_the_conditions_hold_on_the_whole_path(seed):
    A, b = mean(*transitions(seed, 60, 40))
    walk = path(A, b, 0.01)
    assert walk.status == "converged"
    for rho, idx, values in zip(walk.t, walk.indices, walk.values, strict=True):
        theta = np.zeros(40)
        theta[idx] = values
        check_fixed_point(A, b, theta, rho)


@pytest.mark.parametrize("seed", range(8))
def test_in_a_p_matrix_it_is_the_only_fixed_point(seed):
    rng = np.random.default_rng(seed)
    A = np.eye(5) + 0.4 * rng.normal(size=(5, 5))
    A = A + np.eye(5) * max(
        0.0, 0.1 - np.linalg.eigvalsh((A + A.T) / 2)[0]
    )  # positive definite: every minor is positive
    b = rng.normal(size=5)
    walk = path(A, b, 0.3)
    (only,) = fixed_points(A, b, 0.3)
    np.testing.assert_allclose(last(walk, 5), only, atol=1e-10)
    assert (walk.status, walk.n_turns) == ("converged", 0)


def test_failure_on_a_matrix_that_is_not_p():
    A, b = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([1.0, 1.1])  # det A < 0
    walk = path(A, b, 0.1)
    assert (walk.status, walk.n_turns) == ("ray", 1)
    np.testing.assert_allclose(walk.t, [1.1, 0.4])
    assert len(fixed_points(A, b, 0.1)) == 1  # there is one: the path that starts at zero does not lead to it
    assert len(fixed_points(A, b, 0.5)) > 1


def test_turning_paths_end_in_a_fixed_point_or_say_so():
    statuses = []
    for seed in range(40):
        A, b = mean(*transitions(seed, 60, 40, coupling=1.1))
        walk = path(A, b, 0.02)
        statuses.append((walk.status, walk.n_turns > 0))
        if walk.status == "converged":
            check_fixed_point(A, b, last(walk, 40), 0.02)
            for (t, before), (t_next, after) in pairwise(zip(walk.t, walk.indices, strict=True)):
                on_piece = np.union1d(before, after)  # ρ rises exactly where a principal minor is negative
                assert (t_next > t) == (np.linalg.slogdet(A[np.ix_(on_piece, on_piece)]).sign < 0)
    assert {("converged", True), ("ray", True), ("converged", False)} <= set(statuses)


def test_the_step_limit_is_reported():
    A, b = mean(*transitions(0, 60, 40))
    walk = path(A, b, 0.0, max_steps=5)
    assert (walk.status, walk.n_steps) == ("step_limit", 5)


def test_duplicates_zeros_and_ties():
    phi, psi, reward = transitions(3, 50, 8)
    copies = [phi, phi[:, :3], -phi[:, 3:5], np.zeros((50, 1))], [psi, psi[:, :3], -psi[:, 3:5], np.zeros((50, 1))]
    A, b = mean(np.hstack(copies[0]), np.hstack(copies[1]), reward)
    for rho in (0.1, 0.01, 0.0):
        walk = path(A, b, rho)
        assert walk.status == "converged"
        check_fixed_point(A, b, last(walk, len(b)), rho)
    walk_matrix = np.eye(9) - 0.45 * (np.eye(9, k=1) + np.eye(9, k=-1))  # a symmetric chain: everything comes in pairs
    b = np.eye(9)[0] + np.eye(9)[8]
    walk = path(walk_matrix, b, 0.01)
    assert walk.status == "converged"
    check_fixed_point(walk_matrix, b, last(walk, 9), 0.01)


def test_features_without_penalty_and_weighted_features():
    A, b = mean(*transitions(5, 60, 12))
    factor = np.array([0.0, *np.linspace(0.5, 2, 10), 0.0])
    walk = path(A, b, 0.1, factor)
    check_fixed_point(A, b, last(walk, 12), 0.1, factor)
    assert np.all(last(walk, 12)[[0, 11]] != 0)
    assert list(walk.indices[0]) == [0, 11]


@pytest.mark.parametrize("seed", range(6))
def test_the_path_starts_where_the_first_penalised_feature_enters(seed):
    """ρ_max = max_i |b_i − A_iF A_FF⁻¹ b_F| / factor_i, with the free features F fitted first."""
    A, b = mean(*transitions(seed, 60, 8))
    factor = np.array([0.0, 0.0, 0.05, 0.2, 1.0, 1.0, 5.0, 20.0])
    c = b - A[:, :2] @ np.linalg.solve(A[:2, :2], b[:2])
    rho_max = np.max(np.abs(c[2:]) / factor[2:])
    for share in (0.999, 0.7):
        theta = last(path(A, b, share * rho_max, factor), 8)
        check_fixed_point(A, b, theta, share * rho_max, factor)
        assert np.count_nonzero(theta) > 2
    walk = path(A, b, 1.001 * rho_max, factor)
    assert not last(walk, 8)[2:].any()
    assert path(A, b, 0.1 * rho_max, factor).t[0] == pytest.approx(rho_max)


def test_star_has_no_reward_and_stops_at_once():
    walk = path(np.random.default_rng(0).normal(size=(4, 4)), np.zeros(4), 0.0)
    assert walk.status == "converged"
    np.testing.assert_array_equal(last(walk, 4), np.zeros(4))


def test_scale_of_the_features_does_not_matter():
    A, b = mean(*transitions(7, 60, 20))
    reference = last(path(A, b, 0.01), 20)
    for scale in (1e-6, 1e6):
        theta = last(path(A * scale**2, b * scale, 0.01 * scale), 20)
        np.testing.assert_allclose(theta * scale, reference, rtol=1e-9, atol=1e-12)


def test_factorisation_survives_many_updates():
    rng = np.random.default_rng(0)
    A = np.eye(60) + 0.5 * rng.normal(size=(60, 60))
    active = ActiveSet(lambda i: A[:, i], 60)
    for _ in range(400):
        if len(active) and rng.random() < 0.45:
            slot = int(rng.integers(len(active)))
            keep = [i for k, i in enumerate(active.indices) if k != slot]
            pivot = np.linalg.det(A[np.ix_(active.indices, active.indices)]) / np.linalg.det(A[np.ix_(keep, keep)])
            assert active.drop(slot) == pytest.approx(pivot, rel=1e-6)
        else:
            active.add(int(rng.choice(np.setdiff1d(np.arange(60), active.indices))))
    rhs = rng.normal(size=len(active))
    expected = np.linalg.solve(A[np.ix_(active.indices, active.indices)], rhs)
    np.testing.assert_allclose(active.solve(rhs), expected, atol=1e-9)
    np.testing.assert_array_equal(active.columns, A[:, active.indices])


def solution(rows, penalty, solver=Lars(), factor=None):  # noqa: B008 (frozen)
    phi, psi, reward = rows
    n = len(reward)
    batch = Batch(phi, psi, reward, np.ones(n), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))
    state = solver.update(solver.init(td(), phi.shape[1], np.float64), batch, td())
    return solver.result(state, td(), penalty, factor)


def test_solution_carries_the_path():
    rows = transitions(2, 50, 70)  # more features than samples: A is never formed
    found = solution(rows, L1(0.02))
    check_fixed_point(*mean(*rows), found.coef, 0.02)
    assert found.status == "converged"
    assert found.extras["path"].shape == (len(found.extras["knots"]), 70)
    assert found.extras["knots"][-1] == found.extras["rho_reached"] == 0.02
    np.testing.assert_array_equal(found.extras["path"][[-1]].toarray()[0], found.coef)
    np.testing.assert_array_equal(np.diff(found.extras["path"].indptr), found.extras["n_active"])
    assert found.extras["n_turns"] == 0


def test_a_quadratic_term_repairs_a_path_that_fails():
    seed = next(s for s in range(40) if path(*mean(*transitions(s, 60, 40, coupling=1.1)), 0.05).status == "ray")
    rows = transitions(seed, 60, 40, coupling=1.1)
    failed = solution(rows, L1(0.05))
    assert (failed.status, failed.extras["n_turns"] > 0) == ("ray", True)
    assert failed.extras["rho_reached"] == failed.extras["knots"].min() > 0.05
    repaired = solution(rows, ElasticNet(10.05, l1_ratio=0.05 / 10.05))
    A, b = mean(*rows)
    check_fixed_point(A + 10.0 * np.eye(40), b, repaired.coef, 0.05)
    assert (repaired.status, repaired.extras["n_turns"]) == ("converged", 0)
