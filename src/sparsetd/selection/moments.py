"""Sums over rows by group, of which every linear fit of this package is made.

    G_k = Σ_t ρ e(φ − ψ)ᵀ,    g_k = Σ_t ρ r e,    C_k = Σ_t φφᵀ        over the rows t of group k

`weighted_products` is the one place where such a sum is formed: for the folds of cross-validation, the clusters of an
interval, and the folds and policies of an evaluation, in memory or in shards. LSTD without fold k solves
(Σ_{j≠k} G_j) θ = Σ_{j≠k} g_j, and the error on fold k follows from G_k, g_k and C_k: the rows are read once, when a
feature is selected for the first time, and every support after that is small algebra. Small systems are solved with
columns of unit length: what counts as singular must not depend on units.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparsetd.solvers.mean import selected_rows
from sparsetd.system import Array, Batch, Table


def lengths(phi: Array) -> Array:
    """Root mean square of every column, 1 for a column of zeros."""
    return lengths_of(np.einsum("ij,ij->j", phi, phi) / max(len(phi), 1))


def lengths_of(mean_squares: Array) -> Array:
    """The same from the mean squares of the columns."""
    return np.asarray(np.sqrt(np.where(mean_squares > 0, mean_squares, 1.0)))


def weighted_products(left: Array, right: Array, last: Array, weight: Array | None, group: Array, into: Array) -> None:
    """Add [Σ ρ l rᵀ, Σ ρ l y] over the rows of every group to `into`, ρ being `weight` and y the column `last`."""
    d = right.shape[1]
    for k, rows in runs_of(group, len(into)):
        weighted = left[rows] if weight is None else weight[rows, None] * left[rows]
        into[k, :, :d] += weighted.T @ right[rows]
        into[k, :, d] += weighted.T @ last[rows]


def runs_of(group: Array, n_groups: int) -> list[tuple[int, Array | slice]]:
    """The groups that are present with their rows; slices where these are together, which saves a copy."""
    if n_groups == 1:
        return [(0, slice(None))]
    if (group[1:] >= group[:-1]).all():
        present, first = np.unique(group, return_index=True)
        return [(int(k), slice(a, b)) for k, a, b in zip(present, first, [*first[1:], len(group)], strict=True)]
    return [(int(k), np.flatnonzero(group == k)) for k in np.unique(group)]


@dataclass
class FoldMoments:
    """G, g and C of every fold for the features of `index`, which grows."""

    table: Table
    batch: Batch
    fold: Array
    index: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def __post_init__(self) -> None:
        self.n_rows = np.bincount(self.fold)
        self._order = np.argsort(self.fold, kind="stable")
        self._phi, self._change, self._e = (np.empty((len(self.batch), 0)) for _ in range(3))
        self.G, self.C = (np.empty((len(self.n_rows), 0, 0)) for _ in range(2))
        self.g = np.empty((len(self.n_rows), 0))

    def slots(self, features: Array) -> Array:
        """Return where these features are in `index`; those that are not there yet are added."""
        new = np.setdiff1d(features, self.index)
        if len(new):
            self._add(new)
        order = np.argsort(self.index)
        return np.asarray(order[np.searchsorted(self.index, features, sorter=order)])

    def without(self, k: int, slots: Array) -> Array:
        """LSTD on the features at `slots`, from the rows that are not in fold k; the shortest solution if singular."""
        others, scale = np.arange(len(self.n_rows)) != k, self._lengths(slots)
        G = self.G[others][:, slots[:, None], slots].sum(axis=0) / np.outer(scale, scale)
        return np.asarray(np.linalg.lstsq(G, self.g[others][:, slots].sum(axis=0) / scale, rcond=None)[0] / scale)

    def mspbe(self, k: int, slots: Array, thetas: Array) -> Array:
        """vᵀC⁺v of each row of `thetas` on fold k, with v = mean of e δ and C = mean of φφᵀ over those features."""
        if not len(slots):
            return np.zeros(len(thetas))
        scale = self._lengths(slots)
        v = (self.g[k][slots, None] - self.G[k][slots[:, None], slots] @ thetas.T) / (self.n_rows[k] * scale[:, None])
        C = self.C[k][slots[:, None], slots] / (self.n_rows[k] * np.outer(scale, scale))
        return np.asarray(np.einsum("ij,ij->j", v, np.linalg.lstsq(C, v, rcond=1e-10)[0]))

    def _lengths(self, slots: Array) -> Array:
        return lengths_of(self.C[:, slots, slots].sum(axis=0) / len(self.batch))

    def _add(self, new: Array) -> None:
        phi, psi, e = (rows[self._order] for rows in selected_rows(self.table, self.batch, new))
        before = len(self.index)
        self.index = np.append(self.index, new)
        self._phi, self._change, self._e = (
            np.hstack(pair) for pair in ((self._phi, phi), (self._change, phi - psi), (self._e, e))
        )
        self.G, self.g = self._grown(self.G, self._e, self._change, before)
        self.C, _ = self._grown(self.C, self._phi, self._phi, before)

    def _grown(self, old: Array, left: Array, right: Array, before: int) -> tuple[Array, Array]:
        """Σ leftᵀ right of every fold, of which the first `before` rows and columns are known, and Σ r left."""
        n, p = len(self.n_rows), left.shape[1]
        out, r = np.zeros((n, p, p + 1)), self.batch.reward[self._order]
        out[:, :before, :before] = old
        group = np.repeat(np.arange(n), self.n_rows)
        below = np.zeros((n, p - before, p + 1))
        weighted_products(left[:, before:], right, r, None, group, below)
        beside = np.zeros((n, before, p - before + 1))
        weighted_products(left[:, :before], right[:, before:], r, None, group, beside)
        out[:, before:], out[:, :before, before:] = below, beside
        return out[:, :, :-1], out[:, :, -1]
