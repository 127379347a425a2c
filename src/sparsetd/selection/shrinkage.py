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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from sparsetd.system import Array

LAMBDAS = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
SINGULAR = 1e-9  # share of the largest singular value at or below which one is none: of copies the mean is taken
ROUNDING = 1e-9  # difference of losses, as a share of the largest, at or below which it is none
EMPTY = 1e-9  # share of the largest mean square at or below which one is rounding
CRITIC = 1e-3  # ridge of the critic's metric, in units of the mean squares of its functions


@dataclass(frozen=True, eq=False)
class Groups:
    """A and b of every group of episodes, C of all rows, and how many rows each group has; the constant is last.

    Columns are of one scale. `fold` is the fold that a group belongs to.
    """

    A: Array
    b: Array
    C: Array
    n_rows: Array
    fold: Array

    def without(self, k: int) -> tuple[Array, Array, float]:
        """A, b and the number of rows of all folds but k."""
        others = self.fold != k
        return self.A[others].sum(axis=0), self.b[others].sum(axis=0), float(self.n_rows[others].sum())


def losses(groups: Groups, penalised: Array, candidates: list[tuple[Array, float]]) -> Array:
    """The held-out loss of candidates (columns, λ), by fold: shape (n_candidates, n_folds)."""
    root = _root(groups.C / groups.n_rows.sum())
    out = np.empty((len(candidates), int(groups.fold.max()) + 1))
    for k in range(out.shape[1]):
        A, b, n = groups.without(k)
        held = np.flatnonzero(groups.fold == k)
        share = groups.n_rows[held].sum()
        for i, (columns, lam) in enumerate(candidates):
            theta = np.zeros(len(b))
            theta[columns] = ridged(A, b, n, penalised, columns, lam)
            scores = (groups.b[held] - groups.A[held] @ theta) @ root / share
            total = scores.sum(axis=0)
            pairs = len(held) / max(len(held) - 1, 1)
            out[i, k] = pairs * (total @ total - np.einsum("gj,gj->", scores, scores))
    return out


def ridged(A: Array, b: Array, n_rows: float, penalised: Array, columns: Array, lam: float) -> Array:
    """θ on some columns; λ = ∞ leaves out what is penalised."""
    free = columns[~penalised[columns]] if np.isinf(lam) else columns
    ridge = np.zeros(len(free)) if np.isinf(lam) else lam * penalised[free]
    system = A[np.ix_(free, free)] + np.diag(n_rows * ridge)
    theta = np.zeros(len(columns))
    theta[np.isin(columns, free)] = np.linalg.lstsq(system, b[free], rcond=SINGULAR)[0]
    return theta


def shrunk(groups: Groups, penalised: Array) -> tuple[float, Array]:
    """The λ with the least held-out loss, and the losses of all `LAMBDAS` by fold."""
    every = np.arange(len(penalised))
    found = losses(groups, penalised, [(every, lam) for lam in LAMBDAS])
    mean = found.mean(axis=1)
    near = mean <= mean.min() + ROUNDING * np.abs(found).max()
    return LAMBDAS[int(np.argmax(near))], found


def _root(C: Array) -> Array:
    """R with RRᵀ = C⁻¹, C with a small ridge; 0 in the direction of columns that are 0."""
    values, vectors = scipy.linalg.eigh(C + np.diag(CRITIC * np.diag(C)))
    sure = values > EMPTY * values[-1]
    return np.asarray(np.where(sure, vectors / np.sqrt(np.where(sure, values, 1.0)), 0.0))
