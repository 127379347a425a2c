"""Mountain car against Gymnasium's own, and the samples and roll-outs built on it."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction import mountain_car_world as car
from reproduction.mountain_car import rollout


def bang_bang(states):
    """Push in the direction of motion: a policy known to reach the goal."""
    return np.where(states[:, 1] >= 0, 2, 0)


def test_dynamics_equal_gymnasiums():
    gym = pytest.importorskip("gymnasium")
    env = gym.make("MountainCar-v0").unwrapped
    rng = np.random.default_rng(0)
    for state in rng.uniform(car.LOW, car.HIGH, (300, 2)):
        action = int(rng.integers(3))
        env.reset()
        env.state = state
        expected, reward, terminated, *_ = env.step(action)
        successor, r, goal = car.step(state, action)
        assert successor == pytest.approx(expected, abs=1e-6)
        assert float(r) == reward
        assert bool(goal) == (expected[0] >= 0.5)
        assert terminated == (goal and successor[1] >= 0)  # Gymnasium lets a car that rolls back at the goal go on


def test_a_batch_is_its_rows():
    rng = np.random.default_rng(1)
    states, actions = rng.uniform(car.LOW, car.HIGH, (20, 2)), rng.integers(3, size=20)
    together = car.step(states, actions)[0]
    assert np.array_equal(together, [car.step(s, a)[0] for s, a in zip(states, actions, strict=True)])


def test_bang_bang_reaches_the_goal_and_coasting_does_not():
    assert 100 < rollout(bang_bang)[0] < 140
    assert rollout(lambda s: np.ones(len(s), dtype=int), max_steps=300)[0] == 301
    near = np.array([[0.45, 0.05], [-0.5, 0.0], [0.49, 0.02]])
    steps = rollout(bang_bang, near)
    assert list(steps) == [rollout(bang_bang, s)[0] for s in near]
    assert steps[2] == 1


@pytest.mark.parametrize("start", ["bottom", "near-bottom", "uniform"])
def test_the_papers_sample_has_3000_rows_in_order(start):
    data = car.collect(np.random.default_rng(2), start=start)
    assert len(data) == 3000
    assert data.start.sum() >= 15
    successors = car.step(data.observation, data.action)
    assert np.array_equal(successors[0], data.next_observation)
    assert np.array_equal(successors[2], data.terminated)
    linked = ~(data.terminated | data.truncated)[:-1]
    assert np.array_equal(data.observation[1:][linked], data.next_observation[:-1][linked])
    assert not np.any(data.terminated & data.truncated)


def test_the_environment_is_the_same_car():
    env, rng = car.MountainCar(start="uniform"), np.random.default_rng(0)
    state, _ = env.reset(seed=3)
    assert np.array_equal(state, env.reset(seed=3)[0])
    for action in rng.integers(3, size=50):
        successor, reward, terminated, truncated, _ = env.step(int(action))
        assert np.array_equal(successor, car.step(state, np.asarray(action))[0])
        assert (reward, truncated) == (-1.0, False)
        assert terminated == (successor[0] >= car.GOAL)
        state = successor
    paid = car.MountainCar(goal=-2.0, reward=lambda goal: 7.0 if goal else 0.0)
    paid.reset()
    assert paid.step(1)[1:3] == (7.0, True)
