"""Importance-sampling estimates of a policy's value, from whole episodes.

    WIS     Σ_i W_i G_i / Σ_i W_i                              biased, consistent, bounded by the returns seen
    PDIS    (1/n) Σ_i Σ_t γᵗ W_{i,t} r_{i,t}                   unbiased; a reward is weighted by the past only
    WPDIS   Σ_t γᵗ Σ_i W_{i,t} r_{i,t} / Σ_i W_{i,t}           PDIS with the weights of every age normalised

W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t} and W_i is the weight at the episode's end. They use no model and serve as comparison rows:
where they agree with the value function, good; where their effective sample size is small, they say little. An estimate
that does not exist (no weight left, or an overflow) is NaN with an infinite standard error.

The spread of a weighted mean m is found by leaving each episode out: m − m₋ᵢ = wᵢ(cᵢ − m) / Σ_{j≠i} w_j. The derivative
wᵢ(cᵢ − m) / Σ_j w_j would vanish for an episode that carries all the weight, since then m = cᵢ: the less an estimate
rests on, the surer it would seem.

The sums come from a first reading of the log (`facts`, `by_age`), the spread from a second one (`influence_powers`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.facts import Facts, Weighed, weighted_totals
from sparsetd.evaluation.moments import Part
from sparsetd.selection.episodes import powers
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


def influence_powers(part: Part, facts: Facts, ages: Weighed) -> Array:
    """Σ_i x_i^k, k = 1, …, 4, of the influence x_i of every episode on WIS, PDIS and WPDIS."""
    episodes, gamma = part.episodes, facts.gamma
    with np.errstate(over="ignore", invalid="ignore"):
        decided = weighted_totals(episodes) - facts.per_decision / facts.n_episodes
    by_length = np.zeros(len(episodes))
    for t, (weight, reward) in enumerate(_ages(episodes, int(facts.most[2]))):
        by_length += gamma**t * _moved(weight, reward, ages, t)
    whole = _moved(episodes.log_weight[episodes.last], episodes.returns, facts.weights, 0)
    return powers(np.stack([(facts.n_episodes - 1) * whole, decided, (facts.n_episodes - 1) * by_length]))


def _moved(log_weight: Array, values: Array, sums: Weighed, t: int) -> Array:
    """m − m₋ᵢ of every episode; with the last weight gone, m₋ᵢ is 0: nothing is known."""
    if sums.total[t] == 0:
        return np.zeros(len(values))
    w, mean = np.exp(log_weight - sums.top[t]), sums.moment[t] / sums.total[t]
    rest = sums.total[t] - w
    return np.divide(w * (values - mean), rest, where=rest > 0, out=np.full(len(w), mean))


def comparisons(facts: Facts, ages: Weighed, power: Array) -> tuple[Estimate, Estimate, Estimate]:
    """WIS, PDIS and WPDIS."""
    n, ess, whole = facts.n_episodes, facts.weights.ess, facts.weights
    decided, alive = facts.per_decision / n, slice(0, int(facts.most[2]))
    left, total = whole.total[0] > 0, ages.total[alive]
    by_length = facts.gamma ** np.arange(len(total)) @ np.divide(ages.moment[alive], np.where(total > 0, total, 1.0))
    value = whole.moment[0] / whole.total[0] if left else 0.0
    return (
        Estimate.of_powers("WIS", value, n, power[0], ess) if left else Estimate.missing("WIS"),
        Estimate.of_powers("PDIS", decided, n, power[1], ess)
        if np.isfinite(decided)
        else Estimate.missing("PDIS", ess),
        Estimate.of_powers("WPDIS", float(by_length), n, power[2], ess)
        if (total > 0).all()
        else Estimate.missing("WPDIS"),
    )
