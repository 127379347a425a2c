"""How much of the log carries the answer: the implied weights ω_t ρ_t of its rows.

    effective rows       (Σ|ωρ|)² / Σ(ωρ)²           effective episodes: the same of Σ_{t∈i} |ωρ|
    negative share       Σ|min(ω, 0)|ρ / Σ|ω|ρ       weight that no policy can have: extrapolation

A ratio ρ compares two policies in a state; ω compares how often they come there. A log may match the target action by
action and still have next to no rows where the target would go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.episodes import Episodes, effective_sample_size
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Ask, Part
from sparsetd.system import Array

FEW, VERY_FEW = 50.0, 8.0  # effective episodes
ENOUGH = 100.0  # effective episodes from which their share no longer matters
SLIGHT = 0.25  # share of the episodes
THIN, THINNER = 0.05, 0.01  # share of the rows
NEGATIVE, VERY_NEGATIVE = 0.05, 0.3
N_REGIONS = 3
MAX_FEATURES = 5


@dataclass(frozen=True)
class Support:
    """Effective rows and episodes behind the value, the share of negative weight, and shares of log and target.

    `regions` lists, for the features that matter most, thirds of the log with the share of rows that the log and that
    the target policy has there.
    """

    effective_rows: float
    effective_episodes: float
    negative: float
    n_rows: int
    n_episodes: int
    regions: tuple[dict[str, Any], ...] = ()

    @property
    def share(self) -> float:
        return self.effective_rows / max(self.n_rows, 1)

    def cautions(self) -> list[Caution]:
        out, thin = [], self.effective_episodes < max(SLIGHT * self.n_episodes, VERY_FEW)
        bad = (thin and self.effective_episodes < ENOUGH) or self.share < THINNER
        if bad or self.effective_episodes < FEW or self.share < THIN:
            out.append(
                Caution(
                    "few_effective_episodes",
                    "red" if bad else "amber",
                    f"The answer rests on what amounts to {self.effective_episodes:.0f} of {self.n_episodes} episodes "
                    f"({self.share:.1%} of the rows): a few of them decide it. Collect more episodes, closer to what "
                    "the target policy would do, or ask about a policy closer to the log.",
                )
            )
        if self.negative > NEGATIVE:
            out.append(
                Caution(
                    "extrapolation",
                    "red" if thin or self.share < THIN or self.negative > VERY_NEGATIVE else "amber",
                    f"{self.negative:.0%} of the weight that the answer gives to the rows is negative: the value is "
                    "extrapolated beyond the states of the log. Use fewer or coarser features, or collect data closer "
                    "to the target.",
                )
            )
        return out


def weights(model: LinearValue, order: Array) -> Ask:
    """Asks for the implied weights of the rows, and for the columns that matter, the first of `order`."""
    return Ask(_weights, (model, order[:MAX_FEATURES]), joined=True)


def _weights(part: Part, model: LinearValue, columns: Array) -> tuple[Array, Array]:
    return model.weights(part), part.batch.phi[:, columns]


def support(weight: Array, columns: Array, names: Array, episodes: Episodes) -> Support:
    """The support of the value in the log, from the weights of its rows and the columns of the features that matter."""
    weighed = weight * episodes.ratio
    size = np.abs(weighed)
    total = max(float(size.sum()), np.finfo(float).tiny)
    return Support(
        effective_rows=effective_sample_size(size / total),
        effective_episodes=effective_sample_size(episodes.total(size) / total),
        negative=float(-weighed[weight < 0].sum()) / total,
        n_rows=len(weight),
        n_episodes=len(episodes),
        regions=tuple(_regions(columns, weighed, names[: columns.shape[1]])),
    )


def _regions(columns: Array, weighed: Array, names: Array) -> list[dict[str, Any]]:
    """Thirds of each feature: the share of the log's rows and of the target's (implied) visits."""
    out: list[dict[str, Any]] = []
    total = float(weighed.sum())
    if total <= 0:
        return out
    for name, column in zip(names, columns.T, strict=True):
        edges = np.unique(np.quantile(column, np.linspace(0, 1, N_REGIONS + 1)[1:-1]))
        third = np.searchsorted(edges, column, side="right")
        for k in range(len(edges) + 1):
            inside = third == k
            if inside.any():
                shares = {"log": float(inside.mean()), "target": float(weighed[inside].sum()) / total}
                out.append({"feature": str(name), "region": k, "of": len(edges) + 1, **shares})
    return out
