"""The online loop: the order of events, true ratios, terminations, and learning on a chain whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd.control import EstimatorLearner, Rule, online, rollout
from sparsetd.control.acting import played
from sparsetd.estimators import GQ, ROGQ, DivergenceWarning


class Chain:
    """Four states in a row; action 1 moves right, action 0 left; leaving on the right pays 1, on the left 0."""

    def reset(self, **_):
        self.state = 1
        return np.array([1]), {}

    def step(self, action):
        self.state += 1 if action == 1 else -1
        done = self.state in (-1, 4)
        return np.array([self.state]), float(self.state == 4), done, False, {}


def one_hot(observation):
    return np.eye(6)[int(observation[0]) + 1]


class Recorder:
    """A learner with fixed values that remembers what it was told."""

    gamma = 0.9

    def __init__(self):
        self.steps, self.begun = [], 0

    def values(self, phi):
        return np.array([0.0, 1.0]) if phi[2] == 0 else np.array([1.0, 1.0])

    def begin(self):
        self.begun += 1

    def update(self, step):
        self.steps.append(step)
        return 0.0


def test_ratios_are_target_over_behaviour_and_ends_have_no_successor():
    recorder = Recorder()
    online(Chain(), recorder, one_hot, np.random.default_rng(0), behavior=Rule(epsilon=0.4), n_episodes=30)
    assert recorder.begun == 30
    for step in recorder.steps:
        tie = step.phi[2] == 1
        mu = 0.5 if tie else (0.8 if step.action == 1 else 0.2)
        pi = 0.5 if tie else float(step.action == 1)
        assert step.ratio == pytest.approx(pi / mu)
        ended = step.phi_next[0] == 1 or step.phi_next[5] == 1
        tie_next = step.phi_next[2] == 1
        expected = np.zeros(2) if ended else 0.9 * np.array([0.5, 0.5] if tie_next else [0.0, 1.0])
        assert step.next_weight == pytest.approx(expected)


@pytest.mark.parametrize("behavior", [Rule(epsilon=0.3), Rule(temperature=0.5), lambda k: Rule(epsilon=1 / (k + 1))])
def test_greedy_gq_learns_the_chain(behavior):
    learner = EstimatorLearner(GQ(gamma=0.9, lam=0.4, step_size=0.2, eta=0.1), n_actions=2)
    episodes = online(Chain(), learner, one_hot, np.random.default_rng(1), behavior=behavior, n_episodes=400)
    assert len(episodes) == 400
    right = learner.estimator.coef_.reshape(2, 6)[1, 2:5]
    assert right == pytest.approx(0.9 ** np.arange(2, -1, -1), abs=0.05)
    assert played(Chain(), lambda s: int(learner.values(one_hot(s)).argmax())).steps == 3


@pytest.mark.parametrize("estimator", [GQ, ROGQ])
def test_automatic_steps_find_the_policy(estimator):
    learner = EstimatorLearner(estimator(gamma=0.9, lam=0.4), n_actions=2)
    online(Chain(), learner, one_hot, np.random.default_rng(2), behavior=Rule(epsilon=0.5), n_episodes=200)
    assert played(Chain(), lambda s: int(learner.values(one_hot(s)).argmax()), max_steps=50).total == 1.0


def test_stop_and_step_limit():
    recorder = Recorder()
    episodes = online(
        Chain(), recorder, one_hot, np.random.default_rng(0), n_episodes=9, stop=lambda e: e.total == 1.0, max_steps=2
    )
    assert len(episodes) == 9
    assert all(e.steps <= 2 for e in episodes)
    assert len(online(Chain(), recorder, one_hot, np.random.default_rng(0), n_episodes=9, stop=lambda _: True)) == 1


def test_divergence_ends_the_run_instead_of_raising():
    learner = EstimatorLearner(GQ(gamma=0.9, step_size=1e6), n_actions=2)
    with np.errstate(all="ignore"), pytest.warns(DivergenceWarning):
        episodes = online(Chain(), learner, one_hot, np.random.default_rng(0), behavior=Rule(1.0), n_episodes=500)
    assert not episodes[-1].finite
    assert len(episodes) < 500


def test_same_seed_same_episodes():
    def run():
        learner = EstimatorLearner(GQ(gamma=0.9, step_size=0.1), n_actions=2)
        return online(Chain(), learner, one_hot, np.random.default_rng(5), behavior=Rule(0.3), n_episodes=20)

    assert run() == run()


def test_a_rollout_draws_from_the_probabilities_of_the_policy():
    def mostly_right(observation):
        return np.tile([0.1, 0.9], (len(observation), 1))

    episodes = rollout(Chain(), mostly_right, np.random.default_rng(0), n_episodes=300)
    # The walk from 1 with p = .9 leaves on the right with probability (1 − (1/9)²) / (1 − (1/9)⁵).
    assert np.mean([e.total for e in episodes]) == pytest.approx(0.98771, abs=0.02)
    assert episodes == rollout(Chain(), mostly_right, np.random.default_rng(0), n_episodes=300)
