"""What is independent of what: clusters of episodes, folds of clusters, and blocks of one long record.

Stays of one patient are alike, so sixty patients with ten stays each are sixty observations and not six hundred. With
`cluster` (a column, or an array) the episodes of a cluster are held out, left out and drawn again together. A log that
is one long record is cut into blocks that are long beside its autocorrelation (Politis and White, 2004), each of which
then counts as an episode that was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.logs import Transitions
from sparsetd.logs.partition import cuts, parts_between
from sparsetd.system import Array

N_GROUPS = 40
FEWEST_BLOCKS = 20
LOOKED = 20  # columns whose autocorrelation is looked at


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of every episode by a hash of its cluster; `each` of them that follow one another make a fold."""

    group: Array
    n: int
    each: int

    @classmethod
    def of(cls, hashes: Array, n_rows: int, n_folds: int, clustered: bool = False) -> Groups:
        """The groups of clusters with these hashes, one entry per episode."""
        distinct = np.unique(hashes) if clustered else hashes
        n, what = len(distinct), "clusters" if clustered else "episodes"
        if n < 2:
            raise ValueError(
                f"All {n_rows} rows are one {what[:-1]}, and an interval needs several: number them in a column "
                "`episode`, or mark where they end in `terminated` or `truncated`."
            )
        if n < n_folds:
            raise ValueError(f"The log has {n} {what}, fewer than {n_folds} folds: use fewer folds.")
        each = max(1, min(N_GROUPS, n) // n_folds)
        group = parts_between(cuts(distinct, n_folds * each), hashes)
        return cls(group.astype(np.min_scalar_type(n_folds * each)), n_folds * each, each)

    @property
    def fold(self) -> Array:
        return self.group // self.each


def arranged(log: Transitions, cluster: Any) -> tuple[Transitions, Array, Array | None]:
    """The log with the episodes of every cluster together, the cluster of every episode, and the order of the rows.

    The order is None where the rows stay where they are.
    """
    values = cluster_of(log, cluster)
    _, first, code = np.unique(values, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[code]  # clusters in the order of their first episodes
    if (np.diff(place) >= 0).all():
        return log, values, None
    episodes = np.argsort(place, kind="stable")
    bounds = log._bounds()
    order = np.concatenate([np.arange(bounds[i], bounds[i + 1]) for i in episodes])
    return log[order], values[episodes], order


def cluster_of(log: Transitions, cluster: Any) -> Array:
    """The cluster of every episode, from a column's name or from an array with an entry for each row or episode."""
    bounds = log._bounds()
    values = _column(log, cluster) if isinstance(cluster, str) else np.asarray(cluster)
    if values.ndim != 1 or len(values) not in (len(log), len(bounds) - 1):
        raise ValueError(
            f"`cluster` has shape {values.shape}: pass a column's name, or one entry for each of the {len(bounds) - 1} "
            f"episodes or {len(log)} rows."
        )
    if values.dtype.kind not in "biufU":
        values = values.astype(str)
    if len(values) < len(log) or len(log) == len(bounds) - 1:
        return values
    split = np.flatnonzero((values[1:] != values[:-1]) & ~_begins(bounds, len(log))[1:])
    if len(split):
        name = log.ids()[np.searchsorted(bounds, split[0], side="right") - 1]
        raise ValueError(
            f"`cluster` splits episode {name}: it is {values[split[0]]} in row {split[0]} and {values[split[0] + 1]} "
            "in the next; every episode must lie within one cluster."
        )
    return np.asarray(values[bounds[:-1]])


def _begins(bounds: Array, n: int) -> Array:
    out = np.zeros(n, dtype=bool)
    out[bounds[:-1]] = True
    return out


def _column(log: Transitions, name: str) -> Array:
    """An observed column, or what the log was read with as `group`."""
    if name in (log.names or ()):
        return np.asarray(log.observation[:, list(log.names or ()).index(name)])
    if log.group is not None:
        return np.asarray(log.group)
    shown = ", ".join(log.labels()[:8])
    raise ValueError(
        f"`cluster` is {name!r}, but the observed columns are {shown}: name one of them, read the log with "
        f"group={name!r}, or pass the values themselves."
    )


def in_blocks(log: Transitions) -> tuple[Transitions, str]:
    """A log that is one long record, cut into blocks, and a sentence about them; any other log as it is."""
    if log.n_episodes != 1 or not isinstance(log.observation, np.ndarray):
        return log, ""
    length = block_length(np.column_stack([log.reward, log.observation[:, :LOOKED]]))
    n = len(log) // length
    if n < FEWEST_BLOCKS:
        return log, ""
    block = np.minimum(np.arange(len(log)) // length, n - 1)
    begins = np.diff(block, prepend=-1) != 0
    ends = np.append(begins[1:], True)
    cut = replace(log, episode=block, start=begins, truncated=(log.truncated | ends) & ~log.terminated, episode_id=None)
    return cut, (
        f"The log is one record of {len(log):,} rows. It was cut into {n} blocks of {length} rows, from its "
        "autocorrelation: the value is that from the beginning of a block, and blocks count as independent."
    )


def block_length(columns: Array) -> int:
    """The length of blocks for columns with this autocorrelation: Politis and White's for an AR(1) as persistent."""
    n = len(columns)
    rho = max((_persistence(column) for column in columns.T if np.ptp(column) > 0), default=0.0)
    optimal = (2 * rho / (1 - rho**2)) ** (2 / 3) * (1.5 * n) ** (1 / 3)
    time = (1 + rho) / (1 - rho)  # the integrated autocorrelation time
    return int(np.ceil(max(optimal, 2 * time, 5.0)))


def _persistence(column: Array) -> float:
    """The ρ of the AR(1) with this column's integrated autocorrelation time, by pairs that stay positive (Geyer)."""
    centred = column - column.mean()
    size = 2 ** int(np.ceil(np.log2(2 * len(centred))))
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    correlation = np.fft.irfft(spectrum)[: len(centred) // 2]
    correlation = correlation / correlation[0]
    pairs = correlation[1:-1:2] + correlation[2::2][: len(correlation[1:-1:2])]
    stop = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    time = max(1.0 + 2.0 * float(pairs[:stop].sum()), 1.0)
    return min((time - 1) / (time + 1), 0.999)
