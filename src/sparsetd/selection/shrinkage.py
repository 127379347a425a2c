"""How far may functions beside the raw columns be used? Between "not at all" and "all of them" lies a ridge.

    (A + λNΛ)θ = b        Λ is 1 for functions beside the raw columns, 0 for these and for the constant

λ = ∞ is the value function of the raw columns, λ → 0 that of the whole basis. Which λ does best on episodes that it has
not seen? With θ from the other folds, s_g = Σ ρδψ over a group g of held-out episodes and C = Σψψᵀ/N,

    loss = Σ_{g ≠ h} s_gᵀ C⁻¹ s_h        over pairs of groups of the held-out fold

estimates the projected Bellman error against the whole basis. Leaving out g = h removes the noise of the rewards, so
that losses can be compared, and all of them follow from sums over groups of episodes: no row is read again. A small
critic, the raw columns alone, could not see what they miss.

A choice between "raw" and "all" has to be careful, and so it errs where logs are small. A ridge moves little where the
loss is nearly flat, and therefore its least loss can be taken as it is.

An interval that takes λ as given is too narrow where another λ might as well have been chosen and gives another value.
So the choice is repeated on resampled logs (`shrunk`). The value may be off by the largest |v_λ − v| over the λ that
these choose, and the interval has to cover all the same (`widening`).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs
from scipy.stats import foldnorm

from sparsetd.selection.moments import Moments
from sparsetd.solvers.saddle import inverse_root
from sparsetd.system import Array

LAMBDAS = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
SINGULAR = 1e-9  # trace of a ridge on the other columns, in units of their mean squares
NEARLY_SINGULAR = 1e-6  # reciprocal of a condition number
ROUNDING = 1e-9  # two losses are equal if they differ by no more than this share of the largest
EMPTY = 1e-9  # a mean square counts as 0 if it is no more than this share of the largest
DRAWS = 200  # resampled logs, for how sure the choice of λ is
CRITIC = 1e-3  # ridge of the critic's metric, in units of the mean squares of its functions


def losses(
    sums: Moments, fold: Array, penalised: Array, candidates: list[tuple[Array, float]], drawn: int = 0
) -> Array:
    """The held-out loss of candidates (columns, λ) by fold, of the log itself and of so many resampled ones.

    `sums` are those of groups of episodes, for columns of one scale and the constant, and `fold` is that of each group.

    The shape is (n_candidates, n_folds, 1 + drawn). In a resampled log the groups of every held-out fold are drawn
    again with replacement; the fits to the other folds stay.
    """
    n_folds = int(fold.max()) + 1
    each, C = len(fold) // n_folds, sums.mean_square()
    root = inverse_root(C + np.diag(CRITIC * np.diag(C)), EMPTY).T  # RRᵀ = C⁻¹; 0 towards columns that are 0
    again = np.random.default_rng(0).multinomial(each, np.full(each, 1 / each), (n_folds, drawn))
    counts = np.concatenate([np.ones((n_folds, 1, each), dtype=int), again], axis=1)  # of every group in every log
    n_pairs = each**2 - (counts**2).sum(axis=2)
    out = np.empty((len(candidates), n_folds, 1 + drawn))
    for k, times in enumerate(counts):
        others, held = sums.total(fold != k), fold == k
        thetas = np.stack([ridged(others, penalised, *candidate) for candidate in candidates], axis=1)
        errors = sums.b[held][..., None] - sums.A[held] @ thetas  # by group, function and candidate
        scores = errors.transpose(2, 0, 1) @ root / sums.n_rows[held].sum()
        products = scores @ np.swapaxes(scores, 1, 2)  # s_gᵀ C⁻¹ s_h of every candidate
        own = np.einsum("dg,igg->id", times**2, products)
        every = np.einsum("dg,igh,dh->id", times, products, times, optimize=True)
        out[:, k] = (every - own) * each**2 / np.maximum(n_pairs[k], 1)
    return out


def ridged(total: Moments, penalised: Array, columns: Array, lam: float) -> Array:
    """θ on some columns from the sums of one group, 0 on the others; λ = ∞ leaves out what is penalised.

    A trace of a ridge on every column lets copies share their weight.
    """
    free = columns[~penalised[columns]] if np.isinf(lam) else columns
    system, right = total.A[0][np.ix_(free, free)] / total.n_rows[0], total.b[0, free] / total.n_rows[0]
    system.flat[:: len(free) + 1] += SINGULAR if np.isinf(lam) else np.where(penalised[free], lam, SINGULAR)
    theta = np.zeros(len(penalised))
    factors, pivots, singular = dgetrf(system)
    well = 0.0 if singular else dgecon(factors, np.linalg.norm(system, 1))[0]
    # Where columns are nearly copies, rounding would decide their weights; what the rows leave open stays at 0.
    copies = well < NEARLY_SINGULAR
    theta[free] = np.linalg.lstsq(system, right, rcond=2 * SINGULAR)[0] if copies else dgetrs(factors, pivots, right)[0]
    return theta


def shrunk(sums: Moments, fold: Array, penalised: Array) -> tuple[float, Array]:
    """The λ with the least held-out loss, and the share of resampled logs that would choose each of `LAMBDAS`."""
    every = np.arange(len(penalised))
    found = losses(sums, fold, penalised, [(every, lam) for lam in LAMBDAS], DRAWS).sum(axis=1)
    near = found <= found.min(axis=0) + ROUNDING * np.abs(found).max()
    chosen = np.argmax(near, axis=0)  # the largest λ among equals: argmax takes the first
    return LAMBDAS[chosen[0]], np.bincount(chosen[1:], minlength=len(LAMBDAS)) / DRAWS


def widening(move: float, error: float, level: float = 0.95) -> float:
    """The factor by which an interval must be wider to cover at `level` although its centre may be off by `move`.

    It is the quantile of |N(move/error, 1)| in units of that of |N(0, 1)| (Armstrong and Kolesár, 2020).
    """
    if not (0 < move < np.inf and 0 < error < np.inf):
        return 1.0
    return float(foldnorm.ppf(level, move / error) / foldnorm.ppf(level, 0.0))
