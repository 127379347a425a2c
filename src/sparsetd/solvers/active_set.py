"""The active set of a pivoting method: its columns of A and a factorisation of A_II that grows and shrinks with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.linalg import qr_delete, qr_insert, solve_triangular

from sparsetd.system import Array

Column = Callable[[int], Array]  # i ↦ A[:, i]

PIVOT_TOLERANCE = 1e-11  # a pivot below this share of its own terms is rounding: the column depends on the active ones


class ActiveSet:
    """A_II = QR for the indices I in order of entry, with the columns A[:, I] kept.

    Adding or dropping an index is two Givens sweeps, O(|I|²), instead of a new factorisation, O(|I|³). Orthogonal
    updates are backward stable, unlike updates of an inverse or of an LU without pivoting, and A_II is not symmetric,
    so there is no Cholesky factor to update. The columns are computed once, when an index enters: with A given by rows
    that is O(Nd), and A itself is never formed.
    """

    def __init__(self, column: Column, n_features: int, indices: Iterable[int] = ()) -> None:
        self._column = column
        self._columns = np.empty((n_features, 8), order="F")
        self._Q, self._R = np.ones((0, 0)), np.ones((0, 0))
        self.indices: list[int] = []
        for i in indices:
            self.add(i)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def columns(self) -> Array:
        """A[:, I]."""
        return self._columns[:, : len(self.indices)]

    def solve(self, rhs: Array) -> Array:
        """A_II⁻¹ rhs."""
        if not self.indices:
            return np.zeros_like(rhs)
        return np.asarray(solve_triangular(self._R, self._Q.T @ rhs, check_finite=False))

    def add(self, i: int) -> float:
        """I ← I ∪ {i}; returns the pivot A_ii − A_iI A_II⁻¹ A_Ii, or 0 if it is rounding and i therefore stays out.

        det A_{I∪i} = pivot · det A_II, so in a P-matrix every pivot is positive.
        """
        column, row = self._column(i), self.columns[i].copy()
        correction = self.solve(column[self.indices])
        pivot = float(column[i] - row @ correction)
        if abs(pivot) <= PIVOT_TOLERANCE * (abs(column[i]) + float(np.abs(row) @ np.abs(correction))):
            return 0.0
        self._insert(i, column, row)
        return pivot

    def _insert(self, i: int, column: Array, row: Array) -> None:
        p = len(self)
        if p == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)], axis=1)
        self._columns[:, p] = column
        if p == 0:
            self._Q, self._R = np.ones((1, 1)), column[[i]][:, None]
        else:
            Q, R = qr_insert(self._Q, self._R, column[self.indices], p, "col", check_finite=False)
            self._Q, self._R = qr_insert(Q, R, np.append(row, column[i]), p, "row", check_finite=False)
        self.indices.append(i)

    def drop(self, slot: int) -> float:
        """I ← I without its entry number `slot`; returns the pivot that this entry had."""
        unit = np.zeros(len(self))
        unit[slot] = 1.0
        pivot = 1.0 / float(self.solve(unit)[slot])
        if len(self) > 1:
            Q, R = qr_delete(self._Q, self._R, slot, 1, "row", check_finite=False)
            self._Q, self._R = qr_delete(Q, R, slot, 1, "col", check_finite=False)
        self._columns[:, slot : len(self) - 1] = self._columns[:, slot + 1 : len(self)].copy()
        del self.indices[slot]
        return pivot
