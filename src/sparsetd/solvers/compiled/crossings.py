"""When did a coordinate fall to zero? The history of (L, P, Q) of `soft`, for steps that are not constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part

L, RHO, SUMS = 1, 0, 4  # rows of `scalar` (P and Q come after L) and of `fixed`, and a place in a line
SINCE, GUIDED, WIDTH = 2, 5, 1  # entries of `counter`, and of `number`


def exact(function: Any) -> Any:
    """Sums are compensated here, and must not be reordered."""
    return part(function, fastmath=False)


def exact_kernel(function: Any) -> Any:
    return kernel(function, fastmath=False)


@exact
def remember(history, guide, counter, number, scalar, b):
    """Append L, P, Q of vector b to the history and to its guide, whose width doubles where it is full."""
    since, level = counter[SINCE], scalar[L, b]
    for c in range(3):
        history[since, c] = scalar[L + c, b]
    if number[WIDTH] == 0.0 and level > 0.0:
        number[WIDTH] = max(level / 64.0, 1e-300)
    while number[WIDTH] > 0.0 and number[WIDTH] * counter[GUIDED] <= level < np.inf:
        if counter[GUIDED] + 1 == len(guide):
            counter[GUIDED] //= 2
            number[WIDTH] *= 2.0
            for i in range(counter[GUIDED]):
                guide[i] = guide[2 * i]
        else:
            guide[counter[GUIDED]] = since
            counter[GUIDED] += 1
    guide[counter[GUIDED]] = since


@exact
def _search(history, below, reached, level):
    """First step in (below, reached] whose L reaches `level`: L increases, so Newton and, for safety, bisection."""
    guess, tries = (below + reached) // 2, 0
    while reached - below > 1:
        at = min(max(guess, below + 1), reached - 1)
        here = history[at, 0]
        if here >= level:
            reached = at
        else:
            below = at
        tries += 1
        guess = (below + reached) // 2
        slope = here - history[at - 1, 0]
        if tries % 4 != 0 and slope > 0.0:
            guess = at + np.int64(np.ceil((level - here) / slope))
    return reached


@exact
def settle(line, j, b, history, guide, counter, rho, width):
    """Complete the sum of a coordinate of x that has fallen to zero, and mark it by v = 0.

    The guide and a step of Newton nearly always meet m, without a branch that could be mispredicted. `rho` and `width`
    come with their inverses. A coordinate that is at zero already, which a row may name twice, adds nothing.
    """
    v, last = line[j, b], counter[SINCE]
    level = abs(v) * rho[1]
    place = level * width[1]
    i = np.uint64(max(min(np.int64(place), counter[GUIDED] - 1), 0))
    below, reached = guide[i], guide[i + np.uint64(1)]
    at = min(max(below + np.int64((place - float(i)) * (reached - below)), 1), last)
    here = history[np.uint64(at), 0]
    slope = max(here - history[np.uint64(at - 1), 0], 1e-9 * width[0])
    m = min(max(at + np.int64(np.ceil((level - here) / slope)), 1), last)
    if not history[np.uint64(m - 1), 0] < level <= history[np.uint64(m), 0]:
        m = _search(history, max(below - 1, 0), reached, level)
    line[j, SUMS + b] += v * history[np.uint64(m), 1] - np.sign(v) * rho[0] * history[np.uint64(m), 2]
    line[j, b] = 0.0


@exact
def settle_fallen(line, indices, lo, hi, history, guide, counter, number, fixed, fallen):
    """Settle the coordinates of a row that have fallen to zero since they were last touched.

    They are listed first: branches on which of them fell would be coin tosses, and their searches can overlap.
    """
    width = (number[WIDTH], 1.0 / number[WIDTH])
    for b in range(2):
        rho = (fixed[RHO, b], 1.0 / fixed[RHO, b])
        bound, n = rho[0] * history[counter[SINCE], 0], np.uint64(0)
        for i in range(lo, hi if bound > 0.0 else lo):
            size = abs(line[np.uint64(indices[i]), b])
            fallen[n] = indices[i]
            n += np.uint64((size > 0.0) & (size <= bound))
            if n == np.uint64(len(fallen)) or i + np.uint64(1) == hi:
                for c in range(n):
                    settle(line, np.uint64(fallen[c]), b, history, guide, counter, rho, width)
                n = np.uint64(0)
