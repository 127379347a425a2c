"""Collecting from environments: seeds, probabilities, the two endings, and the three autoreset modes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sparsetd.logs import Transitions, collect


class Corridor(gym.Env):  # type: ignore[misc]
    """States 0, 1, 2, …: action 1 moves right, 0 stays; terminates at 3, truncates after 5 steps. Starts at 0 or 1."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2, start=5)

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.age = int(self.np_random.integers(2)), 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.state, self.age = self.state + (action - 5), self.age + 1
        return self.state, float(self.state), self.state == 3, self.age == 5, {}


def mostly_right(s: np.ndarray) -> np.ndarray:
    assert s.ndim == 2
    return np.tile([0.6, 0.4], (len(s), 1))


def check_corridor(t: Transitions) -> None:
    s, successor = t.observation[:, 0], t.next_observation[:, 0]
    assert t.action is not None
    np.testing.assert_array_equal(successor, s + t.action)  # the true successor, never a state after a reset
    np.testing.assert_array_equal(t.reward, successor)
    np.testing.assert_array_equal(t.terminated, successor == 3)
    np.testing.assert_array_equal(t.behavior_prob, np.array([0.6, 0.4])[t.action])
    inside = ~t.start[1:]
    np.testing.assert_array_equal(s[1:][inside], successor[:-1][inside])
    for episode in t.episodes():
        assert len(episode) <= 5
        assert (episode.terminated | episode.truncated).tolist() == [False] * (len(episode) - 1) + [True]
        assert episode.observation[0, 0] in (0, 1)


def test_single_environment() -> None:
    t = collect(Corridor(), mostly_right, 0, n_episodes=40)
    assert t.n_episodes == 40
    check_corridor(t)
    assert t.terminated.any()
    assert (t.truncated & ~t.terminated).any()


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("limit", [{"n_episodes": 31}, {"n_steps": 101}])
def test_vector_environment(mode: AutoresetMode, limit: dict[str, int]) -> None:
    envs = SyncVectorEnv([Corridor] * 3, autoreset_mode=mode)
    t = collect(envs, mostly_right, 1, **limit)
    check_corridor(t)
    assert t.n_episodes == limit.get("n_episodes", t.n_episodes)
    assert len(t) == limit.get("n_steps", len(t))


@pytest.mark.parametrize("make", [Corridor, lambda: SyncVectorEnv([Corridor] * 2)])
def test_same_seed_same_rows(make: Any) -> None:
    a, b = (collect(make(), mostly_right, 7, n_steps=60) for _ in range(2))
    c = collect(make(), mostly_right, 8, n_steps=60)
    for name in ("observation", "action", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert not np.array_equal(a.action, c.action)


def test_actions_follow_the_policy() -> None:
    t = collect(Corridor(), mostly_right, 2, n_steps=4000)
    assert abs(np.mean(t.action) - 0.4) < 4 * np.sqrt(0.24 / 4000)


def test_the_last_episode_cut_by_the_limit_is_truncated() -> None:
    t = collect(Corridor(), lambda s: np.tile([1.0, 0.0], (len(s), 1)), 0, n_steps=3)
    assert t.truncated.tolist() == [False, False, True]
    assert not t.terminated.any()


def test_target_probabilities_are_recorded() -> None:
    t = collect(Corridor(), mostly_right, 0, n_steps=30, target=lambda s: np.tile([0.1, 0.9], (len(s), 1)))
    np.testing.assert_allclose(t.importance_ratio(), np.where(t.action == 1, 0.9 / 0.4, 0.1 / 0.6))


def test_time_limit_of_a_registered_environment_is_not_terminal() -> None:
    env = gym.make("MountainCar-v0", max_episode_steps=20)
    t = collect(env, lambda s: np.full((len(s), 3), 1 / 3), 0, n_episodes=3)
    assert len(t) == 60
    assert t.truncated.sum() == 3
    assert not t.terminated.any()
    assert t.observation.shape == (60, 2)


def test_dictionary_observations_are_flattened() -> None:
    class Paired(Corridor):
        observation_space = gym.spaces.Dict({"here": gym.spaces.Box(0, 4, (1,)), "age": gym.spaces.Box(0, 9, (1,))})

        def pair(self) -> dict[str, np.ndarray]:
            return {"here": np.array([self.state], np.float32), "age": np.array([self.age], np.float32)}

        def reset(self, **kwargs: Any) -> Any:
            super().reset(**kwargs)
            return self.pair(), {}

        def step(self, action: int) -> Any:
            return (self.pair(), *super().step(action)[1:])

    t = collect(Paired(), mostly_right, 0, n_steps=8)
    assert t.observation.shape == (8, 2)
    v = collect(SyncVectorEnv([Paired] * 2), mostly_right, 0, n_steps=8)
    assert v.observation.shape == (8, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Pass `n_steps` or `n_episodes`"),
        ({"n_steps": 0}, "`n_steps` must be at least 1"),
        ({"n_episodes": -2}, "`n_episodes` must be at least 1"),
    ],
)
def test_limits_are_checked(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        collect(Corridor(), mostly_right, 0, **arguments)


def test_continuous_actions_are_refused() -> None:
    with pytest.raises(TypeError, match="Discrete action space"):
        collect(gym.make("Pendulum-v1"), mostly_right, 0, n_steps=3)


def test_a_policy_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"returned shape \(2,\)"):
        collect(Corridor(), lambda _: np.array([0.5, 0.5]), 0, n_steps=3)
