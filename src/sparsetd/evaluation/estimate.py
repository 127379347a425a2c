"""Numbers with their uncertainty: a single estimate, or several whose intervals hold at once.

For several estimates the max-t method gives the level of every interval:

    R = corr(influences)      q = level-quantile of max_k |N(0, R)_k|      every interval at the level 2Φ(q) − 1

Policies judged on one log share its luck, so their errors go together and q is smaller than Bonferroni's. Each estimate
keeps its own degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from sparsetd.selection.episodes import clustered_error, powers
from sparsetd.system import Array

DRAWS = 100_000  # draws of max_k |N(0, R)_k|: they give the quantile to about 0.01


@dataclass(frozen=True)
class Estimate:
    """A point estimate of the target policy's value, its standard error and what these rest on.

    Attributes
    ----------
    name : str
        The method.
    value, standard_error : float
        NaN and infinity if the estimate does not exist.
    n_effective : float
        Effective number of episodes, (Σw)²/Σw²: how evenly the episodes are weighted.
    freedom : float
        Degrees of freedom of the interval.
    share : float
        Share of the interval's misses that sampling may cause: 1, or less where the basis was chosen on the same log.

    Examples
    --------
    >>> from sparsetd.evaluation import Estimate
    >>> found = Estimate("mean return", value=2.0, standard_error=0.5, n_effective=100.0, freedom=99.0)
    >>> [round(end, 2) for end in found.interval(0.95)]
    [1.01, 2.99]
    """

    name: str
    value: float
    standard_error: float
    n_effective: float
    freedom: float = 1.0
    share: float = 1.0

    @classmethod
    def of_influence(
        cls, name: str, value: float, influence: Array, n_effective: float | None = None, n_fitted: int = 0
    ) -> Estimate:
        """Estimate whose error is a mean of independent terms, the influences (`clustered_error`)."""
        own = powers(influence - influence.mean())
        return cls.of_powers(name, value, len(influence), own, n_effective, n_fitted)

    @classmethod
    def of_powers(
        cls, name: str, value: float, n: int, powers: Array, n_effective: float | None = None, n_fitted: int = 0
    ) -> Estimate:
        """`of_influence` from the sums of the first four powers, for logs whose influences are not kept."""
        if n < 2:
            return cls(name, float(value), np.inf, float(n))
        error, freedom = clustered_error(powers, n, n_fitted)
        return cls(name, float(value), float(error), float(n if n_effective is None else n_effective), float(freedom))

    @classmethod
    def missing(cls, name: str, n_effective: float = 0.0) -> Estimate:
        """An estimate that does not exist."""
        return cls(name, np.nan, np.inf, n_effective)

    def resting_on(self, n_effective: float) -> Estimate:
        """This estimate with another effective number of episodes."""
        return replace(self, n_effective=n_effective)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's interval at the given level."""
        check_level(level)
        within = of_sampling(level, self.share)
        half = float(student.ppf(0.5 + within / 2, max(self.freedom, 1.0))) * self.standard_error
        return self.value - half, self.value + half


def check_level(level: float) -> None:
    """Raise unless 0 < level < 1."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie strictly between 0 and 1, but it is {level}: pass 0.95 for 95 %.")


def of_sampling(level: float, share: float) -> float:
    """The level at which an interval is drawn if sampling may cause only a share of its misses."""
    return level if share == 1.0 else 1 - share * (1 - level)


class Value(NamedTuple):
    """A number, and the influence of each cluster: what it adds to n times the error.

    `share` is the share of an interval's misses that sampling may cause. Differences rest on the same clusters.
    """

    value: float
    moved: Array
    share: float = 1.0

    def less(self, other: Value) -> Value:
        return Value(self.value - other.value, self.moved - other.moved, min(self.share, other.share))

    def estimate(self, name: str = "") -> Estimate:
        return replace(Estimate.of_influence(name, self.value, self.moved), share=self.share)


@dataclass(frozen=True, eq=False)
class Together(Mapping[Any, Estimate]):
    """Estimates by key; `interval(key)` holds for all keys at once at `level`, for each alone at `each`."""

    estimates: Mapping[Any, Estimate]
    level: float
    each: float

    @classmethod
    def of(cls, values: Mapping[Any, Value], level: float, within: Mapping[Any, Array] | None = None) -> Together:
        """Build from values with their influences. `within` says which clusters a key rests on; default: all."""
        named = {key: key if isinstance(key, str) else " − ".join(key) for key in values}
        # The share already enters the level at which all intervals are drawn.
        estimates = {key: value._replace(share=1.0).estimate(named[key]) for key, value in values.items()}
        columns = [v.moved if within is None else _padded(v.moved, within[key]) for key, v in values.items()]
        drawn = of_sampling(level, min((value.share for value in values.values()), default=1.0))
        return cls(estimates, level, pointwise_level(np.column_stack(columns), drawn) if columns else drawn)

    def __getitem__(self, key: Any) -> Estimate:
        return self.estimates[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def interval(self, key: Any) -> tuple[float, float]:
        return self.estimates[key].interval(self.each)


def _padded(moved: Array, inside: Array) -> Array:
    out = np.zeros(len(inside))
    out[inside] = moved
    return out


def pointwise_level(influences: Array, level: float) -> float:
    """The level at which single intervals hold together at `level`; columns without any spread do not count.

    The quantile comes from draws with a fixed seed, so the same influences always give the same answer.
    """
    check_level(level)
    centred = influences - influences.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    unit = centred[:, size > 0] / size[size > 0]
    if unit.shape[1] < 2:
        return level
    values, vectors = np.linalg.eigh(unit.T @ unit)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = np.zeros(DRAWS)
    normal = np.random.default_rng(0).standard_normal((DRAWS, len(values)))
    for row in root:
        np.maximum(largest, np.abs(normal @ row), out=largest)
    return float(2 * norm.cdf(np.quantile(largest, level)) - 1)
