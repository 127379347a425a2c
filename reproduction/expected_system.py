"""The exact mean system of any method on a finite problem: what the mean over sampled rows tends to (`eq:UNIFY`)."""

from __future__ import annotations

import numpy as np

from sparsetd.problems import FiniteMDP
from sparsetd.problems.finite import transition_batch
from sparsetd.system import Array, Table, directions


def expected_system(mdp: FiniteMDP, table: Table, *, importance_sampled: bool = False) -> tuple[Array, Array]:
    """(E[A_t], E[b_t]) of a table without traces, over the rows that `mdp.sample` draws."""
    if table.lam or table.trace == "emphatic":
        raise ValueError("expected_system needs a table without traces: pass lam=0, or use mdp.system(lam)")
    policy = mdp.behavior if importance_sampled else mdp.target
    joint = np.einsum("s,sa,asn->san", mdp.xi, policy, mdp.P).reshape(mdp.n_states, -1)
    states, outcomes = np.nonzero(joint)
    batch = transition_batch(mdp, states, outcomes, np.ones(len(states), dtype=bool), importance_sampled)
    probability, rows = joint[states, outcomes], directions(table, batch)
    k, d = table.n_blocks, mdp.n_features
    moments = np.einsum("t,tid,tje->idje", probability, rows, rows, optimize=True)
    A = np.einsum("aibj,idje->adbe", table.M.reshape(k, 3, k, 3), moments, optimize=True).reshape(k * d, k * d)
    b = table.m.reshape(k, 3) @ np.einsum("t,tid->id", probability * batch.reward, rows)
    return A + np.kron(np.diag(table.damping), np.eye(d)), b.ravel()
