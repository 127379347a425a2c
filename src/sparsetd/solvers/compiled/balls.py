"""The balls that bound the dual, one number and one Euclidean projection each."""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, piece

# The dual ball of a fit in ‖·‖_m is that of the conjugate norm.
FREE, L1_BALL, L2_BALL, BOX = range(4)
DUAL_BALL = {1: BOX, 2: L2_BALL, "inf": L1_BALL}


@kernel
def project(v, ball):
    """v ← its nearest point in the unit ball of the l1, l2 or l∞ norm, in place; v is a tuple of blocks, or (k, d)."""
    if ball == L1_BALL:
        _threshold(v, _level(v))
    elif ball == L2_BALL:
        within_radius(v, 1.0)
    elif ball == BOX:
        for b in range(len(v)):
            row, one = v[b], v[b].dtype.type(1)
            for j in range(len(row)):
                row[j] = min(max(row[j], -one), one)


@piece
def within_radius(v, radius):
    """Scale v into the l2 ball of that radius."""
    total = square_size(v)
    if total > radius * radius:
        for b in range(len(v)):
            row, scale = v[b], v[b].dtype.type(radius / np.sqrt(total))
            for j in range(len(row)):
                row[j] *= scale


@piece
def square_size(v):
    """‖v‖²."""
    total = 0.0
    for b in range(len(v)):
        row = v[b]
        for j in range(len(row)):
            total += np.float64(row[j]) * row[j]
    return total


@piece
def _level(v):
    """The τ at which a soft threshold leaves an l1 norm of 1 (Michelot's iteration); 0 inside the ball."""
    tau, count = 0.0, -1
    while True:
        total, active = 0.0, 0
        for b in range(len(v)):
            row = v[b]
            for j in range(len(row)):
                if abs(row[j]) > tau:
                    total += abs(row[j])
                    active += 1
        if (count < 0 and total <= 1.0) or active == count:
            return tau
        count, tau = active, (total - 1.0) / active


@piece
def _threshold(v, tau):
    for b in range(len(v)):
        row, bound = v[b], v[b].dtype.type(tau)
        for j in range(len(row)):
            row[j] -= min(max(row[j], -bound), bound)
