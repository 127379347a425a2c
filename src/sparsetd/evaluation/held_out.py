"""How the value function does on episodes it was not fitted on.

Folds are whole episodes. From the held-out predictions follow the doubly robust rows, the comparison of predictions
with returns, and the held-out Bellman error:

    g_k = mean over fold k of ρ δ φ,  with δ from the θ of the other folds        MSPBE = Σ_k g_kᵀ C⁻¹ g_k / K

Even an exact value function has g_k ≠ 0 by chance. `noise` is what the same quantity would be then, trace(C⁻¹ Cov g_k),
estimated from the spread over episodes: an error near it means that nothing is left to explain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.linear import LinearValue, chosen, design, next_values
from sparsetd.selection.units import lengths
from sparsetd.system import Array, Batch

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


def cross_fit(batch: Batch, support: Array, episodes: Episodes, n_folds: int, rng: np.random.Generator) -> HeldOut:
    """Refit on the other folds and predict each."""
    fold = rng.permutation(len(episodes)) % n_folds
    of_row, every = fold[episodes.of], np.arange(len(support))
    few = replace(batch, phi=chosen(batch.phi, support), phi_next=chosen(batch.phi_next, support))
    value, value_next = np.empty(len(batch)), np.empty(len(batch))
    for k in range(n_folds):
        held = np.flatnonzero(of_row == k)
        kept = np.flatnonzero(of_row != k)
        model = LinearValue.fit(few[kept], every, episodes.subset(kept))
        value[held] = model.predict(few.phi[held])
        value_next[held] = model.predict(few.phi_next[held])
    return HeldOut(value, next_values(batch, value_next), fold)


def bellman_error(batch: Batch, support: Array, episodes: Episodes, held: HeldOut) -> BellmanError:
    """Held-out MSPBE of the fit, its noise level, and the MSPBE of the best constant."""
    phi = design(batch.phi, support)
    phi /= lengths(phi)  # gᵀC⁻¹g is the same in any units, and C is better conditioned in these
    metric = scipy.linalg.pinv(phi.T @ phi / len(batch))
    error = batch.ratio * (batch.reward + batch.discount * held.value_next - held.value)
    start = batch.ratio @ batch.reward / max(float(batch.ratio @ (1 - batch.discount)), 1e-12)
    flat = batch.ratio * (batch.reward - (1 - batch.discount) * start)
    value, noise = _by_fold(phi, error, metric, episodes, held.fold)
    return BellmanError(value, noise, _by_fold(phi, flat, metric, episodes, held.fold)[0])


def _by_fold(phi: Array, error: Array, metric: Array, episodes: Episodes, fold: Array) -> tuple[float, float]:
    """Mean over folds of gᵀC⁻¹g, and of trace(C⁻¹ Cov g), rows being clustered by episode."""
    scores = np.stack([episodes.total(column) for column in (phi * error[:, None]).T], axis=1)
    length = episodes.last - episodes.first + 1
    values, noises = [], []
    for k in np.unique(fold):
        each, rows = scores[fold == k], length[fold == k].sum()
        g = each.sum(axis=0) / rows
        spread = each - length[fold == k][:, None] * g
        values.append(float(g @ metric @ g))
        noises.append(float(np.einsum("id,de,ie->", spread, metric, spread)) / rows**2)
    return float(np.mean(values)), float(np.mean(noises))


def agreement(batch: Batch, episodes: Episodes, held: HeldOut, level: float) -> list[dict[str, object]]:
    """Groups of states by held-out prediction against the corrected return that followed.

    The return of a row is the doubly robust one, G_t = v(s_t) + ρ_t (r_t + γ G_{t+1} − v(s_t)): under the behaviour its
    mean is the target's value, and on-policy it is the plain return.
    """
    returns = corrected_returns(batch, episodes, held)
    groups = np.array_split(np.argsort(held.value, kind="stable"), N_GROUPS)
    out: list[dict[str, object]] = []
    for rows in groups:
        if len(rows) > 1:
            mean = float(returns[rows].mean())
            low, high = _clustered(episodes, rows, returns[rows], level)
            entry = {"predicted": float(held.value[rows].mean()), "observed": mean, "interval": (low, high)}
            out.append({**entry, "count": len(rows)})
    return out


def corrected_returns(batch: Batch, episodes: Episodes, held: HeldOut) -> Array:
    """G_t by one pass backwards through every episode; a cut episode ends with V(s')."""
    returns = np.empty(len(batch))
    follow = held.value_next.copy()
    inside = np.ones(len(batch), dtype=bool)
    inside[episodes.last] = False
    for t in range(len(batch) - 1, -1, -1):
        if inside[t]:
            follow[t] = returns[t + 1]
        target = batch.reward[t] + batch.discount[t] * follow[t]
        returns[t] = held.value[t] + batch.ratio[t] * (target - held.value[t])
    return returns


def _clustered(episodes: Episodes, rows: Array, values: Array, level: float) -> tuple[float, float]:
    """Normal interval of a mean over rows, clustered by episode."""
    from scipy.stats import norm

    mean = float(values.mean())
    total = np.bincount(episodes.of[rows], weights=values - mean, minlength=len(episodes))
    half = float(norm.ppf(0.5 + level / 2) * np.sqrt(total @ total) / len(rows))
    return mean - half, mean + half
