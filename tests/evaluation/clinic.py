"""A small problem with exact values, and logs of it, for the tests of decisions."""

from __future__ import annotations

import numpy as np

from sparsetd.logs import Transitions

N_STATES, N_ACTIONS, GAMMA, LEAVE = 4, 3, 0.9, 0.25


class Clinic:
    """Four states seen as columns, three actions that change reward and successor; `effect` scales what they change."""

    def __init__(self, seed=0, effect=1.0):
        rng = np.random.default_rng(seed)
        common, own = (
            rng.dirichlet(np.ones(N_STATES), size=N_STATES),
            rng.dirichlet(np.ones(N_STATES), size=(N_ACTIONS, N_STATES)),
        )
        self.P = (1 - effect) * common + effect * own
        self.reward = rng.normal(size=N_STATES) + effect * rng.normal(size=(N_ACTIONS, N_STATES))
        self.behavior = 0.8 * rng.dirichlet(np.ones(N_ACTIONS), size=N_STATES) + 0.2 / N_ACTIONS

    def value(self, policy):
        P = np.einsum("sa,ast->st", policy, self.P) * (1 - LEAVE)
        V = np.linalg.solve(np.eye(N_STATES) - GAMMA * P, np.einsum("sa,as->s", policy, self.reward))
        return float(V.mean())

    def log(self, n_episodes, seed=0, *, propensities=True, cut=False):
        rng, rows = np.random.default_rng(seed), []
        for episode in range(n_episodes):
            s, over = int(rng.integers(N_STATES)), False
            while not over:
                a = int(rng.choice(N_ACTIONS, p=self.behavior[s]))
                after, over = int(rng.choice(N_STATES, p=self.P[a, s])), bool(rng.random() < LEAVE)
                rows.append((s, a, self.reward[a, s] + 0.3 * rng.normal(), after, over, episode))
                s = after
        s, a, r, after, over, episode = (np.array(column) for column in zip(*rows, strict=True))
        return Transitions.from_arrays(
            np.eye(N_STATES)[s],
            r,
            np.eye(N_STATES)[after],
            action=a,
            terminated=over & ~cut,
            truncated=over & cut,
            episode=episode,
            behavior_prob=self.behavior[s, a] if propensities else None,
            names=["well", "ill", "worse", "worst"],
        )


def policy_of(table):
    """The policy with these probabilities, as a function of observations."""
    return lambda observation: np.asarray(observation) @ table


def tables(n, seed=0):
    return list(np.random.default_rng(seed).dirichlet(np.ones(N_ACTIONS), size=(n, N_STATES)))
