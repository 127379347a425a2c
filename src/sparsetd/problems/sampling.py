"""Rows of a finite MDP: independent, consecutive, or all of them with their probabilities.

Random numbers are drawn once, as arrays, and turned into transitions by inverting the joint distribution of (a, s').

Action values: φ(s, a) holds φ(s) in the block of a, and GQ(λ) bootstraps from the target's mean
φ̄(s') = Σ_a π(a|s') φ(s', a).
"""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

import numpy as np

from sparsetd.features import action_blocks
from sparsetd.system import Array, Batch

if TYPE_CHECKING:
    from sparsetd.problems.finite import FiniteMDP


def independent_rows(mdp: FiniteMDP, n: int, rng: np.random.Generator, importance_sampled: bool) -> Batch:
    """s ~ ξ, (a, s') from the target, or from the behaviour with ratio π/μ. Every row is its own episode."""
    check_count(n)
    states = rng.choice(mdp.n_states, size=n, p=mdp.xi)
    outcome = np.empty(n, dtype=np.intp)
    cumulative, uniform = cumulative_outcomes(mdp, mdp.behavior if importance_sampled else mdp.target), rng.random(n)
    for s in np.unique(states):
        here = states == s
        outcome[here] = np.searchsorted(cumulative[s], uniform[here], side="right")
    return transition_batch(mdp, states, outcome, np.ones(n, dtype=bool), importance_sampled)


def behavior_path(mdp: FiniteMDP, n: int, rng: np.random.Generator, horizon: int | None) -> tuple[Array, Array, Array]:
    """States, outcomes and starts of one run of the behaviour; termination and truncation both restart it."""
    check_count(n)
    cumulative = cumulative_outcomes(mdp, mdp.behavior).tolist()
    first, terminal = np.cumsum(mdp.start).tolist(), mdp.terminal.tolist()
    first[-1] = 1.0
    states, outcomes, starts = [], [], []
    age, s = 0, -1  # s = −1: an episode begins
    for begin, step in rng.random((n, 2)).tolist():
        starts.append(s < 0)
        s = bisect(first, begin) if s < 0 else s
        outcome = bisect(cumulative[s], step)
        states.append(s)
        outcomes.append(outcome)
        s, age = outcome % mdp.n_states, age + 1
        if terminal[s] or age == horizon:
            age, s = 0, -1
    return np.array(states), np.array(outcomes), np.array(starts)


def all_rows(mdp: FiniteMDP, importance_sampled: bool) -> tuple[Batch, Array]:
    """Every (s, a, s') that `independent_rows` can draw, and its probability."""
    policy = mdp.behavior if importance_sampled else mdp.target
    joint = np.einsum("s,sa,asn->san", mdp.xi, policy, mdp.P).reshape(mdp.n_states, -1)
    states, outcomes = np.nonzero(joint)
    batch = transition_batch(mdp, states, outcomes, np.ones(len(states), dtype=bool), importance_sampled)
    return batch, joint[states, outcomes]


def cumulative_outcomes(mdp: FiniteMDP, policy: Array) -> Array:
    """Row s: the cumulative probabilities of the outcomes (a, s'), numbered a · n_states + s'."""
    joint = np.einsum("sa,asn->san", policy, mdp.P).reshape(mdp.n_states, -1)
    cumulative = np.cumsum(joint, axis=1)
    total = cumulative[:, -1:]
    return np.asarray(cumulative / np.where(total > 0, total, 1.0))


def transition_batch(mdp: FiniteMDP, states: Array, outcomes: Array, start: Array, importance_sampled: bool) -> Batch:
    """The batch of the transitions s → (a, s')."""
    actions, following = np.divmod(outcomes, mdp.n_states)
    n = len(states)
    ratio = mdp.target[states, actions] / mdp.behavior[states, actions] if importance_sampled else np.ones(n)
    discount = np.where(mdp.terminal[following], 0.0, mdp.gamma)
    phi, phi_next = mdp.features[states], mdp.features[following]
    return Batch(phi, phi_next, mdp.R[actions, states, following], discount, ratio, start, np.ones(n))


def check_count(n: int) -> None:
    if n < 1:
        raise ValueError(f"n={n} rows were asked for: pass n >= 1")


def state_action(mdp: FiniteMDP) -> FiniteMDP:
    """Turns an MDP into the chain of its pairs of state and action, whose value is the target's action value.

    The chain with states (s, a), numbered s·n_actions + a, whose value is Q_π and whose weights are ξ(s)μ(a|s).

    P((s, a), (s', a')) = P(s'|s, a)π(a'|s'). Its `system(lam)` is what GQ(λ) solves and its A, b, C give eq:gqObj.

    See also `action_value_trajectory`: rows of this chain, as the behaviour visits it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import random_walk, state_action
    >>> mdp = random_walk(5, gamma=0.9)
    >>> bool(np.allclose(state_action(mdp).value, mdp.action_value.ravel()))
    True
    """
    n, k = mdp.n_states, mdp.n_actions
    P = np.einsum("asn,nb->sanb", mdp.P, mdp.target).reshape(n * k, n * k)
    R = np.repeat(np.moveaxis(mdp.R, 0, 1).reshape(n * k, n), k, axis=1)
    each = np.tile(np.eye(k), (n, 1))
    return mdp.chain(
        P,
        R,
        np.asarray(action_blocks(np.repeat(mdp.features, k, axis=0), each)),
        mdp.gamma,
        start=(mdp.start[:, None] * mdp.behavior).ravel(),
        terminal=np.repeat(mdp.terminal, k),
        weights=(mdp.xi[:, None] * mdp.behavior).ravel(),
    )


def action_value_trajectory(mdp: FiniteMDP, n: int, rng: np.random.Generator, horizon: int | None = None) -> Batch:
    """Draws consecutive rows of the behaviour for action values: features of state and action, and their ratios.

    n consecutive rows φ(s, a), φ̄(s') of the behaviour, with the ratio π/μ that GQ(λ) puts on the old trace.

    See also `state_action`: the exact answers for these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.problems import action_value_trajectory, random_walk
    >>> mdp = random_walk(5, gamma=0.9)
    >>> rows = action_value_trajectory(mdp, 100, np.random.default_rng(0))
    >>> rows.phi.shape, mdp.n_features * mdp.n_actions
    ((100, 10), 10)
    """
    states, outcomes, start = behavior_path(mdp, n, rng, horizon)
    batch = transition_batch(mdp, states, outcomes, start, importance_sampled=True)
    actions, following = np.divmod(outcomes, mdp.n_states)
    phi = action_blocks(batch.phi, np.eye(mdp.n_actions)[actions])
    phi_next = action_blocks(batch.phi_next, mdp.target[following])
    return Batch(phi, phi_next, batch.reward, batch.discount, batch.ratio, batch.start, batch.interest)
