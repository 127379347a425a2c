"""The off-policy actor-critic against the formulas of its paper, a policy gradient and a corridor."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.actor_critic import SoftmaxActor, actor_critic
from sparsetd import TDC


class Corridor:
    """Walk from 0 to 4; every step costs 1, and pushing left (action 0) leads back."""

    def __init__(self):
        self.log = []

    def reset(self, **_):
        self.place = 0
        return np.eye(5)[0], {}

    def step(self, action):
        before = self.place
        self.place = max(0, self.place + (1 if action else -1))
        self.log.append((before, action, self.place))
        return np.eye(5)[self.place], -1.0, self.place == 4, False, {}


def softmax(v):
    return np.exp(v) / np.exp(v).sum()


def test_every_step_is_that_of_the_paper():
    """TDC(λ) and the actor written out by hand, on the transitions that the environment saw."""
    env, actor = Corridor(), SoftmaxActor(np.asarray, 2, 5, step_size=0.1, lam=0.4)
    critic = TDC(step_size=0.05, eta=0.5, lam=0.7)
    actor_critic(env, critic, actor, np.random.default_rng(0), gamma=0.9, n_episodes=3, max_steps=12)
    theta, w, u = np.zeros(5), np.zeros(5), np.zeros((2, 5))
    gamma, alpha, eta, lam, into, count = 0.9, 0.05, 0.5, 0.7, 0.0, 0
    e, trace = np.zeros(5), np.zeros((2, 5))
    for before, action, after in env.log:
        f, g, done = np.eye(5)[before], np.eye(5)[after], after == 4
        pi, c = softmax(u @ f), 0.0 if done else gamma
        rho = pi[action] / 0.5
        e = rho * (f + into * lam * e)
        delta = -1.0 + c * theta @ g - theta @ f
        theta, w = (
            theta + alpha * (delta * e - c * (1 - lam) * (e @ w) * g),
            w + eta * alpha * (delta * e - (f @ w) * f),
        )
        score = np.outer((np.arange(2) == action) - pi, f)
        trace = rho * (score + into * 0.4 * trace)
        u = u + 0.1 * delta * trace
        into, count = gamma, count + 1
        if done or count == 12:
            into, count = 0.0, 0
    np.testing.assert_allclose(critic.coef_, theta, atol=1e-12)
    np.testing.assert_allclose(actor.weights, u, atol=1e-12)


def test_the_mean_update_is_the_policy_gradient():
    """One state, no future: Σ_a b(a) ρ_a (r_a − V) ∇ log π(a) = ∇ Σ_a π(a) r_a, whatever b and V are."""
    reward, behavior, value = np.array([1.0, -0.5, 2.0]), np.array([0.6, 0.3, 0.1]), 0.7
    start, mean = np.array([0.2, -0.1, 0.4]), np.zeros(3)
    for action in range(3):
        actor = SoftmaxActor(np.asarray, 3, 1, step_size=1.0)
        actor.weights = start[:, None].copy()
        ratio = softmax(start)[action] / behavior[action]
        actor.update(np.ones(1), action, reward[action] - value, ratio, 0.0)
        mean += behavior[action] * (actor.weights[:, 0] - start)
    step = 1e-6
    gradient = [(softmax(start + step * e) - softmax(start - step * e)) @ reward / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(mean, gradient, atol=1e-8)


def test_a_behaviour_of_the_observation_acts():
    """It pushes right in even places and left in odd ones: the walk never gets beyond 1."""
    env, actor = Corridor(), SoftmaxActor(np.asarray, 2, 5)

    def behavior(observation):
        return np.eye(2)[1 - int(observation.argmax()) % 2]

    actor_critic(env, TDC(), actor, np.random.default_rng(0), behavior=behavior, max_steps=20)
    assert [after for _, _, after in env.log] == [1, 0] * 10


@pytest.mark.parametrize("critic", [TDC(step_size=0.1), TDC()], ids=["by hand", "automatic"])
def test_the_policy_improves_on_its_behaviour(critic):
    actor = SoftmaxActor(np.asarray, 2, 5, step_size=0.2)
    played = actor_critic(Corridor(), critic, actor, np.random.default_rng(1), gamma=0.95, n_episodes=60, max_steps=60)
    assert actor.best(np.eye(5)[:4]).tolist() == [1, 1, 1, 1]
    assert actor(np.eye(5)[:4])[:, 1].min() > 0.6
    assert np.mean([episode.steps for episode in played]) > 8  # the behaviour itself stays as it was


def test_a_critic_with_an_intercept_is_refused():
    with pytest.raises(ValueError, match="give the features a constant"):
        actor_critic(Corridor(), TDC(fit_intercept=True), SoftmaxActor(np.asarray, 2, 5), np.random.default_rng(0))
