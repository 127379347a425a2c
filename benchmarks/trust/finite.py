"""Finite decision problems: exact values by linear equations, and many episodes at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Steps:
    """Columns of simulated steps, episode after episode; a successor ≥ the number of states is an end."""

    state: Array
    action: Array
    successor: Array
    episode: Array
    age: Array


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """P(s'|s, a) of shape (states, actions, states + ends), mean rewards r(s, a), a reward of each end, a start.

    The values of a policy solve (I − γP_π)V = r_π, where r counts the ends.
    """

    transition: Array
    reward: Array
    end_reward: Array
    start: Array
    gamma: float
    noise: float = 0.0
    _known: dict[bytes, float] = field(default_factory=dict, repr=False)

    @property
    def n_states(self) -> int:
        return len(self.start)

    @cached_property
    def mean_reward(self) -> Array:
        return np.asarray(self.reward + self.transition[:, :, self.n_states :] @ self.end_reward)

    @cached_property
    def _cumulative(self) -> Array:
        """Row k (a state and an action) rises from k to k + 1, so that one sorted array answers every draw."""
        rows = np.cumsum(self.transition.reshape(-1, self.transition.shape[2]), axis=1)
        rows /= rows[:, -1:]
        rows += np.arange(len(rows))[:, None]
        return rows.ravel()

    def under(self, policy: Array) -> tuple[Array, Array]:
        """P_π among the states that go on, and r_π."""
        moves = np.einsum("sa,sat->st", policy, self.transition[:, :, : self.n_states])
        return moves, (policy * self.mean_reward).sum(axis=1)

    def values(self, policy: Array) -> Array:
        moves, reward = self.under(policy)
        return np.linalg.solve(np.eye(self.n_states) - self.gamma * moves, reward)

    def value(self, policy: Array) -> float:
        """The value of the start distribution (remembered: every log of a cell asks for the same one)."""
        key = policy.tobytes()
        if key not in self._known:
            self._known[key] = float(self.start @ self.values(policy))
        return self._known[key]

    def action_values(self, policy: Array) -> Array:
        going_on = self.transition[:, :, : self.n_states] @ self.values(policy)
        return np.asarray(self.mean_reward + self.gamma * going_on)

    def extreme(self, best: bool = True) -> Array:
        """The optimal policy, or the worst one, by policy iteration."""
        sign = 1.0 if best else -1.0
        policy = np.full(self.reward.shape, 1.0 / self.reward.shape[1])
        while True:
            q = sign * self.action_values(policy)
            if np.all(q.max(axis=1) <= (policy * q).sum(axis=1) + 1e-10):
                return policy
            policy = np.eye(q.shape[1])[q.argmax(axis=1)]

    def visits(self, policy: Array) -> Array:
        """Expected number of visits of each state in an episode."""
        moves, _ = self.under(policy)
        return np.linalg.solve(np.eye(self.n_states) - moves.T, self.start)

    def limit(self, target: Array, behavior: Array, features: Array) -> float:
        """What LSTD with these features (and a constant) tends to as the log grows: the truth plus a bias.

        θ solves Φᵀ D (Φ − γP_πΦ) θ = Φᵀ D r_π with D the visits of the behaviour policy.
        """
        phi = np.column_stack([np.ones(self.n_states), features])
        moves, reward = self.under(target)
        weighted = phi.T * self.visits(behavior)
        theta = np.linalg.lstsq(weighted @ (phi - self.gamma * moves @ phi), weighted @ reward, rcond=None)[0]
        return float(self.start @ phi @ theta)

    def simulate(self, n: int, policy: Array, rng: np.random.Generator, max_steps: int = 10_000) -> Steps:
        """n episodes of a policy, side by side, each until it ends or has `max_steps` steps."""
        s, who, parts = rng.choice(self.n_states, size=n, p=self.start), np.arange(n), []
        choice = np.cumsum(policy, axis=1)
        for age in range(max_steps):
            a = (rng.random((len(s), 1)) * choice[s, -1:] >= choice[s]).sum(axis=1)
            successor = self._next(s, a, rng)
            parts.append((s, a, successor, who, np.full(len(s), age)))
            alive = successor < self.n_states
            s, who = successor[alive], who[alive]
            if not len(s):
                break
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[3], kind="stable")
        return Steps(*(column[order] for column in columns))

    def rewards(self, steps: Steps, rng: np.random.Generator) -> Array:
        """Logged rewards: their means, what the end brings, and noise."""
        out = self.reward[steps.state, steps.action].astype(float)
        ended = steps.successor >= self.n_states
        out[ended] += self.end_reward[steps.successor[ended] - self.n_states]
        return out + self.noise * rng.normal(size=len(out)) if self.noise else out

    def _next(self, s: Array, a: Array, rng: np.random.Generator) -> Array:
        row, width = s * self.transition.shape[1] + a, self.transition.shape[2]
        found = np.searchsorted(self._cumulative, row + rng.random(len(s)), side="right")
        return np.minimum(found - row * width, width - 1)
