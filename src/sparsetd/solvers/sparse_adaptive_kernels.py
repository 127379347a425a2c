"""Exact O(nnz) steps of the solvers that set their own steps, on sparse rows: distance over gradients, dual averaging.

A step needs three things of the coordinates that its row does not touch: what becomes of them, their part in the norms,
and their part in the averages. Without an l1 penalty all of them move alike, v ← f v (f is 1, or comes from damping, a
ridge, or the radial projection on an l2 ball), so that for every vector of the state, each block of x and of y,

    v_t = F_t v                      F ← f F
    Σ_{i<t} ω_i v_i = R + v P_t      P ← P + ω f̂ F
    ‖v_t − v_0‖² = D_t               D ← f²D + 2f(f − 1)C + (f − 1)²‖v_0‖² + changes of touched entries

with f̂ the factor of the trial point that is averaged (or 1) and C = ⟨v_t − v_0, v_0⟩: two numbers (v, R) per coordinate
and four running scalars per vector. A row first gathers the coordinates that it touches as plain numbers, side by side:
they are *hot*. The rule of `adaptive_kernels` is then evaluated on these few.

F may fall without end. When it leaves (2⁻¹⁰, 2¹⁰) a new *generation* begins with F = 1, because P would no longer
resolve the terms added to it; `chain` holds the composed map (F, P) from the start of every older generation to that of
the current one. Every so many rows all coordinates are brought up to date (a flush), which renews the tracked norms.
This happens at fixed row numbers, hence any chunking gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sparsetd.solvers.intrinsics import borrow, prefetch

# As in `adaptive_kernels`: sums may be reordered; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}

# Entries of `record`, as in `adaptive_kernels`.
GX, GY, REACH, START, WEIGHT, MASS, SIZE, ROWS = range(8)
# Columns of `scale` and `chain`, and of `norms`: ‖v − v_0‖², ⟨v − v_0, v_0⟩, ‖v_0‖².
F, P = 0, 1
MOVED, ALONG, ORIGIN_SIZE = 0, 1, 2
# Entries of `counter`: how many coordinates are hot, the generation, rows since the last flush, whether `hot` is full.
HOT, GENERATION, SINCE, FULL = range(4)
# Rows of `hot`, one for each of at most four vectors: v, Σωv, v_0, gradient, next v; then φ, ψ and e.
VALUE, TOTAL, ORIGIN, GRADIENT, NEXT, PHI, PSI, TRACE, HOT_ROWS = 0, 4, 8, 12, 16, 20, 21, 22, 23
SMALLEST = 2.0**-10
BOX = 0


def _jit(function: Any) -> Any:
    return njit(function, cache=True, nogil=True, fastmath=_FAST, error_model="numpy")


def _inline(function: Any) -> Any:
    return njit(function, cache=True, nogil=True, fastmath=_FAST, error_model="numpy", inline="always")


# --- between the lines and the hot coordinates ----------------------------------------------------------------------
# A line is v of every vector, R of every vector that is averaged, and last a mark: minus its generation, or, while it
# is hot, 1 + its place among the hot coordinates. A line of zeros is a coordinate at zero, so that memory which no row
# has touched is never written.


@_inline
def _value_and_sum(line, j, b, generation, n_vectors, n_sums, scale, chain):
    """v_t and Σωv of one entry, from its line."""
    v = line[j, b]
    now = v * chain[generation, b, F]
    total = line[j, n_vectors + b] + v * chain[generation, b, P] + now * scale[b, P] if b < n_sums else 0.0
    return now * scale[b, F], total


@_inline
def _touch(line, hot, names, n, row, values, indices, lo, hi, factor, origin, n_sums, scale, chain):
    """Add factor·(entries lo … hi) to a direction of the hot coordinates, duplicates and all; returns their number."""
    mark, n_vectors, last = line.shape[1] - 1, len(scale), np.uint64(n)
    for i in range(np.uint64(lo), np.uint64(hi)):
        j = np.uint64(indices[i])
        amount = factor * values[i] if len(values) > 0 else factor
        place = np.int64(line[j, mark]) - 1
        if place < 0:
            generation = np.uint64(-1 - place)
            for b in range(n_vectors):
                now, total = _value_and_sum(line, j, b, generation, n_vectors, n_sums, scale, chain)
                hot[VALUE + b, last], hot[TOTAL + b, last] = now, total
            for b in range(len(origin)):
                hot[ORIGIN + b, last] = origin[b, j]
            hot[PHI, last] = hot[PSI, last] = hot[TRACE, last] = 0.0
            names[last], place = j, np.int64(last)
            last += np.uint64(1)
            line[j, mark] = last
        hot[row, np.uint64(place)] += amount
    return np.int64(last)


@_inline
def _store(line, hot, names, n, scale, inverse, n_sums, generation, tol):
    """Take over the next values; write back all coordinates but those of a trace that has not faded, which stay hot."""
    mark, n_vectors, kept = line.shape[1] - 1, len(scale), np.uint64(0)
    for b in range(n_vectors):
        inverse[b] = 1.0 / scale[b, F]
    for i in range(np.uint64(n)):
        j = np.uint64(names[i])
        if abs(hot[TRACE, i]) > tol:
            for b in range(n_vectors):
                hot[VALUE + b, kept], hot[TOTAL + b, kept] = hot[NEXT + b, i], hot[TOTAL + b, i]
                hot[ORIGIN + b, kept] = hot[ORIGIN + b, i]
            hot[TRACE, kept], names[kept] = hot[TRACE, i], j
            kept += np.uint64(1)
            line[j, mark] = kept
        else:
            for b in range(n_vectors):
                v = hot[NEXT + b, i] * inverse[b]
                line[j, b] = v
                if b < n_sums:
                    line[j, n_vectors + b] = hot[TOTAL + b, i] - v * scale[b, P]
            line[j, mark] = -generation
    return np.int64(kept)


@_jit
def _restart(scale, chain, counter):
    """Begin a generation: every older map is extended by what happened in this one."""
    for g in range(counter[GENERATION] + 1):
        for b in range(len(scale)):
            chain[g, b, P] += chain[g, b, F] * scale[b, P]
            chain[g, b, F] *= scale[b, F]
    counter[GENERATION] += 1
    _first(scale, chain, counter[GENERATION])


@_jit
def _first(scale, chain, generation):
    """A generation begins with the identity."""
    for b in range(len(scale)):
        scale[b, F] = chain[generation, b, F] = 1.0
        scale[b, P] = chain[generation, b, P] = 0.0


@_jit
def materialise(line, hot, names, scale, chain, counter, values, sums):
    """Write the values of the first vectors, as many as there is room for, and so the sums; the state is left alone."""
    line, scale, chain = borrow(line), borrow(scale), borrow(chain)
    mark, n_vectors, n_sums = line.shape[1] - 1, len(scale), len(sums)
    for j in range(len(line)):
        if line[j, mark] <= 0.0:
            generation = np.int64(-line[j, mark])
            for b in range(len(values)):
                now, total = _value_and_sum(line, j, b, generation, n_vectors, n_sums, scale, chain)
                values[b, j] = now
                if b < n_sums:
                    sums[b, j] = total
    for i in range(counter[HOT]):
        for b in range(len(values)):
            values[b, names[i]] = hot[VALUE + b, i]
            if b < n_sums:
                sums[b, names[i]] = hot[TOTAL + b, i]


@_jit
def flush(line, hot, scale, chain, norms, counter, origin, n_sums, sums):
    """Bring every line up to date and count the norms anew; the sums are moved to `sums` where it has room for them."""
    line, scale, chain = borrow(line), borrow(scale), borrow(chain)
    mark, n_vectors, moves = line.shape[1] - 1, len(scale), len(sums) > 0
    for b in range(n_vectors):
        norms[b, MOVED] = norms[b, ALONG] = 0.0
    for j in range(len(line)):
        place = np.int64(line[j, mark]) - 1
        for b in range(n_vectors):
            if place < 0:
                now, total = _value_and_sum(line, j, b, -1 - place, n_vectors, n_sums, scale, chain)
                line[j, b] = now
            else:
                now, total = hot[VALUE + b, place], hot[TOTAL + b, place]
            if moves:
                sums[b, j], total = total, 0.0
            if b < n_sums:
                if place < 0:
                    line[j, n_vectors + b] = total
                else:
                    hot[TOTAL + b, place] = total
            at = origin[b, j] if b < len(origin) else 0.0
            norms[b, MOVED] += (now - at) * (now - at)
            norms[b, ALONG] += (now - at) * at
        if place < 0:
            line[j, mark] = 0.0
    counter[GENERATION] = counter[SINCE] = 0
    _first(scale, chain, 0)


# --- one row --------------------------------------------------------------------------------------------------------


@_inline
def _gradient(hot, n, at, k, n_vectors, size, reward, M, m, damping, products, weights, limit):
    """Directions of descent at the point in rows `at`: A_t x − b_t, or A_tᵀ y and −(A_t x − b_t − damping·y).

    `size` is ‖v‖² of the point's vectors, of which the untouched part counts where there is damping. Returns ‖g_x‖²,
    ‖g_y‖² and whether all products are in range.
    """
    shift, inside = 3 * (n_vectors - k), True
    for b in range(n_vectors):
        p0 = p1 = p2 = 0.0
        for i in range(n):
            v = hot[at + b, i]
            p0 += v * hot[PHI, i]
            p1 += v * hot[PSI, i]
            p2 += v * hot[TRACE, i]
        products[3 * b], products[3 * b + 1], products[3 * b + 2] = p0, p1, p2
        inside = inside and abs(p0) < limit and abs(p1) < limit and abs(p2) < limit
    for i in range(3 * k):
        residual, adjoint = -reward * m[i], 0.0
        for c in range(3 * k):
            residual += M[i, c] * products[c]
            adjoint += M[c, i] * products[shift + c]
        weights[shift + i] = -residual if shift else residual
        if shift:
            weights[i] = adjoint
    nx = ny = 0.0
    for b in range(n_vectors):
        c0, c1, c2, c3 = weights[3 * b], weights[3 * b + 1], weights[3 * b + 2], damping[b]
        square = touched = 0.0
        for i in range(n):
            v = hot[at + b, i]
            g = c0 * hot[PHI, i] + c1 * hot[PSI, i] + c2 * hot[TRACE, i] + c3 * v
            hot[GRADIENT + b, i] = g
            square += g * g
            touched += v * v
        if c3 != 0.0:
            square += c3 * c3 * max(size[b] - touched, 0.0)
        nx, ny = (nx + square, ny) if b < k else (nx, ny + square)
    return nx, ny, inside


@_inline
def _scaled(norms, after, b, f):
    """‖fv − v_0‖² and ⟨fv − v_0, v_0⟩ from those of v."""
    moved, along, square = after[MOVED, b], after[ALONG, b], norms[b, ORIGIN_SIZE]
    after[MOVED, b] = f * f * moved + 2.0 * f * (f - 1.0) * along + (f - 1.0) * (f - 1.0) * square
    after[ALONG, b] = f * along + (f - 1.0) * square


@_inline
def _move(hot, n, k, alpha, beta, damping, l2, point, radius, ball, norms, after, factor, size):
    """NEXT = Π((v − step·g)/(1 + step·l2)), where the untouched gradient is damping·point·v.

    Leaves the factor of the untouched entries in `factor`, the distances in `after` and ‖v‖² in `size`.
    """
    n_vectors = len(norms)
    for b in range(n_vectors):
        step = alpha if b < k else beta
        shrink = 1.0 / (1.0 + step * l2[b])
        f = factor[b] = (1.0 - step * damping[b] * point[b]) * shrink
        for i in range(n):
            hot[NEXT + b, i] = (hot[VALUE + b, i] - step * hot[GRADIENT + b, i]) * shrink
        if b >= k and ball == BOX:
            for i in range(n):
                hot[NEXT + b, i] = min(max(hot[NEXT + b, i], -1.0), 1.0)
        after[MOVED, b], after[ALONG, b] = norms[b, MOVED], norms[b, ALONG]
        if f != 1.0:
            _scaled(norms, after, b, f)
        moved = along = 0.0
        for i in range(n):
            p, v, at = hot[NEXT + b, i], f * hot[VALUE + b, i], hot[ORIGIN + b, i]
            moved += (p - v) * (p + v - 2.0 * at)
            along += (p - v) * at
        after[MOVED, b] += moved
        after[ALONG, b] += along
    for first in range(0, n_vectors, k):  # x, and then y
        bound = radius if first == 0 else (1.0 if ball == 2 else np.inf)
        _project(hot, n, first, first + k, bound, norms, after, factor, size)


@_inline
def _project(hot, n, first, last, radius, norms, after, factor, size):
    """Scale the vectors first … last − 1 of the next point into the l2 ball of that radius; `size` is their ‖v‖²."""
    total = 0.0
    for b in range(first, last):
        size[b] = after[MOVED, b] + 2.0 * after[ALONG, b] + norms[b, ORIGIN_SIZE]
        total += size[b]
    if total > radius * radius:
        s = radius / np.sqrt(total)
        for b in range(first, last):
            factor[b] *= s
            size[b] *= s * s
            _scaled(norms, after, b, s)
            for i in range(n):
                hot[NEXT + b, i] *= s


@_inline
def _row_size(hot, n):
    """‖φ‖² + ‖ψ‖² + ‖e‖²."""
    total = 0.0
    for i in range(n):
        total += hot[PHI, i] * hot[PHI, i] + hot[PSI, i] * hot[PSI, i] + hot[TRACE, i] * hot[TRACE, i]
    return total


@_inline
def _over_root(top, square):
    """top/√square, and 0 where nothing has been seen."""
    return top / np.sqrt(square) if square > 0.0 else 0.0


@_inline
def _two_steps(record, more_x, more_y, dual_radius, top):
    """(α ≤ top, β) with `more_x`, `more_y` on top of the record; dual_radius 0 asks for one step in x and y."""
    reach = max(record[REACH], record[START])
    if dual_radius == 0.0:
        alpha = min(_over_root(reach, record[GX] + more_x + record[GY] + more_y), top)
        return alpha, alpha
    return min(_over_root(reach, record[GX] + more_x), top), _over_root(dual_radius, record[GY] + more_y)


@_inline
def _average(hot, n, at, weight, n_sums, point, scale):
    """Σωv of the hot coordinates, and P of all others, at the point in rows `at`."""
    for b in range(n_sums):
        scale[b, P] += weight * point[b] * scale[b, F]
        for i in range(n):
            hot[TOTAL + b, i] += weight * hot[at + b, i]


@_jit
def distance_over_gradients(
    values, indices, indptr, next_values, next_indices, next_indptr, reward, discount, fresh, old,
    line, hot, names, scale, chain, norms, counter, room, origin, record, k, n_sums, tol, horizon, M, m, damping, l2,
    ball, dual_radius, radius, extragradient, start, cap, limit,
):  # fmt: skip
    """`adaptive_kernels.distance_over_gradients` on sparse rows; returns how many were taken.

    It stops at a row whose products leave ±`limit`, and where `hot` is full, which counter[FULL] tells.
    """
    values, indices, indptr = borrow(values), borrow(indices), borrow(indptr)
    next_values, next_indices, next_indptr = borrow(next_values), borrow(next_indices), borrow(next_indptr)
    line, hot, names, scale, chain = borrow(line), borrow(hot), borrow(names), borrow(scale), borrow(chain)
    norms, counter, origin, record = borrow(norms), borrow(counter), borrow(origin), borrow(record)
    M, m, damping, l2 = borrow(M), borrow(m), borrow(damping), borrow(l2)
    n_vectors, nothing = len(scale), room[:0]
    products, weights, after = borrow(room[0]), borrow(room[1]), borrow(room[5:])
    point, factor, size = borrow(room[2]), borrow(room[3]), borrow(room[4])
    norm_M, most_damping = 0.0, 0.0
    for i in range(len(m)):
        most_damping = max(most_damping, damping[i // 3])
        for c in range(len(m)):
            norm_M += M[i, c] * M[i, c]
    norm_M = np.sqrt(norm_M)
    counter[FULL] = 0
    for t in range(len(reward)):
        if t + 1 < len(reward):
            for i in range(indptr[t + 1], indptr[t + 2]):
                prefetch(line, indices[i])
            for i in range(next_indptr[t + 1], next_indptr[t + 2]):
                prefetch(line, next_indices[i])
        lo, hi, next_lo, next_hi = indptr[t], indptr[t + 1], next_indptr[t], next_indptr[t + 1]
        n = counter[HOT]
        if n + hi - lo + next_hi - next_lo > len(names):
            counter[FULL] = 1
            return t
        for i in range(n):
            hot[PHI, i] = hot[PSI, i] = 0.0
        for row in range(PHI, PSI + 1 if discount[t] != 0.0 else PSI):
            entries, at_j, first, end, times = values, indices, lo, hi, 1.0
            if row == PSI:
                entries, at_j, first, end, times = next_values, next_indices, next_lo, next_hi, discount[t]
            n = _touch(line, hot, names, n, row, entries, at_j, first, end, times, origin, n_sums, scale, chain)
        stop = np.uint64(n)
        for i in range(stop):
            hot[TRACE, i] = fresh[t] * hot[PHI, i] + old[t] * hot[TRACE, i]
        for b in range(n_vectors):
            point[b] = 1.0
            size[b] = norms[b, MOVED] + 2.0 * norms[b, ALONG] + norms[b, ORIGIN_SIZE]
        nx = ny = alpha = top = 0.0
        at, fine = VALUE, True
        for last in range(0 if extragradient else 1, 2):  # the trial point, then the step from its gradient
            more_x, more_y, fine = _gradient(
                hot, stop, at, k, n_vectors, size, reward[t], M, m, damping, products, weights, limit
            )  # fmt: skip
            if not fine:
                break
            if at == VALUE:
                bound = norm_M * _row_size(hot, stop) + most_damping
                if bound > 0.0:
                    residual = more_y if n_vectors > k else more_x
                    record[START] = max(record[START], start * np.sqrt(residual) / bound)
                record[SIZE] += bound
                record[ROWS] += 1.0
                top = cap * record[ROWS] / record[SIZE] if record[SIZE] > 0.0 else np.inf
            nx, ny = max(nx, more_x), max(ny, more_y)
            alpha, beta = _two_steps(record, nx, ny, dual_radius, top)
            if last:
                _average(hot, stop, at, alpha, n_sums, point, scale)
            _move(hot, stop, k, alpha, beta, damping, l2, point, radius, ball, norms, after, factor, size)
            for b in range(n_vectors):
                point[b] = factor[b]
            at = NEXT
        moved, restart = 0.0, False
        for b in range(n_vectors):
            if fine:
                norms[b, MOVED], norms[b, ALONG] = after[MOVED, b], after[ALONG, b]
                scale[b, F] *= factor[b]
                restart = restart or not SMALLEST < abs(scale[b, F]) < 1.0 / SMALLEST
                moved += norms[b, MOVED] if b < k or dual_radius == 0.0 else 0.0
            else:
                for i in range(n):
                    hot[NEXT + b, i] = hot[VALUE + b, i]
        if restart:
            _restart(scale, chain, counter)
        counter[HOT] = _store(line, hot, names, n, scale, factor, n_sums, counter[GENERATION], tol)
        if not fine:
            return t
        record[GX] += nx
        record[GY] += ny
        record[WEIGHT] += alpha
        record[REACH] = max(record[REACH], np.sqrt(max(moved, 0.0)))
        counter[SINCE] += 1
        if counter[SINCE] >= horizon or counter[GENERATION] + 1 == len(chain):
            flush(line, hot, scale, chain, norms, counter, origin, n_sums, nothing)
    return len(reward)


# --- dual averaging -------------------------------------------------------------------------------------------------
# The point is a function of the sums of gradients, which change only where a row touches them. With v = −s_x, x_0 = 0,
#
#     x_t = F_t S(v, ℓ_t)                       ℓ_t = l1 Σa_i              F_t = 1/(√Σ‖g_x‖² + l2 Σa_i)
#     Σ a_i x_i = R + v P_t − sgn(v) Q_t        P ← P + a F̂                Q ← Q + a F̂ ℓ        while |v| > ℓ
#     ‖x_t‖² = F_t² Σ(|v| − ℓ_t)²               over all v beyond ℓ, the *active* ones
#
# and with v = s_y, y_t = F_t v. ℓ only grows, so an untouched coordinate leaves the active ones once, in the order of
# |v|/l1. A heap knows which is next, and a coordinate that leaves takes along what it has in its sum.
#
# A line is v of every vector; if there are averages, R of every vector and, for x, the weight for which it was not zero
# (less Σa_i while it is active); for x its key in the heap, 0 if it is not active; and the mark.

# Columns of `scale` (after F and P) and of `active`: Σ(|v| − ℓ)² of a block of x, ‖v‖² of all y; Σ(|v| − ℓ); how
# many; ℓ.
Q = 2
SQUARES, LENGTHS, NUMBER, LEVEL = range(4)
# Rows of `hot` in place of v_0 and after e: v, the weight of not being zero, and what multiplies the penalty.
SUM, SHARE, MULTIPLIER, WIDE_ROWS = 8, 23, 25, 26
HEAPED = 4  # entry of `counter`: the size of the heap
EARLY, LATE = 1.0 - 2.0**-50, 1.0 + 2.0**-50  # a key is early, lest rounding keep a coordinate beyond its time


@_inline
def _push(keys, owners, counter, key, owner):
    """Into the heap, where keys[i] ≤ keys[2i + 1], keys[2i + 2]."""
    i = counter[HEAPED]
    counter[HEAPED] += 1
    while i > 0 and keys[(i - 1) // 2] > key:
        keys[i], owners[i] = keys[(i - 1) // 2], owners[(i - 1) // 2]
        i = (i - 1) // 2
    keys[i], owners[i] = key, owner


@_inline
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


@_inline
def _count_in(active, b, v, sign):
    """Add a coordinate to the active ones, or take it from them."""
    beyond = abs(v) - active[b, LEVEL]
    active[b, SQUARES] += sign * beyond * beyond
    active[b, LENGTHS] += sign * beyond
    active[b, NUMBER] += sign


@_inline
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


@_inline
def _is_active(line, j, b, k, l1):
    return line[j, b] != 0.0 if l1[b] == 0.0 else line[j, line.shape[1] - 1 - k + b] != 0.0


@_inline
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


@_inline
def _touch_sums(line, hot, names, n, row, values, indices, lo, hi, times, k, n_sums, l1, scale, active, mass):
    """`_touch` for sums of gradients."""
    mark, n_vectors = line.shape[1] - 1, len(scale)
    for i in range(lo, hi):
        j = np.int64(indices[i])
        amount = times * values[i] if len(values) > 0 else times
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


@_inline
def _store_sums(line, hot, names, n, n_special, k, n_sums, l1, scale, active, keys, owners, counter, mass, tol):
    """`_store` for sums of gradients; the special coordinates, which come first, stay hot."""
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


@_jit
def materialise_sums(line, hot, names, scale, counter, k, n_sums, l1, mass, values, sums):
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


@_jit
def flush_sums(line, hot, scale, active, keys, owners, counter, k, n_sums, l1, mass, forget):
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


@_inline
def _point(hot, n, k, n_vectors, more, root, mass, l1, l2, dual_factor):
    """NEXT = (x, y) of the sums v − more·gradient."""
    for b in range(n_vectors):
        for i in range(n):
            hot[NEXT + b, i] = hot[SUM + b, i] - more * hot[GRADIENT + b, i]
        if b >= k:
            for i in range(n):
                hot[NEXT + b, i] *= dual_factor
        else:
            for i in range(n):
                v, bound = hot[NEXT + b, i], l1[b] * mass * hot[MULTIPLIER, i]
                below = root + l2[b] * mass * hot[MULTIPLIER, i]
                hot[NEXT + b, i] = (v - min(max(v, -bound), bound)) / below if root > 0.0 else 0.0


@_inline
def _dual_growth(hot, n, k, n_vectors, more):
    """‖v − more·gradient‖² − ‖v‖² of the dual sums."""
    growth = 0.0
    for b in range(k, n_vectors):
        for i in range(n):
            g = more * hot[GRADIENT + b, i]
            growth += g * (g - 2.0 * hot[SUM + b, i])
    return growth


@_inline
def _into_ball(factor, square):
    """The factor of y = factor·v, or of its projection on the unit ball, for ‖v‖² = square."""
    return 1.0 / np.sqrt(square) if factor * factor * square > 1.0 else factor


@_jit
def dual_averaging(
    values, indices, indptr, next_values, next_indices, next_indptr, reward, discount, fresh, old,
    line, hot, names, scale, active, keys, owners, counter, room, record, k, n_sums, n_special, tol, horizon,
    M, m, l1, l2, dual_radius, start, limit,
):  # fmt: skip
    """`adaptive_kernels.dual_averaging` on sparse rows, for x_0 = 0 and the l2 ball; returns how many were taken.

    It stops at a row whose products leave ±`limit`, and where `hot` or the heap is full, which counter[FULL] tells.
    """
    values, indices, indptr = borrow(values), borrow(indices), borrow(indptr)
    next_values, next_indices, next_indptr = borrow(next_values), borrow(next_indices), borrow(next_indptr)
    line, hot, names, scale, active = borrow(line), borrow(hot), borrow(names), borrow(scale), borrow(active)
    keys, owners, counter, record = borrow(keys), borrow(owners), borrow(counter), borrow(record)
    M, m, l1, l2 = borrow(M), borrow(m), borrow(l1), borrow(l2)
    products, weights, none = borrow(room[0]), borrow(room[1]), borrow(room[2])
    n_vectors, norm_M = len(scale), 0.0
    for i in range(len(m)):
        for c in range(len(m)):
            norm_M += M[i, c] * M[i, c]
    norm_M = np.sqrt(norm_M)
    counter[FULL] = 0
    for t in range(len(reward)):
        if t + 1 < len(reward):
            for i in range(indptr[t + 1], indptr[t + 2]):
                prefetch(line, indices[i])
            for i in range(next_indptr[t + 1], next_indptr[t + 2]):
                prefetch(line, next_indices[i])
        lo, hi, next_lo, next_hi = indptr[t], indptr[t + 1], next_indptr[t], next_indptr[t + 1]
        n, before = counter[HOT], record[MASS]
        most = n + hi - lo + next_hi - next_lo
        if most > len(names) or counter[HEAPED] + k * most > len(keys):
            counter[FULL] = 1
            return t
        for i in range(n):
            hot[PHI, i] = hot[PSI, i] = 0.0
        for row in range(PHI, PSI + 1 if discount[t] != 0.0 else PSI):
            entries, at, first, end, times = values, indices, lo, hi, 1.0
            if row == PSI:
                entries, at, first, end, times = next_values, next_indices, next_lo, next_hi, discount[t]
            n = _touch_sums(
                line, hot, names, n, row, entries, at, first, end, times, k, n_sums, l1, scale, active, before
            )  # fmt: skip
        stop = np.uint64(n)
        for i in range(stop):
            hot[TRACE, i] = fresh[t] * hot[PHI, i] + old[t] * hot[TRACE, i]
        nx = ny = a = 0.0
        root, mass, factor, more, fine = np.sqrt(record[GX]), before, scale[k, F], 0.0, True
        for phase in range(3):  # the point, the trial point, and the next point
            _point(hot, stop, k, n_vectors, more, root, mass, l1, l2, factor)
            if phase == 2:
                break
            more_x, more_y, fine = _gradient(
                hot, stop, NEXT, k, n_vectors, none, reward[t], M, m, none, products, weights, limit
            )  # fmt: skip
            if not fine:
                break
            nx, ny = max(nx, more_x), max(ny, more_y)
            if phase == 0:
                bound = norm_M * _row_size(hot, stop)
                if bound > 0.0:
                    record[START] = max(record[START], start * np.sqrt(ny) / bound)
                more = a = max(record[REACH], record[START])
                root, mass = np.sqrt(record[GX] + nx), before + a
                _raise_level(line, scale, active, keys, owners, counter, k, n_sums, l1, before, mass)
                factor = _over_root(dual_radius, record[GY] + a * a * ny)
                factor = _into_ball(factor, active[k, SQUARES] + _dual_growth(hot, stop, k, n_vectors, a))
            else:
                for b in range(n_vectors):
                    if b < k:
                        average = 1.0 / (root + l2[b] * mass) if root > 0.0 else 0.0
                        scale[b, Q] += a * average * active[b, LEVEL]
                    else:
                        average = factor
                    scale[b, P] += a * average
                    for i in range(stop):
                        hot[TOTAL + b, i] += a * hot[NEXT + b, i]
                        if b < k:
                            hot[SHARE + b, i] += a if hot[NEXT + b, i] != 0.0 else 0.0
                active[k, SQUARES] += _dual_growth(hot, stop, k, n_vectors, a)
                for b in range(n_vectors):
                    for i in range(stop):
                        hot[SUM + b, i] -= a * hot[GRADIENT + b, i]
                record[GX] += nx
                record[GY] += a * a * ny
                record[MASS] = mass
                record[WEIGHT] += a
                root, more = np.sqrt(record[GX]), 0.0
                factor = scale[k, F] = _into_ball(_over_root(dual_radius, record[GY]), active[k, SQUARES])
        if fine:
            moved = 0.0
            for b in range(k):
                average = 1.0 / (root + l2[b] * mass) if root > 0.0 else 0.0
                moved += average * average * max(active[b, SQUARES], 0.0)
                for i in range(stop):
                    moved += hot[NEXT + b, i] * hot[NEXT + b, i]
            record[REACH] = max(record[REACH], np.sqrt(moved))
        counter[HOT] = _store_sums(
            line, hot, names, n, n_special, k, n_sums, l1, scale, active, keys, owners, counter, record[MASS], tol
        )  # fmt: skip
        if not fine:
            return t
        counter[SINCE] += 1
        if counter[SINCE] >= horizon or counter[HEAPED] > 8 * len(line):  # entries out of date gather in the heap
            flush_sums(line, hot, scale, active, keys, owners, counter, k, n_sums, l1, record[MASS], False)
    return len(reward)
