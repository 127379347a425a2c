"""Second moments of the columns, one row after the other, so that any chunking gives the same bits."""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part

# Rows of `moments`: how often a column was not zero, Σφ and Σφ².
COUNT, SUM, SQUARES = range(3)
ALL, EVERY = 256, 16  # the first rows are all looked at, and then one in so many


@part
def _looked_at(t):
    return t < ALL or t % EVERY == 0


@part
def _add(moments, j, a):
    if a != 0:
        moments[COUNT, j] += 1.0
        moments[SUM, j] += a
        moments[SQUARES, j] += a * a


@kernel
def observe(moments, phi, t):
    """Take dense rows, of which the first is row t of the stream; returns how many were looked at."""
    seen = 0
    for i in range(len(phi)):
        if _looked_at(t + i):
            seen += 1
            for j in range(phi.shape[1]):
                _add(moments, j, float(phi[i, j]))
    return seen


@kernel
def observe_sparse(moments, row, phi, t):
    """The same for CSR rows, which may name a column twice; `row` is room for one of them, all zeros."""
    values, indices, indptr = phi
    seen = 0
    for i in range(len(indptr) - 1):
        if _looked_at(t + i):
            seen += 1
            for place in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                row[np.uint64(indices[place])] += values[place]
            for place in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint64(indices[place])
                _add(moments, j, row[j])
                row[j] = 0.0
    return seen
