"""Logs whose episodes, or whose actions and rewards, depend on something that nobody recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.logs import Transitions

GAMMA = 0.9


def stays(rng: np.random.Generator, patients: int = 60, each: int = 10, length: int = 4) -> tuple[Any, Any, float]:
    """Stays of patients with a trait of their own, the patient of every stay, and the exact value of the target.

    The trait adds to the rewards and does not drive the actions: only the interval must know of it.
    """
    n = patients * each
    trait, s, rows = np.repeat(rng.normal(size=patients), each), rng.normal(size=(n, 2)), []
    truth, mean = 0.0, 0.0
    for age in range(length):
        a = (rng.random(n) < 0.5).astype(int)
        after = 0.6 * s + 0.5 * rng.normal(size=s.shape)
        after[:, 0] += 0.3 * (2 * a - 1)
        reward = s[:, 0] + 0.3 * a + 0.5 * trait + 0.3 * rng.normal(size=n)
        rows.append((np.column_stack([s, np.full(n, age)]), a, reward, np.column_stack([after, np.full(n, age + 1)])))
        s, truth, mean = after, truth + GAMMA**age * (mean + 0.3 * 0.7), 0.6 * mean + 0.3 * 0.4
    before, action, reward, after = (
        np.stack(column, axis=1).reshape(n * length, -1) for column in zip(*rows, strict=True)
    )
    a = action.ravel()
    log = Transitions.from_arrays(
        before, reward.ravel(), after, action=a, terminated=np.tile(np.arange(length) == length - 1, n),
        episode=np.repeat(np.arange(n), length), behavior_prob=np.full(len(a), 0.5),
        target_prob=np.where(a == 1, 0.7, 0.3),
    )  # fmt: skip
    return log, np.repeat(np.arange(patients), each), truth


def memoryless(rng: np.random.Generator, strength: float, n: int = 400, length: int = 5) -> Transitions:
    """A cause that is new at every step changes the odds of action 1 by Γ and earns; the action does nothing."""
    size, age = n * length, np.tile(np.arange(length), n).astype(float)
    s, cause = rng.normal(size=(size, 2)), rng.random(size) < 0.5
    base = np.exp(0.5 * s[:, 0])
    chances = [base * g / (1 + base * g) for g in (1 / strength, strength)]
    action = (rng.random(size) < np.where(cause, chances[1], chances[0])).astype(int)
    often = 0.5 * (chances[0] + chances[1])
    reward = cause + 0.5 * s[:, 1] + 0.5 * rng.normal(size=size)
    return Transitions.from_arrays(
        np.column_stack([s, age]), reward, np.column_stack([np.roll(s, -1, axis=0), age + 1]), action=action,
        terminated=age == length - 1, episode=np.repeat(np.arange(n), length),
        behavior_prob=np.where(action == 1, often, 1 - often),
    )  # fmt: skip


def mostly_one(observation: Any) -> np.ndarray:
    """Action 1 in nine of ten decisions."""
    return np.tile([0.1, 0.9], (len(observation), 1))
