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
from sparsetd.evaluation.facts import Facts

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


def overlap(facts: Facts, estimated: bool = False) -> Overlap:
    """The overlap of a log and a target policy; the behaviour may have been `estimated`."""
    n, mean = facts.n_rows, facts.ratio / facts.n_rows
    with np.errstate(over="ignore"):
        mean_weight = float(np.exp(facts.weights.top[0]) * facts.weights.total[0]) / facts.n_episodes
    return Overlap(
        ess=facts.weights.ess,
        ess_rows=facts.ratio**2 / facts.squares if facts.squares > 0 else 0.0,
        max_ratio=float(facts.most[1]),
        coverage=min(1.0, mean),
        coverage_error=_clustered_error(facts, mean),
        mean_ratio=mean,
        zero_share=facts.n_zero / n,
        mean_weight=mean_weight,
        n_episodes=facts.n_episodes,
        n_rows=n,
        remedy=ESTIMATED if estimated else LOGGED,
    )


def _clustered_error(facts: Facts, mean: float) -> float:
    """Standard error of the mean ratio, whole episodes being independent and rows not."""
    n = facts.n_episodes
    if n < 2:
        return float("inf")
    squares = max(float(facts.clustered @ [1.0, -2 * mean, mean**2]), 0.0)
    return float(np.sqrt(n / (n - 1) * squares) / facts.n_rows)
