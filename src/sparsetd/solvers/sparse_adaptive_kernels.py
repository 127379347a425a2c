"""Exact O(nnz) steps of distance over gradients on sparse rows.

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
resolve the terms added to it; `chain` holds the composed map (F, P) from the start of every older generation to that of the
current one. Every so many rows all coordinates are brought up to date (a flush), which renews the tracked norms. This
happens at fixed row numbers, hence any chunking gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sparsetd.solvers.sparse_kernels import _borrow, _prefetch

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
def _value_and_sum(line, j, b, n_vectors, n_sums, scale, chain):
    """v_t and Σωv of one entry, from its line."""
    generation = -np.int64(line[j, line.shape[1] - 1])
    v = line[j, b]
    now = v * chain[generation, b, F]
    total = line[j, n_vectors + b] + v * chain[generation, b, P] + now * scale[b, P] if b < n_sums else 0.0
    return now * scale[b, F], total


@_inline
def _touch(line, hot, names, n, row, values, indices, lo, hi, factor, origin, n_sums, scale, chain):
    """Add factor·(entries lo … hi) to a direction of the hot coordinates, duplicates and all; returns their number."""
    mark, n_vectors = line.shape[1] - 1, len(scale)
    for i in range(lo, hi):
        j = np.int64(indices[i])
        amount = factor * values[i] if len(values) > 0 else factor
        place = np.int64(line[j, mark]) - 1
        if place < 0:
            for b in range(n_vectors):
                hot[VALUE + b, n], hot[TOTAL + b, n] = _value_and_sum(line, j, b, n_vectors, n_sums, scale, chain)
                hot[ORIGIN + b, n] = origin[b, j] if b < len(origin) else 0.0
            hot[PHI, n] = hot[PSI, n] = hot[TRACE, n] = 0.0
            names[n], place = j, n
            n += 1
            line[j, mark] = n
        hot[row, place] += amount
    return n


@_inline
def _store(line, hot, names, n, scale, inverse, n_sums, generation, tol):
    """Take over the next values; write back all coordinates but those of a trace that has not faded, which stay hot."""
    mark, n_vectors, kept = line.shape[1] - 1, len(scale), 0
    for b in range(n_vectors):
        inverse[b] = 1.0 / scale[b, F]
    for i in range(n):
        j = names[i]
        stays = abs(hot[TRACE, i]) > tol
        for b in range(n_vectors):
            if stays:
                hot[VALUE + b, kept], hot[TOTAL + b, kept] = hot[NEXT + b, i], hot[TOTAL + b, i]
                hot[ORIGIN + b, kept] = hot[ORIGIN + b, i]
            else:
                v = hot[NEXT + b, i] * inverse[b]
                line[j, b] = v
                if b < n_sums:
                    line[j, n_vectors + b] = hot[TOTAL + b, i] - v * scale[b, P]
        line[j, mark] = -generation
        if stays:
            hot[TRACE, kept], names[kept] = hot[TRACE, i], j
            kept += 1
            line[j, mark] = kept
    return kept


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
    """Write all values (V, d) and weighted sums (V or 0, d); the state is left as it is."""
    mark, n_vectors, n_sums = line.shape[1] - 1, len(values), len(sums)
    for j in range(len(line)):
        if line[j, mark] <= 0.0:
            for b in range(n_vectors):
                now, total = _value_and_sum(line, j, b, n_vectors, n_sums, scale, chain)
                values[b, j] = now
                if b < n_sums:
                    sums[b, j] = total
    for i in range(counter[HOT]):
        for b in range(n_vectors):
            values[b, names[i]] = hot[VALUE + b, i]
            if b < n_sums:
                sums[b, names[i]] = hot[TOTAL + b, i]


@_jit
def flush(line, hot, scale, chain, norms, counter, origin, n_sums, sums):
    """Bring every line up to date and count the norms anew; the sums are moved to `sums` where it has room for them."""
    mark, n_vectors, moves = line.shape[1] - 1, len(scale), len(sums) > 0
    for b in range(n_vectors):
        norms[b, MOVED] = norms[b, ALONG] = 0.0
    for j in range(len(line)):
        place = np.int64(line[j, mark]) - 1
        for b in range(n_vectors):
            if place < 0:
                now, total = _value_and_sum(line, j, b, n_vectors, n_sums, scale, chain)
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
    values, indices, indptr = _borrow(values), _borrow(indices), _borrow(indptr)
    next_values, next_indices, next_indptr = _borrow(next_values), _borrow(next_indices), _borrow(next_indptr)
    line, hot, names, scale, chain = _borrow(line), _borrow(hot), _borrow(names), _borrow(scale), _borrow(chain)
    norms, counter, origin, record = _borrow(norms), _borrow(counter), _borrow(origin), _borrow(record)
    M, m, damping, l2 = _borrow(M), _borrow(m), _borrow(damping), _borrow(l2)
    n_vectors, nothing = len(scale), room[:0]
    products, weights, after = _borrow(room[0]), _borrow(room[1]), _borrow(room[5:])
    point, factor, size = _borrow(room[2]), _borrow(room[3]), _borrow(room[4])
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
                _prefetch(line, indices[i])
            for i in range(next_indptr[t + 1], next_indptr[t + 2]):
                _prefetch(line, next_indices[i])
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
