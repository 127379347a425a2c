"""Rows in other units, as every sum needs them:  [φ 1],  [φ' 1]  and  [φ 1] − γ[φ' 1].

Compiled, one pass takes a sixth of NumPy's time, but Numba takes a quarter of a second to wake up: it is asked only
where there are many blocks of rows. Both do the same operations, so they give the same bits.
"""

from __future__ import annotations

import numpy as np

from sparsetd._tools.jit import njit
from sparsetd.system import Array


def evened(phi: Array, phi_next: Array, shift: Array, factor: Array, discount: Array, room: Array) -> None:
    """Fill the three matrices of `room` with (φ − shift)·factor and a constant 1, the same of φ', and the changes."""
    for rows, out in zip((phi, phi_next), room, strict=False):
        np.subtract(rows, shift, out=out[:, :-1])
        out[:, :-1] *= factor
        out[:, -1] = 1.0
    np.multiply(room[1], -discount[:, None], out=room[2])
    room[2] += room[0]


@njit(cache=True, nogil=True)
def compiled(phi: Array, phi_next: Array, shift: Array, factor: Array, discount: Array, room: Array) -> None:
    """The same in one pass."""
    n, d = phi.shape
    for i in range(n):
        states, after, changes, gamma = room[0, i], room[1, i], room[2, i], discount[i]
        for j in range(d):
            now, then = (phi[i, j] - shift[j]) * factor[j], (phi_next[i, j] - shift[j]) * factor[j]
            states[j], after[j], changes[j] = now, then, now - gamma * then
        states[d] = after[d] = 1.0
        changes[d] = 1.0 - gamma
