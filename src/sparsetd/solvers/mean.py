"""The mean system A = (1/N) Σ A_t, b = (1/N) Σ b_t of some rows: to multiply with, by its columns, and as a matrix.

**By its rows** (`MeanOperator`). A x = (1/N) Σ_t B_t M B_tᵀ x costs one pass over Φ and one over Φ' (two for the
transpose), because

    products P_t = (φ_tᵀx_b, ψ_tᵀx_b, e_tᵀx_b)_b,     weights U = P Mᵀ,     A x = Σ_i (direction i)ᵀ U_i,

and the trace is a bidiagonal recurrence, E = T diag(c) Φ, which is solved in O(N) instead of being stored.

**As a matrix** (`Matrix`), from sums over the rows. `mean_operator` forms it where that is cheaper: where d is small
and N exceeds it.

**LSTD on a selection S** (`refit`). The penalty chooses, and then stops shrinking:

    θ_S = argmin ‖G_SS θ_S − g_S‖,      G_SS = Σ_t w_t e_S(φ − ψ)_Sᵀ,    g_S = Σ_t w_t r_t e_S
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.system import Array, Batch, Table, TraceCarry, dense, recurrence, scaled, trace_weights

CHUNK = 2 * 10**6  # numbers (16 MB) of a block of sparse rows, laid out, that is read at once
CACHED = 2**17  # numbers (1 MB) of a block of dense rows: what is made of them stays near the processor
FORM_BELOW = 2500  # unknowns: beyond this the matrix no longer stays in cache and PDHG gains nothing from forming it


@dataclass
class Matrix:
    """A system that is small enough to be a matrix; C = E[φφᵀ] is there where it was asked for."""

    A: Array
    b: Array
    C: Array | None = None

    @property
    def size(self) -> int:
        return len(self.b)

    def apply(self, x: Array) -> Array:
        """A x."""
        return np.asarray(self.A @ x)

    def adjoint(self, y: Array) -> Array:
        """Aᵀ y."""
        return np.asarray(y @ self.A)

    def columns(self, index: Array, chunk: int | None = None) -> Iterator[tuple[slice, Array]]:  # noqa: ARG002
        """Rows of A[:, index], a few at a time, each with the slice of rows it fills."""
        yield slice(0, len(self.b)), self.A[:, index]


@dataclass
class MeanOperator:
    """The mean system by its rows; `weight` holds nonnegative row weights, which sum to one for a mean.

    `carry` is what the first trace needs to know of the row before.
    """

    table: Table
    batch: Batch
    weight: Array
    carry: TraceCarry = field(default_factory=TraceCarry)

    def __post_init__(self) -> None:
        self.fresh, self.old = trace_weights(self.table, self.batch, self.carry)

    @property
    def size(self) -> int:
        return self.table.n_blocks * self.batch.n_features

    @cached_property
    def b(self) -> Array:
        rewards = np.outer(self.weight * self.batch.reward, self.table.m)
        return self._scattered(rewards).T.ravel()

    def apply(self, x: Array) -> Array:
        """A x."""
        return self._product(x, self.table.M)

    def adjoint(self, y: Array) -> Array:
        """Aᵀ y."""
        return self._product(y, self.table.M.T)

    def columns(self, index: Array, chunk: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Rows of A[:, index], a few at a time, each with the slice of rows it fills."""
        k, d = self.table.n_blocks, self.batch.n_features
        block, feature = np.divmod(index, d)
        products = self.directions(feature)
        M = self.table.M.reshape(k, 3, k, 3)[:, :, block]  # (output block, direction, column, direction)
        for a in range(k):
            weights = self.weight[:, None] * np.einsum("icj,jtc->itc", M[a], products)
            for low in range(0, d, chunk or d):
                some = slice(low, min(low + (chunk or d), d))
                rows = self._scatter(weights, some)
                if self.table.damping[a]:
                    hit = np.flatnonzero((block == a) & (feature >= some.start) & (feature < some.stop))
                    rows[feature[hit] - some.start, hit] += self.table.damping[a]
                yield slice(a * d + some.start, a * d + some.stop), rows

    def directions(self, feature: Array) -> Array:
        """Columns `feature` of Φ, Ψ and E, shape (3, N, number of columns)."""
        phi, phi_next = (dense(rows[feature]).T for rows in self._transposed)
        return np.stack([phi, self.batch.discount[:, None] * phi_next, recurrence(self.old, self.fresh[:, None] * phi)])

    def rows(self, some: slice, last: Array, kept: slice | Array = slice(None)) -> tuple[tuple[Any, Any, Any], Array]:
        """φ, ψ and e of those rows of `some` that are `kept`, and the trace of the last of `some`.

        `last` is the trace of the row before them. The trace is dense.
        """
        phi, fresh, old = self.batch.phi[some], self.fresh[some], self.old[some]
        psi = scaled(self.batch.discount[some][kept], self.batch.phi_next[some][kept])
        if not old.any():
            return (phi[kept], psi, scaled(fresh[kept], phi[kept])), fresh[-1] * dense(phi[-1:])[0]
        phi = dense(phi)
        e = fresh[:, None] * phi
        e[0] += old[0] * last
        e = recurrence(old, e)
        return (phi[kept], dense(psi), e[kept]), e[-1]

    @cached_property
    def _transposed(self) -> tuple[Any, Any]:
        """The columns of Φ and Φ' as rows, which sparse products and selections of features need."""
        turned = self.batch.phi.T, self.batch.phi_next.T
        return (sp.csr_array(turned[0]), sp.csr_array(turned[1])) if self.batch.is_sparse else turned

    def _product(self, x: Array, M: Array) -> Array:
        blocks = x.reshape(self.table.n_blocks, -1).T
        _, psi, e = np.any(M.reshape(len(M), -1, 3) != 0, axis=(0, 1))
        products = np.zeros((len(self.batch), blocks.shape[1], 3))  # of every row with φ, ψ and e, where M asks for it
        products[:, :, 0] = self.batch.phi @ blocks
        if psi:
            products[:, :, 1] = self.batch.discount[:, None] * (self.batch.phi_next @ blocks)
        if e:
            products[:, :, 2] = recurrence(self.old, self.fresh[:, None] * products[:, :, 0])
        out = self._scattered(self.weight[:, None] * (products.reshape(len(products), -1) @ M.T))
        return (out + blocks * self.table.damping).T.ravel()

    def _scattered(self, weights: Array) -> Array:
        """The sum over rows of φ, ψ and e times their weights in every block (N, 3k); its shape is (d, k)."""
        return self._scatter(np.moveaxis(weights.reshape(len(self.batch), -1, 3), 2, 0), slice(None))

    def _scatter(self, u: Array, some: slice) -> Array:
        """Some rows of Σ_t φ_t u_t⁰ + ψ_t u_t¹ + e_t u_t², for u of shape (3, N, n)."""
        (phi_t, phi_next_t), plain, phi, psi, e = self._transposed, u[0], *(part.any() for part in u)
        if e:
            traced = self.fresh[:, None] * recurrence(self.old, u[2], transpose=True)
            plain = u[0] + traced if phi else traced
        out = phi_t[some] @ plain
        if psi:
            out = out + phi_next_t[some] @ (self.batch.discount[:, None] * u[1])
        return np.asarray(out)


def mixed(factors: Sequence[float] | Array, rows: Sequence[Any]) -> Any:
    """Σ_i factor_i (direction i), over the factors that are not zero; may be one of the directions itself."""
    terms = [row if factor == 1.0 else factor * row for factor, row in zip(factors, rows, strict=True) if factor]
    return reduce(operator.add, terms)


Linear = Matrix | MeanOperator  # x ↦ A x, y ↦ Aᵀ y for flat vectors of length `size`, some columns of A, and b


def gathered(A: Linear, index: Array) -> Array:
    """A[:, index]."""
    parts = [values for _, values in A.columns(index)]
    return np.asfortranarray(parts[0] if len(parts) == 1 else np.concatenate(parts))


def formed(system: MeanOperator, last: Array | None = None, chunk: int | None = None) -> tuple[Array, Array, Array]:
    """Σ_t w_t A_t, Σ_t w_t b_t, and the trace of the last row, `last` being that before.

    M is read by rows: what the direction i writes into a block is Σ_t w_t (direction i)(Σ_j M_ij direction j)ᵀ, one
    product for all j, and blocks that differ by a factor share it. For TD that is a single product, e(φ − ψ)ᵀ.
    """
    k, d = system.table.n_blocks, system.batch.n_features
    products, at_once = _products(system.table.M.reshape(k, 3, k, 3)), CHUNK if system.batch.is_sparse else CACHED
    sums, earned = {product: np.zeros((d, d)) for product in products}, np.zeros((3, d))
    paid = np.flatnonzero(system.table.m.reshape(k, 3).any(axis=0))
    e, step = np.zeros(d) if last is None else last, chunk or max(min(at_once // d, 4096), 256)
    for low in range(0, len(system.batch), step):
        some = slice(low, low + step)
        all_count = system.weight[some].all()
        kept = slice(None) if all_count else np.flatnonzero(system.weight[some])
        rows, e = system.rows(some, e, kept)
        weight = system.weight[some][kept]
        if not len(weight):
            continue
        for i in paid:
            earned[i] += rows[i].T @ (weight * system.batch.reward[some][kept])
        for left, right in products:
            sums[left, right] += dense(scaled(weight, rows[left]).T @ mixed(right, rows))
    A: Array = np.zeros((k, d, k, d))
    for product, places in products.items():
        for row, column, factor in places:
            A[row, :, column, :] += factor * sums[product]
    A = A.reshape(k * d, k * d)
    A[np.diag_indices_from(A)] += np.repeat(system.table.damping, d) * system.weight.sum()
    return A, (system.table.m.reshape(k, 3) @ earned).ravel(), e


def _products(M: Array) -> dict[tuple[int, tuple[float, ...]], list[tuple[int, int, float]]]:
    """The products (left direction, mix of right ones) that A needs, and where: (block row, block column, factor)."""
    used: dict[tuple[int, tuple[float, ...]], list[tuple[int, int, float]]] = {}
    for a, i, b in np.argwhere(M.any(axis=3)).tolist():
        mix = M[a, i, b]
        factor = float(mix[np.flatnonzero(mix)[0]])
        used.setdefault((i, tuple((mix / factor).tolist())), []).append((a, b, factor))
    return used


def as_weight(batch: Batch, weight: Array | None) -> Array:
    """Row weights that sum to one; equal ones for None."""
    weight = np.ones(len(batch)) if weight is None else np.asarray(weight, dtype=np.float64)
    return np.asarray(weight / weight.sum())


def mean_operator(table: Table, batch: Batch, weight: Array | None = None, form: bool | None = None) -> Linear:
    """The mean system of a batch, formed when that is cheaper; `weight` reweights the rows (0 leaves a row out)."""
    system = MeanOperator(table, batch, as_weight(batch, weight))
    if form is None:  # d × d numbers are fewer than those of the rows, and few enough to be multiplied from the cache
        form = system.size <= FORM_BELOW and batch.n_features <= len(batch)
    if not form:
        return system
    A, b, _ = formed(system)
    return Matrix(A, b)


def second_moments(batch: Batch) -> Array:
    """C = E[φφᵀ] over the rows."""
    return dense(batch.phi.T @ batch.phi) / max(len(batch), 1)


def selected_rows(table: Table, batch: Batch, selected: Array) -> tuple[Array, Array, Array]:
    """φ_S, ψ_S and e_S of every row, each of shape (N, |S|)."""
    phi, psi, e = MeanOperator(table, batch, as_weight(batch, None)).directions(np.asarray(selected))
    return phi, psi, e


def refit(table: Table, batch: Batch, selected: Array, weight: Array | None = None) -> Array:
    """θ_S by LSTD on the rows with their weights; the shortest solution where G_SS is singular."""
    phi, psi, e = selected_rows(table, batch, selected)
    weighted = as_weight(batch, weight)[:, None] * e
    return np.asarray(np.linalg.lstsq(weighted.T @ (phi - psi), weighted.T @ batch.reward, rcond=None)[0])
