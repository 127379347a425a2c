"""The mean system A = (1/N) Σ A_t as something to multiply with, never as a matrix of d × d numbers.

    A x = (1/N) Σ_t B_t M B_tᵀ x        costs one pass over Φ and one over Φ' (twice, for the transpose), because

        products P_t = (φ_tᵀx_b, ψ_tᵀx_b, e_tᵀx_b)_b,     weights U = P Mᵀ,     A x = Σ_i (direction i)ᵀ U_i,

and the trace is a bidiagonal recurrence, E = T diag(c) Φ, which is solved in O(N) instead of being stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dtbtrs

from sparsetd.system import Array, Batch, Table, TraceCarry, trace_weights


@dataclass
class MeanOperator:
    """The mean system of a table over the rows of a batch, with nonnegative row weights that sum to one."""

    table: Table
    batch: Batch
    weight: Array

    def __post_init__(self) -> None:
        k = self.table.n_blocks
        self.fresh, self.old = trace_weights(self.table, self.batch, TraceCarry())
        self._reads = np.any(self.table.M.reshape(3 * k, k, 3) != 0, axis=(0, 1))
        self._writes = np.any(self.table.M.reshape(k, 3, 3 * k) != 0, axis=(0, 2))

    @property
    def size(self) -> int:
        return self.table.n_blocks * self.batch.n_features

    @cached_property
    def b(self) -> Array:
        rewards = np.outer(self.weight * self.batch.reward, self.table.m)
        return self._scatter(rewards, np.ones(3, dtype=bool)).T.ravel()

    @cached_property
    def _phi_t(self) -> Array | sp.csr_array:
        return sp.csr_array(self.batch.phi.T) if self.batch.is_sparse else self.batch.phi.T

    @cached_property
    def _phi_next_t(self) -> Array | sp.csr_array:
        return sp.csr_array(self.batch.phi_next.T) if self.batch.is_sparse else self.batch.phi_next.T

    def apply(self, x: Array) -> Array:
        blocks = x.reshape(self.table.n_blocks, -1)
        out = self._through(self._gather(blocks.T, self._reads), self.table.M, self._writes)
        return (out + blocks.T * self.table.damping).T.ravel()

    def adjoint(self, y: Array) -> Array:
        blocks = y.reshape(self.table.n_blocks, -1)
        out = self._through(self._gather(blocks.T, self._writes), self.table.M.T, self._reads)
        return (out + blocks.T * self.table.damping).T.ravel()

    def _gather(self, x: Array, needed: Array) -> Array:
        """Products of every row with φ, ψ and e, shape (N, k, 3); directions that are not `needed` stay zero."""
        out = np.zeros((len(self.batch), x.shape[1], 3))
        out[:, :, 0] = self.batch.phi @ x
        if needed[1]:
            out[:, :, 1] = self.batch.discount[:, None] * (self.batch.phi_next @ x)
        if needed[2]:
            out[:, :, 2] = self._trace(self.fresh[:, None] * out[:, :, 0])
        return out

    def _through(self, products: Array, M: Array, needed: Array) -> Array:
        weights = products.reshape(len(self.batch), -1) @ M.T
        return self._scatter(self.weight[:, None] * weights, needed)

    def _scatter(self, weights: Array, needed: Array) -> Array:
        """Σ_t φ_t u_t⁰ + ψ_t u_t¹ + e_t u_t², shape (d, k)."""
        u = weights.reshape(len(self.batch), -1, 3)
        plain = u[:, :, 0]
        if needed[2]:
            plain = plain + self.fresh[:, None] * self._trace(u[:, :, 2], transpose=True)
        out = self._phi_t @ plain
        if needed[1] and u[:, :, 1].any():
            out = out + self._phi_next_t @ (self.batch.discount[:, None] * u[:, :, 1])
        return np.asarray(out)

    def _trace(self, rows: Array, transpose: bool = False) -> Array:
        return recurrence(self.old, rows, transpose)


def recurrence(old: Array, rows: Array, transpose: bool = False) -> Array:
    """T u, from v_t = u_t + d_t v_{t−1}, or Tᵀ u by the same recurrence backwards."""
    if not old.any():
        return rows
    bands = np.ones((2, len(rows)))
    if transpose:
        bands[0, 1:] = -old[1:]
    else:
        bands[1, :-1] = -old[1:]
    found, _ = dtbtrs(bands, rows.reshape(len(rows), -1), uplo="U" if transpose else "L", diag="U")
    return np.asarray(found.reshape(rows.shape))
