"""A log as episodes, clusters and folds, and the sums over it that need no features.

    W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t}        G_i = Σ_t γᵗ r_{i,t}

The weights are kept as logarithms: a product of a thousand ratios overflows, a sum of a thousand logarithms does not,
and ρ = 0 is simply −∞.

**What is independent.** Stays of one patient are alike, so sixty patients with ten stays each are sixty observations
and not six hundred. With `cluster` (a column, or an array) the episodes of a cluster follow one another, and are held
out, left out and drawn again together. Every standard error of this package takes clusters for independent. By default
each episode is one. A log that is one long record is cut into blocks that are long beside its autocorrelation (Politis
and White, 2004), each of which then counts as an episode that was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparsetd.logs import Transitions
from sparsetd.logs.partition import cuts, parts_between
from sparsetd.system import Array

N_GROUPS = 40  # enough for halves to be drawn from them, few enough for a system each in memory
FEWEST_BLOCKS = 20  # with fewer blocks an interval would be guesswork, and the log is refused instead
LOOKED = 20  # columns whose autocorrelation is measured


@dataclass(frozen=True, eq=False)
class Weighed:
    """Σw, Σwc and Σw² of weights w with values c, for each age, divided by the largest weight e^top or its square.

    Later ages have the sums of the last one.
    """

    top: Array
    total: Array
    moment: Array
    squares: Array

    @classmethod
    def of(cls, log_weight: Array, values: Array) -> Weighed:
        top = log_weight.max(initial=-np.inf)
        w = np.zeros(len(values)) if top == -np.inf else np.exp(log_weight - top)
        return cls(*(np.array([float(x)]) for x in (top, w.sum(), w @ values, w @ w)))

    def __add__(self, other: Weighed) -> Weighed:
        n = max(len(self.top), len(other.top))
        one, two = self.of_ages(n), other.of_ages(n)
        top = np.maximum(one.top, two.top)
        return Weighed(top, *(one._scaled(top) + two._scaled(top)))

    def of_ages(self, n: int) -> Weighed:
        """These sums with n ages; the added ones repeat the last."""
        return Weighed(*(np.pad(x, (0, n - len(x)), "edge") for x in vars(self).values()))

    def _scaled(self, top: Array) -> Array:
        share = np.exp(np.subtract(self.top, top, where=self.top > -np.inf, out=np.full(len(top), -np.inf)))
        return np.stack([self.total * share, self.moment * share, self.squares * share**2])

    @property
    def ess(self) -> float:
        """(Σw)² / Σw², 0 where all weights are 0."""
        return float(self.total[0] ** 2 / self.squares[0]) if self.squares[0] > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Episodes:
    """Hold the rows of a log by episode, with the columns that importance sampling needs.

    Every row has its episode `of`, its `age` t, the ratio ρ_t and the reward r_t. `first` and `last` are the rows where
    the episodes begin and end; `complete` says which ended by terminating; `clusters` are the first episodes of the
    clusters.

    Examples
    --------
    >>> from sparsetd import Transitions
    >>> from sparsetd.evaluation import Episodes
    >>> log = Transitions.from_arrays([1.0, 2.0, 5.0], [0.0, 1.0, 3.0], terminated=[False, True, True])
    >>> episodes = Episodes.of_log(log, gamma=0.9)
    >>> len(episodes), episodes.age.tolist(), episodes.complete.tolist()
    (2, [0, 1, 0], [True, True])
    >>> episodes.returns.tolist()
    [0.9, 3.0]
    """

    reward: Array
    ratio: Array
    of: Array
    age: Array
    first: Array
    last: Array
    complete: Array
    clusters: Array
    gamma: float

    @classmethod
    def of_log(
        cls, log: Transitions, gamma: float, ratio: Array | None = None, cluster: Array | None = None
    ) -> Episodes:
        """The episodes of a log; `ratio` replaces the log's own π/μ, `cluster` is a number for every episode."""
        if not 0 <= gamma <= 1:
            raise ValueError(f"`gamma` must lie between 0 and 1, but it is {gamma}: pass the discount of one step.")
        rho = log.importance_ratio() if ratio is None else np.asarray(ratio, dtype=np.float64)
        if rho.shape != (len(log),) or not np.all(np.isfinite(rho) & (rho >= 0)):
            raise ValueError(f"`ratio` must hold {len(log)} finite non-negative numbers, one per row.")
        first = np.flatnonzero(np.diff(log.episode, prepend=log.episode[:1] - 1))
        length = np.diff(first, append=len(log))
        return cls.of_columns(log.reward, rho, length, log.terminated[first + length - 1], gamma, cluster)

    @classmethod
    def of_columns(
        cls, reward: Array, ratio: Array, length: Array, complete: Array, gamma: float, cluster: Array | None = None
    ) -> Episodes:
        """Build from the rewards and ratios of the rows, with the length of each episode and whether it terminated."""
        last = np.cumsum(length) - 1
        first = last - length + 1
        of = np.repeat(np.arange(len(first)), length)
        begins = np.arange(len(first))
        if cluster is not None:
            begins = np.flatnonzero(np.append(True, cluster[1:] != cluster[:-1]))
        return cls(reward, ratio, of, np.arange(len(reward)) - first[of], first, last, complete, begins, gamma)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def n_clusters(self) -> int:
        return len(self.clusters)

    @property
    def discount(self) -> Array:
        """γ, and 0 in the rows that terminated, which are the last of complete episodes."""
        out = np.full(len(self.reward), self.gamma)
        out[self.last[self.complete]] = 0.0
        return out

    @property
    def returns(self) -> Array:
        """G_i = Σ_t γᵗ r_{i,t}, as logged."""
        return self.total(self.gamma**self.age * self.reward)

    @cached_property
    def log_weight(self) -> Array:
        """log W_t of every row."""
        with np.errstate(divide="ignore"):
            out = np.log(self.ratio)
        length = self.last - self.first + 1
        longest = int(length.max(initial=0))
        if longest > len(self):  # fewer episodes than ages
            return np.concatenate([np.add.accumulate(part) for part in np.split(out, self.first[1:])])
        for age in range(1, longest):
            rows = self.first[length > age] + age
            out[rows] += out[rows - 1]
        return out

    def with_ratio(self, ratio: Array) -> Episodes:
        """The same episodes for another target policy."""
        return replace(self, ratio=ratio)

    def rows(self, members: slice | Array) -> slice | Array:
        """The rows of a run of episodes, as a slice, or of those of a mask."""
        if isinstance(members, slice):
            return slice(int(self.first[members][0]), int(self.last[members][-1]) + 1)
        return np.flatnonzero(members[self.of])

    def some(self, members: slice | Array) -> Episodes:
        """Some of the episodes, in the same clusters."""
        length, rows = (self.last - self.first + 1)[members], self.rows(members)
        cluster = np.searchsorted(self.clusters, np.arange(len(self))[members], side="right")
        columns = (self.reward[rows], self.ratio[rows], length, self.complete[members])
        return Episodes.of_columns(*columns, self.gamma, cluster)

    def total(self, values: Array) -> Array:
        """Sum of a column over each episode."""
        return np.bincount(self.of, weights=values, minlength=len(self))

    def by_cluster(self, values: Array) -> Array:
        """The sum over each cluster of a number for every episode."""
        if self.n_clusters == len(self):
            return values
        return np.asarray(np.add.reduceat(values, self.clusters))

    def rows_by_cluster(self, rows: Array) -> Array:
        """The sum over each cluster of a row of numbers for every row of the log."""
        return np.asarray(np.add.reduceat(rows, self.first[self.clusters]))

    @property
    def cluster_lengths(self) -> Array:
        """Rows of every cluster."""
        return np.diff(self.first[self.clusters], append=len(self.reward))


@dataclass(frozen=True, eq=False)
class Facts:
    """Sums over the rows and episodes of a log for one policy."""

    gamma: float
    n_rows: int
    n_episodes: int
    n_clusters: int
    n_complete: int
    n_zero: int  # ratios that are 0
    n_early: int  # rewards other than 0 before the end of an episode
    unseen: float  # Σ γᴸ of episodes that were cut after L rows
    late: float  # Σ |r| over the second halves of episodes that were cut
    returns: float  # Σ G
    per_decision: float  # Σ γᵗ W r
    gained: float  # Σ ρ r
    left: float  # Σ ρ (1 − γ), γ being 0 at the end
    ratio: float  # Σ ρ
    squares: float  # Σ ρ²
    clustered: Array  # Σ T², Σ TL, Σ L² with T = Σρ and the length L of a cluster
    least: Array  # reward, ratio above 0, ratio
    most: Array  # reward, ratio, length
    weights: Weighed  # W and G of whole episodes

    @classmethod
    def of(cls, part: Any) -> Facts:
        """The sums over the episodes of a part."""
        return cls.of_episodes(part.episodes)

    @classmethod
    def of_episodes(cls, e: Episodes) -> Facts:
        length, returns = e.last - e.first + 1, e.returns
        total, rows = e.by_cluster(e.total(e.ratio)), e.cluster_lengths
        with np.errstate(over="ignore"):
            decided = float(weighted_totals(e).sum())
        return cls(
            gamma=e.gamma,
            n_rows=len(e.reward),
            n_episodes=len(e),
            n_clusters=e.n_clusters,
            n_complete=int(e.complete.sum()),
            n_zero=int((e.ratio == 0).sum()),
            n_early=int(((e.reward != 0) & (e.discount != 0)).sum()),
            unseen=float((~e.complete * e.gamma**length).sum()),
            late=float(np.abs(e.reward[(~e.complete)[e.of] & (2 * e.age >= length[e.of])]).sum()),
            returns=float(returns.sum()),
            per_decision=decided,
            gained=float(e.ratio @ e.reward),
            left=float(e.ratio @ (1 - e.discount)),
            ratio=float(e.ratio.sum()),
            squares=float(e.ratio @ e.ratio),
            clustered=np.array([total @ total, total @ rows, rows @ rows], dtype=np.float64),
            least=np.array([e.reward.min(), e.ratio.min(where=e.ratio > 0, initial=np.inf), e.ratio.min()]),
            most=np.array([e.reward.max(), e.ratio.max(), length.max()]),
            weights=Weighed.of(e.log_weight[e.last], returns),
        )

    def __add__(self, other: Facts) -> Facts:
        added = {name: value + getattr(other, name) for name, value in vars(self).items()}
        extremes = {"least": np.minimum(self.least, other.least), "most": np.maximum(self.most, other.most)}
        return Facts(**{**added, **extremes, "gamma": self.gamma})

    @property
    def complete(self) -> bool:
        """Whether every episode terminated."""
        return self.n_complete == self.n_episodes

    @property
    def on_policy(self) -> bool:
        """Whether the policy does in every row what the log does."""
        return self.least[2] == self.most[1] == 1.0

    @property
    def as_logged(self) -> bool:
        """Whether the policy does what was logged and every episode terminated: its value is then the mean return."""
        return self.on_policy and self.complete

    @property
    def mean_return(self) -> float:
        return self.returns / self.n_episodes

    @property
    def mean_ratio(self) -> float:
        return self.ratio / self.n_rows

    def ratio_error(self) -> float:
        """Standard error of the mean ratio, clusters being independent and rows not."""
        n, mean = self.n_clusters, self.mean_ratio
        if n < 2:
            return float("inf")
        squares = max(float(self.clustered @ [1.0, -2 * mean, mean**2]), 0.0)
        return float(np.sqrt(n / (n - 1) * squares) / self.n_rows)

    def possible(self) -> tuple[float, float]:
        """The least and the greatest return that rewards like these allow.

        Rewards that come only where an episode terminates count once. Otherwise they may come at every step: for ever
        if an episode was cut, and for twice the longest episode if all of them ended.
        """
        low, high = min(float(self.least[0]), 0.0), max(float(self.most[0]), 0.0)
        if not self.n_early:
            return low, high
        steps = 2.0 * float(self.most[2]) if self.complete else np.inf
        total = steps if self.gamma == 1 else (1.0 - self.gamma**steps) / (1.0 - self.gamma)
        with np.errstate(invalid="ignore"):
            return tuple(end * total if end else 0.0 for end in (low, high))  # type: ignore[return-value]


def weighted_totals(episodes: Episodes) -> Array:
    """Σ_t γᵗ W_t r_t of every episode. A term with r = 0 is 0, even if its weight overflowed."""
    discounted = episodes.gamma**episodes.age * episodes.reward
    with np.errstate(over="ignore"):
        weight = np.exp(episodes.log_weight)
    terms = np.multiply(weight, discounted, where=discounted != 0, out=np.zeros(len(discounted)))
    return episodes.total(terms)


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of every episode, by a hash of its cluster; `each` consecutive groups make one fold."""

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
    split = np.setdiff1d(np.flatnonzero(values[1:] != values[:-1]), bounds[1:] - 1)  # not where an episode ends
    if len(split):
        name = log.ids()[np.searchsorted(bounds, split[0], side="right") - 1]
        raise ValueError(
            f"`cluster` splits episode {name}: it is {values[split[0]]} in row {split[0]} and {values[split[0] + 1]} "
            "in the next; every episode must lie within one cluster."
        )
    return np.asarray(values[bounds[:-1]])


def _column(log: Transitions, name: str) -> Array:
    """An observed column, or the column that the log was read with as `group`."""
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
    """A log that is one long record, cut into blocks, and a sentence about them; any other log unchanged."""
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
    """The block length that Politis and White give for an AR(1) as persistent as the most persistent column."""
    n = len(columns)
    rho = max((_persistence(column) for column in columns.T if np.ptp(column) > 0), default=0.0)
    optimal = (2 * rho / (1 - rho**2)) ** (2 / 3) * (1.5 * n) ** (1 / 3)
    time = (1 + rho) / (1 - rho)  # the integrated autocorrelation time
    # Politis and White balance bias and variance for long records; in short ones a block must still outlast the memory.
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
