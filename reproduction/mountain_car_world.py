"""Mountain car: a car too weak to climb straight out of a valley must swing back first.

    v ← clip(v + 0.001 a − 0.0025 cos 3x, ±0.07)      x ← clip(x + v, −1.2, 0.6)      a ∈ {−1, 0, +1}

These are the classic dynamics of Sutton & Barto; the reward is −1 per step and the episode terminates at x ≥ 0.5.
The left wall stops the car. All functions work on many cars at once, states in rows (x, v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sparsetd.logs import Transitions, concatenate
from sparsetd.system import Array

LOW, HIGH = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
GOAL = 0.5
N_ACTIONS = 3
BOTTOM = np.array([-0.5, 0.0])

Start = Literal["bottom", "uniform", "near-bottom", "rest"]


def step(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """(next state, reward, terminated) of each row for actions 0, 1, 2 = push left, coast, push right."""
    push = action - 1.0
    v = np.clip(state[..., 1] + 0.001 * push - 0.0025 * np.cos(3.0 * state[..., 0]), LOW[1], HIGH[1])
    x = np.clip(state[..., 0] + v, LOW[0], HIGH[0])
    v = np.where((x <= LOW[0]) & (v < 0.0), 0.0, v)
    return np.stack([x, v], axis=-1), np.full(x.shape, -1.0), x >= GOAL


def starts(rng: np.random.Generator, n: int, kind: Start = "bottom") -> Array:
    """Initial states: at rest in the valley, at rest within ±0.1 of it, at rest anywhere, or anywhere at any speed."""
    if kind == "rest":
        return rng.uniform([LOW[0], 0.0], [GOAL, 0.0], (n, 2))
    if kind == "uniform":
        return rng.uniform(LOW, [GOAL, HIGH[1]], (n, 2))
    states = np.tile(BOTTOM, (n, 1))
    if kind == "near-bottom":
        states[:, 0] += rng.uniform(-0.1, 0.1, n)
    return states


def collect(rng: np.random.Generator, n_episodes: int = 15, n_steps: int = 200, start: Start = "bottom") -> Transitions:
    """`n_episodes` × `n_steps` transitions of uniformly random actions, the paper's sample (15 × 200 = 3000).

    A car that reaches the goal starts again, so that the number of rows never depends on luck; the last row of every
    stretch of `n_steps` is truncated unless it terminated.
    """
    return concatenate([_stretch(rng, n_steps, start) for _ in range(n_episodes)])


def _stretch(rng: np.random.Generator, n_steps: int, start: Start) -> Transitions:
    actions, states = rng.integers(N_ACTIONS, size=n_steps), np.empty((n_steps, 2))
    successors, terminated = np.empty((n_steps, 2)), np.zeros(n_steps, dtype=bool)
    state = starts(rng, 1, start)[0]
    for t in range(n_steps):
        states[t] = state
        state, _, goal = step(state, actions[t])
        successors[t], terminated[t] = state, goal
        if goal:
            state = starts(rng, 1, start)[0]
    cut = ~terminated & (np.arange(n_steps) == n_steps - 1)
    columns = {"action": actions, "terminated": terminated, "truncated": cut, "names": ("position", "velocity")}
    likely = np.full(n_steps, 1.0 / N_ACTIONS)
    return Transitions.from_arrays(states, np.full(n_steps, -1.0), successors, behavior_prob=likely, **columns)


class MountainCar:
    """Mountain car with the two methods of an environment that `online` and `Control` use.

    `reward` maps whether the goal was reached to the reward of the step; without it every step costs 1.
    """

    def __init__(
        self, start: Start = "bottom", goal: float = GOAL, reward: Callable[[bool], float] | None = None
    ) -> None:
        self.start: Start = start
        self.goal, self.reward = goal, reward

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Array, dict[str, Any]]:
        self.state = starts(np.random.default_rng(seed), 1, self.start)[0]
        return self.state, {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.state = step(self.state, np.asarray(action))[0]
        goal = bool(self.state[0] >= self.goal)
        return self.state, -1.0 if self.reward is None else self.reward(goal), goal, False, {}
