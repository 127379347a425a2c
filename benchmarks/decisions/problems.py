"""Small finite problems whose every policy has an exact value: what the decisions are measured on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.transitions import Transitions

Array = np.ndarray


@dataclass(frozen=True)
class Clinic:
    """States, actions, P (A, S, S), mean rewards (A, S), start; what is observed of a state, and who acted.

    After every step the episode ends with probability `leave`. `seen` (S, p) is the observation of each state: states
    with equal rows cannot be told apart in the log.
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
        for _ in range(2000):
            V = (self.reward + self.gamma * (1 - self.leave) * self.P @ V).max(axis=0)
        return float(self.start @ V)

    def table(self, policy) -> Array:
        """π(a|s) of a policy that is a function of observations."""
        return np.asarray(policy(self.seen))

    def log(self, n_episodes: int, rng: np.random.Generator) -> Transitions:
        """Episodes of the behaviour, with its probabilities."""
        rows = []
        for episode in range(n_episodes):
            s, over = _draw(self.start, rng), False
            while not over:
                a = _draw(self.behavior[s], rng)
                r = self.reward[a, s] + self.noise * rng.normal()
                after, over = _draw(self.P[a, s], rng), bool(rng.random() < self.leave)
                rows.append((s, a, r, after, over, episode))
                s = after
        s, a, r, after, over, episode = (np.array(column) for column in zip(*rows, strict=True))
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


def _draw(p: Array, rng: np.random.Generator) -> int:
    return int(min(np.searchsorted(np.cumsum(p), rng.random(), side="right"), len(p) - 1))


def softmax(scores: Array) -> Array:
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def tabular(rng: np.random.Generator, shift: float = 1.0, n_states: int = 8, n_actions: int = 3) -> Clinic:
    """Every state has a column of its own, so that each value function is linear."""
    P = rng.dirichlet(np.full(n_states, 0.5), size=(n_actions, n_states))
    behavior = softmax(shift * rng.normal(size=(n_states, n_actions)))
    behavior = 0.9 * behavior + 0.1 / n_actions
    seen = np.eye(n_states)[:, :-1]
    return Clinic(P, rng.normal(size=(n_actions, n_states)), np.full(n_states, 1 / n_states), seen, behavior)


def blended(rng: np.random.Generator, effect: float = 0.3, n_actions: int = 3, hidden: bool = False) -> Clinic:
    """A linear MDP: states are blends of five kinds, so that Q is linear in them for each action and V is not.

    `effect` scales what the actions change; at 0 no policy is better than another. With `hidden` a sixth column that
    the behaviour and the rewards use is not observed.
    """
    kinds, n_states = 5, 40
    blend = rng.dirichlet(np.full(kinds, 0.7), size=n_states)
    common, own = (
        rng.dirichlet(np.full(n_states, 0.3), size=kinds),
        rng.dirichlet(np.full(n_states, 0.3), size=(n_actions, kinds)),
    )
    P = np.einsum("sk,akt->ast", blend, (1 - effect) * common + effect * own)
    reward = blend @ rng.normal(size=kinds) + effect * np.einsum(
        "sk,ak->as", blend, rng.normal(size=(n_actions, kinds))
    )
    secret = rng.normal(size=n_states) * hidden
    scores = blend @ (2 * rng.normal(size=(kinds, n_actions))) + secret[:, None] * np.linspace(-1, 1, n_actions)
    start = np.full(n_states, 1 / n_states)
    return Clinic(P, reward + 0.5 * secret, start, blend[:, :-1], 0.9 * softmax(scores) + 0.1 / n_actions)


@dataclass(frozen=True)
class Confounded:
    """Two actions whose odds an unrecorded, memoryless u multiplies by Γ* or divides by it, while u moves the reward.

    `clinic` has the mean over u: it answers what a policy is worth when u cannot drive the actions.
    """

    clinic: Clinic
    strength: float
    tilt: Array  # (A, S): what u = 1 adds to the reward, and u = 0 takes away in proportion
    share: Array  # P(u = 1 | s)

    def log(self, n_episodes: int, rng: np.random.Generator) -> Transitions:
        c, rows = self.clinic, []
        odds = c.behavior[:, 1] / c.behavior[:, 0]
        for episode in range(n_episodes):
            s, over = _draw(c.start, rng), False
            while not over:
                u = rng.random() < self.share[s]
                o = odds[s] * (self.strength if u else 1 / self.strength)
                a = int(rng.random() < o / (1 + o))
                r = c.reward[a, s] + self.tilt[a, s] * (u - self.share[s]) + c.noise * rng.normal()
                after, over = _draw(c.P[a, s], rng), bool(rng.random() < c.leave)
                rows.append((s, a, r, after, over, episode))
                s = after
        s, a, r, after, over, episode = (np.array(column) for column in zip(*rows, strict=True))
        return Transitions.from_arrays(
            c.seen[s],
            r,
            c.seen[after],
            action=a,
            terminated=over,
            episode=episode,
            behavior_prob=c.behavior[s, a],
        )


def confounded(rng: np.random.Generator, strength: float) -> Confounded:
    c = tabular(rng, n_states=5, n_actions=2)
    odds = c.behavior[:, 1] / c.behavior[:, 0]
    high, low = odds * strength / (1 + odds * strength), odds / strength / (1 + odds / strength)
    share = np.where(high > low, (c.behavior[:, 1] - low) / np.maximum(high - low, 1e-12), 0.5)
    return Confounded(c, strength, 2.0 * rng.normal(size=(2, 5)), share)
