"""Sums over rows by group: every linear fit of this package is made from them.

    A_k = Σ_t ρ e(φ − ψ)ᵀ,    b_k = Σ_t ρ r e,    C_k = Σ_t φφᵀ        over the rows t of group k

`weighted_products` is the one place where such a sum is formed: for the folds of cross-validation, the blocks of action
values, and the folds and policies of an evaluation, in memory or in shards. `Moments` are the sums as a record. LSTD
without fold k solves (Σ_{j≠k} A_j) θ = Σ_{j≠k} b_j, and the error on fold k follows from its own sums: the rows are
read once, and every support after that is small algebra. For other units φ → Tφ no row is read again either:
A → TATᵀ, b → Tb, C → TCTᵀ. Small systems are solved with columns of unit length: what counts as singular must not
depend on units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

MOSTLY = 0.8  # above this share of rows with ρ ≠ 0, copying them costs more than products with zeros
TRACE = 1e-7  # share that is added to the mean square of a column with a ridge


def lengths(phi: Array) -> Array:
    """Root mean square of every column, 1 for a column of zeros."""
    return lengths_of(np.einsum("ij,ij->j", phi, phi) / max(len(phi), 1))


def lengths_of(mean_squares: Array) -> Array:
    """`lengths` from the mean squares of the columns."""
    return np.asarray(np.sqrt(np.where(mean_squares > 0, mean_squares, 1.0)))


def weighted_products(left: Array, right: Array, last: Array, weight: Array | None, group: Array, into: Array) -> None:
    """Add [Σ ρ l rᵀ, Σ ρ l y] over the rows of every group to `into`, ρ being `weight` and y the column `last`."""
    d = right.shape[1]
    if weight is not None and np.count_nonzero(weight) < MOSTLY * len(weight):  # a rule takes some logged actions only
        used = np.flatnonzero(weight)
        left, right, last, weight, group = left[used], right[used], last[used], weight[used], group[used]
    for k, rows in runs_of(group, len(into)) if len(group) else ():
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


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of every group of episodes; the first axis counts the groups."""

    A: Array
    b: Array
    C: Array
    start: Array
    n_rows: Array
    n_episodes: Array
    n_clusters: Array

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def mean_square(self) -> Array:
        """C/N of all rows."""
        return np.asarray(self.C.sum(axis=0) / self.n_rows.sum())

    def centre_and_spread(self) -> tuple[Array, Array]:
        """Mean and standard deviation of every column but the constant, over all rows."""
        C = self.mean_square()
        return C[-1, :-1], np.sqrt(np.maximum(np.diag(C)[:-1] - C[-1, :-1] ** 2, 0.0))

    def spread(self) -> Array:
        return self.centre_and_spread()[1]

    def total(self, keep: Array | None = None) -> Moments:
        """The sums of the groups that are kept (default: all), as a single group."""
        some = slice(None) if keep is None else keep
        return Moments(*(getattr(self, name)[some].sum(axis=0)[None] for name in self.__dataclass_fields__))

    def merged(self, n: int) -> Moments:
        """The sums with every n consecutive groups merged into one."""
        entries = (getattr(self, name) for name in self.__dataclass_fields__)
        return Moments(*(e.reshape(len(e) // n, n, *e.shape[1:]).sum(axis=1) for e in entries))

    def ridged(self, ridge: Array | None) -> Moments:
        """The sums with NΛ added to A, Λ the ridge of every column, by group.

        A trace of it in C keeps functions that depend on one another from counting as redundant: the ridge settles
        them.
        """
        if ridge is None:
            return self
        n = self.n_rows[:, None, None]
        return replace(self, A=self.A + n * np.diag(ridge), C=self.C + n * np.diag(TRACE * (ridge > 0)))

    def on(self, columns: Array) -> Moments:
        """The sums of some columns of φ; the constant is one of them only if it is named."""
        square = (slice(None), columns[:, None], columns)
        return replace(self, A=self.A[square], C=self.C[square], b=self.b[:, columns], start=self.start[:, columns])

    def units(self, pilot: Units) -> Units:
        """Mean and spread of the columns, from the sums in some other units."""
        mean, spread = self.centre_and_spread()
        own = pilot.shift + pilot.scale * mean
        return Units.of_spread(own, own, (pilot.scale * spread) ** 2)

    def in_units(self, old: Units, new: Units) -> Moments:
        """The sums of the same rows in other units."""
        return in_units((self,), old, new)[0]


def in_units(several: Sequence[Moments], old: Units, new: Units) -> list[Moments]:
    """The sums of several policies over the same rows in other units: C and c are those of the first."""

    def mapped(square: Array) -> Array:
        return in_other_units(in_other_units(square, old, new), old, new, axis=-2)

    C, start = mapped(several[0].C), in_other_units(several[0].start, old, new)
    return [replace(m, A=mapped(m.A), b=in_other_units(m.b, old, new), C=C, start=start) for m in several]


def in_other_units(rows: Array, old: Units, new: Units, axis: int = -1) -> Array:
    """Tφ = scale·φ + shift·1 along an axis (the last, or with −2 the one before), with the constant at its end."""
    scale, shift = np.append(old.scale / new.scale, 1.0), np.append((old.shift - new.shift) / new.scale, 0.0)
    if axis == -2:
        scale, shift = scale[:, None], shift[:, None]
    out = rows * scale
    out += rows.take([-1], axis) * shift
    return np.asarray(out)
