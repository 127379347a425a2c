"""How the value function does on episodes it was not fitted on.

Folds are whole episodes. From the held-out predictions follow the doubly robust rows, the comparison of predictions
with returns, and the held-out Bellman error:

    g_k = mean over fold k of ρ δ φ,  with δ from the θ of the other folds        MSPBE = Σ_k g_kᵀ C⁻¹ g_k / K

Even an exact value function has g_k ≠ 0 by chance. `noise` is what the same quantity would be then, trace(C⁻¹ Cov g_k),
estimated from the spread over episodes: an error near it means that nothing is left to explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import solve_banded
from scipy.stats import norm

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Ask, Moments, Part
from sparsetd.selection.units import lengths_of
from sparsetd.system import Array

N_GROUPS = 10


@dataclass(frozen=True, eq=False)
class HeldOut:
    """V(s) and V(s') of every row from a fit without the row's episode, and the fold of every episode."""

    value: Array
    value_next: Array
    fold: Array


@dataclass(frozen=True)
class BellmanError:
    """Held-out mean squared projected Bellman error, what chance alone gives, and that of a constant value."""

    value: float
    noise: float
    constant: float


def without_each(folds: Moments) -> list[LinearValue]:
    """The fit to all folds but one, for each."""
    every = np.arange(len(folds.n_rows))
    return [LinearValue.solve(folds.total(every != k)) for k in every]


def thetas_of(models: Sequence[LinearValue]) -> Array:
    return np.stack([model.theta for model in models])


def predictions(thetas: Array, fold: Array) -> Ask:
    """Asks for V(s) and V(s') of every row (0 after the end) with the θ that its episode had no part in."""
    return Ask(_predicted, (thetas,), (fold,), joined=True)


def _predicted(part: Part, fold: Array, thetas: Array) -> tuple[Array, Array]:
    batch, of_row = part.batch, fold[part.episodes.of]
    value, value_next = np.empty(len(batch)), np.empty(len(batch))
    for k in np.unique(fold):
        held = np.flatnonzero(of_row == k)
        for out, phi in ((value, batch.phi), (value_next, batch.phi_next)):
            out[held] = phi[held] @ thetas[k, :-1] + thetas[k, -1]
    return value, np.where(batch.discount > 0, value_next, 0.0)


def cross_fit(part: Part, folds: Moments, fold: Array) -> HeldOut:
    """Predict each fold of a log in memory from the sums of the others."""
    return HeldOut(*_predicted(part, fold, thetas_of(without_each(folds))), fold)


def metric_of(folds: Moments) -> Array:
    """C⁻¹."""
    total = folds.total()
    C = total.C[0] / total.n_rows[0]
    length = lengths_of(np.diag(C))
    units = np.outer(length, length)  # what counts as singular must not depend on them
    return np.asarray(scipy.linalg.pinvh(C / units) / units)


def fold_sums(metric: Array, thetas: Array, fold: Array, episodes: Episodes) -> Ask:
    """Asks for what the Bellman error needs of held-out predictions and of the best constant."""
    left = episodes.ratio @ (1 - episodes.discount)
    constant = float(episodes.ratio @ episodes.reward) / max(float(left), 1e-12)
    return Ask(_fold_sums, (metric, thetas, constant), (fold,))


def _fold_sums(part: Part, fold: Array, metric: Array, thetas: Array, constant: float) -> Array:
    batch, (value, value_next) = part.batch, _predicted(part, fold, thetas)
    error = batch.ratio * (batch.reward + batch.discount * value_next - value)
    flat = batch.ratio * (batch.reward - (1 - batch.discount) * constant)
    return np.stack([score_sums(part, fold, column, metric, len(thetas)) for column in (error, flat)])


def score_sums(part: Part, fold: Array, error: Array, metric: Array, n_folds: int) -> Array:
    """Of every fold Σs, ΣLs, Σ sᵀC⁻¹s, ΣL, ΣL² with s = Σ_t ρδφ and the length L of an episode."""
    episodes = part.episodes
    length = (episodes.last - episodes.first + 1)[:, None]
    s = np.column_stack([np.add.reduceat(part.batch.phi * error[:, None], episodes.first), episodes.total(error)])
    size = ((s @ metric) * s).sum(axis=1, keepdims=True)
    each = np.hstack([s, length * s, size, length, length**2])
    return np.stack([each[fold == k].sum(axis=0) for k in range(n_folds)])


def bellman_error(metric: Array, sums: Array) -> BellmanError:
    """Held-out MSPBE of the fit, its noise level, and the MSPBE of the best constant."""
    value, noise = _by_fold(sums[0], metric)
    return BellmanError(value, noise, _by_fold(sums[1], metric)[0])


def _by_fold(sums: Array, metric: Array) -> tuple[float, float]:
    """Mean over folds of gᵀC⁻¹g, and of trace(C⁻¹ Cov g), rows being clustered by episode."""
    p, values, noises = len(metric), [], []
    for fold in sums[sums[:, -2] > 0]:
        total, long, (size, rows, squares) = fold[:p], fold[p : 2 * p], fold[2 * p :]
        g = total / rows
        values.append(float(g @ metric @ g))
        noises.append(float(size - 2 * g @ metric @ long + squares * values[-1]) / rows**2)
    return float(np.mean(values)), float(np.mean(noises))


def agreement(episodes: Episodes, held: HeldOut, level: float) -> list[dict[str, object]]:
    """Groups of states by held-out prediction against the corrected return that followed.

    The return of a row is the doubly robust one, G_t = v(s_t) + ρ_t (r_t + γ G_{t+1} − v(s_t)): under the behaviour its
    mean is the target's value, and on-policy it is the plain return.
    """
    returns = corrected_returns(episodes, held)
    ordered = np.array_split(np.sort(held.value), N_GROUPS)
    edges = [part[0] for part in ordered[1:] if len(part)]  # equal predictions stay together: order must not matter
    group = np.searchsorted(edges, held.value, side="right")
    groups = [np.flatnonzero(group == k) for k in range(N_GROUPS)]
    out: list[dict[str, object]] = []
    for rows in groups:
        if len(rows) > 1:
            mean = float(returns[rows].mean())
            low, high = _clustered(episodes, rows, returns[rows], level)
            entry = {"predicted": float(held.value[rows].mean()), "observed": mean, "interval": (low, high)}
            out.append({**entry, "count": len(rows)})
    return out


def corrected_returns(episodes: Episodes, held: HeldOut) -> Array:
    """G_t, by one pass backwards through every episode; a cut episode ends with V(s')."""
    last, carry = episodes.last, episodes.ratio * episodes.discount
    known = held.value + episodes.ratio * (episodes.reward - held.value)
    known[last] += carry[last] * held.value_next[last]
    carry[last] = 0.0
    bands = np.ones((2, len(known)))
    bands[0, 0], bands[0, 1:] = 0.0, -carry[:-1]
    return np.asarray(solve_banded((0, 1), bands, known))


def _clustered(episodes: Episodes, rows: Array, values: Array, level: float) -> tuple[float, float]:
    """Normal interval of a mean over rows, clustered by episode."""
    mean = float(values.mean())
    total = np.bincount(episodes.of[rows], weights=values - mean, minlength=len(episodes))
    half = float(norm.ppf(0.5 + level / 2) * np.sqrt(total @ total) / len(rows))
    return mean - half, mean + half
