"""The law of dual averaging on sparse rows: the point is a function of sums of gradients, which change only where a row
touches them. With v = −s_x, x_0 = 0,

    x_t = F_t S(v, ℓ_t)                       ℓ_t = l1 Σa_i              F_t = 1/(√Σ‖g_x‖² + l2 Σa_i)
    Σ a_i x_i = R + v P_t − sgn(v) Q_t        P ← P + a F̂                Q ← Q + a F̂ ℓ        while |v| > ℓ
    ‖x_t‖² = F_t² Σ(|v| − ℓ_t)²               over all v beyond ℓ, the *active* ones

and with v = s_y, y_t = F_t v. ℓ only grows, so an untouched coordinate leaves the active ones once, in the order of
|v|/l1. A heap knows which is next, and a coordinate that leaves takes along what it has in its sum.

Every vector (w, θ, y1 and y2, as many as there are) is a lane of a register. Coordinates that a row touches are *hot*
while it is at work (`hot`). Every so many rows all coordinates are brought up to date (a flush), at fixed row numbers:
any chunking gives the same bits.

A line of zeros is a coordinate at zero, so that memory which no row has touched is never written.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.heap import HEAPED, drop_first, push
from sparsetd.solvers.compiled.intrinsics import any_above, borrow, borrow_rows, lanes, load, store, within

# Places in a line: v, R, the weight for which a number was not zero (less Σa_i while it is active), its key in the heap
# (0 if it is not active), and the mark: 0, or 1 + its place among the hot coordinates.
V, R, SHARE, KEY, MARK, WIDTH = 0, 4, 8, 12, 15, 16
# Places of a hot coordinate, after v: Σax, trial point; φ, ψ, e, what multiplies the penalty; and its shares.
TOTAL, POINT, PHI, PSI, TRACE, MULTIPLIER, SHARES, HOT_WIDTH = 4, 12, 16, 17, 18, 19, 20, 24
# Rows of `scale`; of `active`: Σ(|v| − ℓ)², Σ(|v| − ℓ), how many, ℓ; of `fixed`: l1, l2, 1 for x, 1 where l1 > 0, and
# what multiplies |v| to make a key, early lest rounding keep a coordinate beyond its time.
P, Q = range(2)
SQUARES, LENGTHS, NUMBER, LEVEL = range(4)
L1, L2, PRIMAL, PENALISED, PER = range(5)
# Entries of `number`: y = FACTOR·v, and ‖v‖² of y; of `counter`: how many coordinates are hot, the size of the heap,
# rows since a flush, whether it is full.
FACTOR, DUAL = range(2)
HOT, SINCE, FULL = 0, 2, 3
EARLY, LATE = 1.0 - 2.0**-50, 1.0 + 2.0**-50


# A lazy state: lines, hot coordinates with their names, the scalars and constants above, the heap, the vectors.
Lines = namedtuple("Lines", "line hot names scale active number fixed keys owners counter slots")


@part
def lent_lines(s):
    """The same without an owner, lest calls count references, and with widths that the compiler knows."""
    scalars = borrow_rows(s.scale, 4), borrow_rows(s.active, 4), borrow(s.number), borrow_rows(s.fixed, 4)
    heap = borrow(s.keys), borrow(s.owners), borrow(s.counter), borrow(s.slots)
    return Lines(borrow_rows(s.line, WIDTH), borrow_rows(s.hot, HOT_WIDTH), borrow(s.names), *scalars, *heap)


@part
def counted(counts, v, on, level):
    """(Σ(|v| − ℓ)², Σ(|v| − ℓ), how many) of active numbers, with those of one more coordinate."""
    beyond = on * (np.abs(v) - level)
    return counts[0] + beyond * beyond, counts[1] + beyond, counts[2] + on


@part
def count(active, counts, sign):
    for row in range(LEVEL):
        store(active, row, 0, load(active, row, 0) + sign * counts[row])


@part
def gone(v, scale):
    """What a number that is active adds to its sum."""
    return v * load(scale, P, 0) - np.copysign(load(scale, Q, 0), v)


@part
def unpacked(s, j, mass):
    """v of a line, its sums, the weights for which it was not zero, and 1 where it is active (for y, not zero)."""
    v, penalised = load(s.line, j, V), load(s.fixed, PENALISED, 0)
    on = 1.0 - within(penalised * load(s.line, j, KEY) + (1.0 - penalised) * v, lanes(0.0))
    share = load(s.line, j, SHARE) + mass * (load(s.fixed, PRIMAL, 0) * on)
    return v, load(s.line, j, R) + on * gone(v, s.scale), share, on


@part
def _enter_heap(s, j, b, key):
    s.line[j, KEY + b] = key
    push(s.keys, s.owners, s.counter, key, j * (len(s.slots) // 2) + b)


@part
def _leave(s, j, b, before):
    """A number that the level has reached takes along what it has in its sum."""
    v, beyond = s.line[j, V + b], abs(s.line[j, V + b]) - s.active[LEVEL, b]
    s.active[SQUARES, b] -= beyond * beyond
    s.active[LENGTHS, b] -= beyond
    s.active[NUMBER, b] -= 1.0
    s.line[j, R + b] += v * s.scale[P, b] - np.copysign(s.scale[Q, b], v)
    s.line[j, SHARE + b] += before


@piece
def raise_level(s, before, mass):
    """ℓ ← l1·mass; the coordinates that it reaches leave the active ones."""
    active, line, k = s.active, s.line, len(s.slots) // 2
    for b in range(k):
        rise = s.fixed[L1, b] * mass - active[LEVEL, b]
        active[SQUARES, b] += rise * (active[NUMBER, b] * rise - 2.0 * active[LENGTHS, b])
        active[LENGTHS, b] -= rise * active[NUMBER, b]
        active[LEVEL, b] = s.fixed[L1, b] * mass
    while s.counter[HEAPED] > 0 and s.keys[0] <= mass:
        key, j, b = s.keys[0], s.owners[0] // k, s.owners[0] % k
        drop_first(s.keys, s.owners, s.counter)
        if line[j, KEY + b] == key:  # else it has moved towards zero since, and has another entry or none
            line[j, KEY + b] = 0.0
            if line[j, MARK] == 0.0:
                size = abs(line[j, V + b])
                if size > active[LEVEL, b]:  # it has moved away from zero since
                    _enter_heap(s, j, b, max(size * s.fixed[PER, b], mass * LATE))
                else:
                    _leave(s, j, b, before)


@part
def sum_of(room, values, mask):
    """Σ of the lanes that the mask keeps."""
    store(room, 0, 0, mask * values)
    return room[0, 0] + room[0, 1] + room[0, 2] + room[0, 3]


@part
def put_back(s, j, v, total, share, counts, mass, change):
    """Write a coordinate back, without its mark; returns the counts of active numbers with its own."""
    line, primal, level = s.line, load(s.fixed, PRIMAL, 0), load(s.active, LEVEL, 0)
    on, known, limit = primal * (1.0 - within(v, level)), load(line, j, KEY), np.abs(v) * load(s.fixed, PER, 0)
    fine = within(known, limit) * (1.0 - within(known, lanes(0.0)))  # the key is there, and early enough
    store(line, j, V, v)
    store(line, j, R, total - (on + (1.0 - primal)) * gone(v, s.scale))
    store(line, j, SHARE, share - mass * on)
    store(line, j, KEY, on * known)
    wanting = on * load(s.fixed, PENALISED, 0) * (1.0 - fine)
    if any_above(wanting, lanes(0.0)):
        store(change, 0, 0, wanting)
        store(change, 1, 0, limit)
        for b in range(len(s.slots) // 2):
            if change[0, b] > 0.0:
                _enter_heap(s, j, b, change[1, b])
    return counted(counts, v, on, level)


@kernel
def materialise(line, scale, fixed, first, mass, out):
    """Write v, sums and shares of the lines from `first` on into `out`; hot coordinates are the caller's."""
    s = Lines(borrow(line), line, line, borrow(scale), line, line, borrow(fixed), line, line, line, line)
    out = borrow(out)
    for i in range(len(out)):
        v, total, share, _ = unpacked(s, first + i, mass)
        store(out, i, V, v)
        store(out, i, R, total)
        store(out, i, SHARE, share)


@kernel
def flush(s, mass, forget):
    """Begin P and Q afresh, count the active ones anew, in a new heap; forget the averages if asked to."""
    s = lent_lines(s)
    line, hot, active, counter = s.line, s.hot, s.active, s.counter
    primal, nothing, sizes, level = load(s.fixed, PRIMAL, 0), lanes(0.0), lanes(0.0), load(active, LEVEL, 0)
    counts = (nothing, nothing, nothing)
    counter[HEAPED] = counter[SINCE] = 0
    for row in range(LEVEL):
        store(active, row, 0, nothing)
    for j in range(len(line)):
        place = np.int64(line[j, MARK]) - 1
        if place < 0:
            v, total, share, on = unpacked(s, j, mass)
            counts = counted(counts, v, primal * on, level)
            store(line, j, R, nothing if forget else total)
            if forget:
                store(line, j, SHARE, load(line, j, SHARE) - share)
        else:
            v = load(hot, place, V)
            if forget:
                store(hot, place, TOTAL, nothing)
                store(hot, place, SHARES, nothing)
        sizes = sizes + (1.0 - primal) * (v * v)
        for b in range(len(s.slots) // 2):
            if place < 0 and line[j, KEY + b] != 0.0:
                _enter_heap(s, j, b, abs(line[j, V + b]) * s.fixed[PER, b])
            else:
                line[j, KEY + b] = 0.0
    count(active, counts, 1.0)
    s.number[DUAL] = sum_of(s.scale, sizes, lanes(1.0))
    store(s.scale, P, 0, nothing)
    store(s.scale, Q, 0, nothing)
