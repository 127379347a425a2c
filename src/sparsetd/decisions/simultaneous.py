"""Several estimates whose intervals hold together: the max-t method.

    R = corr(influences)      q = level-quantile of max_k |N(0, R)_k|      every interval at the level 2Φ(q) − 1

Policies judged on one log share its luck, so their errors go together and q is smaller than Bonferroni's. Each estimate
keeps its own degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from sparsetd.evaluation.estimate import Estimate
from sparsetd.system import Array

DRAWS = 100_000
Value = tuple[float, Array]  # and what each episode adds to n times its error


@dataclass(frozen=True, eq=False)
class Together(Mapping[Any, Estimate]):
    """Estimates by key; `interval(key)` holds for all keys at once at `level`, for each alone at `each`."""

    estimates: Mapping[Any, Estimate]
    level: float
    each: float

    @classmethod
    def of(cls, values: Mapping[Any, Value], level: float, within: Mapping[Any, Array] | None = None) -> Together:
        """From values with their influences; those of a key rest on the episodes `within` it, on all by default."""
        named = {key: key if isinstance(key, str) else " − ".join(key) for key in values}
        estimates = {key: Estimate.of_influence(named[key], *value) for key, value in values.items()}
        columns = [moved if within is None else _padded(moved, within[key]) for key, (_, moved) in values.items()]
        return cls(estimates, level, pointwise_level(np.column_stack(columns), level) if columns else level)

    def __getitem__(self, key: Any) -> Estimate:
        return self.estimates[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def interval(self, key: Any) -> tuple[float, float]:
        return self.estimates[key].interval(self.each)


def minus(one: Value, other: Value) -> Value:
    """The difference of two values that rest on the same episodes."""
    return one[0] - other[0], one[1] - other[1]


def _padded(moved: Array, inside: Array) -> Array:
    out = np.zeros(len(inside))
    out[inside] = moved
    return out


def pointwise_level(influences: Array, level: float) -> float:
    """The level at which single intervals hold together at `level`; columns without any spread do not count.

    The quantile comes from draws with a seed of its own: the same influences always give the same answer.
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie strictly between 0 and 1, but it is {level}: pass 0.95 for 95 %.")
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
