"""The fast learners give the estimators' weights on the stream that they see."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd.control import EstimatorLearner, GreedyGQ, GreedyROGQ, Rule, Step, online
from sparsetd.estimators import GQ, ROGQ

A, D, GAMMA = 2, 3, 0.9


class Noisy:
    """A two-action environment with random features; episodes end after a random number of steps."""

    def __init__(self):
        self.rng = np.random.default_rng(3)

    def reset(self, **_):
        return self.rng.normal(size=D), {}

    def step(self, action):
        return self.rng.normal(size=D), float(self.rng.normal() + action), bool(self.rng.random() < 0.1), False, {}


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
    slow = EstimatorLearner(GQ(gamma=GAMMA, lam=lam, step_size=0.02, eta=0.5), A, D, GAMMA)
    fast = GreedyGQ(A, D, GAMMA, lam, 0.02, 0.5)
    online(Noisy(), Twin(fast, slow), lambda s: s, np.random.default_rng(0), behavior=Rule(0.3), n_episodes=12)
    assert slow.estimator.coef_ == pytest.approx(fast.theta.ravel(), rel=1e-9, abs=1e-12)
    assert slow.values(np.ones(D)) == pytest.approx(fast.values(np.ones(D)))


@pytest.mark.filterwarnings("ignore:ROGQ set every coefficient to zero")  # true of the first rows
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_rogq_equals_its_estimator_on_an_online_stream(lam):
    model = ROGQ(gamma=GAMMA, lam=lam, step_size=0.05, eta=0.5, rho_theta=0.02, rho_w=0.03)
    slow = EstimatorLearner(model, A, D, GAMMA)
    fast = GreedyROGQ(A, D, GAMMA, lam, 0.05, 0.5, 0.02, 0.03, acting="average")
    online(Noisy(), Twin(fast, slow), lambda s: s, np.random.default_rng(0), behavior=Rule(0.3), n_episodes=12)
    assert slow.estimator.coef_last_ == pytest.approx(fast.x[1].ravel(), rel=1e-9, abs=1e-12)
    assert slow.estimator.coef_ == pytest.approx(fast.theta.ravel(), rel=1e-9, abs=1e-12)
    assert np.any(fast.theta)
