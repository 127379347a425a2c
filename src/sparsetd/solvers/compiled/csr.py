"""Sparse rows in the kernels."""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import part
from sparsetd.solvers.compiled.intrinsics import borrow, prefetch

TRACE_TOL = 1e-12  # entries of a trace of at most this size are dropped; e is then wrong by at most tol/(1 − γλ)


@part
def borrowed(rows):
    return borrow(rows[0]), borrow(rows[1]), borrow(rows[2])


@part
def entry(values, i):
    """The value of a stored entry."""
    return values[i] if len(values) > 0 else 1.0


@part
def fetch_row(array, rows, t):
    """Ask for the lines of row t ahead of its turn."""
    _, indices, indptr = rows
    if t + 1 < len(indptr):
        for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
            prefetch(array, indices[i])
