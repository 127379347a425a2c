"""What cross-validation needs of the rows, for the few features that a path has selected.

    G_k = Σ_t e(φ − ψ)ᵀ,    g_k = Σ_t r e,    C_k = Σ_t φφᵀ        over the rows t of fold k

LSTD without fold k solves (Σ_{j≠k} G_j) θ = Σ_{j≠k} g_j, and the error on fold k follows from G_k, g_k and C_k: the
rows are read once, when a feature is selected for the first time, and every support after that is small algebra.
Systems are solved for columns of unit length (`units`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparsetd.selection.units import lengths_of
from sparsetd.solvers.saddle import selected_rows
from sparsetd.system import Array, Batch, Table


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
        self._ends = np.cumsum(self.n_rows)[:-1]
        self._phi, self._change, self._e = (np.empty((len(self.batch), 0)) for _ in range(3))
        self.G, self.C = (np.empty((len(self.n_rows), 0, 0)) for _ in range(2))
        self.g = np.empty((len(self.n_rows), 0))

    def slots(self, features: Array) -> Array:
        """Where these features are in `index`; those that are not there yet are added."""
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
        reward = np.split(self.batch.reward[self._order], self._ends)
        parts = [np.split(rows, self._ends) for rows in (self._phi, self._change, self._e)]
        self.G = np.stack([_grown(G, e, c, before) for G, c, e in zip(self.G, parts[1], parts[2], strict=True)])
        self.C = np.stack([_grown(C, p, p, before) for C, p in zip(self.C, parts[0], strict=True)])
        self.g = np.stack([r @ e for r, e in zip(reward, parts[2], strict=True)])


def _grown(old: Array, left: Array, right: Array, before: int) -> Array:
    """leftᵀ right, of which the first `before` rows and columns are known."""
    out = np.empty((left.shape[1], right.shape[1]))
    out[:before, :before] = old
    out[before:] = left[:, before:].T @ right
    out[:before, before:] = left[:, :before].T @ right[:, before:]
    return out
