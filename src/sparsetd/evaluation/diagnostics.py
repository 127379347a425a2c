"""Can this log answer the question? Effective sample size, largest ratio, support, in numbers and in words.

    coverage = E_μ[ρ] = E_s Σ_{a: μ(a|s) > 0} π(a|s)

The mean ratio is the share of the target's actions that the behaviour ever takes: 1 where every action of the target
can be found in the log, .87 where the target does something never tried in 13 % of its choices. No estimator can see
those. More than 1 it cannot be: ratios that average more are not π/μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.episodes import Episodes, effective_sample_size
from sparsetd.system import Array

LOW_COVERAGE = 0.95
LOW_ESS = 30.0
HIGH_RATIO = 100.0


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

    def warnings(self) -> list[str]:
        """What a careful reader should be told, in plain words; empty where nothing is wrong."""
        said = []
        if self.coverage + 2 * self.coverage_error < LOW_COVERAGE:
            said.append(
                f"Only {self.coverage:.0%} of the target policy's choices can be found in the log: "
                "its value where it does something else is extrapolated, and the interval does not cover that."
            )
        if self.mean_ratio - 2 * self.coverage_error > 1 / LOW_COVERAGE:
            said.append(
                f"The ratios average {self.mean_ratio:.2f}, but those of a policy average at most 1: the behaviour "
                "probabilities are too small, or belong to other actions."
            )
        if self.ess_rows < LOW_ESS:
            said.append(f"The log is worth only {self.ess_rows:.0f} transitions for this target: collect closer data.")
        if self.max_ratio > HIGH_RATIO:
            said.append(f"One transition counts {self.max_ratio:.0f} times: a few rows may decide the answer.")
        if self.zero_share == 1.0:
            said.append("The target policy takes none of the logged actions: the log says nothing about it.")
        return said


def overlap(episodes: Episodes) -> Overlap:
    """The overlap of a log and a target policy, from the ratios of its rows."""
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
