"""Sparse rows in the kernels."""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import part
from sparsetd.solvers.compiled.intrinsics import borrow, prefetch

TRACE_TOL = 1e-12  # entries of a trace of at most this size are dropped; e is then wrong by at most tol/(1 − γλ)
AHEAD = 128  # entries: a row at most so long is asked for well before its turn


@part
def borrowed(rows):
    return borrow(rows[0]), borrow(rows[1]), borrow(rows[2])


@part
def fetch_ahead(array, indices, i, lines):
    """Ask for so many cache lines of the entry AHEAD of this one, well before its turn."""
    ahead = i + np.uint64(AHEAD)
    j = np.uint32(indices[ahead if ahead < np.uint64(len(indices)) else i])
    for line in range(lines):
        prefetch(array, j, 8 * line)
