"""The law of dual averaging on sparse rows: the point is a function of sums of gradients, which change only where a row
touches them. With v = −s_x, x_0 = 0,

    x_t = F_t S(v, ℓ_t)                       ℓ_t = l1 Σa_i              F_t = 1/(√Σ‖g_x‖² + l2 Σa_i)
    Σ a_i x_i = R + v P_t − sgn(v) Q_t        P ← P + a F̂                Q ← Q + a F̂ ℓ        while |v| > ℓ
    ‖x_t‖² = F_t² Σ(|v| − ℓ_t)²               over all v beyond ℓ, the *active* ones

and with v = s_y, y_t = F_t v. ℓ only grows, so an untouched coordinate leaves the active ones once, in the order of
|v|/l1. A heap knows which is next, and a coordinate that leaves takes along what it has in its sum.

A row first gathers the coordinates that it touches as plain numbers, side by side: they are *hot*, and the step of
`averaging` is taken on these few. Those of a trace stay hot until it has faded, and so do the features with a penalty
of their own. Every so many rows all coordinates are brought up to date (a flush), at fixed row numbers: any chunking
gives the same bits.

A line is v of every vector; if there are averages, R of every vector and, for x, the weight for which it was not zero
(less Σa_i while it is active); for x its key in the heap, 0 if it is not active; and the mark: 0, or 1 + its place
among the hot coordinates. A line of zeros is a coordinate at zero, so that memory which no row has touched is
never written.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.averaging import into_unit_ball
from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.csr import borrowed, entry, fetch_row
from sparsetd.solvers.compiled.dense import products_in_range
from sparsetd.solvers.compiled.intrinsics import borrow
from sparsetd.solvers.compiled.points import GRADIENT, U, fold, gradient
from sparsetd.solvers.compiled.rules import GX, GY, MASS, REACH, START, WEIGHT, over_root, see

# Columns of `scale`; of `active`: Σ(|v| − ℓ)² of a block of x, ‖v‖² of all y; Σ(|v| − ℓ); how many; ℓ.
F, P, Q = range(3)
SQUARES, LENGTHS, NUMBER, LEVEL = range(4)
# Entries of `counter`: how many coordinates are hot, the size of the heap, rows since a flush, whether it is full.
HOT, HEAPED, SINCE, FULL = range(4)
# Rows of `hot`, one for each of at most four vectors: Σax, v, gradient, point; then φ, ψ and e, the weight of not being
# zero, and what multiplies the penalty.
TOTAL, SUM, SLOPE, NEXT, PHI, PSI, TRACE, SHARE, MULTIPLIER, HOT_ROWS = 0, 4, 8, 12, 16, 17, 18, 19, 21, 22
EARLY, LATE = 1.0 - 2.0**-50, 1.0 + 2.0**-50  # a key is early, lest rounding keep a coordinate beyond its time


@piece
def _push(keys, owners, counter, key, owner):
    """Into the heap, where keys[i] ≤ keys[2i + 1], keys[2i + 2]."""
    i = counter[HEAPED]
    counter[HEAPED] += 1
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], owners[i] = keys[(i - 1) // 2], owners[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], owners[i] = key, owner


@piece
def _drop_first(keys, owners, counter):
    """Out of the heap."""
    n = counter[HEAPED] - 1
    counter[HEAPED] = n
    key, owner, i, sinks = keys[n], owners[n], 0, True
    while sinks and 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        sinks = keys[child] < key
        if sinks:
            keys[i], owners[i] = keys[child], owners[child]
            i = child
    keys[i], owners[i] = key, owner


@part
def _count_in(active, b, v, sign):
    """Add a coordinate to the active ones, or take it from them."""
    beyond = abs(v) - active[b, LEVEL]
    active[b, SQUARES] += sign * beyond * beyond
    active[b, LENGTHS] += sign * beyond
    active[b, NUMBER] += sign


@piece
def _raise_level(line, scale, active, keys, owners, counter, k, n_sums, l1, before, mass):
    """ℓ ← l1·mass; the coordinates that it reaches leave the active ones."""
    n_vectors, mark = len(scale), line.shape[1] - 1
    for b in range(k):
        rise = l1[b] * mass - active[b, LEVEL]
        active[b, SQUARES] += rise * (active[b, NUMBER] * rise - 2.0 * active[b, LENGTHS])
        active[b, LENGTHS] -= rise * active[b, NUMBER]
        active[b, LEVEL] = l1[b] * mass
    while counter[HEAPED] > 0 and keys[0] <= mass:
        key, owner = keys[0], owners[0]
        j, b = owner // k, owner % k
        _drop_first(keys, owners, counter)
        slot, v = mark - k + b, line[j, b]
        if line[j, slot] == key:  # else it has moved towards zero since, and has another entry or none
            line[j, slot] = 0.0
            if line[j, mark] == 0.0:
                if abs(v) > active[b, LEVEL]:  # it has moved away from zero since
                    line[j, slot] = max(abs(v) / l1[b] * EARLY, mass * LATE)
                    _push(keys, owners, counter, line[j, slot], owner)
                else:
                    _count_in(active, b, v, -1.0)
                    if n_sums > 0:
                        line[j, n_vectors + b] += v * scale[b, P] - np.copysign(scale[b, Q], v)
                        line[j, n_vectors + n_sums + b] += before


@part
def _is_active(line, j, b, k, l1):
    return line[j, b] != 0.0 if l1[b] == 0.0 else line[j, line.shape[1] - 1 - k + b] != 0.0


@part
def _sum_and_share(line, j, b, k, n_sums, l1, scale, mass):
    """Σ a x (or y) of one entry and the weight for which it was not zero, from its line; 0 where none are kept."""
    n_vectors, total, share = len(scale), 0.0, 0.0
    if n_sums > 0:
        v, total = line[j, b], line[j, n_vectors + b]
        if b >= k:
            total += v * scale[b, P]
        else:
            share = line[j, n_vectors + n_sums + b]
            if _is_active(line, j, b, k, l1):
                total += v * scale[b, P] - np.copysign(scale[b, Q], v)
                share += mass
    return total, share


@part
def _touch(line, hot, names, n, row, values, indices, lo, hi, times, k, n_sums, l1, scale, active, mass):
    """Add times·(entries lo … hi) to a direction of the hot coordinates, duplicates and all; returns their number."""
    mark, n_vectors = line.shape[1] - 1, len(scale)
    for i in range(lo, hi):
        j = np.int64(indices[i])
        amount = times * entry(values, i)
        place = np.int64(line[j, mark]) - 1
        if place < 0:
            for b in range(n_vectors):
                hot[SUM + b, n] = line[j, b]
                total, share = _sum_and_share(line, j, b, k, n_sums, l1, scale, mass)
                hot[TOTAL + b, n] = total
                if b < k:
                    hot[SHARE + b, n] = share
                    if _is_active(line, j, b, k, l1):
                        _count_in(active, b, line[j, b], -1.0)
            hot[PHI, n] = hot[PSI, n] = hot[TRACE, n] = 0.0
            hot[MULTIPLIER, n] = 1.0
            names[n], place = j, n
            n += 1
            line[j, mark] = n
        hot[row, place] += amount
    return n


@part
def _store(line, hot, names, n, n_special, k, n_sums, l1, scale, active, keys, owners, counter, mass, tol):
    """Write back all coordinates but the special ones, which come first, and those of a trace that has not faded."""
    mark, n_vectors, kept = line.shape[1] - 1, len(scale), 0
    for i in range(n):
        j = names[i]
        stays = i < n_special or abs(hot[TRACE, i]) > tol
        for b in range(n_vectors):
            v, total = hot[SUM + b, i], hot[TOTAL + b, i]
            if stays:
                hot[SUM + b, kept], hot[TOTAL + b, kept] = v, total
                if b < k:
                    hot[SHARE + b, kept] = hot[SHARE + b, i]
            else:
                line[j, b] = v
                if b >= k and n_sums > 0:
                    line[j, n_vectors + b] = total - v * scale[b, P]
                elif b < k:
                    beyond, slot, share = abs(v) > active[b, LEVEL], mark - k + b, hot[SHARE + b, i]
                    if beyond:
                        _count_in(active, b, v, 1.0)
                        total -= v * scale[b, P] - np.copysign(scale[b, Q], v)
                        share -= mass
                        if l1[b] > 0.0:
                            key = abs(v) / l1[b] * EARLY
                            if line[j, slot] == 0.0 or line[j, slot] > key:
                                line[j, slot] = key
                                _push(keys, owners, counter, key, j * k + b)
                    else:
                        line[j, slot] = 0.0
                    if n_sums > 0:
                        line[j, n_vectors + b], line[j, n_vectors + n_sums + b] = total, share
        line[j, mark] = 0.0
        if stays:
            hot[TRACE, kept], hot[MULTIPLIER, kept], names[kept] = hot[TRACE, i], hot[MULTIPLIER, i], j
            kept += 1
            line[j, mark] = kept
    return kept


@kernel
def materialise(line, hot, names, scale, counter, k, n_sums, l1, mass, values, sums):
    """Write v of the first vectors, as many as there is room for, and so Σ a x, Σ a y and the shares of x."""
    line, scale, l1 = borrow(line), borrow(scale), borrow(l1)
    for j in range(len(line)):
        for b in range(len(values)):
            values[b, j] = line[j, b]
            if len(sums) > 0:
                total, share = _sum_and_share(line, j, b, k, n_sums, l1, scale, mass)
                sums[b, j] = total
                if b < k:
                    sums[n_sums + b, j] = share
    for i in range(counter[HOT]):
        for b in range(len(values)):
            values[b, names[i]] = hot[SUM + b, i]
            if len(sums) > 0:
                sums[b, names[i]] = hot[TOTAL + b, i]
                if b < k:
                    sums[n_sums + b, names[i]] = hot[SHARE + b, i]


@kernel
def flush(line, hot, scale, active, keys, owners, counter, k, n_sums, l1, mass, forget):
    """Begin P and Q afresh, count the active ones anew, in a new heap; forget the averages if asked to."""
    line, scale, active, l1 = borrow(line), borrow(scale), borrow(active), borrow(l1)
    keys, owners, counter = borrow(keys), borrow(owners), borrow(counter)
    mark, n_vectors = line.shape[1] - 1, len(scale)
    counter[HEAPED] = counter[SINCE] = 0
    for b in range(n_vectors):
        active[b, SQUARES] = active[b, LENGTHS] = active[b, NUMBER] = 0.0
    for j in range(len(line)):
        place = np.int64(line[j, mark]) - 1
        for b in range(n_vectors):
            v = line[j, b] if place < 0 else hot[SUM + b, place]
            if b >= k:
                active[k, SQUARES] += v * v
            if n_sums > 0 and place < 0:
                total, share = _sum_and_share(line, j, b, k, n_sums, l1, scale, mass)
                line[j, n_vectors + b] = 0.0 if forget else total
                if b < k and forget:
                    line[j, n_vectors + n_sums + b] -= share
            elif forget:
                hot[TOTAL + b, place] = 0.0
                if b < k:
                    hot[SHARE + b, place] = 0.0
            if b < k and place < 0 and _is_active(line, j, b, k, l1):
                _count_in(active, b, v, 1.0)
                if l1[b] > 0.0:
                    line[j, mark - k + b] = abs(v) / l1[b] * EARLY
                    _push(keys, owners, counter, line[j, mark - k + b], j * k + b)
            elif b < k:
                line[j, mark - k + b] = 0.0
    for b in range(n_vectors):
        scale[b, P] = scale[b, Q] = 0.0


@part
def _point(hot, n, k, n_vectors, more, root, mass, l1, l2, dual_factor):
    """NEXT = (x, y) of the sums v − more·gradient."""
    for b in range(n_vectors):
        for i in range(n):
            hot[NEXT + b, i] = hot[SUM + b, i] - more * hot[SLOPE + b, i]
        if b >= k:
            for i in range(n):
                hot[NEXT + b, i] *= dual_factor
        else:
            for i in range(n):
                v, bound = hot[NEXT + b, i], l1[b] * mass * hot[MULTIPLIER, i]
                below = root + l2[b] * mass * hot[MULTIPLIER, i]
                hot[NEXT + b, i] = (v - min(max(v, -bound), bound)) / below if root > 0.0 else 0.0


@part
def _dual_growth(hot, n, k, n_vectors, more):
    """‖v − more·gradient‖² − ‖v‖² of the dual sums."""
    growth = 0.0
    for b in range(k, n_vectors):
        for i in range(n):
            g = more * hot[SLOPE + b, i]
            growth += g * (g - 2.0 * hot[SUM + b, i])
    return growth


@part
def _squares(hot, n, k, n_vectors, weights):
    """The gradient of every hot coordinate, from the weights of D; returns ‖g_x‖² and ‖g_y‖²."""
    nx = ny = 0.0
    for b in range(n_vectors):
        i = 3 * (2 - k + b if b < k else 4 - n_vectors + b)
        c0, c1, c2, square = weights[i], weights[i + 1], weights[i + 2], 0.0
        for j in range(n):
            g = c0 * hot[PHI, j] + c1 * hot[PSI, j] + c2 * hot[TRACE, j]
            hot[SLOPE + b, j] = g
            square += g * g
        nx, ny = (nx + square, ny) if b < k else (nx, ny + square)
    return nx, ny


@part
def _products(hot, n, k, n_vectors, u):
    """Products of the point with φ, ψ and e."""
    for b in range(n_vectors):
        i = 3 * (2 - k + b if b < k else 4 - n_vectors + b)
        p0 = p1 = p2 = 0.0
        for j in range(n):
            v = hot[NEXT + b, j]
            p0 += v * hot[PHI, j]
            p1 += v * hot[PSI, j]
            p2 += v * hot[TRACE, j]
        u[i], u[i + 1], u[i + 2] = p0, p1, p2


@part
def _row_size(hot, n):
    """‖φ‖² + ‖ψ‖² + ‖e‖²."""
    total = 0.0
    for i in range(n):
        total += hot[PHI, i] * hot[PHI, i] + hot[PSI, i] * hot[PSI, i] + hot[TRACE, i] * hot[TRACE, i]
    return total


@part
def _gather(line, hot, names, n, phi, phi_next, t, rate, fresh, old, k, n_sums, l1, scale, active, mass):
    """Make the coordinates of a row hot, with φ, ψ and e in their places; returns how many are hot."""
    for i in range(n):
        hot[PHI, i] = hot[PSI, i] = 0.0
    for row in range(PHI, PSI + 1 if rate != 0.0 else PSI):
        values, indices, indptr = phi if row == PHI else phi_next
        lo, hi, times = indptr[t], indptr[t + 1], 1.0 if row == PHI else rate
        n = _touch(line, hot, names, n, row, values, indices, lo, hi, times, k, n_sums, l1, scale, active, mass)
    for i in range(np.uint64(n)):
        hot[TRACE, i] = fresh * hot[PHI, i] + old * hot[TRACE, i]
    return n


@part
def _average(hot, n, k, n_vectors, scale, active, a, root, mass, l2, factor):
    """Count the trial point in the averages, of the hot coordinates and (by P and Q) of all others."""
    for b in range(n_vectors):
        if b < k:
            average = 1.0 / (root + l2[b] * mass) if root > 0.0 else 0.0
            scale[b, Q] += a * average * active[b, LEVEL]
        else:
            average = factor
        scale[b, P] += a * average
        for i in range(n):
            hot[TOTAL + b, i] += a * hot[NEXT + b, i]
            if b < k:
                hot[SHARE + b, i] += a if hot[NEXT + b, i] != 0.0 else 0.0


@part
def _reach(hot, n, k, active, root, mass, l2):
    """‖x‖."""
    moved = 0.0
    for b in range(k):
        average = 1.0 / (root + l2[b] * mass) if root > 0.0 else 0.0
        moved += average * average * max(active[b, SQUARES], 0.0)
        for i in range(n):
            moved += hot[NEXT + b, i] * hot[NEXT + b, i]
    return np.sqrt(moved)


@kernel
def stream(
    phi, phi_next, reward, discount, fresh, old, line, hot, names, scale, active, keys, owners, counter, work, record,
    k, n_sums, n_special, tol, every, M, m, l1, l2, dual_radius, start, limit,
):  # fmt: skip
    """`averaging.stream` on sparse rows, for x_0 = 0 and the l2 ball; returns how many were taken.

    It stops where the run has diverged, and where `hot` or the heap is full, which counter[FULL] tells.
    """
    phi, phi_next, G, room = borrowed(phi), borrowed(phi_next), borrow(work[0]), borrow(work[1])
    line, hot, names, scale, active = borrow(line), borrow(hot), borrow(names), borrow(scale), borrow(active)
    keys, owners, counter, record = borrow(keys), borrow(owners), borrow(counter), borrow(record)
    M, m, l1, l2 = borrow(M), borrow(m), borrow(l1), borrow(l2)
    n_vectors, norm_M, u, weights = len(scale), 0.0, room[U], room[GRADIENT]
    for i in range(len(m)):
        for c in range(len(m)):
            norm_M += M[i, c] * M[i, c]
    norm_M = np.sqrt(norm_M)
    fold(G, M, m, k, True, 1.0, 0.0)
    counter[FULL] = 0
    for t in range(len(reward)):
        fetch_row(line, phi, t + 1)
        fetch_row(line, phi_next, t + 1)
        n, before = counter[HOT], record[MASS]
        most = n + phi[2][t + 1] - phi[2][t] + phi_next[2][t + 1] - phi_next[2][t]
        if most > len(names) or counter[HEAPED] + k * most > len(keys):
            counter[FULL] = 1
            return t
        n = _gather(
            line, hot, names, n, phi, phi_next, t, discount[t], fresh[t], old[t], k, n_sums, l1, scale, active, before
        )  # fmt: skip
        stop, nx, ny, a = np.uint64(n), 0.0, 0.0, 0.0
        root, mass, factor, more, fine = np.sqrt(record[GX]), before, scale[k, F], 0.0, True
        for phase in range(3):  # the point, the trial point, and the next point
            _point(hot, stop, k, n_vectors, more, root, mass, l1, l2, factor)
            if phase == 2:
                break
            _products(hot, stop, k, n_vectors, u)
            if phase == 0:
                fine = products_in_range(record, room, reward[t], 1.0, limit)
            if not fine:
                break
            gradient(G, reward[t], u, weights, 2 - k, 3, True)
            more_x, more_y = _squares(hot, stop, k, n_vectors, weights)
            nx, ny = max(nx, more_x), max(ny, more_y)
            if phase == 0:
                see(record, ny, norm_M * _row_size(hot, stop))
                more = a = max(record[REACH], start * record[START])
                root, mass = np.sqrt(record[GX] + nx), before + a
                _raise_level(line, scale, active, keys, owners, counter, k, n_sums, l1, before, mass)
                factor = over_root(dual_radius, record[GY] + a * a * ny)
                factor = into_unit_ball(factor, active[k, SQUARES] + _dual_growth(hot, stop, k, n_vectors, a))
            else:
                _average(hot, stop, k, n_vectors, scale, active, a, root, mass, l2, factor)
                active[k, SQUARES] += _dual_growth(hot, stop, k, n_vectors, a)
                for b in range(n_vectors):
                    for i in range(stop):
                        hot[SUM + b, i] -= a * hot[SLOPE + b, i]
                record[GX] += nx
                record[GY] += a * a * ny
                record[MASS] = mass
                record[WEIGHT] += a
                root, more = np.sqrt(record[GX]), 0.0
                factor = scale[k, F] = into_unit_ball(over_root(dual_radius, record[GY]), active[k, SQUARES])
        if fine:
            record[REACH] = max(record[REACH], _reach(hot, stop, k, active, root, mass, l2))
        counter[HOT] = _store(
            line, hot, names, n, n_special, k, n_sums, l1, scale, active, keys, owners, counter, record[MASS], tol
        )  # fmt: skip
        if not fine:
            return t
        counter[SINCE] += 1
        if counter[SINCE] >= every or counter[HEAPED] > 8 * len(line):  # entries out of date gather in the heap
            flush(line, hot, scale, active, keys, owners, counter, k, n_sums, l1, record[MASS], False)
    return len(reward)
