"""Has a policy been learnt from the very episodes that are to judge it?

On its own training log a policy looks better than it is. A policy therefore keeps a 64-bit fingerprint of every episode
that taught it, and whoever judges it can tell, whatever the log is called and however it is sorted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np

from sparsetd.evaluation.cautions import Caution
from sparsetd.system import Array
from sparsetd.transitions import Transitions

CHANCE = 0.2


def fingerprints(log: Transitions) -> Array:
    """One number per episode, from all that happened in it (its columns in the order of their names)."""
    order = np.arange(log.observation.shape[1]) if log.names is None else np.argsort(log.names, kind="stable")
    action = np.zeros(len(log)) if log.action is None else log.action.reshape(len(log), -1)
    rows = np.column_stack([log.observation[:, order], action, log.reward]).astype(np.float64)
    ends = np.flatnonzero(np.diff(log.episode)) + 1
    digests = (hashlib.blake2b(episode.tobytes(), digest_size=8).digest() for episode in np.split(rows, ends))
    return np.array([int.from_bytes(digest, "little") for digest in digests], dtype=np.uint64)


def taught(policy: Any, log: Transitions) -> Array:
    """Which episodes of the log the policy was learnt from; none for a policy that does not say.

    Of episodes in which the same happened, as many count as it was learnt from. In logs of few states the same happens
    to different patients: up to a fifth of the log counts as chance.
    """
    times = Counter(np.asarray(getattr(policy, "learnt_from", ())).tolist())
    own = np.zeros(log.n_episodes, dtype=bool)
    for i, fingerprint in enumerate(fingerprints(log).tolist() if times else ()):
        own[i] = times[fingerprint] > 0
        times[fingerprint] -= 1
    return own & (own.mean() > CHANCE)


def cautions(policy: Any, log: Transitions) -> list[Caution]:
    own = taught(policy, log)
    if not own.any():
        return []
    words = (
        f"The policy was learnt from {own.sum()} of these {len(own)} episodes, so its value here is too high: judge it "
        "on episodes that it has not seen."
    )
    return [Caution("judged_on_training_episodes", "red", words)]
