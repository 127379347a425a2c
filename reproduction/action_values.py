"""Action values of a finite problem: the chain of its pairs (s, a), and the rows that GQ(λ) learns from."""

from __future__ import annotations

import numpy as np

from sparsetd.features import action_blocks
from sparsetd.problems import FiniteMDP
from sparsetd.problems.finite import behavior_path, transition_batch
from sparsetd.system import Batch


def state_action(mdp: FiniteMDP) -> FiniteMDP:
    """Turns an MDP into the chain of its pairs of state and action, whose value is the target's action value.

    The chain with states (s, a), numbered s·n_actions + a, whose value is Q_π and whose weights are ξ(s)μ(a|s).

    P((s, a), (s', a')) = P(s'|s, a)π(a'|s'). Its `system(lam)` is what GQ(λ) solves and its A, b, C give eq:gqObj.

    See also `action_value_trajectory`: rows of this chain, as the behaviour visits it.
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
    """
    states, outcomes, start = behavior_path(mdp, n, rng, horizon)
    batch = transition_batch(mdp, states, outcomes, start, importance_sampled=True)
    actions, following = np.divmod(outcomes, mdp.n_states)
    phi = action_blocks(batch.phi, np.eye(mdp.n_actions)[actions])
    phi_next = action_blocks(batch.phi_next, mdp.target[following])
    return Batch(phi, phi_next, batch.reward, batch.discount, batch.ratio, batch.start, batch.interest)
