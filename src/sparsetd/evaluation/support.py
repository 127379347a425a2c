"""Can this log answer the question? How much its rows count for the target, and how many rows carry the answer.

    coverage = E_μ[ρ] = E_s Σ_{a: μ(a|s) > 0} π(a|s)

The mean ratio is the share of the target's actions that the behaviour ever takes: 1 where every action of the target
can be found in the log, .87 where the target does something never tried in 13 % of its choices. No estimator can see
those. The mean cannot exceed 1; a larger mean shows wrong ratios. If the behaviour was estimated, its ratios hide what
was never tried, so such choices are counted (`BehaviorPolicy.taken`).

    effective rows       (Σ|ωρ|)² / Σ(ωρ)²           effective episodes: the same of Σ_{t∈i} |ωρ|
    negative share       Σ|min(ω, 0)|ρ / Σ|ω|ρ       weight that no policy can have: extrapolation

A ratio ρ compares two policies in a state; the implied weight ω compares how often they come there. A log may match the
target action by action and still have next to no rows where the target would go. Effective numbers say how evenly the
weight is spread, not how sure the answer is: that is the interval's part.

Importance sampling answers the same question from whole episodes, with no model; its rows stand beside the value:

    WIS     Σ_i W_i G_i / Σ_i W_i                              biased, consistent, bounded by the returns seen
    PDIS    (1/n) Σ_i Σ_t γᵗ W_{i,t} r_{i,t}                   unbiased; a reward is weighted by the past only
    WPDIS   Σ_t γᵗ Σ_i W_{i,t} r_{i,t} / Σ_i W_{i,t}           PDIS with the weights of every age normalised

W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t} and W_i is the weight at the episode's end. An estimate that does not exist (no weight left,
or an overflow) is NaN with an infinite standard error. The spread of a weighted mean m is found by leaving each cluster
out: m − m₋ᵢ = wᵢ(cᵢ − m) / Σ_{j≠i} w_j. The derivative wᵢ(cᵢ − m) / Σ_j w_j would vanish for a cluster that carries all
the weight, since then m = cᵢ: the less an estimate rests on, the surer it would seem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.episodes import Episodes, Facts, Weighed, weighted_totals
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.reading import Part
from sparsetd.system import Array

N_RATIOS = 30  # bins of the ratios


@dataclass(frozen=True)
class Overlap:
    """How well the log covers the target policy.

    `ess` counts episodes and `ess_rows` transitions, after weighting; `coverage` is the target's mass on logged actions
    with its standard error, `mean_ratio` the same before it is cut to at most 1; `zero_share` is the share of rows
    whose action the target never takes. `mean_weight` is the mean weight of a whole episode: it estimates 1, and is far
    from it where importance sampling fails.
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


def overlap(facts: Facts, never: float = 0.0) -> Overlap:
    """The overlap of a log and a target policy; `never` is the share of its choices that nobody made in the log."""
    n, mean = facts.n_rows, facts.mean_ratio
    with np.errstate(over="ignore"):
        mean_weight = float(np.exp(facts.weights.top[0]) * facts.weights.total[0]) / facts.n_episodes
    return Overlap(
        ess=facts.weights.ess,
        ess_rows=facts.ratio**2 / facts.squares if facts.squares > 0 else 0.0,
        max_ratio=float(facts.most[1]),
        coverage=min(1.0 - never, mean),
        coverage_error=facts.ratio_error(),
        mean_ratio=mean,
        zero_share=facts.n_zero / n,
        mean_weight=mean_weight,
        n_episodes=facts.n_episodes,
        n_rows=n,
    )


@dataclass(frozen=True)
class Support:
    """Effective rows and episodes behind the value, and the share of negative weight."""

    effective_rows: float
    effective_episodes: float
    negative: float
    n_rows: int
    n_episodes: int

    @property
    def share(self) -> float:
        return self.effective_rows / max(self.n_rows, 1)


def weight_sums(part: Part, model: LinearValue) -> Array:
    """n, Σ|ωρ|, Σ(ωρ)², Σ|min(ω, 0)|ρ and Σ_i (Σ_t|ωρ|)²."""
    weight = model.weights(part)
    weighed = weight * part.batch.ratio
    size = np.abs(weighed)
    each = part.episodes.total(size)
    return np.array([len(size), size.sum(), size @ size, -weighed[weight < 0].sum(), each @ each])


def support(sums: Array, facts: Facts) -> Support:
    """The support of the value in the log, from the sums of its weights."""
    n, size, squares, negative, each = map(float, sums)
    return Support(
        effective_rows=size**2 / squares if squares > 0 else 0.0,
        effective_episodes=size**2 / each if each > 0 else 0.0,
        negative=negative / max(size, np.finfo(float).tiny),
        n_rows=int(n),
        n_episodes=facts.n_episodes,
    )


def ratio_edges(least: float, most: float) -> Array:
    """Bins of equal width on a log scale for the positive ratios."""
    low, high = (least / 1.5, most * 1.5) if most < least * 1.5 else (least, most)
    return np.geomspace(low, high, N_RATIOS + 1)


def ratio_counts(part: Part, edges: Array) -> Array:
    """The number of positive ratios in each bin."""
    ratio = part.batch.ratio
    return np.histogram(np.clip(ratio[ratio > 0], edges[0], edges[-1]), edges)[0]


def by_age(part: Part) -> Weighed:
    """The weights and rewards of every age, and of the age at which all episodes are over."""
    ages = _ages(part.episodes, int((part.episodes.last - part.episodes.first).max()) + 2)
    return Weighed(*map(np.concatenate, zip(*(vars(Weighed.of(*age)).values() for age in ages), strict=True)))


def _ages(episodes: Episodes, n: int) -> Iterator[tuple[Array, Array]]:
    """log W and r of every episode at the ages 0, …, n − 1.

    An episode that terminated keeps its last weight, with r = 0 (an absorbing state); one that was cut has weight 0
    from then on, since what would have followed is unknown.
    """
    length = episodes.last - episodes.first + 1
    for t in range(n):
        alive = length > t
        row = np.where(alive, episodes.first + t, episodes.last)
        weight = np.where(alive | episodes.complete, episodes.log_weight[row], -np.inf)
        yield weight, np.where(alive, episodes.reward[row], 0.0)


def sampling_influences(part: Part, facts: Facts, ages: Weighed) -> list[Array]:
    """The influence of every cluster on WIS, PDIS and WPDIS."""
    episodes, gamma, n = part.episodes, facts.gamma, facts.n_clusters
    with np.errstate(over="ignore", invalid="ignore"):
        decided = episodes.by_cluster(weighted_totals(episodes) - facts.per_decision / facts.n_episodes)
    by_length = np.zeros(episodes.n_clusters)
    for t, (weight, reward) in enumerate(_ages(episodes, int(facts.most[2]))):
        by_length += gamma**t * _moved(episodes, weight, reward, ages, t)
    whole = _moved(episodes, episodes.log_weight[episodes.last], episodes.returns, facts.weights, 0)
    return [np.stack([(n - 1) * whole, decided * n / facts.n_episodes, (n - 1) * by_length])]


def _moved(episodes: Episodes, log_weight: Array, values: Array, sums: Weighed, t: int) -> Array:
    """m − m₋ᵢ of every cluster; m₋ᵢ is 0 if the cluster has all the weight: nothing is known without it."""
    if sums.total[t] == 0:
        return np.zeros(episodes.n_clusters)
    w, mean = np.exp(log_weight - sums.top[t]), sums.moment[t] / sums.total[t]
    rest = sums.total[t] - episodes.by_cluster(w)
    apart = episodes.by_cluster(w * (values - mean))
    return np.divide(apart, rest, where=rest > 0, out=np.full(len(rest), mean))


def sampling_estimates(facts: Facts, ages: Weighed, found: list[Array]) -> list[Estimate]:
    """WIS, PDIS and WPDIS."""
    weights, ess = facts.weights, facts.weights.ess
    decided, alive = facts.per_decision / facts.n_episodes, slice(0, int(facts.most[2]))
    left, total = weights.total[0] > 0, ages.total[alive]
    means = np.divide(ages.moment[alive], np.where(total > 0, total, 1.0))
    by_length = float(facts.gamma ** np.arange(len(total)) @ means)
    value = weights.moment[0] / weights.total[0] if left else 0.0
    moved = np.concatenate(found, axis=1)
    named = (("WIS", value, left), ("PDIS", decided, np.isfinite(decided)), ("WPDIS", by_length, (total > 0).all()))
    return [
        Estimate.of_influence(name, v, x, ess) if known else Estimate.missing(name, ess * (name == "PDIS"))
        for (name, v, known), x in zip(named, moved, strict=True)
    ]
