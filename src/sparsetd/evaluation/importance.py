"""Importance-sampling estimates of a policy's value, from whole episodes.

    IS      (1/n) Σ_i W_i G_i                                  unbiased; variance grows exponentially with length
    WIS     Σ_i W_i G_i / Σ_i W_i                              biased, consistent, bounded by the returns seen
    PDIS    (1/n) Σ_i Σ_t γᵗ W_{i,t} r_{i,t}                   unbiased; a reward is weighted by the past only
    WPDIS   Σ_t γᵗ Σ_i W_{i,t} r_{i,t} / Σ_i W_{i,t}           PDIS with the weights of every age normalised

W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t} and W_i is the weight at the episode's end. They use no model and serve as comparison rows:
where they agree with the value function, good; where their effective sample size is small, they say little. An estimate
that does not exist (no weight left, or an overflow) is NaN with an infinite standard error.

The spread of a weighted mean m is found by leaving each episode out: m − m₋ᵢ = wᵢ(cᵢ − m) / Σ_{j≠i} w_j. The derivative
wᵢ(cᵢ − m) / Σ_j w_j would vanish for an episode that carries all the weight, since then m = cᵢ: the less an estimate
rests on, the surer it would seem.
"""

from __future__ import annotations

import numpy as np

from sparsetd.evaluation.episodes import Episodes, effective_sample_size, scaled_weights
from sparsetd.evaluation.estimate import Estimate
from sparsetd.system import Array


def ordinary(episodes: Episodes) -> Estimate:
    """IS: the mean of W_i G_i."""
    terms = _times(episodes.log_weight[episodes.last], episodes.returns)
    return mean_estimate("IS", terms, episodes.ess)


def weighted(episodes: Episodes) -> Estimate:
    """WIS: the mean of G_i under the normalised weights W_i."""
    w, returns = scaled_weights(episodes.log_weight[episodes.last]), episodes.returns
    if not w.any():
        return Estimate.missing("WIS")
    value, influence = _weighted_mean(w, returns)
    return Estimate.of_influence("WIS", value, influence, effective_sample_size(w))


def per_decision(episodes: Episodes) -> Estimate:
    """PDIS: the mean of Σ_t γᵗ W_t r_t."""
    return mean_estimate("PDIS", weighted_totals(episodes, episodes.reward), episodes.ess)


def weighted_per_decision(episodes: Episodes) -> Estimate:
    """WPDIS: the sum over ages of the mean reward under the normalised weights W_t."""
    value, influence, supported = normalised_sum(episodes, episodes.reward)
    if not supported:
        return Estimate.missing("WPDIS")
    return Estimate.of_influence("WPDIS", value, influence, episodes.ess)


def weighted_totals(episodes: Episodes, column: Array) -> Array:
    """Σ_t γᵗ W_t c_t of every episode."""
    return episodes.total(_times(episodes.log_weight, episodes.gamma**episodes.age * column))


def normalised_sum(episodes: Episodes, column: Array) -> tuple[float, Array, bool]:
    """Σ_t γᵗ Σ_i W_{i,t} c_{i,t} / Σ_i W_{i,t}, its influence per episode, and whether weight was left at every age.

    An episode that terminated stays in the denominators with its last weight and c = 0 (an absorbing state); one that
    was cut leaves them, since what would have followed is unknown.
    """
    n, total = len(episodes), 0.0
    influence = np.zeros(n)
    length = episodes.last - episodes.first + 1
    for t in range(int(length.max())):
        alive = length > t
        row = np.where(alive, episodes.first + t, episodes.last)
        w = scaled_weights(np.where(alive | episodes.complete, episodes.log_weight[row], -np.inf))
        if not w.any():
            return total, influence, False
        mean, moved = _weighted_mean(w, np.where(alive, column[row], 0.0))
        total += episodes.gamma**t * mean
        influence += episodes.gamma**t * moved
    return total, influence, True


def _weighted_mean(w: Array, terms: Array) -> tuple[float, Array]:
    """m = Σwc / Σw and (n − 1)(m − m₋ᵢ) of every episode; with the last weight gone, m₋ᵢ is 0: nothing is known."""
    mean, rest = float(w @ terms / w.sum()), w.sum() - w
    change = np.divide(w * (terms - mean), rest, where=rest > 0, out=np.full(len(w), mean))
    return mean, (len(w) - 1) * change


def mean_estimate(name: str, terms: Array, n_effective: float) -> Estimate:
    """The mean of one term per episode, with its standard error."""
    value = float(terms.mean())
    if not np.isfinite(value):
        return Estimate.missing(name, n_effective)
    return Estimate.of_influence(name, value, terms - value, n_effective)


def _times(log_weight: Array, values: Array) -> Array:
    """exp(log w) · v, with 0 where v is 0."""
    with np.errstate(over="ignore"):
        return np.multiply(np.exp(log_weight), values, where=values != 0, out=np.zeros(len(values)))
