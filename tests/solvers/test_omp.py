"""OMP-TD against a direct transcription of its definition, and against scikit-learn where both apply."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import OrthogonalMatchingPursuit

from sparsetd.operators import td
from sparsetd.penalties import L1
from sparsetd.solvers.path_following import Omp
from sparsetd.system import Batch


def batch(seed, n=60, d=25, gamma=0.9):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(n, d)), 0.4 * rng.normal(size=(n, d))
    reward = phi[:, :4] @ rng.normal(size=4) + 0.1 * rng.normal(size=n)
    return Batch(phi, phi_next, reward, np.full(n, gamma), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))


def solve(data, rho, max_features=None, factor=None):
    solver = Omp(max_features)
    state = solver.update(solver.init(td(), data.n_features, np.float64), data, td())
    return solver.result(state, td(), L1(rho), factor)


def literal(data, rho):
    """c = Φᵀ(R + γΦ'θ − Φθ)/N; add argmax|c|; θ_I = A_II⁻¹ b_I; stop when max|c| ≤ ρ."""
    phi, psi, n = data.phi, data.discount[:, None] * data.phi_next, len(data)
    theta, chosen = np.zeros(data.n_features), []
    while True:
        c = phi.T @ (data.reward + psi @ theta - phi @ theta) / n
        if np.abs(c).max() <= rho:
            return theta, chosen
        chosen.append(int(np.argmax(np.abs(c))))
        A = phi[:, chosen].T @ (phi - psi)[:, chosen]
        theta[chosen] = np.linalg.solve(A, phi[:, chosen].T @ data.reward)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rho", [0.3, 0.05, 0.005])
def test_equals_its_definition(seed, rho):
    data = batch(seed)
    theta, chosen = literal(data, rho)
    found = solve(data, rho)
    assert found.status == "converged"
    assert found.extras["order"].tolist() == chosen
    np.testing.assert_allclose(found.coef, theta, atol=1e-10)
    assert found.extras["knots"][-1] <= rho < found.extras["knots"][-2]


def test_without_discount_it_is_orthogonal_matching_pursuit():
    data = batch(0, gamma=0.0)
    unit = data.phi / np.linalg.norm(data.phi, axis=0)  # scikit-learn compares correlations, so give it unit columns
    data = Batch(unit, data.phi_next, *(getattr(data, f) for f in ("reward", "discount", "ratio", "start", "interest")))
    expected = OrthogonalMatchingPursuit(n_nonzero_coefs=6, fit_intercept=False).fit(unit, data.reward).coef_
    found = solve(data, 0.0, max_features=6)
    assert found.status == "feature_limit"
    np.testing.assert_allclose(found.coef, expected, atol=1e-10)


def test_path_and_features_without_penalty():
    data = batch(1)
    factor = np.ones(25)
    factor[[3, 20]] = 0.0
    found = solve(data, 0.02, factor=factor)
    assert found.extras["order"][:2].tolist() == [3, 20]
    path = found.extras["path"].toarray()
    assert np.flatnonzero(path[0]).tolist() == [3, 20]
    np.testing.assert_array_equal(path[-1], found.coef)


def test_dependent_columns_are_passed_over():
    data = batch(2, n=10, d=25)
    found = solve(data, 0.0)
    assert found.status in ("converged", "singular")
    assert np.count_nonzero(found.coef) <= 10
    twice = Batch(
        np.hstack([data.phi[:, :3]] * 2), np.hstack([data.phi_next[:, :3]] * 2),
        *(getattr(data, f) for f in ("reward", "discount", "ratio", "start", "interest")),
    )  # fmt: skip
    assert np.count_nonzero(solve(twice, 0.0).coef) == 3
