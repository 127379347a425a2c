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
def settle(line, j, b, history, guide, counter, number, rho):
    """Complete the sum of a coordinate of x that has fallen to zero, and mark it by v = 0.

    The guide and a step of Newton nearly always meet m, without a branch that could be mispredicted.
    """
    v, width = line[j, b], number[WIDTH]
    level = abs(v) / rho
    i = max(min(np.int64(level / width), counter[GUIDED] - 1), 0)
    below, reached = guide[i], guide[i + 1]
    at = min(max(below + np.int64((level / width - i) * (reached - below)), 1), counter[SINCE])
    slope = max(history[at, 0] - history[at - 1, 0], 1e-9 * width)
    m = min(max(at + np.int64(np.ceil((level - history[at, 0]) / slope)), 1), counter[SINCE])
    if not history[m - 1, 0] < level <= history[m, 0]:
        m = _search(history, max(below - 1, 0), reached, level)
    line[j, SUMS + b] += v * history[m, 1] - np.sign(v) * rho * history[m, 2]
    line[j, b] = 0.0


@exact
def settle_fallen(line, indices, lo, hi, history, guide, counter, number, fixed, fallen):
    """Settle the coordinates of a row that have fallen to zero since they were last touched.

    They are listed first: branches on which of them fell would be coin tosses, and their searches can overlap.
    """
    level, n = history[counter[SINCE], 0], 0
    for i in range(lo, hi):
        j = np.int64(indices[i])
        for b in range(2):
            size = abs(line[j, b])
            fallen[n] = 2 * j + b
            n += (size > 0.0) & (size <= fixed[RHO, b] * level)
        if n + 2 > len(fallen) or i + 1 == hi:
            for c in range(n):
                j, b = fallen[c] // 2, fallen[c] % 2
                settle(line, j, b, history, guide, counter, number, fixed[RHO, b])
            n = 0
