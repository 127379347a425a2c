"""When did a coordinate fall to zero? The history of (L, P, Q), for steps set by hand that are not constant.

`past` is this history, a guide into it, room for the coordinates of a row, how many places of the guide are in use, and
the width of such a place. Constant steps have a closed form (`law.gone_closed`), dual averaging a queue (`queue`).
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import part
from sparsetd.solvers.compiled.law import RHO, L, R


@part
def remember(past, since, scalar, b):
    """Append L, P, Q of vector b to the history and to its guide, whose width doubles where it is full."""
    history, guide, _, guided, width = past
    level = scalar[L, b]
    for c in range(3):
        history[since, c] = scalar[L + c, b]
    if width[0] == 0.0 and level > 0.0:
        width[0] = max(level / 64.0, 1e-300)
    while width[0] > 0.0 and width[0] * guided[0] <= level < np.inf:
        if guided[0] + 1 == len(guide):
            guided[0] //= 2
            width[0] *= 2.0
            for i in range(guided[0]):
                guide[i] = guide[2 * i]
        else:
            guide[guided[0]] = since
            guided[0] += 1
    guide[guided[0]] = since


@part
def _search(history, below, reached, level):
    """First step in (below, reached] whose L reaches `level`: L increases."""
    while reached - below > 1:
        middle = (below + reached) // 2
        if history[middle, 0] >= level:
            reached = middle
        else:
            below = middle
    return reached


@part
def _settle(line, j, b, past, last, rho, width):
    """Complete the sum of a coordinate of x that has fallen to zero, and mark it by v = 0.

    The guide and a step of Newton nearly always meet m, without a branch that could be mispredicted. `rho` and `width`
    come with their inverses. A coordinate that is at zero already, which a row may name twice, adds nothing.
    """
    history, guide, guided = past[0], past[1], past[3][0]
    v = line[j, b]
    level = abs(v) * rho[1]
    place = level * width[1]
    i = np.uint64(max(min(np.int64(place), guided - 1), 0))
    below, reached = guide[i], guide[i + np.uint64(1)]
    at = min(max(below + np.int64((place - float(i)) * (reached - below)), 1), last)
    here = history[np.uint64(at), 0]
    slope = max(here - history[np.uint64(at - 1), 0], 1e-9 * width[0])
    m = min(max(at + np.int64(np.ceil((level - here) / slope)), 1), last)
    if not history[np.uint64(m - 1), 0] < level <= history[np.uint64(m), 0]:
        m = _search(history, max(below - 1, 0), reached, level)
    line[j, R + b] += v * history[np.uint64(m), 1] - np.sign(v) * rho[0] * history[np.uint64(m), 2]
    line[j, b] = 0.0


@part
def settle_line(line, j, past, lane, weight, last):
    """Settle the vectors of one coordinate that have fallen to zero; `weight` multiplies its ρ."""
    width = past[4][0]
    for b in range(2):
        rho = weight * lane[RHO, b]
        if 0.0 < abs(line[j, b]) <= rho * past[0][last, 0]:
            _settle(line, j, b, past, last, (rho, 1.0 / rho), (width, 1.0 / width))


@part
def settle_fallen(line, indices, lo, hi, past, lane, mark, own, last):
    """Settle the coordinates of a row that have fallen to zero since they were last touched.

    They are listed first: branches on which of them fell would be coin tosses, and their searches can overlap.
    """
    fallen, width = past[2], (past[4][0], 1.0 / past[4][0])
    for b in range(2):
        rho = (lane[RHO, b], 1.0 / lane[RHO, b])
        bound, n = rho[0] * past[0][last, 0], np.uint64(0)
        for i in range(lo, hi if bound > 0.0 else lo):
            j = np.uint64(indices[i])
            size = abs(line[j, b])
            reached = size <= (bound * (1.0 + line[j, mark]) if own else bound)
            fallen[n] = indices[i]
            n += np.uint64((size > 0.0) & reached)
            if n == np.uint64(len(fallen)) or i + np.uint64(1) == hi:
                for c in range(n):
                    j = np.uint64(fallen[c])
                    weight = 1.0 + line[j, mark] if own else 1.0
                    _settle(line, j, b, past, last, (weight * rho[0], rho[1] / weight), width)
                n = np.uint64(0)
