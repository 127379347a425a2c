"""The learners against literal matrices of the paper on stacked vectors, sharing no code with them."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd import TD
from sparsetd.control import EstimatorLearner, GreedyGQ, GreedyROGQ, Step

A, D = 3, 4


def stream(n=40, seed=0):
    """Random steps with terminations; every row has its own ratio."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        ended = t % 11 == 10
        pi = rng.dirichlet(np.ones(A)) * (0.0 if ended else 0.9)
        row = (rng.normal(size=D), int(rng.integers(A)), rng.normal(), rng.normal(size=D), pi, rng.uniform(0, 2))
        yield Step(*row), t % 11 == 0


def literal(step, e, into, lam, eta):
    """(A_t, b_t, e_t) of eq:gqAb on the stacked features."""
    phi, psi = np.zeros((2, A, D))
    phi[step.action] = step.phi
    psi = np.outer(step.next_weight, step.phi_next)
    phi, psi = phi.ravel(), psi.ravel()
    e = phi + step.ratio * into * lam * e
    top = np.hstack([eta * np.outer(phi, phi), eta * np.outer(e, phi - psi)])
    bottom = np.hstack([(1 - lam) * np.outer(psi, e), np.outer(e, phi - psi)])
    return np.vstack([top, bottom]), step.reward * np.concatenate([eta * e, e]), e


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_gq_is_the_stochastic_iteration_of_its_matrix(lam):
    learner = GreedyGQ(A, D, gamma=0.9, lam=lam, step_size=0.05, eta=0.7)
    x, e, into = np.zeros(2 * A * D), np.zeros(A * D), 0.0
    for step, first in stream():
        into = 0.0 if first else 0.9
        if first:
            learner.begin()
        At, bt, e = literal(step, e, into, lam, 0.7)
        x = x - 0.05 * (At @ x - bt)
        learner.update(step)
    assert np.concatenate([learner.w.ravel(), learner.theta.ravel()]) == pytest.approx(x, rel=1e-9, abs=1e-12)
    assert np.abs(learner.theta).min() > 0


@pytest.mark.parametrize("lam", [0.0, 0.8])
@pytest.mark.parametrize("acting", ["last", "average", "exponential"])
def test_rogq_is_the_saddle_point_iteration_of_its_matrix(lam, acting):
    alpha = np.repeat([0.2, 0.1], D // 2)
    tiled = np.tile(alpha, 2 * A)
    learner = GreedyROGQ(A, D, 0.9, lam, alpha, 0.7, 0.05, 0.02, acting=acting, forgetting=0.1)
    x, y, e, trail = np.zeros(2 * A * D), np.zeros(2 * A * D), np.zeros(A * D), [np.zeros(2 * A * D)]
    rho = np.repeat([0.02, 0.05], A * D)
    smooth = np.zeros(A * D)
    for step, first in stream():
        if first:
            learner.begin()
        At, bt, e = literal(step, e, 0.0 if first else 0.9, lam, 0.7)
        x, y = soft(x - tiled * (At.T @ y), tiled * rho), y + tiled * (At @ x - bt)
        y = y / max(1.0, np.linalg.norm(y))
        trail.append(x)
        smooth = smooth + 0.1 * (x[A * D :] - smooth)
        learner.update(step)
    assert learner.x.ravel() == pytest.approx(x, rel=1e-9, abs=1e-12)
    assert learner.y.ravel() == pytest.approx(y, rel=1e-9, abs=1e-12)
    expected = {"last": x[A * D :], "average": np.mean(trail, axis=0)[A * D :], "exponential": smooth}[acting]
    assert learner.theta.ravel() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert np.any(x)


def test_action_values_are_the_products_with_each_block():
    learner, rng = GreedyGQ(A, D, gamma=0.9), np.random.default_rng(1)
    learner.theta[:] = rng.normal(size=(A, D))
    phi = rng.normal(size=D)
    assert learner.values(phi) == pytest.approx(learner.theta @ phi)


@pytest.mark.parametrize("n_actions", [2, 3, 5, 7])
@pytest.mark.parametrize("n_features", [3, 50, 256, 1001])
def test_actions_of_equal_weights_have_equal_values(n_actions, n_features):
    """Ties are shared, so rounding must not break them; a matrix product of BLAS does, for some of these shapes."""
    weights, phi = np.random.default_rng(0).normal(size=(2, n_features))
    learners = GreedyGQ(n_actions, n_features, 0.9), GreedyROGQ(n_actions, n_features, 0.9)
    for learner in learners:
        learner.x[1] = weights
    model = TD()
    model.coef_ = np.tile(weights, n_actions)
    for learner in (*learners, EstimatorLearner(model, n_actions, n_features, 0.9)):
        assert len(set(learner.values(phi))) == 1
        assert learner.values(phi)[0] == pytest.approx(weights @ phi)
