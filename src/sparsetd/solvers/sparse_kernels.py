"""Exact O(nnz) steps of the streaming solvers on sparse rows.

A coordinate that a transition does not touch still moves, but in a way that is known in advance. Between two touches
every vector of the state (each block of x, each block of y) obeys x ← f S(a x, α ρ), alike for all coordinates, so
that

    x_t = F_t S_{ρ L_t}(v)                          F ← a f F      L ← L + α / |a F|
    Σ_{i<t} ω_i x_i = R + v P_t − sgn(v) ρ Q_t      P ← P + ω F    Q ← Q + ω F L

with two numbers (v, R) per coordinate and four running scalars (F, L, P, Q) per vector. Here f = 1/(1 + α l2) for an
elastic net, a = 1 − α·damping, and f is the radial scaling of an l2 ball (y has ρ = 0).

The coordinates in use are *hot*: they are held as plain numbers (x_t, Σ ω x) and take the dense step, vectorised. A
coordinate becomes hot when a row touches it (load) and returns to its line when it is no longer needed (store);
laziness is nowhere else. On a trajectory φ' of a row is φ of the next one, so every coordinate is loaded once for its
two uses; the support of a trace stays hot until it has faded.

A coordinate that has reached zero (|v| ≤ ρ L_t) did so at m, the first index with ρ L_m ≥ |v|, and its sum stopped
there: in closed form for constant steps, by a search in the history of (L, P, Q) otherwise.

F only shrinks. When |F| < 2⁻¹⁰ a new *generation* begins with F = 1, because P would no longer resolve the terms
added to it. `chain` holds, for every older generation, the composed map to the beginning of the current one; it has
the same form, so one multiplication brings a coordinate up to date. Every `horizon` steps all coordinates are
flushed, which bounds the history and the rounding errors of the sums. Flushes happen at fixed step numbers, hence any
chunking gives the same bits.

This kernel serves every case; the common one has a faster kernel of its own, `direct_kernels`. All jitted code of each
is in its file, and everything enters as data: a cached kernel that calls another file is stale after an edit there, and
one that takes functions is never cached.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sparsetd.solvers.intrinsics import borrow, prefetch

Array = NDArray[Any]

NO_BALL, L2_BALL, LINF_BALL = 0, 2, 3
# Columns of `scalar`, of `chain` and `ends`, and (from L on) of `history`; CARRY: the rounding of L, P and Q.
F, L, P, Q, CARRY = 0, 1, 2, 3, 4
# Entries of `count`; GENERATION and OLDEST have one for x and one for y.
SINCE_FLUSH, STEPS, HOT_FROM, HOT_TO, LAST_NEXT, LIVE, GENERATION, OLDEST = 0, 1, 2, 3, 4, 5, 6, 8
# Rows of `hot`: values and sums of the vectors, components of φ ψ e, trial point, and lines on their way in.
VALUE, TOTAL, ALONG, TRIAL, RAW, HOT_ROWS = 0, 4, 8, 12, 16, 32
L1 = 14  # place in a Rule
RESTART = 2.0**-10
DEAD = 2.0**-200
SWEEP = 512

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
INLINE = {**OPTIONS, "forceinline": True}
MACRO = {**OPTIONS, "inline": "always"}  # not compiled on its own
SUMS = {"reassoc", "contract", "arcp", "nsz"}


class Lines(NamedTuple):
    """The state. A line: v of each vector, R of each summed vector, the generations of x and y, and last its mark."""

    line: Array  # (d, 8 or 16): one or two cache lines per coordinate
    hot: Array  # (HOT_ROWS, capacity), see the names above
    names: Array  # (capacity,): which coordinates are hot; special ones first, for good
    scalar: Array  # (V, 7): F L P Q and the compensation of L P Q
    counter: Array  # (10,) integers, see the names above
    norm: Array  # (1,): ‖y‖²
    chain: Array  # (2, generations, k, 4): composed (F, L, P, Q) from the start of a generation to the current one
    ends: Array  # (2, generations, k, 4): (F, L, P, Q) at the end of a generation
    begins: Array  # (2, generations): value of SINCE_FLUSH at the start of a generation
    history: Array  # (horizon + 1, h, 3): L P Q of x after every step since the flush; h = 1 where all blocks agree
    room: Array  # (3, V, 3) to work in: allocated inside, it would be freed as soon as it is borrowed


class Rule(NamedTuple):
    """Constants of a run."""

    extragradient: bool
    ball: int
    n_blocks: int  # k
    n_sums: int  # vectors whose weighted sum is kept: 0, k (x) or V (x and y)
    slot_x: int  # where a line keeps its generation of x (−1: x never scales) and of y
    slot_y: int
    constant: float  # the constant step that is also the weight of the average, or 0
    horizon: int  # steps between flushes
    traces: bool
    trace_tol: float
    places: Array  # (non-zeros of M, 4): b, q, c, r with M[3b + q, 3c + r] ≠ 0 …
    entries: Array  # … and what it is
    m: Array  # (k, 3)
    damping: Array  # (k,)
    l1: Array  # (V,): ρ of every vector, 0 for y
    l2: Array  # (V,)
    multiplier: Array  # (special coordinates,): what multiplies their penalty


class Rows(NamedTuple):
    """Sparse rows; `values` is empty where every stored entry is 1."""

    values: Array
    indices: Array
    indptr: Array


@njit(**MACRO)
def _fetch_ahead(line, indices, indptr, t):
    if t + 1 < len(indptr):
        for i in range(indptr[t], indptr[t + 1]):
            prefetch(line, indices[i])


# Loading ------------------------------------------------------------------------------------------------------------


@njit(**INLINE)
def _touch(line, hot, names, first, n, q, values, indices, lo, hi, scale):
    """Add scale · (entries lo … hi) to direction q of the hot coordinates, duplicates and all; returns their new end.

    The mark of a line is its place among the hot coordinates, or −1. Lines of those from `first` on wait in RAW.
    """
    plain = len(values) == 0
    mark = line.shape[1] - 1
    for i in range(lo, hi):
        j = np.int64(indices[i])
        amount = scale if plain else scale * values[i]
        place = np.int64(line[j, mark])
        if place >= 0:
            hot[ALONG + q, place] += amount
        else:
            _copy_line(line, j, hot, n - first)
            line[j, mark] = n
            names[n] = j
            hot[ALONG, n] = hot[ALONG + 1, n] = hot[ALONG + 2, n] = 0.0
            hot[ALONG + q, n] = amount
            n += 1
    return n


@njit(**MACRO)
def _copy_line(line, j, hot, i):
    for s in range(8):
        hot[RAW + s, i] = line[j, s]
    if line.shape[1] == 16:
        for s in range(8, 16):
            hot[RAW + s, i] = line[j, s]


@njit(**OPTIONS)
def _first_at_least(history, h, lo, hi, level):
    """First index in [lo, hi) whose L reaches `level`, else hi: L increases, so Newton and, for safety, bisection."""
    if hi - lo < 1 or history[hi - 1, h, 0] < level:
        return hi
    below, reached = lo - 1, hi - 1
    at, newton = reached, 0
    while reached - below > 1:
        guess = (below + reached) // 2
        newton += 1
        if at > lo and newton % 4 != 0:
            here = history[at, h, 0]
            slope = here - history[at - 1, h, 0]
            if slope > 0.0:
                guess = at + np.int64(np.ceil((level - here) / slope))
        at = min(max(guess, below + 1), reached - 1)
        if history[at, h, 0] >= level:
            reached = at
        else:
            below = at
    return reached


@njit(**OPTIONS)
def _sum_until_zero(history, ends, begins, current, since, rho, lag, b, v, generation):
    """What a coordinate of block b of x that reached zero since `generation` added to its sum before it did."""
    total = 0.0
    h = min(b, history.shape[1] - 1)
    while generation < current and abs(v) > rho * ends[generation, b, L]:
        sign = np.sign(v)
        total += v * ends[generation, b, P] - sign * rho * ends[generation, b, Q]
        v = ends[generation, b, F] * (v - sign * rho * ends[generation, b, L])
        generation += 1
    lo = begins[generation]
    hi = begins[generation + 1] if generation < current else since + 1
    m = _first_at_least(history, h, lo, hi, abs(v) / rho)
    m = (min(m, hi - 1) if generation == current else m) - lag  # the division may round up past the last level
    if m == hi:
        return total + v * ends[generation, b, P] - np.sign(v) * rho * ends[generation, b, Q]
    return total + v * history[m, h, 1] - np.sign(v) * rho * history[m, h, 2]


@njit(**INLINE)
def _renew(hot, n, slot, group, count, chain, ends, begins, history, l1, n_sums, lag):
    """Bring (v, R) of one group of vectors (0: x, 1: y) from their generation to the current one."""
    current, since, k, n_vectors = count[GENERATION + group], count[SINCE_FLUSH], chain.shape[2], len(l1)
    for i in range(n):
        generation = np.int64(hot[RAW + slot, i])
        if generation != current:
            for c in range(k):
                b = group * k + c
                v, rho = hot[RAW + b, i], l1[b]
                drop = rho * chain[group, generation, c, L]
                if b < n_sums:
                    if rho > 0.0 and v != 0.0 and abs(v) <= drop:
                        gain = _sum_until_zero(history, ends, begins, current, since, rho, lag, b, v, generation)
                    else:
                        loss = rho * chain[group, generation, c, Q]
                        gain = v * chain[group, generation, c, P] - np.sign(v) * loss
                    hot[RAW + n_vectors + b, i] += gain
                hot[RAW + b, i] = chain[group, generation, c, F] * (v - min(max(v, -drop), drop))


@njit(**INLINE)
def _resolve_constant(hot, b, place, first, n, rho, step, since, lag):
    """Values and sums for a constant step α = ω: L_m = P_m = α m and Q_m = α² m (m − 1)/2 (+ α² m where sums lag)."""
    per = 1.0 / (rho * step)
    drop, last = rho * step * since, float(since)
    shift = 2.0 * lag - 1.0
    half = 0.5 * rho * step * step
    start = np.uint64(first)
    for i in range(np.uint64(n - first)):
        v = hot[RAW + b, i]
        m = min(max(np.ceil(abs(v) * per) - lag, 0.0), last)
        loss = half * m * (m + shift)
        hot[VALUE + b, start + i] = v - min(max(v, -drop), drop)
        hot[TOTAL + b, start + i] = hot[RAW + place, i] + v * step * m - (loss if v > 0.0 else -loss)


@njit(**INLINE)
def _resolve_any(hot, b, place, first, n, scalar, count, ends, begins, history, rho, lag):
    """x = F S_{ρL}(v) and Σ ω x = R + v P − sgn(v) ρ Q, or up to the zero crossing."""
    current, since = count[GENERATION], count[SINCE_FLUSH]
    scale, drop, mass, loss = scalar[b, F], rho * scalar[b, L], scalar[b, P], rho * scalar[b, Q]
    start = np.uint64(first)
    for i in range(np.uint64(n - first)):
        v = hot[RAW + b, i]
        hot[VALUE + b, start + i] = scale * (v - min(max(v, -drop), drop))
        hot[TOTAL + b, start + i] = hot[RAW + place, i] + v * mass - (loss if v > 0.0 else -loss)
    if rho > 0.0 and place > 0:
        for i in range(n - first):
            v = hot[RAW + b, i]
            if abs(v) <= drop:
                gain = 0.0
                if v != 0.0:
                    gain = _sum_until_zero(history, ends, begins, current, since, rho, lag, b, v, current)
                hot[TOTAL + b, first + i] = hot[RAW + place, i] + gain


@njit(**INLINE)
def _resolve(hot, first, n, scalar, count, chain, ends, begins, history, l1, n_sums, slot_x, slot_y, constant, lag):
    """Turn the raw lines of the hot coordinates first … n−1 into values and weighted sums."""
    n_vectors = len(l1)
    for group in range(2):
        slot = slot_x if group == 0 else slot_y
        if slot >= 0:
            _renew(hot, n - first, slot, group, count, chain, ends, begins, history, l1, n_sums, lag)
    for b in range(n_vectors):
        place = n_vectors + b if b < n_sums else 0
        if l1[b] > 0.0 and constant > 0.0 and b < n_sums:
            _resolve_constant(hot, b, place, first, n, l1[b], constant, count[SINCE_FLUSH], lag)
        else:
            _resolve_any(hot, b, place, first, n, scalar, count, ends, begins, history, l1[b], lag)


# Storing ------------------------------------------------------------------------------------------------------------


@njit(**INLINE)
def _pack(hot, start, n, scalar, count, l1, n_sums, slot_x, slot_y, mark):
    """The lines of hot coordinates for the current scalars, into RAW: v = x/F + sgn ρ L, R = Σ ω x − v P + sgn ρ Q."""
    n_vectors = len(l1)
    for b in range(n_vectors):
        inverse, drop = 1.0 / scalar[b, F], l1[b] * scalar[b, L]
        for i in range(start, n):
            v = hot[VALUE + b, i] * inverse
            hot[RAW + b, i] = v + (drop if v > 0.0 else (-drop if v < 0.0 else 0.0))
        if b < n_sums:
            mass, loss, place = scalar[b, P], l1[b] * scalar[b, Q], n_vectors + b
            for i in range(start, n):
                v = hot[RAW + b, i]
                back = v * mass - (loss if v > 0.0 else (-loss if v < 0.0 else 0.0))
                hot[RAW + place, i] = hot[TOTAL + b, i] - back
    for i in range(start, n):
        hot[RAW + mark, i] = -1.0
    for group in range(2):
        slot = slot_x if group == 0 else slot_y
        if slot >= 0:
            for i in range(start, n):
                hot[RAW + slot, i] = count[GENERATION + group]


@njit(**INLINE)
def _cool(line, hot, names, start, n, n_special, linked, tol, n_vectors):
    """Store the hot coordinates that the next step does not need; returns how many stay and the first of them.

    Special coordinates stay, those of a trace that has not faded, and, on a trajectory, those of φ'. The others leave a
    hole, which is all zero and takes part in nothing.
    """
    live, first, wide = 0, n, line.shape[1] == 16
    for i in range(start, n):
        j = names[i]
        if i < n_special or (linked and hot[ALONG + 1, i] != 0.0) or abs(hot[ALONG + 2, i]) > tol:
            live += 1
            first = min(first, i)
        elif j >= 0:
            for s in range(8):
                line[j, s] = hot[RAW + s, i]
            if wide:
                for s in range(8, 16):
                    line[j, s] = hot[RAW + s, i]
            names[i] = -1
            if live > 0:
                hot[ALONG + 2, i] = 0.0
                for b in range(n_vectors):
                    hot[VALUE + b, i] = 0.0
    return live, first


@njit(**OPTIONS)
def _move_up(line, hot, names, first, n, n_vectors, squeeze):
    """Move the hot coordinates first … n−1 to the front, with or without their holes; returns their new end."""
    mark, kept = line.shape[1] - 1, 0
    for i in range(first, n):
        if names[i] >= 0 or not squeeze:
            names[kept] = names[i]
            hot[ALONG + 2, kept] = hot[ALONG + 2, i]
            for b in range(n_vectors):
                hot[VALUE + b, kept] = hot[VALUE + b, i]
                hot[TOTAL + b, kept] = hot[TOTAL + b, i]
            if names[i] >= 0:
                line[names[i], mark] = kept
            kept += 1
    return kept


# The running scalars --------------------------------------------------------------------------------------------------


@njit(**MACRO)
def _add(scalar, b, column, term):
    """Compensated summation: the sums run over millions of steps, and their differences matter."""
    carry = column - L + CARRY
    term = term - scalar[b, carry]
    total = scalar[b, column] + term
    scalar[b, carry] = (total - scalar[b, column]) - term
    scalar[b, column] = total


@njit(**INLINE)
def _advance(scalar, since, l1, n_sums, constant, lag, alpha, weight, decay):
    """Move F, L, P, Q of every vector past one step; rows of `decay` are a, f and the f of the summed value."""
    for b in range(len(l1)):
        before, level = scalar[b, F], scalar[b, L]
        scalar[b, F] = before * decay[b, 0] * decay[b, 1]
        if l1[b] > 0.0 and constant > 0.0:
            scalar[b, L] = scalar[b, P] = constant * since
            scalar[b, Q] = 0.5 * constant * constant * since * (since - 1 + 2 * lag)
        else:
            if l1[b] > 0.0:
                _add(scalar, b, L, alpha / abs(decay[b, 0] * before))
            if b < n_sums:
                if lag == 1:
                    before, level = before * decay[b, 2], scalar[b, L]
                _add(scalar, b, P, weight * before)
                if l1[b] > 0.0:
                    _add(scalar, b, Q, weight * before * level)


@njit(**MACRO)
def _remember(history, since, scalar, l1):
    """Append L, P, Q to the history, where one is kept; a common one is that of a penalised block."""
    if since < len(history):
        width = history.shape[1]
        for h in range(width):
            b = 1 if width == 1 and l1[0] == 0.0 else h
            for c in range(3):
                history[since, h, c] = scalar[b, L + c]


@njit(**OPTIONS)
def _next_generation(lines, group):
    """Begin a generation of a group of vectors (0: x, 1: y); extend the chains that are still alive."""
    _, _, _, scalar, count, _, chain, ends, _, _, _ = lines
    current, k = count[GENERATION + group], chain.shape[2]
    for c in range(k):
        b = group * k + c
        for i in range(CARRY):
            ends[group, current, c, i] = scalar[b, i]
        for g in range(count[OLDEST + group], current + 1):
            _compose(chain, group, g, c, scalar, b)
        for i in range(scalar.shape[1]):
            scalar[b, i] = 1.0 if i == F else 0.0
    oldest = count[OLDEST + group]
    while oldest < current and abs(chain[group, oldest, 0, F]) + abs(chain[group, oldest, k - 1, F]) < DEAD:
        for c in range(k):
            chain[group, oldest, c, F] = 0.0
        oldest += 1
    count[OLDEST + group] = oldest
    _begin(lines, group, current + 1)


@njit(**MACRO)
def _compose(chain, group, g, c, scalar, b):
    """chain ← (scalars at the end of the current generation) ∘ chain."""
    scale = chain[group, g, c, F]
    if scale != 0.0:
        sign = 1.0 if scale > 0.0 else -1.0
        chain[group, g, c, Q] += scale * chain[group, g, c, L] * scalar[b, P] + sign * scalar[b, Q]
        chain[group, g, c, P] += scale * scalar[b, P]
        chain[group, g, c, L] += scalar[b, L] / abs(scale)
        chain[group, g, c, F] = scale * scalar[b, F]


@njit(**MACRO)
def _begin(lines, group, generation):
    """Start a generation with the identity."""
    _, _, _, _, count, _, chain, _, begins, history, _ = lines
    count[GENERATION + group] = generation
    begins[group, generation] = count[SINCE_FLUSH]
    for c in range(chain.shape[2]):
        for i in range(4):
            chain[group, generation, c, i] = 1.0 if i == F else 0.0
    if group == 0 and count[SINCE_FLUSH] < len(history):
        for h in range(history.shape[1]):
            for i in range(3):
                history[count[SINCE_FLUSH], h, i] = 0.0


@njit(**OPTIONS)
def begin_afresh(lines):
    """Scalars, history and generations of a state whose lines hold plain values: after a flush and at the beginning."""
    _, _, _, scalar, count, _, _, _, _, _, _ = lines
    count[SINCE_FLUSH] = 0
    for b in range(scalar.shape[0]):
        for i in range(scalar.shape[1]):
            scalar[b, i] = 1.0 if i == F else 0.0
    for group in range(2):
        count[OLDEST + group] = 0
        _begin(lines, group, 0)


# All coordinates ------------------------------------------------------------------------------------------------------


@njit(**INLINE)
def _evaluate(line, j, b, k, rho, n_vectors, n_sums, slot, scalar, count, chain, ends, begins, history, constant, lag):
    """Value and sum of coordinate j of vector b, from its line: `_resolve` for one number, compiled in no time."""
    group, since = (0 if b < k else 1), count[SINCE_FLUSH]
    current = count[GENERATION + group]
    v, total = line[j, b], line[j, n_vectors + b] if b < n_sums else 0.0
    generation = np.int64(line[j, slot]) if slot >= 0 else current
    if generation != current:
        c = b - group * k
        drop = rho * chain[group, generation, c, L]
        if abs(v) > drop:
            loss = rho * chain[group, generation, c, Q]
            total += v * chain[group, generation, c, P] - math.copysign(loss, v)
        elif v != 0.0 and b < n_sums:
            total += _sum_until_zero(history, ends, begins, current, since, rho, lag, b, v, generation)
        v = chain[group, generation, c, F] * (v - min(max(v, -drop), drop))
    drop = rho * scalar[b, L]
    if abs(v) > drop:
        total += v * scalar[b, P] - math.copysign(rho * scalar[b, Q], v)
    elif v != 0.0 and constant > 0.0:
        m = max(np.ceil(abs(v) / (rho * constant)) - lag, 0.0)
        total += v * constant * m - math.copysign(0.5 * rho * constant * constant * m * (m - 1.0 + 2.0 * lag), v)
    elif v != 0.0 and b < n_sums:
        total += _sum_until_zero(history, ends, begins, current, since, rho, lag, b, v, current)
    return scalar[b, F] * (v - min(max(v, -drop), drop)), total


@njit(**OPTIONS)
def _evaluate_some(lines, rule, first, n, values, totals):
    """Values and sums of n coordinates from `first` on, as they are in their lines."""
    line, _, _, scalar, count, _, chain, ends, begins, history, _ = lines
    extragradient, _, k, n_sums, slot_x, slot_y, constant = rule[:7]
    line, scalar, count, chain = borrow(line), borrow(scalar), borrow(count), borrow(chain)
    ends, begins, history = borrow(ends[0]), borrow(begins[0]), borrow(history)
    l1, lag = borrow(rule[L1]), 1 if extragradient else 0
    for i in range(n):
        for b in range(len(l1)):
            x, total = _evaluate(
                line, first + i, b, k, l1[b], len(l1), n_sums, slot_x if b < k else slot_y, scalar, count, chain, ends,
                begins, history, constant, lag,
            )  # fmt: skip
            values[b, i] = x
            if b < n_sums:
                totals[b, i] = total


@njit(**OPTIONS)
def materialise(lines, rule, values, totals):
    """Write the values (V, d) and weighted sums (V or k or 0, d) of all coordinates; the state is left as it is."""
    _, hot, names, _, count, _, _, _, _, _, _ = lines
    _evaluate_some(lines, rule, np.int64(0), values.shape[1], values, totals)
    for b in range(len(values)):
        for i in range(count[HOT_FROM], count[HOT_TO]):
            if names[i] >= 0:
                values[b, names[i]] = hot[VALUE + b, i]
                if b < len(totals):
                    totals[b, names[i]] = hot[TOTAL + b, i]


@njit(**OPTIONS)
def _flush(lines, rule, damp, weight):
    """Replace every line by its plain value and sum. With `damp`, also x ← damp · x, its old value counted in the sum.

    The second use is for a step whose a = 1 − α·damping is nearly 0, by which the lines could not be divided.
    """
    line, hot, names, _, count, norm, _, _, _, _, _ = lines
    _, _, k, n_sums, slot_x, slot_y = rule[:6]
    n_vectors, square = len(rule[L1]), 0.0
    values, totals = np.empty((n_vectors, SWEEP)), np.empty((n_vectors, SWEEP))
    for i in range(count[HOT_FROM], count[HOT_TO]):
        for b in range(n_vectors if names[i] >= 0 else 0):
            line[names[i], b] = 0.0
            square += hot[VALUE + b, i] * hot[VALUE + b, i] if b >= k else 0.0
    for first in range(0, len(line), SWEEP):
        n = min(SWEEP, len(line) - first)
        _evaluate_some(lines, rule, first, n, values, totals)
        for i in range(n):
            for b in range(n_vectors):
                x = values[b, i]
                line[first + i, b] = damp[b] * x
                square += x * x if b >= k else 0.0
                if b < n_sums:
                    line[first + i, n_vectors + b] = totals[b, i] + weight * (1.0 - damp[b]) * x
            if slot_x >= 0:
                line[first + i, slot_x] = 0.0
            if slot_y >= 0:
                line[first + i, slot_y] = 0.0
    norm[0] = square
    begin_afresh(lines)


# One step -------------------------------------------------------------------------------------------------------------


@njit(fastmath=SUMS, **INLINE)
def _products(hot, n_vectors, at, start, n, traces, u):
    """u_b = (φ·v, ψ·v, e·v) of every vector v in the rows from `at` on."""
    for b in range(n_vectors):
        with_phi = with_psi = 0.0
        for i in range(start, n):
            with_phi += hot[ALONG, i] * hot[at + b, i]
            with_psi += hot[ALONG + 1, i] * hot[at + b, i]
        u[b, 0], u[b, 1] = with_phi, with_psi
        if traces:
            with_e = 0.0
            for i in range(start, n):
                with_e += hot[ALONG + 2, i] * hot[at + b, i]
            u[b, 2] = with_e


@njit(fastmath=SUMS, **INLINE)
def _prox_special(hot, b, n_special, step, g, keep, l1, l2, multiplier, clip, out):
    """`_move` and `_try` for the coordinates with a penalty of their own."""
    growth = 0.0
    for i in range(n_special):
        x = hot[VALUE + b, i]
        p = keep * x - step * (g[b, 0] * hot[ALONG, i] + g[b, 1] * hot[ALONG + 1, i] + g[b, 2] * hot[ALONG + 2, i])
        bound = l1 * multiplier[i]
        p = min(max((p - min(max(p, -bound), bound)) / (1.0 + l2 * multiplier[i]), -clip), clip)
        growth += (p - x) * (p + x)
        hot[out + b, i] = p
    return growth


@njit(fastmath=SUMS, **INLINE)
def _move(hot, b, start, n, step, g, keep, l1, l2, clip):
    """v ← clip(prox(keep · v − step · (g_φ φ + g_ψ ψ + g_e e))) for vector b; returns the growth of its ‖·‖²."""
    growth = 0.0
    s0, s1, s2, shrink = step * g[b, 0], step * g[b, 1], step * g[b, 2], 1.0 / (1.0 + l2)
    for i in range(start, n):
        x = hot[VALUE + b, i]
        p = keep * x - (s0 * hot[ALONG, i] + s1 * hot[ALONG + 1, i] + s2 * hot[ALONG + 2, i])
        p = min(max(shrink * (p - min(max(p, -l1), l1)), -clip), clip)
        growth += (p - x) * (p + x)
        hot[VALUE + b, i] = p
    return growth


@njit(fastmath=SUMS, **INLINE)
def _try(hot, b, start, n, step, g, keep, l1, l2, clip):
    """The same into the trial point. One function for both would not vectorise: its rows might overlap."""
    growth = 0.0
    s0, s1, s2, shrink = step * g[b, 0], step * g[b, 1], step * g[b, 2], 1.0 / (1.0 + l2)
    for i in range(start, n):
        x = hot[VALUE + b, i]
        p = keep * x - (s0 * hot[ALONG, i] + s1 * hot[ALONG + 1, i] + s2 * hot[ALONG + 2, i])
        p = min(max(shrink * (p - min(max(p, -l1), l1)), -clip), clip)
        growth += (p - x) * (p + x)
        hot[TRIAL + b, i] = p
    return growth


@njit(**INLINE)
def _weights(places, entries, m, saddle, u, reward, fresh, traces, g):
    """Weights of φ, ψ, e in the step of every vector: M u − r m for x, or Mᵀ u_y for x and −(M u_x − r m) for y.

    M is given by its few non-zeros. Without traces e = fresh · φ, whose weight is added to that of φ.
    """
    k, n_vectors = len(m), len(u)
    if not traces:
        for b in range(n_vectors):
            u[b, 2] = fresh * u[b, 0]
    shift, sign = (k, -1.0) if saddle else (0, 1.0)
    for b in range(k):
        for q in range(3):
            g[b, q] = 0.0
            g[shift + b, q] = -sign * reward * m[b, q]
    for i in range(len(entries)):
        b, q, c, r = places[i, 0], places[i, 1], places[i, 2], places[i, 3]
        g[shift + b, q] += sign * entries[i] * u[c, r]
        if saddle:
            g[c, r] += entries[i] * u[k + b, q]
    if not traces:
        for b in range(n_vectors):
            g[b, 0] += fresh * g[b, 2]
            g[b, 2] = 0.0


@njit(**OPTIONS)
def _step(
    hot, start, n, trial, at, weight, n_sums, places, entries, m, damping, l1, l2, multiplier, saddle, traces, ball,
    norm, reward, fresh, alpha, limit, u, g,
):  # fmt: skip
    """The dense step on the hot coordinates, with the gradient at the rows from `at` on; returns (‖y‖², its scale, ok).

    x ← prox(x − α(A_t x̂ − b_t)), or (x, y) ← (prox(x − α A_tᵀ ŷ), Π(y + α(A_t x̂ − b_t))); a trial leaves (x, y) alone.
    """
    k, n_vectors, n_special = len(m), len(l1), len(multiplier)
    first, out = max(start, np.uint64(n_special)), TRIAL if trial else VALUE
    _products(hot, n_vectors, at, start, n, traces, u)
    for b in range(n_vectors):
        if not abs(u[b, 0]) + abs(u[b, 1]) < limit:
            return norm, 1.0, False
    _weights(places, entries, m, saddle, u, reward, fresh, traces, g)
    for b in range(n_vectors):
        keep = 1.0 if saddle else 1.0 - alpha * damping[b]
        clip = 1.0 if b >= k and ball == LINF_BALL else np.inf
        if b < n_sums and not trial:
            for i in range(start, n):
                hot[TOTAL + b, i] += weight * hot[at + b, i]
        growth = 0.0
        if n_special:
            growth = _prox_special(
                hot, b, n_special, alpha, g, keep, alpha * l1[b], alpha * l2[b], multiplier, clip, out
            )
        if trial:
            growth += _try(hot, b, first, n, alpha, g, keep, alpha * l1[b], alpha * l2[b], clip)
        else:
            growth += _move(hot, b, first, n, alpha, g, keep, alpha * l1[b], alpha * l2[b], clip)
        if b >= k:
            norm += growth
    scale = 1.0
    if ball == L2_BALL and norm > 1.0:
        scale, norm = 1.0 / np.sqrt(norm), 1.0
        for b in range(k, n_vectors):
            for i in range(start, n):
                hot[out + b, i] *= scale
    return norm, scale, True


@njit(**OPTIONS)
def run(lines, rule, phi, phi_next, reward, discount, fresh, fading, alpha, weight, limit):
    """Advance the state by all rows; returns how many were taken before a product left ±`limit`.

    `lines`, `rule`, `phi` and `phi_next` are the tuples above as plain ones, for a disk cache that names a class cannot
    be read without it. `fresh` and `fading` are c and d of e_t = c φ_t + d e_{t−1}, `weight` those of the sums.
    """
    line, hot, names, scalar, count, norm, chain, ends, begins, history, room = lines
    extragradient, ball, k, n_sums, slot_x, slot_y, constant, horizon, traces, tol = rule[:10]
    places, entries, m, damping, l1, l2, multiplier = rule[10:]
    line, hot, names, scalar, count = borrow(line), borrow(hot), borrow(names), borrow(scalar), borrow(count)
    norm, chain, history = borrow(norm), borrow(chain), borrow(history)
    ends, begins = borrow(ends[0]), borrow(begins[0])
    places, entries, m, damping = borrow(places), borrow(entries), borrow(m), borrow(damping)
    l1, l2, multiplier = borrow(l1), borrow(l2), borrow(multiplier)
    values, indices, indptr = borrow(phi[0]), borrow(phi[1]), borrow(phi[2])
    next_values, next_indices, next_indptr = borrow(phi_next[0]), borrow(phi_next[1]), borrow(phi_next[2])
    n_vectors = len(l1)
    saddle, lag = n_vectors > k, 1 if extragradient else 0
    room[:] = 1.0
    u, g, decay, damp = borrow(room[0]), borrow(room[1]), borrow(room[2]), np.ones(n_vectors)
    linked = False
    for t in range(len(reward)):
        if not linked:
            _fetch_ahead(line, indices, indptr, t + 1)
        _fetch_ahead(line, next_indices, next_indptr, t + 1)
        lo, hi, next_lo, next_hi = indptr[t], indptr[t + 1], next_indptr[t], next_indptr[t + 1]
        first, end = count[HOT_FROM], count[HOT_TO]
        squeeze = end - first > 2 * count[LIVE] + 64
        if squeeze or end + hi - lo + next_hi - next_lo > len(names):
            end = _move_up(line, hot, names, first, end, n_vectors, squeeze)
            first = 0
        for i in range(np.uint64(first), np.uint64(end)):
            hot[ALONG, i] = hot[ALONG + 1, i] = 0.0
            hot[ALONG + 2, i] *= fading[t]
        n = end
        for q in range(2 if discount[t] != 0.0 else 1):
            if q == 0:
                n = _touch(line, hot, names, end, n, q, values, indices, lo, hi, 1.0)
            else:
                n = _touch(line, hot, names, end, n, q, next_values, next_indices, next_lo, next_hi, discount[t])
        if traces:
            for i in range(np.uint64(first), np.uint64(n)):
                hot[ALONG + 2, i] += fresh[t] * hot[ALONG, i]
        # A trajectory: φ is the φ' of the row before. The first indices tell.
        linked = lo < hi and np.int64(indices[lo]) == count[LAST_NEXT]
        count[LAST_NEXT] = np.int64(next_indices[next_lo]) if next_lo < next_hi else -1
        count[HOT_FROM], count[HOT_TO] = first, n
        start, stop = np.uint64(first), np.uint64(n)
        _resolve(hot, end, n, scalar, count, chain, ends, begins, history, l1, n_sums, slot_x, slot_y, constant, lag)
        omega, at, trial_scale, size, scale, fine = weight[t], VALUE, 1.0, norm[0], 1.0, True
        for trial in range(lag, -1, -1):  # 1: the trial point of an extragradient step
            trial_scale = scale
            size, scale, fine = _step(
                hot, start, stop, trial, at, omega, n_sums, places, entries, m, damping, l1, l2, multiplier, saddle,
                traces, ball, norm[0], reward[t], fresh[t], alpha[t], limit, u, g,
            )  # fmt: skip
            at = TRIAL
        norm[0] = size
        smallest = 1.0
        for b in range(n_vectors):
            decay[b, 1] = decay[b, 2] = 1.0 / (1.0 + alpha[t] * l2[b])
            if b >= k:
                decay[b, 1], decay[b, 2] = scale, trial_scale
            elif not saddle:
                decay[b, 0] = 1.0 - alpha[t] * damping[b]
                smallest = min(smallest, abs(decay[b, 0]))
        if smallest < 0.0625:
            for b in range(k):
                damp[b], decay[b, 0] = decay[b, 0], 1.0
            _flush(lines, rule, damp, omega)
        count[SINCE_FLUSH] += 1
        _advance(scalar, count[SINCE_FLUSH], l1, n_sums, constant, lag, alpha[t], omega, decay)
        _remember(history, count[SINCE_FLUSH], scalar, l1)
        for group in range(2):
            slot, low = (slot_x, 0) if group == 0 else (slot_y, k)
            if slot >= 0 and min(abs(scalar[low, F]), abs(scalar[low + k - 1, F])) < RESTART:
                _next_generation(lines, group)
        _pack(hot, start, stop, scalar, count, l1, n_sums, slot_x, slot_y, line.shape[1] - 1)
        live, first = _cool(line, hot, names, first, n, len(multiplier), linked, tol, n_vectors)
        count[HOT_FROM], count[HOT_TO], count[LIVE] = first, n if live else first, live
        count[STEPS] += 1
        last = max(count[GENERATION], count[GENERATION + 1]) + 1
        if count[SINCE_FLUSH] >= horizon or last >= chain.shape[1]:
            for b in range(k):
                damp[b] = 1.0
            _flush(lines, rule, damp, 0.0)
        if not fine:
            return t
    return len(reward)
