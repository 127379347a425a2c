"""Small finite problems whose every policy has an exact value: what the decisions are measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from scipy.special import softmax

from sparsetd.logs import Transitions

Array = np.ndarray


@dataclass(frozen=True)
class Clinic:
    """States, actions, P (A, S, S), mean rewards (A, S), start; what is observed of a state, and who acted.

    After every step the episode ends with probability `leave`. `seen` (S, p) is the observation of each state. The
    value function need not be linear in it.
    """

    P: Array
    reward: Array
    start: Array
    seen: Array
    behavior: Array
    gamma: float = 0.95
    leave: float = 0.1
    noise: float = 0.5

    def value(self, policy: Array) -> float:
        """Exact value of a table π(a|s) at the start."""
        P = np.einsum("sa,ast->st", policy, self.P) * (1 - self.leave)
        r = np.einsum("sa,as->s", policy, self.reward)
        return float(self.start @ np.linalg.solve(np.eye(len(P)) - self.gamma * P, r))

    def best(self) -> float:
        """Value of the best policy of all."""
        V = np.zeros(len(self.start))
        for _ in range(400):  # (0.95 · 0.9)^400 is below rounding
            V = (self.reward + self.gamma * (1 - self.leave) * self.P @ V).max(axis=0)
        return float(self.start @ V)

    def policy(self, table: Array) -> Callable[[Array], Array]:
        """A table π(a|s) as a function of observations."""
        places = KDTree(self.seen)
        return lambda observation: table[places.query(observation)[1]]

    def act(self, s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """An action in every one of these states, and what it earns."""
        a = draw(self.behavior[s], rng)
        return a, self.reward[a, s] + self.noise * rng.normal(size=len(s))

    def log(self, n_episodes: int, rng: np.random.Generator) -> Transitions:
        """Episodes of the behaviour, with its probabilities."""
        steps, at = [], np.arange(n_episodes)
        s = draw(np.tile(self.start, (n_episodes, 1)), rng)
        while len(at):
            a, r = self.act(s, rng)
            after, over = draw(self.P[a, s], rng), rng.random(len(s)) < self.leave
            steps.append((at, s, a, r, after, over))
            at, s = at[~over], after[~over]
        columns = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        episode, s, a, r, after, over = (column[order] for column in columns)
        return Transitions.from_arrays(
            self.seen[s],
            r,
            self.seen[after],
            action=a,
            terminated=over,
            episode=episode,
            behavior_prob=self.behavior[s, a],
            names=[f"x{i}" for i in range(self.seen.shape[1])],
        )


def draw(p: Array, rng: np.random.Generator) -> Array:
    """One draw from each row of probabilities."""
    passed = (np.cumsum(p, axis=1) <= rng.random((len(p), 1))).sum(axis=1)
    return np.minimum(passed, p.shape[1] - 1)


def tabular(rng: np.random.Generator, shift: float = 1.0, n_states: int = 8, n_actions: int = 3) -> Clinic:
    """Every state has a column of its own, so that each value function is linear."""
    P = rng.dirichlet(np.full(n_states, 0.5), size=(n_actions, n_states))
    behavior = 0.9 * softmax(shift * rng.normal(size=(n_states, n_actions)), axis=1) + 0.1 / n_actions
    seen = np.eye(n_states)[:, :-1]
    return Clinic(P, rng.normal(size=(n_actions, n_states)), np.full(n_states, 1 / n_states), seen, behavior)


def blended(rng: np.random.Generator, effect: float = 0.3, n_actions: int = 3, hidden: bool = False) -> Clinic:
    """A linear MDP: states are blends of five kinds, so that Q is linear in them for each action and V is not.

    `effect` scales what the actions change; at 0 no policy is better than another. With `hidden` a sixth column that
    the behaviour and the rewards use is not observed.
    """
    kinds, n_states = 5, 40
    blend = rng.dirichlet(np.full(kinds, 0.7), size=n_states)
    common = rng.dirichlet(np.full(n_states, 0.3), size=kinds)
    own = rng.dirichlet(np.full(n_states, 0.3), size=(n_actions, kinds))
    P = np.einsum("sk,akt->ast", blend, (1 - effect) * common + effect * own)
    change = effect * np.einsum("sk,ak->as", blend, rng.normal(size=(n_actions, kinds)))
    secret = rng.normal(size=n_states) * hidden
    reward = blend @ rng.normal(size=kinds) + change + 0.5 * secret
    scores = blend @ (2 * rng.normal(size=(kinds, n_actions))) + secret[:, None] * np.linspace(-1, 1, n_actions)
    start = np.full(n_states, 1 / n_states)
    return Clinic(P, reward, start, blend[:, :-1], 0.9 * softmax(scores, axis=1) + 0.1 / n_actions)


@dataclass(frozen=True, kw_only=True)
class Confounded(Clinic):
    """Two actions whose odds an unrecorded, memoryless u multiplies by Γ* or divides by it, while u moves the reward.

    `behavior` and `reward` are the means over u: they answer what a policy is worth when u cannot drive the actions.
    """

    strength: float
    tilt: Array  # (A, S): what u = 1 adds to the reward, and u = 0 takes away in proportion

    def act(self, s: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        odds = self.behavior[:, 1] / self.behavior[:, 0]
        high, low = (o / (1 + o) for o in (odds * self.strength, odds / self.strength))
        share = np.divide(self.behavior[:, 1] - low, high - low, out=np.full(len(odds), 0.5), where=high > low)
        u = rng.random(len(s)) < share[s]  # P(u = 1 | s), so that the mean over u is the behaviour
        a = (rng.random(len(s)) < np.where(u, high[s], low[s])).astype(int)
        mean = self.reward[a, s] + self.tilt[a, s] * (u - share[s])
        return a, mean + self.noise * rng.normal(size=len(s))


def confounded(rng: np.random.Generator, strength: float) -> Confounded:
    plain = tabular(rng, n_states=5, n_actions=2)
    return Confounded(**vars(plain), strength=strength, tilt=2.0 * rng.normal(size=(2, 5)))
