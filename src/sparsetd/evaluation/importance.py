"""Importance-sampling estimates of a policy's value, from whole episodes.

    WIS     Σ_i W_i G_i / Σ_i W_i                              biased, consistent, bounded by the returns seen
    PDIS    (1/n) Σ_i Σ_t γᵗ W_{i,t} r_{i,t}                   unbiased; a reward is weighted by the past only
    WPDIS   Σ_t γᵗ Σ_i W_{i,t} r_{i,t} / Σ_i W_{i,t}           PDIS with the weights of every age normalised

W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t} and W_i is the weight at the episode's end. They use no model and serve as comparison rows:
where they agree with the value function, good; where their effective sample size is small, they say little. An estimate
that does not exist (no weight left, or an overflow) is NaN with an infinite standard error.

The spread of a weighted mean m is found by leaving each cluster out: m − m₋ᵢ = wᵢ(cᵢ − m) / Σ_{j≠i} w_j. The derivative
wᵢ(cᵢ − m) / Σ_j w_j would vanish for a cluster that carries all the weight, since then m = cᵢ: the less an estimate
rests on, the surer it would seem.

The sums come from a first reading of the log (`Facts`, `by_age`), the spread from a second one (`influences`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetd.evaluation.episodes import Episodes, Facts, Weighed, weighted_totals
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.parts import Part
from sparsetd.system import Array


def by_age(part: Part) -> Weighed:
    """The weights and rewards of every age, and of the age at which all episodes are over."""
    ages = _ages(part.episodes, int((part.episodes.last - part.episodes.first).max()) + 2)
    return Weighed.joined([Weighed.of(*age) for age in ages])


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


def influences(part: Part, facts: Facts, ages: Weighed) -> list[Array]:
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
    """m − m₋ᵢ of every cluster; with the last weight gone, m₋ᵢ is 0: nothing is known."""
    if sums.total[t] == 0:
        return np.zeros(episodes.n_clusters)
    w, mean = np.exp(log_weight - sums.top[t]), sums.moment[t] / sums.total[t]
    rest = sums.total[t] - episodes.by_cluster(w)
    apart = episodes.by_cluster(w * (values - mean))
    return np.divide(apart, rest, where=rest > 0, out=np.full(len(rest), mean))


def comparisons(facts: Facts, ages: Weighed, found: list[Array]) -> list[Estimate]:
    """WIS, PDIS and WPDIS."""
    weights, ess = facts.weights, facts.weights.ess
    decided, alive = facts.per_decision / facts.n_episodes, slice(0, int(facts.most[2]))
    left, total = weights.total[0] > 0, ages.total[alive]
    means = np.divide(ages.moment[alive], np.where(total > 0, total, 1.0))
    by_length = float(facts.gamma ** np.arange(len(total)) @ means)
    value = weights.moment[0] / weights.total[0] if left else 0.0
    moved = np.concatenate(found, axis=1)
    named = (("WIS", value, left), ("PDIS", decided, np.isfinite(decided)), ("WPDIS", by_length, (total > 0).all()))
    rows = [
        Estimate.of_influence(name, v, x, ess) if known else Estimate.missing(name, ess * (name == "PDIS"))
        for (name, v, known), x in zip(named, moved, strict=True)
    ]
    return rows
