"""Sparse rows as the kernels want them, and memory for the lines of their coordinates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsetd.system import Array


class Rows(NamedTuple):
    """CSR rows, of which a slice is no copy."""

    values: Array
    indices: Array
    indptr: Array

    def between(self, first: int, stop: int) -> Rows:
        return self._replace(indptr=self.indptr[first : stop + 1])


def rows_of(matrix: Any) -> Rows:
    """CSR rows for the kernels, always of the same types: another type would compile another kernel.

    To Numba a read-only array (a memory map, Arrow's memory) is another type; the kernels only read, so it is lent to
    them as if it were not.
    """
    csr = matrix if sp.issparse(matrix) and matrix.format == "csr" else sp.csr_array(matrix)
    return Rows(_lent(csr.data, np.float64), _lent(csr.indices, np.int32), _lent(csr.indptr, np.int64))


def _lent(array: Array, dtype: Any) -> Array:
    """The array itself, or a view of it that does not say that it is read-only; a copy only for another type."""
    plain = np.ascontiguousarray(array, dtype=dtype)
    return plain if plain.flags.writeable else np.asarray(_Lender(plain))


class _Lender:
    """Presents the memory of an array, which it keeps alive, without the mark that it is read-only."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def aligned_zeros(d: int, stride: int) -> Array:
    """Zeros (d, stride) that begin on a cache line, so that one coordinate is one line of 64 bytes (or two)."""
    memory = np.zeros(d * stride + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip : skip + d * stride].reshape(d, stride)


def horizon(d: int) -> int:
    """Rows between flushes: so many that a flush, O(d), costs little per row."""
    return max(4 * d, 1 << 16)


def longest(phi: Rows, phi_next: Rows) -> int:
    """The most coordinates that a row can touch."""
    return sum(int(np.diff(rows.indptr).max(initial=0)) for rows in (phi, phi_next))


def from_row(rows: Any, first: int) -> Any:
    """The rest of a stream, its CSR rows as plain tuples."""
    n = len(rows.reward)
    phi, phi_next = (tuple(part.between(first, n)) for part in rows[:2])
    return type(rows)(phi, phi_next, *(column[first:] for column in rows[2:]))
