"""How the value function does on episodes it was not fitted on.

Folds are whole episodes. From the held-out predictions follow the doubly robust rows, the comparison of predictions
with returns, and the held-out Bellman error:

    g_k = mean over fold k of ρ δ φ,  with δ from the θ of the other folds        MSPBE = Σ_k g_kᵀ C⁻¹ g_k / K

Even an exact value function has g_k ≠ 0 by chance. `noise` is what the same quantity would be then, trace(C⁻¹ Cov g_k),
estimated from the spread over episodes: an error near it means that nothing is left to explain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import solve_banded
from scipy.stats import norm

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Moments, Part
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


def cross_fit(part: Part, folds: Moments, fold: Array) -> HeldOut:
    """Predict each fold from the sums of the others."""
    batch, of_row = part.batch, fold[part.episodes.of]
    value, value_next = np.empty(len(batch)), np.empty(len(batch))
    for k in range(len(folds.n_rows)):
        held = np.flatnonzero(of_row == k)
        model = LinearValue.solve(folds.total(np.arange(len(folds.n_rows)) != k))
        value[held] = model.predict(batch.phi[held])
        value_next[held] = model.predict(batch.phi_next[held])
    return HeldOut(value, np.where(batch.discount > 0, value_next, 0.0), fold)


def bellman_error(part: Part, folds: Moments, held: HeldOut) -> BellmanError:
    """Held-out MSPBE of the fit, its noise level, and the MSPBE of the best constant."""
    batch, total = part.batch, folds.total()
    C = total.C[0] / total.n_rows[0]
    length = lengths_of(np.diag(C))
    units = np.outer(length, length)  # what counts as singular must not depend on them
    metric = scipy.linalg.pinvh(C / units) / units
    error = batch.ratio * (batch.reward + batch.discount * held.value_next - held.value)
    start = batch.ratio @ batch.reward / max(float(batch.ratio @ (1 - batch.discount)), 1e-12)
    flat = batch.ratio * (batch.reward - (1 - batch.discount) * start)
    value, noise = _by_fold(part, error, metric, held.fold)
    return BellmanError(value, noise, _by_fold(part, flat, metric, held.fold)[0])


def _by_fold(part: Part, error: Array, metric: Array, fold: Array) -> tuple[float, float]:
    """Mean over folds of gᵀC⁻¹g, and of trace(C⁻¹ Cov g), rows being clustered by episode."""
    episodes = part.episodes
    scores = np.column_stack([np.add.reduceat(part.batch.phi * error[:, None], episodes.first), episodes.total(error)])
    length = episodes.last - episodes.first + 1
    values, noises = [], []
    for k in np.unique(fold):
        each, rows = scores[fold == k], length[fold == k].sum()
        g = each.sum(axis=0) / rows
        spread = each - length[fold == k][:, None] * g
        values.append(float(g @ metric @ g))
        noises.append(float(((spread @ metric) * spread).sum()) / rows**2)
    return float(np.mean(values)), float(np.mean(noises))


def agreement(part: Part, held: HeldOut, level: float) -> list[dict[str, object]]:
    """Groups of states by held-out prediction against the corrected return that followed.

    The return of a row is the doubly robust one, G_t = v(s_t) + ρ_t (r_t + γ G_{t+1} − v(s_t)): under the behaviour its
    mean is the target's value, and on-policy it is the plain return.
    """
    returns = corrected_returns(part, held)
    groups = np.array_split(np.argsort(held.value, kind="stable"), N_GROUPS)
    out: list[dict[str, object]] = []
    for rows in groups:
        if len(rows) > 1:
            mean = float(returns[rows].mean())
            low, high = _clustered(part.episodes, rows, returns[rows], level)
            entry = {"predicted": float(held.value[rows].mean()), "observed": mean, "interval": (low, high)}
            out.append({**entry, "count": len(rows)})
    return out


def corrected_returns(part: Part, held: HeldOut) -> Array:
    """G_t, by one pass backwards through every episode; a cut episode ends with V(s')."""
    batch, last = part.batch, part.episodes.last
    carry = batch.ratio * batch.discount
    known = held.value + batch.ratio * (batch.reward - held.value)
    known[last] += carry[last] * held.value_next[last]
    carry[last] = 0.0
    bands = np.ones((2, len(batch)))
    bands[0, 0], bands[0, 1:] = 0.0, -carry[:-1]
    return np.asarray(solve_banded((0, 1), bands, known))


def _clustered(episodes: Episodes, rows: Array, values: Array, level: float) -> tuple[float, float]:
    """Normal interval of a mean over rows, clustered by episode."""
    mean = float(values.mean())
    total = np.bincount(episodes.of[rows], weights=values - mean, minlength=len(episodes))
    half = float(norm.ppf(0.5 + level / 2) * np.sqrt(total @ total) / len(rows))
    return mean - half, mean + half
