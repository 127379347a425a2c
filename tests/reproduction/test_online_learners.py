"""The fast learners against literal matrices of the paper, against the estimators, and with automatic steps."""

from __future__ import annotations

import numpy as np
import pytest
from control.test_acting import Chain, one_hot

from reproduction.online_learners import GreedyGQ, GreedyROGQ
from sparsetd.control import EstimatorLearner, Rule, Step, online
from sparsetd.control.acting import played
from sparsetd.estimators import GQ, ROGQ, TD

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
    for learner in (*learners, EstimatorLearner(model, n_actions)):
        assert len(set(learner.values(phi))) == 1
        assert learner.values(phi)[0] == pytest.approx(weights @ phi)


GAMMA = 0.9


class Noisy:
    """A two-action environment with random features; episodes end after a random number of steps."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def reset(self, **_):
        return self.rng.normal(size=3), {}

    def step(self, action):
        return self.rng.normal(size=3), float(self.rng.normal() + action), bool(self.rng.random() < 0.1), False, {}


class Twin:
    """Acts by the fast learner and shows every step to both."""

    gamma = GAMMA

    def __init__(self, fast, slow):
        self.fast, self.slow = fast, slow

    def values(self, phi):
        return self.fast.values(phi)

    def begin(self):
        self.fast.begin()
        self.slow.begin()

    def update(self, step: Step):
        self.slow.update(step)
        return self.fast.update(step)


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_gq_equals_its_estimator_on_an_online_stream(lam):
    slow = EstimatorLearner(GQ(gamma=GAMMA, lam=lam, step_size=0.02, eta=0.5), 2)
    fast = GreedyGQ(2, 3, GAMMA, lam, 0.02, 0.5)
    online(Noisy(), Twin(fast, slow), lambda s: s, np.random.default_rng(0), behavior=Rule(0.3), n_episodes=12)
    assert slow.estimator.coef_ == pytest.approx(fast.theta.ravel(), rel=1e-9, abs=1e-12)
    assert slow.values(np.ones(3)) == pytest.approx(fast.values(np.ones(3)))


@pytest.mark.filterwarnings("ignore:ROGQ set every coefficient to zero")  # true of the first rows
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_rogq_equals_its_estimator_on_an_online_stream(lam):
    model = ROGQ(gamma=GAMMA, lam=lam, step_size=0.05, eta=0.5, rho_theta=0.02, rho_w=0.03)
    slow = EstimatorLearner(model, 2)
    fast = GreedyROGQ(2, 3, GAMMA, lam, 0.05, 0.5, 0.02, 0.03, acting="average")
    online(Noisy(), Twin(fast, slow), lambda s: s, np.random.default_rng(0), behavior=Rule(0.3), n_episodes=12)
    assert slow.estimator.coef_last_ == pytest.approx(fast.x[1].ravel(), rel=1e-9, abs=1e-12)
    assert slow.estimator.coef_ == pytest.approx(fast.theta.ravel(), rel=1e-9, abs=1e-12)
    assert np.any(fast.theta)


@pytest.mark.parametrize("lam", [0.0, 0.4, 0.9])
def test_automatic_steps_learn_the_chain(lam):
    learner = GreedyGQ(2, 6, gamma=0.9, lam=lam, step_size="auto", eta=0.1)
    online(Chain(), learner, one_hot, np.random.default_rng(1), behavior=Rule(epsilon=0.3), n_episodes=400)
    assert learner.theta[1, 2:5] == pytest.approx([0.81, 0.9, 1.0], abs=0.02)


@pytest.mark.parametrize("lam", [0.0, 0.4])
def test_automatic_steps_of_rogq_find_the_policy(lam):
    learner = GreedyROGQ(2, 6, gamma=0.9, lam=lam, step_size="auto", acting="average")
    online(Chain(), learner, one_hot, np.random.default_rng(1), behavior=Rule(epsilon=0.3), n_episodes=400)
    assert played(Chain(), lambda s: int(learner.values(one_hot(s)).argmax()), max_steps=50).total == 1.0


def test_an_automatic_step_never_overshoots():
    """With w = 0 a step of α along e changes this row's TD error by the factor 1 − α eᵀ(φ − γφ̄) ≥ ½."""
    learner, rng = GreedyGQ(3, 4, gamma=0.9, lam=0.7, step_size="auto", eta=0.0), np.random.default_rng(0)
    for _ in range(50):
        phi, phi_next = 10 * rng.normal(size=(2, 4))
        step = Step(phi, int(rng.integers(3)), rng.normal(), phi_next, 0.9 * rng.dirichlet(np.ones(3)), 1.0)
        before = learner.update(step)
        after = step.reward + step.next_weight @ learner.values(phi_next) - learner.values(phi)[step.action]
        assert abs(after) <= 1.5 * abs(before) + 1e-9
        learner._step[:] = 1.0  # each row for itself


def test_a_step_size_of_another_name_is_refused():
    with pytest.raises(ValueError, match="`step_size` is 'adaptive': pass a positive number"):
        GreedyGQ(2, 6, gamma=0.9, step_size="adaptive")
