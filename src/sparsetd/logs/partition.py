"""Divide a log into parts by the ids of its episodes, and recognise the episodes that taught a policy.

Folds, halves and cross-fitting do not depend on the order of a log:

    h_i = mix(mix(id_i) + salt)        part of i = the number of cuts c_1 ≤ … ≤ c_{n−1} that are ≤ h_i

The cuts are quantiles of the hashes, so that the parts are of equal size. With the cuts, an episode is placed without
seeing the others: a shard needs only its ids and n − 1 numbers. An id has the same hash in every process, on every
platform, and whether it is stored as 7, 7.0, the text "7" or a Python object; "07" is another id.

On the log that taught it, a policy looks better than it is. A policy therefore keeps a 64-bit fingerprint of every
episode that taught it, so that these episodes are recognised, whatever the log is called and however it is sorted.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsetd.logs.checks import Array

if TYPE_CHECKING:
    from sparsetd.logs.transitions import Transitions

Hashes = NDArray[np.uint64]
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # texts that a table with types would hold as a number
MANY = 2**20  # with this many ids, equal ranges of the hashes have equal sizes to within a thousandth
CHANCE = 0.2  # share of the episodes that may look the same by chance
DISTINCT = 0.5  # nothing can be told unless more than this share of the episodes look like no other


def partition(ids: Any, n: int, salt: str = "") -> Array:
    """Divide episodes into equal parts by their ids, whatever the order of the log.

    The answer is the part 0, …, n − 1 of each of the distinct `ids`. Sizes differ by at most 1 (from 2²⁰ ids on, by
    chance). Another `salt` gives an independent partition.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.logs import partition
    >>> ids = np.arange(10)
    >>> parts = partition(ids, 2)
    >>> np.bincount(parts).tolist()
    [5, 5]
    >>> bool(np.all(partition(ids[::-1], 2) == parts[::-1]))
    True
    """
    hashes = hashed(ids, salt)
    return parts_between(cuts(hashes, n), hashes)


def cuts(hashes: Hashes, n: int) -> Hashes:
    """The n − 1 hashes at which the second, third, … part begins; `hashes` are those of all episodes, in any order."""
    size = len(hashes)
    if size >= MANY:
        return ranges(n)
    if not size:
        raise ValueError("`ids` is empty: pass at least one episode.")
    return np.sort(hashes)[[k * size // n for k in range(1, n)]]


def ranges(n: int) -> Hashes:
    """The n − 1 hashes that divide all 64-bit numbers equally."""
    return np.array([k * 2**64 // n for k in range(1, n)], dtype=np.uint64)


def parts_between(cuts: Hashes, hashes: Hashes) -> Array:
    """The part of each hash, given where the parts begin."""
    return np.searchsorted(cuts, hashes, side="right")


def hashed(ids: Any, salt: str = "") -> Hashes:
    """One 64-bit hash per id: integers, whole floats and text, in arrays of numbers or of objects."""
    return mixed(mixed(_numbers(np.asarray(ids))) + np.uint64(_of_text(salt)))


def _numbers(ids: Array) -> Hashes:
    if ids.dtype.kind in "biu":
        return ids.astype(np.int64 if ids.dtype.kind == "i" else np.uint64).view(np.uint64)
    return np.fromiter(map(_number, ids.tolist()), dtype=np.uint64, count=len(ids))


def _number(entry: Any) -> int:
    whole = isinstance(entry, int) or (isinstance(entry, float) and entry.is_integer())
    whole = whole or (isinstance(entry, str) and WHOLE.fullmatch(entry) is not None)
    return int(entry) % 2**64 if whole else _of_text(entry)


def _of_text(entry: Any) -> int:
    data = entry if isinstance(entry, bytes) else str(entry).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def mixed(numbers: Hashes) -> Hashes:
    """The finaliser of SplitMix64: a bijection of 64 bits in which every bit depends on every other."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def fingerprints(log: Transitions) -> Array:
    """One number per episode, from its id (if it has one) and what happened in it; the order of columns is ignored.

    Only entries that are not zero are hashed, so dense and sparse rows of the same numbers look the same.
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
    """A mask of the episodes that the policy was learnt from; all False for a policy that keeps no fingerprints.

    Where episodes have no ids and few things can happen, different patients look the same. So only episodes that look
    like no other of the log count, and the mask is empty unless most are of this kind and a fifth of these taught the
    policy.
    """
    teachers = np.asarray(_teachers_of(policy))
    if not len(teachers):
        return np.zeros(log.n_episodes, dtype=bool)
    own = fingerprints(log)
    _, which, times = np.unique(own, return_inverse=True, return_counts=True)
    single = times[which] == 1
    known = single & np.isin(own, teachers)
    return known & (single.mean() > DISTINCT) & (known.sum() > CHANCE * single.sum())


def _teachers_of(policy: Any) -> Any:
    """The fingerprints that a policy keeps, or else those of the model whose values it follows."""
    values = getattr(policy, "values", None)
    owners = (policy, values, getattr(values, "__self__", None))
    kept = (getattr(owner, name, None) for owner in owners for name in ("learnt_from", "learnt_from_"))
    return next((known for known in kept if known is not None), ())


def refuse_own(policy: Any, log: Transitions) -> None:
    """Refuse to judge a policy on the episodes that taught it."""
    own = taught(policy, log)
    if own.any():
        learnt = f"The policy was learnt from {own.sum()} of these {len(own)} episodes"
        remedy = "learn it from `log.part(1, 2)` and judge it on `log.part(2, 2)` (--part 1/2 and 2/2), or `improve`"
        raise ValueError(f"{learnt}, so its value here would be too high: {remedy}.")
