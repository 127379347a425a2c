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


@dataclass(frozen=True, eq=False)
class Together(Mapping[Any, Estimate]):
    """Estimates by key; `interval(key)` holds for all keys at once at `level`, for each alone at `each`."""

    estimates: Mapping[Any, Estimate]
    level: float
    each: float

    @classmethod
    def of(cls, estimates: Mapping[Any, Estimate], influences: Mapping[Any, Array], level: float) -> Together:
        """`influences` holds one column over the episodes of the whole log for every key."""
        columns = [influences[key] for key in estimates]
        return cls(estimates, level, pointwise_level(np.column_stack(columns), level) if columns else level)

    def __getitem__(self, key: Any) -> Estimate:
        return self.estimates[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def interval(self, key: Any) -> tuple[float, float]:
        return self.estimates[key].interval(self.each)


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
