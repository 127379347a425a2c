"""Can this log answer the question? Effective sample size, largest ratio, support, in numbers and in words.

    coverage = E_μ[ρ] = E_s Σ_{a: μ(a|s) > 0} π(a|s)

The mean ratio is the share of the target's actions that the behaviour ever takes: 1 where every action of the target
can be found in the log, .87 where the target does something never tried in 13 % of its choices. No estimator can see
those. More than 1 it cannot be: ratios that average more are not π/μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.episodes import Episodes, effective_sample_size
from sparsetd.system import Array

LOW_COVERAGE, VERY_LOW_COVERAGE = 0.95, 0.8
HIGH_RATIO = 100.0
LOGGED = "Check the logged probabilities."
ESTIMATED = "They were estimated: the classifier does not fit, so pass another one, or log the probabilities."


@dataclass(frozen=True)
class Overlap:
    """How well the log covers the target policy.

    `ess` counts episodes and `ess_rows` transitions, after weighting; `coverage` is the target's mass on logged actions
    with its standard error, `mean_ratio` the same before it is held to at most 1; `zero_share` is the share of rows
    whose action the target never takes. `mean_weight` is the mean weight of a whole episode: it estimates 1, and is far
    from it where importance sampling has lost track.
    """

    ess: float
    ess_rows: float
    max_ratio: float
    coverage: float
    coverage_error: float
    mean_ratio: float
    zero_share: float
    mean_weight: float
    n_episodes: int
    n_rows: int
    remedy: str = LOGGED

    def cautions(self) -> list[Caution]:
        """What a careful reader should be told of the ratios; empty where nothing is wrong."""
        out = []
        if self.zero_share == 1.0:
            words = "The target policy takes none of the logged actions: the log says nothing about it."
            out.append(Caution("no_overlap", "red", words))
        if self.coverage + 2 * self.coverage_error < LOW_COVERAGE:
            words = (
                f"Only {self.coverage:.0%} of the target policy's choices can be found in the log: "
                "its value where it does something else is extrapolated, and the interval does not cover that."
            )
            bad = self.coverage + 2 * self.coverage_error < VERY_LOW_COVERAGE
            out.append(Caution("low_coverage", "red" if bad else "amber", words))
        if self.mean_ratio - 2 * self.coverage_error > 1 / LOW_COVERAGE:
            words = (
                f"The ratios average {self.mean_ratio:.2f}, but those of a policy average at most 1: the behaviour "
                f"probabilities are too small, or belong to other actions. {self.remedy}"
            )
            bad = self.mean_ratio - 3 * self.coverage_error > 1 / VERY_LOW_COVERAGE
            out.append(Caution("wrong_ratios", "red" if bad else "amber", words))
        if self.max_ratio > HIGH_RATIO:
            words = f"One transition counts {self.max_ratio:.0f} times: a few rows may decide the answer."
            out.append(Caution("large_ratio", "note", words))
        return out


def overlap(episodes: Episodes, estimated: bool = False) -> Overlap:
    """The overlap of a log and a target policy, from the ratios of its rows; the behaviour may have been
    `estimated`.
    """
    ratio = episodes.ratio
    return Overlap(
        ess=episodes.ess,
        ess_rows=effective_sample_size(ratio / max(ratio.max(), np.finfo(float).tiny)),
        max_ratio=float(ratio.max()),
        coverage=min(1.0, float(ratio.mean())),
        coverage_error=_clustered_error(episodes, ratio),
        mean_ratio=float(ratio.mean()),
        zero_share=float((ratio == 0).mean()),
        mean_weight=_mean_weight(episodes),
        n_episodes=len(episodes),
        n_rows=len(ratio),
        remedy=ESTIMATED if estimated else LOGGED,
    )


def _mean_weight(episodes: Episodes) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(episodes.log_weight[episodes.last]).mean())


def _clustered_error(episodes: Episodes, column: Array) -> float:
    """Standard error of a column's mean, whole episodes being independent and rows not."""
    n = len(episodes)
    if n < 2:
        return float("inf")
    deviation = episodes.total(column - column.mean())
    return float(np.sqrt(n / (n - 1) * (deviation @ deviation)) / len(column))
