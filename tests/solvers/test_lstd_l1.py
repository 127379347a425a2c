"""The ℓ1-penalised LSTD equation against scikit-learn's Lasso on the rows of A and against CVXPY."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso

from sparsetd.operators import td
from sparsetd.penalties import L1
from sparsetd.solvers.path_following import LstdL1
from sparsetd.system import Batch, mean_system


def batch(seed, n=60, d=20, coupling=1.5):
    rng = np.random.default_rng(seed)  # strongly off-policy: A is far from positive definite, which must not matter
    phi, phi_next = rng.normal(size=(n, d)), coupling * rng.normal(size=(n, d))
    reward = phi[:, :4] @ rng.normal(size=4) + 0.1 * rng.normal(size=n)
    return Batch(phi, phi_next, reward, np.full(n, 0.9), np.ones(n), np.zeros(n, dtype=bool), np.ones(n))


def solve(data, rho, factor=None, projected=False):
    solver = LstdL1(projected=projected)
    state = solver.update(solver.init(td(), data.n_features, np.float64), data, td())
    return solver.result(state, td(), L1(rho), factor)


@pytest.mark.parametrize(("n", "d"), [(60, 20), (15, 40)])
@pytest.mark.parametrize("rho", [0.3, 0.03])
def test_equals_the_lasso_on_the_equations(n, d, rho):
    data = batch(0, n, d)
    A, b = mean_system(td(), data)
    expected = Lasso(alpha=rho / d, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(A, b).coef_
    found = solve(data, rho)
    assert (found.status, found.extras["n_turns"]) == ("converged", 0)
    np.testing.assert_allclose(found.coef, expected, atol=1e-6)


def test_equals_the_convex_program_with_free_features():
    data, factor = batch(1), np.where(np.arange(20) == 7, 0.0, 1.0)
    A, b = mean_system(td(), data)
    theta = cp.Variable(20)
    objective = 0.5 * cp.sum_squares(A @ theta - b) + 0.1 * factor @ cp.abs(theta)
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(solve(data, 0.1, factor).coef, theta.value, atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(60, 20), (300, 20), (15, 40)])
@pytest.mark.parametrize("sparse", [False, True])
def test_projected_minimises_the_projected_bellman_error(n, d, sparse):
    data = batch(2, n, d)
    # ‖Aθ − b‖²_{C⁻¹} is ‖Π(R + ΨΘ − Φθ)‖²/n with the projection Π on the columns of Φ, written out
    phi, psi = data.phi, data.discount[:, None] * data.phi_next
    projection = phi @ np.linalg.pinv(phi)
    X, y = projection @ (phi - psi), projection @ data.reward
    expected = Lasso(alpha=0.1, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y).coef_
    if sparse:
        data = replace(data, phi=sp.csr_array(phi), phi_next=sp.csr_array(data.phi_next))
    found = solve(data, 0.1, projected=True)
    assert (found.status, found.extras["n_turns"]) == ("converged", 0)
    assert np.count_nonzero(expected) > 2
    np.testing.assert_allclose(found.coef, expected, atol=1e-6)
