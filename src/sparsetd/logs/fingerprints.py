"""Has a policy been learnt from the very episodes that are to judge it?

On its own training log a policy looks better than it is. A policy therefore keeps a 64-bit fingerprint of every episode
that taught it, and whoever judges it can tell, whatever the log is called and however it is sorted.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array
from sparsetd.logs.partition import hashed
from sparsetd.logs.transitions import Transitions

CHANCE = 0.2  # share of the episodes that may look the same by chance
DISTINCT = 0.5  # share of episodes that look like no other, at or below which nothing can be told


def fingerprints(log: Transitions) -> Array:
    """One number per episode, from its id (where it has one) and what happened in it, columns in any order.

    Only what is not zero is hashed, so dense and sparse rows of the same numbers look the same.
    """
    order = slice(None) if log.names is None else np.argsort(log.names, kind="stable")
    seen = sp.csr_array(log.observation[:, order], copy=True)
    seen.sum_duplicates()
    seen.eliminate_zeros()
    action = np.zeros(len(log)) if log.action is None else log.action.reshape(len(log), -1)
    rows = np.column_stack([np.diff(seen.indptr), action, log.reward]).astype(np.float64)
    ids = np.zeros(log.n_episodes, np.uint64) if log.episode_id is None else hashed(log.ids())
    ends = np.flatnonzero(np.diff(log.episode)) + 1
    entries = np.column_stack([seen.indices, seen.data]).astype(np.float64)
    episodes = zip(ids, np.split(rows, ends), np.split(entries, seen.indptr[ends]), strict=True)
    digests = (hashlib.blake2b(a.tobytes() + b.tobytes(), digest_size=8, salt=i.tobytes()) for i, a, b in episodes)
    return np.array([int.from_bytes(digest.digest(), "little") for digest in digests], dtype=np.uint64)


def taught(policy: Any, log: Transitions) -> Array:
    """Return which episodes of the log the policy was learnt from; none for a policy that does not say.

    Where episodes have no ids and few things can happen, different patients look the same. So only episodes that look
    like no other of the log count, and nothing is said unless most are such and a fifth of these taught the policy.
    """
    teachers = np.asarray(learnt_from(policy))
    if not len(teachers):
        return np.zeros(log.n_episodes, dtype=bool)
    own = fingerprints(log)
    _, which, times = np.unique(own, return_inverse=True, return_counts=True)
    single = times[which] == 1
    known = single & np.isin(own, teachers)
    return known & (single.mean() > DISTINCT) & (known.sum() > CHANCE * single.sum())


def learnt_from(policy: Any) -> Any:
    """The fingerprints that a policy keeps, or that the model keeps whose values it follows."""
    values = getattr(policy, "values", None)
    for owner in (policy, values, getattr(values, "__self__", None)):
        for name in ("learnt_from", "learnt_from_"):
            if getattr(owner, name, None) is not None:
                return getattr(owner, name)
    return ()


def refuse_own(policy: Any, log: Transitions) -> None:
    """Refuse to judge a policy on the episodes that taught it."""
    own = taught(policy, log)
    if own.any():
        raise ValueError(
            f"The policy was learnt from {own.sum()} of these {len(own)} episodes, so its value here would be too "
            "high: learn it from `log.part(1, 2)` and judge it on `log.part(2, 2)` (on the command line: --part 1/2 "
            "and --part 2/2), or let `improve` do both."
        )
