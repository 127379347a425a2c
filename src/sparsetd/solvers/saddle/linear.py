"""The mean system A = (1/N) Σ A_t as something to multiply with, as a matrix, by its columns, and on a selection.

**The system.** `mean_operator` takes the rows as they are or, when that is cheaper, forms the matrix: when d is small
and N exceeds it.

**Its columns.** Those that a working set W needs are computed once and compressed. For m = 2 only lengths matter, so a
tall block may be replaced by its triangular factor, which is built from a few rows at a time:

    [A_W  b] = Q R      ⇒      ‖A_W x − b‖₂ = ‖R_W x − R_b‖₂        (|W| + 1 rows instead of kd)

**LSTD on a selection S.** The penalty chooses, and then stops shrinking:

    θ_S = argmin ‖G_SS θ_S − g_S‖,      G_SS = Σ_t w_t e_S(φ − ψ)_Sᵀ,    g_S = Σ_t w_t r_t e_S
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

import numpy as np
from scipy.linalg import qr

from sparsetd.system import Array, Batch, MeanOperator, Table, dense, recurrence

CHUNK = 2 * 10**6  # numbers (16 MB) of a block of rows that is read at once
FORM_BELOW = 2500  # unknowns: beyond this the matrix no longer stays in cache and PDHG gains nothing from forming it


class Linear(Protocol):
    """x ↦ A x and y ↦ Aᵀ y for flat vectors of length `size`, some columns of A, and b."""

    @property
    def b(self) -> Array: ...

    @property
    def size(self) -> int: ...

    def apply(self, x: Array) -> Array: ...

    def adjoint(self, y: Array) -> Array: ...

    def columns(self, index: Array, chunk: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Rows of A[:, index], a few at a time, each with the slice of rows it fills."""
        ...


@dataclass
class Matrix:
    """A system that is small enough to be a matrix."""

    A: Array
    b: Array

    @property
    def size(self) -> int:
        return len(self.b)

    def apply(self, x: Array) -> Array:
        return np.asarray(self.A @ x)

    def adjoint(self, y: Array) -> Array:
        return np.asarray(y @ self.A)

    def columns(self, index: Array, chunk: int | None = None) -> Iterator[tuple[slice, Array]]:  # noqa: ARG002
        yield slice(0, len(self.b)), self.A[:, index]


@dataclass
class Implicit(MeanOperator):
    """The mean system by its rows, also with other weights and column by column."""

    def reweighted(self, weight: Array) -> Implicit:
        """The same rows with other weights; the transposed rows are made once and shared."""
        other = copy(self)
        vars(other).update(weight=weight, _phi_t=self._phi_t, _phi_next_t=self._phi_next_t)
        vars(other).pop("b", None)
        return other

    def columns(self, index: Array, chunk: int | None = None) -> Iterator[tuple[slice, Array]]:
        k, d, n = self.table.n_blocks, self.batch.n_features, len(index)
        block, feature = np.divmod(index, d)
        products = self.directions(feature)
        M = self.table.M.reshape(k, 3, k, 3)[:, :, block, :]  # (output block, direction, column, direction)
        for a in range(k):
            weights = [np.einsum("cj,jtc->tc", M[a, i], products) * self.weight[:, None] for i in range(3)]
            plain = weights[0] + self.fresh[:, None] * self._trace(weights[2], transpose=True)
            step = chunk or d
            for low in range(0, d, step):
                some = slice(low, min(low + step, d))
                rows = self._phi_t[some] @ plain
                if self._writes[1]:
                    rows = rows + self._phi_next_t[some] @ (self.batch.discount[:, None] * weights[1])
                if self.table.damping[a]:
                    hit = (block == a) & (feature >= some.start) & (feature < some.stop)
                    rows[feature[hit] - some.start, np.arange(n)[hit]] += self.table.damping[a]
                yield slice(a * d + some.start, a * d + some.stop), np.asarray(rows)

    def directions(self, feature: Array) -> Array:
        """Columns `feature` of Φ, Ψ and E, shape (3, N, number of columns)."""
        phi, phi_next = (dense(rows[:, feature]) for rows in (self.batch.phi, self.batch.phi_next))
        psi = self.batch.discount[:, None] * phi_next
        return np.stack([phi, psi, self._trace(self.fresh[:, None] * phi)])

    def rows(self, some: slice, last: Array) -> tuple[Array, Array, Array]:
        """Dense φ, ψ and e of some rows, given the trace of the row before them."""
        phi, phi_next = (dense(part[some]) for part in (self.batch.phi, self.batch.phi_next))
        e, old = self.fresh[some, None] * phi, self.old[some]
        if old.any():
            e[0] += old[0] * last
            e = recurrence(old, e)
        return phi, self.batch.discount[some, None] * phi_next, e


def gathered(A: Linear, index: Array) -> Array:
    """A[:, index]."""
    out = np.empty((A.size, len(index)), order="F")
    for rows, values in A.columns(index):
        out[rows] = values
    return out


def formed(system: Implicit, part: Array | None = None, chunk: int | None = None) -> list[Array]:
    """Σ_t w_t A_t over the rows of each part (without parts: over all), the damping left out.

    M is read by rows: what the direction i writes into a block is Σ_t w_t (direction i)(Σ_j M_ij direction j)ᵀ, one
    product for all j, and blocks that differ by a factor share it. For TD that is a single product, e(φ − ψ)ᵀ.
    """
    k, d = system.table.n_blocks, system.batch.n_features
    part = np.zeros(len(system.batch), dtype=np.intp) if part is None else part
    products = _products(system.table.M.reshape(k, 3, k, 3))
    sums = [{product: np.zeros((d, d)) for product in products} for _ in range(int(part.max()) + 1)]
    last, step = np.zeros(d), chunk or max(min(CHUNK // d, 4096), 256)
    for low in range(0, len(system.batch), step):
        some = slice(low, low + step)
        rows = system.rows(some, last)
        last = rows[2][-1]
        members = [np.flatnonzero((part[some] == p) & (system.weight[some] > 0)) for p in range(len(sums))]
        for left, right in products:
            mix = reduce(np.add, [factor * direction for factor, direction in zip(right, rows, strict=True) if factor])
            for total, member in zip(sums, members, strict=True):
                total[left, right] += (system.weight[some][member, None] * rows[left][member]).T @ mix[member]
    return [_assembled(total, products, k, d) for total in sums]


def _products(M: Array) -> dict[tuple[int, tuple[float, ...]], list[tuple[int, int, float]]]:
    """The products (left direction, mix of right ones) that A needs, and where: (block row, block column, factor)."""
    used: dict[tuple[int, tuple[float, ...]], list[tuple[int, int, float]]] = {}
    for a, i, b in np.argwhere(M.any(axis=3)).tolist():
        mix = M[a, i, b]
        factor = float(mix[np.flatnonzero(mix)[0]])
        used.setdefault((i, tuple((mix / factor).tolist())), []).append((a, b, factor))
    return used


def _assembled(sums: dict[Any, Array], products: dict[Any, list[tuple[int, int, float]]], k: int, d: int) -> Array:
    A = np.zeros((k, d, k, d))
    for product, places in products.items():
        for a, b, factor in places:
            A[a, :, b, :] += factor * sums[product]
    return A.reshape(k * d, k * d)


def as_weight(batch: Batch, weight: Array | None) -> Array:
    """Row weights that sum to one; equal ones for None."""
    weight = np.ones(len(batch)) if weight is None else np.asarray(weight, dtype=np.float64)
    return np.asarray(weight / weight.sum())


def mean_operator(table: Table, batch: Batch, weight: Array | None = None, form: bool | None = None) -> Linear:
    """The mean system of a batch, formed when that is cheaper; `weight` reweights the rows (0 leaves a row out)."""
    implicit = Implicit(table, batch, as_weight(batch, weight))
    if not (worth_forming(implicit) if form is None else form):
        return implicit
    return Matrix(_damped(implicit, formed(implicit)[0]), implicit.b)


def worth_forming(system: Implicit) -> bool:
    """Return whether d × d numbers are fewer than those of the rows, and few enough to be multiplied from the cache."""
    return system.size <= FORM_BELOW and system.batch.n_features <= len(system.batch)


def _damped(system: Implicit, A: Array) -> Array:
    A[np.diag_indices_from(A)] += np.repeat(system.table.damping, system.batch.n_features)
    return A


def second_moments(batch: Batch) -> Array:
    """C = E[φφᵀ] over the rows."""
    phi, n = batch.phi, max(len(batch), 1)
    return dense(phi.T @ phi) / n


class ByFold:
    """The mean systems of all rows and of all folds but one, for the price of one system.

    Where the matrix is worth forming, the sums over each fold are formed in a single pass; a system is the sum of the
    others' (nothing is subtracted, so what is zero there stays zero). Elsewhere rows are left out by their weights.
    """

    def __init__(self, table: Table, batch: Batch, fold: Array, form: bool | None = None) -> None:
        self._all, self._fold = Implicit(table, batch, as_weight(batch, None)), fold
        form = worth_forming(self._all) if form is None else form
        self._sums = formed(self._all, fold) if form else None

    def whole(self) -> Linear:
        return self._of(np.ones(len(self._fold)))

    def without(self, k: int) -> Linear:
        """The mean system of the rows that are not in fold k."""
        return self._of((self._fold != k).astype(np.float64))

    def _of(self, kept: Array) -> Linear:
        system = self._all.reweighted(as_weight(self._all.batch, kept))
        if self._sums is None:
            return system
        folds = np.unique(self._fold[kept > 0])
        A = np.sum([self._sums[j] for j in folds], axis=0) * (len(kept) / kept.sum())
        return Matrix(_damped(system, A), system.b)


KEEP_BELOW = 4 * 10**7  # numbers (320 MB): larger blocks are streamed, not stored


@dataclass
class Columns:
    """A[:, index], growing; `values` is None while the block is too large to keep."""

    A: Linear
    index: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: Array | None = None

    def extend(self, index: Array) -> int:
        """Adds the coordinates that are not there yet, and says how many; those that are keep their places."""
        new = np.setdiff1d(index, self.index)
        total = self.A.size * (len(self.index) + len(new))
        if total > KEEP_BELOW:
            self.values = None
        elif len(new):
            missing = new if self.values is not None or not len(self.index) else np.append(self.index, new)
            block = gathered(self.A, missing)
            self.values = block if self.values is None else np.column_stack([self.values, block])
        self.index = np.append(self.index, new)
        return len(new)

    def dense(self) -> Array:
        """A_W itself, for the norms that are not invariant under rotation; there the block is always kept."""
        assert self.values is not None
        return self.values

    def triangular(self) -> Array:
        """R of [A_W  b] = Q R."""
        b = self.A.b[:, None]
        if self.values is not None:
            return _triangle(np.column_stack([self.values, b]))
        R = np.empty((0, len(self.index) + 1))
        for rows, values in self.A.columns(self.index, chunk=max(KEEP_BELOW // (20 * len(self.index)), 1000)):
            block = np.column_stack([values, b[rows]])
            R = _triangle(np.vstack([R, block[block.any(axis=1)]]))
        return R


def _triangle(block: Array) -> Array:
    if len(block) <= block.shape[1]:
        return block
    return np.asarray(qr(block, mode="r", check_finite=False, overwrite_a=True)[0][: block.shape[1]])


def selected_rows(table: Table, batch: Batch, selected: Array) -> tuple[Array, Array, Array]:
    """φ_S, ψ_S and e_S of every row, each of shape (N, |S|)."""
    phi, psi, e = Implicit(table, batch, as_weight(batch, None)).directions(np.asarray(selected))
    return phi, psi, e


def refit(table: Table, batch: Batch, selected: Array, weight: Array | None = None) -> Array:
    """θ_S by LSTD on the rows with their weights; the shortest solution where G_SS is singular."""
    phi, psi, e = selected_rows(table, batch, selected)
    weighted = as_weight(batch, weight)[:, None] * e
    return np.asarray(np.linalg.lstsq(weighted.T @ (phi - psi), weighted.T @ batch.reward, rcond=None)[0])
