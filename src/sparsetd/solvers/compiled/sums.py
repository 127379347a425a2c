"""The law of dual averaging on sparse rows: the point is a function of sums of gradients, which change only where a row
touches them. With v = −s_x, x_0 = 0,

    x_t = F_t S(v, ℓ_t)                       ℓ_t = l1 Σa_i              F_t = 1/(√Σ‖g_x‖² + l2 Σa_i)
    Σ a_i x_i = R + v P_t − sgn(v) Q_t        P ← P + a F̂                Q ← Q + a F̂ ℓ        while |v| > ℓ
    ‖x_t‖² = F_t² Σ(|v| − ℓ_t)²               over all v beyond ℓ, the *active* ones

and with v = s_y, y_t = F_t v. ℓ only grows, so an untouched coordinate leaves the active ones once, in the order of
|v|/l1. A heap knows which is next, and a coordinate that leaves takes along what it has in its sum.

Every vector (w, θ, y1 and y2, as many as there are) is a lane of a register. A row first gathers the coordinates that
it touches side by side: they are *hot*, and the step of `averaging` is taken on these few. Those of a trace stay hot
until it has faded, and so do the features with a penalty of their own. Every so many rows all coordinates are brought
up to date (a flush), at fixed row numbers: any chunking gives the same bits.

A line of zeros is a coordinate at zero, so that memory which no row has touched is never written.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.averaging import into_unit_ball
from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.csr import borrowed, entry, fetch_row
from sparsetd.solvers.compiled.dense import products_in_range
from sparsetd.solvers.compiled.heap import HEAPED, drop_first, push
from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, store, within
from sparsetd.solvers.compiled.points import GRADIENT, U, fold, gradient
from sparsetd.solvers.compiled.rules import GX, GY, MASS, REACH, START, WEIGHT, over_root, see

# Places in a line: v, R, the weight for which a number was not zero (less Σa_i while it is active), its key in the heap
# (0 if it is not active), and the mark: 0, or 1 + its place among the hot coordinates.
V, R, SHARE, KEY, MARK, WIDTH = 0, 4, 8, 12, 15, 16
# Places of a hot coordinate, after v: Σax, gradient, point; φ, ψ, e, what multiplies the penalty; and its shares.
TOTAL, SLOPE, POINT, PHI, PSI, TRACE, MULTIPLIER, SHARES, HOT_WIDTH = 4, 8, 12, 16, 17, 18, 19, 20, 24
# Rows of `scale`; of `active`: Σ(|v| − ℓ)², Σ(|v| − ℓ), how many, ℓ; of `fixed`: l1, l2, 1 for x, 1 where l1 > 0.
P, Q = range(2)
SQUARES, LENGTHS, NUMBER, LEVEL = range(4)
L1, L2, PRIMAL, PENALISED = range(4)
# Entries of `number`: y = FACTOR·v, and ‖v‖² of y; of `counter`: how many coordinates are hot, the size of the heap,
# rows since a flush, whether it is full.
FACTOR, DUAL = range(2)
HOT, SINCE, FULL = 0, 2, 3
EARLY, LATE = 1.0 - 2.0**-50, 1.0 + 2.0**-50  # a key is early, lest rounding keep a coordinate beyond its time


@part
def _counted(counts, v, on, level):
    """(Σ(|v| − ℓ)², Σ(|v| − ℓ), how many) of active numbers, with those of one more coordinate."""
    beyond = on * (np.abs(v) - level)
    return counts[0] + beyond * beyond, counts[1] + beyond, counts[2] + on


@part
def _count(active, counts, sign):
    for row in range(LEVEL):
        store(active, row, 0, load(active, row, 0) + sign * counts[row])


@part
def _gone(v, scale):
    """What a number that is active adds to its sum."""
    return v * load(scale, P, 0) - np.copysign(load(scale, Q, 0), v)


@part
def _unpacked(line, j, scale, fixed, mass):
    """v of a line, its sums, the weights for which it was not zero, and 1 where it is active (for y, not zero)."""
    v, penalised = load(line, j, V), load(fixed, PENALISED, 0)
    on = 1.0 - within(penalised * load(line, j, KEY) + (1.0 - penalised) * v, lanes(0.0))
    share = load(line, j, SHARE) + mass * (load(fixed, PRIMAL, 0) * on)
    return v, load(line, j, R) + on * _gone(v, scale), share, on


@part
def _enter_heap(line, j, b, k, v, l1, keys, owners, counter):
    """The key of an active number, early enough for its next visit."""
    line[j, KEY + b] = abs(v) / l1 * EARLY
    push(keys, owners, counter, line[j, KEY + b], j * k + b)


@piece
def _raise_level(line, scale, fixed, active, keys, owners, counter, k, before, mass):
    """ℓ ← l1·mass; the coordinates that it reaches leave the active ones."""
    for b in range(k):
        rise = fixed[L1, b] * mass - active[LEVEL, b]
        active[SQUARES, b] += rise * (active[NUMBER, b] * rise - 2.0 * active[LENGTHS, b])
        active[LENGTHS, b] -= rise * active[NUMBER, b]
        active[LEVEL, b] = fixed[L1, b] * mass
    while counter[HEAPED] > 0 and keys[0] <= mass:
        key, owner = keys[0], owners[0]
        j, b = owner // k, owner % k
        drop_first(keys, owners, counter)
        v = line[j, V + b]
        if line[j, KEY + b] == key:  # else it has moved towards zero since, and has another entry or none
            line[j, KEY + b] = 0.0
            if line[j, MARK] == 0.0:
                if abs(v) > active[LEVEL, b]:  # it has moved away from zero since
                    line[j, KEY + b] = max(abs(v) / fixed[L1, b] * EARLY, mass * LATE)
                    push(keys, owners, counter, line[j, KEY + b], owner)
                else:
                    beyond = abs(v) - active[LEVEL, b]
                    active[SQUARES, b] -= beyond * beyond
                    active[LENGTHS, b] -= beyond
                    active[NUMBER, b] -= 1.0
                    line[j, R + b] += v * scale[P, b] - np.copysign(scale[Q, b], v)
                    line[j, SHARE + b] += before


@part
def _touch(line, hot, names, n, row, rows, t, times, scale, fixed, active, mass):
    """Add times·(row t) to a direction of the hot coordinates, duplicates and all; returns their number."""
    values, indices, indptr = rows
    counts, level, primal = (lanes(0.0), lanes(0.0), lanes(0.0)), load(active, LEVEL, 0), load(fixed, PRIMAL, 0)
    for i in range(indptr[t], indptr[t + 1]):
        j = np.int64(indices[i])
        place = np.int64(line[j, MARK]) - 1
        if place < 0:
            v, total, share, on = _unpacked(line, j, scale, fixed, mass)
            store(hot, n, V, v)
            store(hot, n, TOTAL, total)
            store(hot, n, SHARES, share)
            counts = _counted(counts, v, primal * on, level)
            hot[n, PHI] = hot[n, PSI] = hot[n, TRACE] = 0.0
            hot[n, MULTIPLIER] = 1.0
            names[n], place = j, n
            n += 1
            line[j, MARK] = n
        hot[place, row] += times * entry(values, i)
    _count(active, counts, -1.0)
    return n


@part
def _gather(line, hot, names, n, phi, phi_next, t, rate, fresh, old, scale, fixed, active, mass):
    """Make the coordinates of a row hot, with φ, ψ and e in their places; returns how many, and ‖φ‖² + ‖ψ‖² + ‖e‖²."""
    size = 0.0
    for i in range(n):
        hot[i, PHI] = hot[i, PSI] = 0.0
    n = _touch(line, hot, names, n, PHI, phi, t, 1.0, scale, fixed, active, mass)
    if rate != 0.0:
        n = _touch(line, hot, names, n, PSI, phi_next, t, rate, scale, fixed, active, mass)
    for i in range(n):
        f, g, e = hot[i, PHI], hot[i, PSI], fresh * hot[i, PHI] + old * hot[i, TRACE]
        hot[i, TRACE] = e
        size += f * f + g * g + e * e
    return n, size


@part
def _store(line, hot, names, n, n_special, k, scale, fixed, active, keys, owners, counter, mass, tol):
    """Write back all coordinates but the special ones, which come first, and those of a trace that has not faded."""
    kept, primal, level = 0, load(fixed, PRIMAL, 0), load(active, LEVEL, 0)
    counts = (lanes(0.0), lanes(0.0), lanes(0.0))
    for i in range(n):
        j = names[i]
        v, total, share = load(hot, i, V), load(hot, i, TOTAL), load(hot, i, SHARES)
        line[j, MARK] = 0.0
        if i < n_special or abs(hot[i, TRACE]) > tol:
            store(hot, kept, V, v)
            store(hot, kept, TOTAL, total)
            store(hot, kept, SHARES, share)
            hot[kept, TRACE], hot[kept, MULTIPLIER], names[kept] = hot[i, TRACE], hot[i, MULTIPLIER], j
            kept += 1
            line[j, MARK] = kept
        else:
            on = primal * (1.0 - within(v, level))
            counts = _counted(counts, v, on, level)
            store(line, j, V, v)
            store(line, j, R, total - (on + (1.0 - primal)) * _gone(v, scale))
            store(line, j, SHARE, share - mass * on)
            for b in range(k):
                size, known = abs(hot[i, V + b]), line[j, KEY + b]
                if size <= active[LEVEL, b]:
                    line[j, KEY + b] = 0.0
                elif fixed[L1, b] > 0.0 and (known == 0.0 or known > size / fixed[L1, b] * EARLY):
                    _enter_heap(line, j, b, k, size, fixed[L1, b], keys, owners, counter)
    _count(active, counts, 1.0)
    return kept


@kernel
def materialise(line, scale, fixed, first, mass, out):
    """Write v, sums and shares of the lines from `first` on into `out`; hot coordinates are the caller's."""
    line, out, scale, fixed = borrow(line), borrow(out), borrow(scale), borrow(fixed)
    for i in range(len(out)):
        v, total, share, _ = _unpacked(line, first + i, scale, fixed, mass)
        store(out, i, V, v)
        store(out, i, R, total)
        store(out, i, SHARE, share)


@kernel
def flush(line, hot, scale, active, number, fixed, keys, owners, counter, k, mass, forget):
    """Begin P and Q afresh, count the active ones anew, in a new heap; forget the averages if asked to."""
    line, hot, scale, active, fixed = borrow(line), borrow(hot), borrow(scale), borrow(active), borrow(fixed)
    keys, owners, counter = borrow(keys), borrow(owners), borrow(counter)
    primal, nothing, squares, level = load(fixed, PRIMAL, 0), lanes(0.0), lanes(0.0), load(active, LEVEL, 0)
    counts = (nothing, nothing, nothing)
    counter[HEAPED] = counter[SINCE] = 0
    for row in range(LEVEL):
        store(active, row, 0, nothing)
    for j in range(len(line)):
        place = np.int64(line[j, MARK]) - 1
        if place < 0:
            v, total, share, on = _unpacked(line, j, scale, fixed, mass)
            counts = _counted(counts, v, primal * on, level)
            store(line, j, R, nothing if forget else total)
            if forget:
                store(line, j, SHARE, load(line, j, SHARE) - share)
        else:
            v = load(hot, place, V)
            if forget:
                store(hot, place, TOTAL, nothing)
                store(hot, place, SHARES, nothing)
        squares = squares + (1.0 - primal) * (v * v)
        for b in range(k):
            if place < 0 and line[j, KEY + b] != 0.0:
                _enter_heap(line, j, b, k, line[j, V + b], fixed[L1, b], keys, owners, counter)
            else:
                line[j, KEY + b] = 0.0
    _count(active, counts, 1.0)
    store(scale, P, 0, squares)
    number[DUAL] = scale[P, 0] + scale[P, 1] + scale[P, 2] + scale[P, 3]
    store(scale, P, 0, nothing)
    store(scale, Q, 0, nothing)


# --- a step on the hot coordinates ------------------------------------------------------------------------------------


@part
def _sum_of(room, values, mask):
    """Σ of the lanes that the mask keeps."""
    store(room, 0, 0, mask * values)
    return room[0, 0] + room[0, 1] + room[0, 2] + room[0, 3]


@part
def _law(fixed, root, mass, factor):
    """(keep, below, ridge, drop, ratio) of a point S(v, drop)·keep/(below + ridge): x of the sums, y = factor·v.

    drop and ridge are multiplied for special coordinates; `ratio` is keep/(below + ridge) of all others.
    """
    primal, fine = load(fixed, PRIMAL, 0), 1.0 if root > 0.0 else 0.0
    keep, ridge = fine * primal + factor * (1.0 - primal), mass * load(fixed, L2, 0)
    below = (root + 1.0 - fine) * primal + (1.0 - primal)
    return keep, below, ridge, mass * load(fixed, L1, 0), keep / (below + ridge)


@part
def _point(hot, n, n_special, more, law, change):
    """The point of the sums v − more·gradient; its products with φ, ψ and e go to `change`; returns its squares."""
    keep, below, ridge, drop, ratio = law
    p0 = p1 = p2 = squares = lanes(0.0)
    for i in range(n):
        v = load(hot, i, V) - more * load(hot, i, SLOPE)
        if i < n_special:
            times = hot[i, MULTIPLIER]
            bound = times * drop
            v = keep * (v - np.minimum(np.maximum(v, -bound), bound)) / (below + times * ridge)
        else:
            v = ratio * (v - np.minimum(np.maximum(v, -drop), drop))
        if change is not None:
            store(hot, i, POINT, v)
            p0, p1, p2 = p0 + hot[i, PHI] * v, p1 + hot[i, PSI] * v, p2 + hot[i, TRACE] * v
        squares = squares + v * v
    if change is not None:
        store(change, 0, 0, p0)
        store(change, 1, 0, p1)
        store(change, 2, 0, p2)
    return squares


@part
def _slopes(hot, n, change):
    """The gradient of every hot coordinate by the weights of φ, ψ and e; returns Σg² and Σgv."""
    c0, c1, c2, squares, along = load(change, 0, 0), load(change, 1, 0), load(change, 2, 0), lanes(0.0), lanes(0.0)
    for i in range(n):
        g = hot[i, PHI] * c0 + hot[i, PSI] * c1 + hot[i, TRACE] * c2
        store(hot, i, SLOPE, g)
        squares, along = squares + g * g, along + g * load(hot, i, V)
    return squares, along


@part
def _advance(hot, n, a, weigh):
    """Count the trial point in the averages, and add its gradient to the sums."""
    for i in range(n):
        point = load(hot, i, POINT)
        store(hot, i, TOTAL, load(hot, i, TOTAL) + weigh * a * point)
        store(hot, i, SHARES, load(hot, i, SHARES) + weigh * a * (1.0 - within(point, lanes(0.0))))
        store(hot, i, V, load(hot, i, V) - a * load(hot, i, SLOPE))


@kernel
def stream(
    phi, phi_next, reward, discount, fresh, old, line, hot, names, scale, active, number, fixed, keys, owners, counter,
    slots, work, record, k, weigh, n_special, tol, every, M, m, norm_M, dual_radius, start, limit,
):  # fmt: skip
    """`averaging.stream` on sparse rows, for x_0 = 0 and the l2 ball; returns how many were taken.

    It stops where the run has diverged, and where `hot` or the heap is full, which counter[FULL] tells. `weigh` is 0
    where nothing is averaged.
    """
    phi, phi_next, G, room, change = (
        borrowed(phi),
        borrowed(phi_next),
        borrow(work[0]),
        borrow(work[1]),
        borrow(work[2]),
    )
    line, hot, names, scale, active = borrow(line), borrow(hot), borrow(names), borrow(scale), borrow(active)
    keys, owners, counter, record, number = (
        borrow(keys),
        borrow(owners),
        borrow(counter),
        borrow(record),
        borrow(number),
    )
    M, m, fixed, slots = borrow(M), borrow(m), borrow(fixed), borrow(slots)
    u, weights, primal, rest = room[U], room[GRADIENT], load(fixed, PRIMAL, 0), line[:, SHARE:]
    dual = 1.0 - primal
    fold(G, M, m, k, True, 1.0, 0.0)
    counter[FULL] = 0
    for t in range(len(reward)):
        fetch_row(line, phi, t + 1)
        fetch_row(line, phi_next, t + 1)
        fetch_row(rest, phi, t + 1)
        fetch_row(rest, phi_next, t + 1)
        n, before = counter[HOT], record[MASS]
        most = n + phi[2][t + 1] - phi[2][t] + phi_next[2][t + 1] - phi_next[2][t]
        if most > len(names) or counter[HEAPED] + k * most > len(keys):
            counter[FULL] = 1
            return t
        n, size = _gather(
            line, hot, names, n, phi, phi_next, t, discount[t], fresh[t], old[t], scale, fixed, active, before
        )  # fmt: skip
        nx = ny = a = 0.0
        mass, fine, law = before, True, _law(fixed, np.sqrt(record[GX]), before, number[FACTOR])
        for phase in range(2):  # the point, and the trial point
            _point(hot, n, n_special, a, law, change)
            for b in range(2 * k):
                for q in range(3):
                    u[3 * slots[b] + q] = change[q, b]
            if phase == 0:
                fine = products_in_range(record, room, reward[t], 1.0, limit)
            if not fine:
                break
            gradient(G, reward[t], u, weights, 2 - k, 3, True)
            for b in range(2 * k):
                for q in range(3):
                    change[q, b] = weights[3 * slots[b] + q]
            squares, along = _slopes(hot, n, change)
            mine, other = _sum_of(change, squares, primal), _sum_of(change, squares, dual)
            nx, ny, inner = max(nx, mine), max(ny, other), _sum_of(change, along, dual)
            if phase == 0:
                see(record, ny, norm_M * size)
                a = max(record[REACH], start * record[START])
                mass = before + a
                _raise_level(line, scale, fixed, active, keys, owners, counter, k, before, mass)
                factor = over_root(dual_radius, record[GY] + a * a * ny)
                factor = into_unit_ball(factor, number[DUAL] + a * (a * other - 2.0 * inner))
                law = _law(fixed, np.sqrt(record[GX] + nx), mass, factor)
            else:
                average = weigh * a * law[4]
                store(scale, P, 0, load(scale, P, 0) + average)
                store(scale, Q, 0, load(scale, Q, 0) + average * load(active, LEVEL, 0))
                _advance(hot, n, a, weigh)
                number[DUAL] += a * (a * other - 2.0 * inner)
                record[GX] += nx
                record[GY] += a * a * ny
                record[MASS] = mass
                record[WEIGHT] += a
                number[FACTOR] = into_unit_ball(over_root(dual_radius, record[GY]), number[DUAL])
                law = _law(fixed, np.sqrt(record[GX]), mass, number[FACTOR])
        if fine:
            moved = _sum_of(change, _point(hot, n, n_special, 0.0, law, None), primal)
            moved += max(_sum_of(change, law[4] * law[4] * load(active, SQUARES, 0), primal), 0.0)
            record[REACH] = max(record[REACH], np.sqrt(moved))
        counter[HOT] = _store(
            line, hot, names, n, n_special, k, scale, fixed, active, keys, owners, counter, record[MASS], tol
        )  # fmt: skip
        if not fine:
            return t
        counter[SINCE] += 1
        if counter[SINCE] >= every or counter[HEAPED] > 8 * len(line):  # entries out of date gather in the heap
            flush(line, hot, scale, active, number, fixed, keys, owners, counter, k, record[MASS], False)
    return len(reward)
