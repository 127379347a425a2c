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

from sparsetd.evaluation.asks import Ask
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Part
from sparsetd.system import Array

FEW, VERY_FEW = 50.0, 8.0  # effective episodes
ENOUGH = 100.0  # effective episodes from which their share no longer matters
SLIGHT = 0.25  # share of the episodes
THIN, THINNER = 0.05, 0.01  # share of the rows
NEGATIVE, VERY_NEGATIVE = 0.05, 0.3
N_REGIONS = 3
MAX_FEATURES = 5
N_BINS, WIDTH = 4_096, 8.0  # bins of a column, over so many standard deviations on either side


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


def weights(model: LinearValue, order: Array, centre: Array, spread: Array) -> Ask:
    """Asks for the sums of the implied weights, by fine bins of the columns that matter, the first of `order`."""
    top = order[:MAX_FEATURES]
    return Ask(_sums, (model, top, centre[top], spread[top]))


def _sums(part: Part, model: LinearValue, top: Array, centre: Array, spread: Array) -> Array:
    """n, Σ|ωρ|, Σ(ωρ)², Σ|min(ω, 0)|ρ, Σ_i (Σ_t|ωρ|)², Σωρ; then of every column rows and Σωρ by bin."""
    weight = model.weights(part)
    weighed = weight * part.batch.ratio
    size = np.abs(weighed)
    each = part.episodes.total(size)
    totals = [len(size), size.sum(), size @ size, -weighed[weight < 0].sum(), each @ each, weighed.sum()]
    place = (part.batch.phi[:, top] - centre) / np.where(spread > 0, spread, 1.0) * (N_BINS / 2 / WIDTH) + N_BINS / 2
    bins = np.clip(place, 0, N_BINS - 1).astype(np.intp)
    counts = [np.bincount(b, w, minlength=N_BINS) for b in bins.T for w in (None, weighed)]
    return np.concatenate([totals, *counts])


def support(sums: Array, names: Array, n_episodes: int) -> Support:
    """The support of the value in the log, from the sums of its weights; `names` are those of the columns."""
    n, size, squares, negative, each, weighed = map(float, sums[:6])
    total = max(size, np.finfo(float).tiny)
    bins = sums[6:].reshape(-1, 2, N_BINS)
    return Support(
        effective_rows=size**2 / squares if squares > 0 else 0.0,
        effective_episodes=size**2 / each if each > 0 else 0.0,
        negative=negative / total,
        n_rows=int(n),
        n_episodes=n_episodes,
        regions=tuple(_regions(bins, weighed, names[: len(bins)]) if weighed > 0 else ()),
    )


def _regions(bins: Array, weighed: float, names: Array) -> list[dict[str, Any]]:
    """Thirds of each feature: the share of the log's rows and of the target's (implied) visits."""
    out: list[dict[str, Any]] = []
    for name, (rows, target) in zip(names, bins, strict=True):
        n = rows.sum()
        begin = [np.ceil((n - 1) * k / N_REGIONS) for k in range(1, N_REGIONS)]
        edges = np.unique(np.searchsorted(np.cumsum(rows), begin, side="right"))
        parts = [part for part in np.split(np.stack([rows / n, target / weighed]), edges, axis=1) if part[0].any()]
        for k, (log, visits) in enumerate(part.sum(axis=1) for part in parts):
            shares = {"log": float(log), "target": float(visits)}
            out.append({"feature": str(name), "region": k, "of": len(parts), **shares})
    return out
