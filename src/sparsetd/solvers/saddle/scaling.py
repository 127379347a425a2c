"""One scale for all columns, and the metric in which the error is measured: neither should hang on the user's units.

    φ_j ← (φ_j − shift_j) / scale_j          θ_j ← θ_j / scale_j,  intercept ← intercept − Σ_j shift_j θ_j

The columns are centred only where there is a constant to take up the means; sparse rows are scaled and not centred,
since centring would fill them.

    ‖C^{-1/2}(Aθ − b)‖₂,   C = E[φφᵀ]        the root of the projected Bellman error (RMSPBE): the same in any basis
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sparsetd.system import Array, Batch

CONSTANT = 1e-12  # a column whose spread is so small beside its mean does not vary
ROUNDING = 1e-9  # units that differ by less count as the same
NULL = 1e-10  # share of the largest eigenvalue of C below which a direction is empty


@dataclass(frozen=True, eq=False)
class Units:
    """Scale and shift of every column; the last one is the constant (untouched) where `constant` says so."""

    scale: Array
    shift: Array
    constant: bool

    @classmethod
    def of(cls, phi: Array | sp.csr_array, constant: bool = False, centre: bool | None = None) -> Units:
        """From the mean and the spread of the columns, or from their root mean squares where they are not centred.

        By default columns are centred where the last one is a `constant` and the rows are dense.
        """
        n, centred = max(phi.shape[0], 1), (constant and not sp.issparse(phi)) if centre is None else centre
        mean = np.asarray(phi.sum(axis=0, dtype=np.float64)).ravel() / n
        shift = mean if centred else np.zeros(len(mean))
        return cls.of_spread(mean, shift, mean_squares(phi, shift), constant)

    @classmethod
    def of_spread(cls, mean: Array, shift: Array, squares: Array, constant: bool = False) -> Units:
        """From the means of the columns and their mean squares about `shift`."""
        scale = np.sqrt(squares)
        flat = scale <= CONSTANT * np.abs(mean)  # a constant column: centred it would be rounding
        shift, scale = np.where(flat, 0.0, shift), np.where(flat, np.abs(mean), scale)
        scale = np.where(scale > 0, scale, 1.0)
        if constant:
            scale[-1], shift[-1] = 1.0, 0.0
        return cls(scale, shift, constant)

    @classmethod
    def none(cls, n_features: int, constant: bool) -> Units:
        """Columns as they come."""
        return cls(np.ones(n_features), np.zeros(n_features), constant)

    def agree(self, other: Units) -> bool:
        """Whether rows are the same in these units as in others, up to rounding."""
        apart = np.abs(np.concatenate([self.scale - other.scale, self.shift - other.shift]))
        return bool((apart <= ROUNDING * np.tile(self.scale, 2)).all())

    def applied(self, batch: Batch) -> Batch:
        """The batch in these units, in double precision."""
        return replace(batch, phi=self._rows(batch.phi), phi_next=self._rows(batch.phi_next))

    def back(self, theta: Array) -> Array:
        """Coefficients in the user's units."""
        out = theta / self.scale
        if self.constant:
            out[..., -1] -= out[..., :-1] @ self.shift[:-1]
        return np.asarray(out)

    def forth(self, theta: Array) -> Array:
        """The inverse of `back`."""
        out = np.array(theta, dtype=np.float64)
        if self.constant:
            out[..., -1] += out[..., :-1] @ self.shift[:-1]
        return out * self.scale

    def _rows(self, rows: Array | sp.csr_array) -> Array | sp.csr_array:
        if sp.issparse(rows):
            return sp.csr_array(rows.astype(np.float64) @ sp.diags_array(1.0 / self.scale))
        shift = self.shift
        if self.constant and not np.all(
            rows[:, -1] == 1.0
        ):  # condensed rows: what is centred is φ less a multiple of 1
            shift = rows[:, -1:] * shift
        out = np.subtract(rows, shift, dtype=np.float64)
        out /= self.scale
        return out


def mean_squares(phi: Array | sp.csr_array, shift: Array) -> Array:
    if sp.issparse(phi):
        squares: Any = phi.astype(np.float64)
        return np.asarray(squares.power(2).sum(axis=0)).ravel() / max(phi.shape[0], 1)
    total = np.zeros(phi.shape[1])
    for low in range(0, len(phi), 4096):  # in blocks: a centred copy of everything would be large
        block = phi[low : low + 4096].astype(np.float64) - shift
        total += np.einsum("ij,ij->j", block, block)
    return total / max(len(phi), 1)


def whitened(A: Array, b: Array, C: Array) -> tuple[Array, Array]:
    """(L⁻¹A, L⁻¹b) with LLᵀ = C, so that their Euclidean norm is that of the residual in the metric of C."""
    try:
        L = np.linalg.cholesky(C)
        if np.diag(L).min() > np.sqrt(NULL) * np.diag(L).max():
            both = scipy.linalg.solve_triangular(L, np.column_stack([A, b]), lower=True)
            return both[:, :-1], both[:, -1]
    except np.linalg.LinAlgError:
        pass
    root = inverse_root(C, NULL)
    return root @ A, root @ b


def inverse_root(C: Array, empty: float) -> Array:
    """W with WᵀW = C⁺. An eigenvalue of at most the share `empty` of the largest counts as 0, and its row of W is 0."""
    size, basis = np.linalg.eigh(C)
    sure = size > empty * size[-1]
    return np.asarray(np.where(sure, basis / np.sqrt(np.where(sure, size, 1.0)), 0.0).T)
