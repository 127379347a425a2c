"""The value function on episodes that it was not fitted on.

Folds are whole episodes. The held-out predictions give the doubly robust rows, the comparison of predictions with
returns, and the held-out Bellman error:

    g_k = mean over fold k of ρ δ φ,  with δ from the θ of the other folds        MSPBE = Σ_k g_kᵀ C⁻¹ g_k / K

The doubly robust estimate (Kallus and Uehara, 2020, with linear models of the value and of the visits) corrects the
value of each fold by its errors there, weighted by the implied weights w of the other folds:

    DR = (1/n) Σ_i [ v(s_{i,0}) + Σ_t w_{i,t} ρ_{i,t} (r_{i,t} + γ v(s_{i,t+1}) − v(s_{i,t})) ]

On the episodes that LSTD was fitted to, the correction is zero: there DR *is* LSTD. On other episodes the correction
therefore shows how far the fit fails to carry over.

Even an exact value function has g_k ≠ 0 by chance. `noise` is the error that chance alone gives, trace(C⁻¹ Cov g_k),
estimated from the spread over clusters: an error near it means that nothing is left to explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.stats import norm

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue, weighted_by_cluster
from sparsetd.evaluation.reading import Part, Several
from sparsetd.selection.moments import Moments, lengths_of
from sparsetd.system import Array, recurrence

N_GROUPS, N_BINS = 10, 8_192
SINGULAR = 1e-8  # C counts as singular if a squared pivot is no larger than this


@dataclass(frozen=True, eq=False)
class HeldOut:
    """V(s) and V(s) − γV(s') of every row, from a fit without the row's episode."""

    value: Array
    change: Array


@dataclass(frozen=True)
class BellmanError:
    """Held-out mean squared projected Bellman error, what chance alone gives, and that of a constant value."""

    value: float
    noise: float
    constant: float


def without_each(folds: Moments) -> list[LinearValue]:
    """For each fold, the fit to all the others."""
    every = np.arange(len(folds.n_rows))
    return [LinearValue.solve(folds.total(every != k)) for k in every]


def held_out(part: Part, fold: Array, others: Sequence[LinearValue]) -> HeldOut:
    """The predictions of every row; `others` are the fits without each fold, `fold` is that of every episode."""
    thetas = np.stack([model.theta for model in others], axis=1)
    return HeldOut(*(_of_fold(part, fold, rows @ thetas) for rows in (part.states, part.changes)))


def _of_fold(part: Part, fold: Array, values: Array) -> Array:
    """From a column for each fold, the entry of the fold that the row belongs to."""
    return np.asarray(values[np.arange(len(values)), fold[part.episodes.of]])


def metric_of(folds: Moments) -> Array:
    """C⁻¹, or the pseudo-inverse if C is singular."""
    C = folds.mean_square()
    length = lengths_of(np.diag(C))
    units = np.outer(length, length)  # columns of unit length, so that "singular" does not depend on their units
    factor, bad = dpotrf(C / units, lower=1)
    if bad or np.diag(factor).min() ** 2 <= SINGULAR:
        return np.asarray(scipy.linalg.pinvh(C / units) / units)
    lower = dpotri(factor, lower=1)[0]
    return np.asarray((np.tril(lower) + np.tril(lower, -1).T) / units)


def held_out_sums(
    part: Part,
    fold: Array,
    others: Sequence[LinearValue],
    metric: Array,
    constant: float,
    begin: Array,
    centre: float,
) -> Several:
    """Four sums: for the Bellman error, for the groups of predictions, for DR, and for its effective episodes.

    The first are those of the predictions and of a constant value. The groups begin at the predictions `begin`. The
    third are the terms of DR of every cluster, less `centre`, and the last Σ|wρ| and Σ(wρ)².
    """
    held, e, ratio, reward = held_out(part, fold, others), part.episodes, part.batch.ratio, part.batch.reward
    errors = (ratio * (reward - held.change), ratio * (reward - (1 - part.batch.discount) * constant))
    directions = np.stack([model.start @ model.inverse for model in others], axis=1)
    weight = ratio * _of_fold(part, fold, part.states @ directions)
    terms = held.value[e.first] + e.total(weight * (reward - held.change)) - centre
    return Several(
        [
            np.stack([score_sums(part, fold, error, metric, len(others)) for error in errors]),
            grouped(e, held, begin, centre),
            [e.by_cluster(terms)],
            np.array([np.abs(weight).sum(), weight @ weight]),
        ]
    )


def score_sums(part: Part, fold: Array, error: Array, metric: Array, n_folds: int) -> Array:
    """Σs, ΣLs, Σ sᵀC⁻¹s, ΣL and ΣL² of every fold, with s = Σ_t ρδφ and L the length of a cluster."""
    episodes = part.episodes
    length, own = episodes.cluster_lengths[:, None], fold[episodes.clusters]
    s = weighted_by_cluster(episodes, error, part.states)
    size = ((s @ metric) * s).sum(axis=1, keepdims=True)
    each = np.hstack([s, length * s, size, length, length**2])
    return np.stack([each[own == k].sum(axis=0) for k in range(n_folds)])


def bellman_error(metric: Array, sums: Array) -> BellmanError:
    """Held-out MSPBE of the fit, its noise level trace(C⁻¹ Cov g), and the MSPBE of the best constant."""
    p, found = len(metric), []
    for folds in sums:
        values, noises = [], []
        for fold in folds[folds[:, -2] > 0]:
            total, long, (size, rows, squares) = fold[:p], fold[p : 2 * p], fold[2 * p :]
            g = total / rows
            values.append(float(g @ metric @ g))
            noises.append(float(size - 2 * g @ metric @ long + squares * values[-1]) / rows**2)
        found += [float(np.mean(values)), float(np.mean(noises))]
    return BellmanError(*found[:3])


def fine_bins(model: LinearValue, folds: Moments) -> Array:
    """Edges of fine bins of the predictions, within six standard deviations of their mean."""
    C = folds.mean_square()
    mean = C[-1] @ model.theta
    spread = np.sqrt(max(float(model.theta @ C @ model.theta - mean**2), 0.0))
    return np.asarray(mean + spread * np.linspace(-6, 6, N_BINS - 1))


def prediction_counts(part: Part, fold: Array, others: Sequence[LinearValue], edges: Array) -> Array:
    """The number of rows whose held-out prediction is in each bin."""
    value = held_out(part, fold, others).value
    return np.bincount(np.searchsorted(edges, value, side="right"), minlength=len(edges) + 1)


def tenths(counts: Array, edges: Array) -> Array:
    """The predictions at which the groups begin; these are edges of bins, so equal predictions stay together."""
    n = int(counts.sum())
    begin = np.cumsum([len(part) for part in np.array_split(np.zeros(n), N_GROUPS)])[:-1]
    bins = np.searchsorted(np.cumsum(counts), begin[begin < n], side="right")
    return np.append(-np.inf, edges)[bins]


def grouped(episodes: Episodes, held: HeldOut, begin: Array, centre: float) -> Array:
    """n, Σv, ΣG, ΣS², ΣSL and ΣL² of every group; S and L are a cluster's sum of G and its rows in the group.

    G is taken less `centre`, so that its squares do not lose digits.

    The return of a row is the doubly robust one, G_t = v(s_t) + ρ_t (r_t + γ G_{t+1} − v(s_t)): under the behaviour
    its mean is the target's value, and on-policy it is the plain return.
    """
    returns = corrected_returns(episodes, held) - centre
    group = np.searchsorted(begin, held.value, side="right")
    cell = episodes.of * N_GROUPS + group
    cells = (np.bincount(cell, w, len(episodes) * N_GROUPS).reshape(-1, N_GROUPS) for w in (returns, None))
    S, L = (episodes.by_cluster(each) for each in cells)
    value = np.bincount(group, held.value, N_GROUPS)
    return np.stack([L.sum(axis=0), value, S.sum(axis=0), *((x * y).sum(axis=0) for x, y in ((S, S), (S, L), (L, L)))])


def agreement(sums: Array, centre: float, level: float) -> list[dict[str, object]]:
    """Compare held-out predictions with the corrected returns that followed, by group; intervals are clustered."""
    out: list[dict[str, object]] = []
    reach = norm.ppf(0.5 + level / 2)
    for n, value, returns, squares, crossed, lengths in sums.T:
        if n > 1:
            mean = returns / n
            half = reach * np.sqrt(max(squares - 2 * mean * crossed + mean**2 * lengths, 0.0)) / n
            low, high = (float(centre + mean + side * half) for side in (-1, 1))
            entry = {"predicted": float(value / n), "observed": float(centre + mean), "interval": (low, high)}
            out.append({**entry, "count": int(n)})
    return out


def corrected_returns(episodes: Episodes, held: HeldOut) -> Array:
    """G_t, by one pass backwards through every episode; a cut episode ends with V(s')."""
    last, carry = episodes.last, episodes.ratio * episodes.discount
    known = held.value + episodes.ratio * (episodes.reward - held.value)
    known[last] += (episodes.ratio * (held.value - held.change))[last]
    carry[last] = 0.0  # nothing is carried from one episode into the one before it
    return recurrence(np.append(0.0, carry[:-1]), known, transpose=True)


def doubly_robust(terms: list[Array], sizes: Array, centre: float, n_episodes: int, n_rows: int) -> Estimate:
    """The doubly robust estimate, from the last two of the `held_out_sums`."""
    each, (size, squares) = np.concatenate(terms), sizes
    carried = size**2 / max(squares, np.finfo(float).tiny) / n_rows * n_episodes
    moved = each * len(each) / n_episodes
    return Estimate.of_influence("DR", centre + float(each.sum()) / n_episodes, moved, carried)
