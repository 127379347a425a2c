"""The affine law of sparse rows: without an l1 penalty all coordinates that a row does not touch move alike, v ← f v.

So for every vector of the state, each block of x and of y, with the points (s, c) and (o, ĉ) of `points`,

    x_t = F v                        F ← s F               v ← v + c·D/F
    Σ_{i<t} ω_i x_i = R + v P        P ← P + ω o F         R ← R + (ω ĉ − P c/F)·D
    ‖x_t − x_0‖²                     from its products with D and the Gram matrix of D, as everything else

Two numbers (v, R) per coordinate and a few scalars per vector; what a row does to the line of a coordinate is linear,
and the line is one register or two. Any rule runs here as in `dense`. The trace is a third sparse row, kept as a list.

F may fall without end. When it leaves (2⁻¹⁰, 2¹⁰) a new *generation* begins with F = 1, because P would no longer
resolve the terms added to it; `chain` holds the composed map (F, P) from the start of every older generation to that of
the current one. Every so many rows all coordinates are brought up to date (a flush), which renews the tracked norms.
This happens at fixed row numbers, hence any chunking gives the same bits.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.csr import TRACE_TOL, borrowed, entry, fetch_row
from sparsetd.solvers.compiled.dense import products_in_range
from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, store
from sparsetd.solvers.compiled.points import (
    DD,
    DE,
    EE,
    FD,
    FE,
    FF,
    NEXT,
    NUMBERS,
    TRIAL,
    N,
    S,
    T,
    U,
    fixed_plan,
    fold,
    inner,
    into_ball,
    plan,
    square,
)
from sparsetd.solvers.compiled.rules import REACH, WEIGHT

# A line of one or two vectors is their v, their R, and from MARKS on its marks: generation, what the row has there
# (φ − ψ, while it is at work), and 1 + its place in the trace. With four vectors the marks are in an array apart.
MARKS, BORN, WORK, PLACE = 4, 0, 1, 2
# Entries of `counter`: length of the trace, the generation, rows since the last flush, whether the trace is full.
TRACED, GENERATION, SINCE, FULL = range(4)
# Columns of `norms`: ‖v − v_0‖², ⟨v − v_0, v_0⟩, ‖v_0‖²; of `scale` and `chain`: F and P.
MOVED, ALONG, ORIGIN = range(3)
F, P = 0, 1
SMALLEST = 2.0**-10


# --- the trace ------------------------------------------------------------------------------------------------------


@piece
def fade(marks, at, names, faded, n, old, tol):
    """e ← old·e, without the entries that have faded; returns how many are left."""
    kept = 0
    for i in range(n):
        value, j = old * faded[i], names[i]
        if abs(value) > tol:
            faded[kept], names[kept] = value, j
            kept += 1
            marks[j, at + PLACE] = kept
        else:
            marks[j, at + PLACE] = 0.0
    return kept


@piece
def join(marks, at, names, faded, n, row, t, fresh):
    """e ← e + fresh·φ; returns how many entries there are."""
    values, indices, indptr = row
    for i in range(indptr[t], indptr[t + 1]):
        j = np.int64(indices[i])
        place = np.int64(marks[j, at + PLACE]) - 1
        if place < 0:
            place, names[n], faded[n] = n, j, 0.0
            n += 1
            marks[j, at + PLACE] = n
        faded[place] += fresh * entry(values, i)
    return n


# --- the Gram matrix ------------------------------------------------------------------------------------------------


@part
def measure_row(marks, at, phi, phi_next, t, rate, fresh, faded, n, traced, gram):
    """Γ of (φ, δ, e): φ − ψ is laid out in the marks, and gathered; duplicate entries and all."""
    values, indices, indptr = phi
    next_values, next_indices, next_indptr = phi_next
    ff = fd = dd = fe = ge = ee = 0.0
    for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
        j, a = np.uint64(indices[i]), entry(values, i)
        before = marks[j, at + WORK]
        ff += a * (2.0 * before + a)
        marks[j, at + WORK] = before + a
        if traced:
            fe += a * faded[np.int64(marks[j, at + PLACE]) - 1]
    if rate != 0.0:
        for i in range(np.uint64(next_indptr[t]), np.uint64(next_indptr[t + 1])):
            j, a = np.uint64(next_indices[i]), rate * entry(next_values, i)
            marks[j, at + WORK] -= a
            place = np.int64(marks[j, at + PLACE]) - 1
            if traced and place >= 0:
                ge += a * faded[place]
    for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
        fd += entry(values, i) * marks[np.uint64(indices[i]), at + WORK]
    for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
        j = np.uint64(indices[i])
        dd += marks[j, at + WORK] * marks[j, at + WORK]
        marks[j, at + WORK] = 0.0
    if rate != 0.0:
        for i in range(np.uint64(next_indptr[t]), np.uint64(next_indptr[t + 1])):
            j = np.uint64(next_indices[i])
            dd += marks[j, at + WORK] * marks[j, at + WORK]
            marks[j, at + WORK] = 0.0
    for i in range(n if traced else 0):
        ee += faded[i] * faded[i]
    gram[FF], gram[FD], gram[DD] = ff, fd, dd
    if traced:
        gram[FE], gram[DE], gram[EE] = fe, fe - ge, ee
    else:
        gram[FE], gram[DE], gram[EE] = fresh * ff, fresh * fd, fresh * fresh * ff


# --- lines ----------------------------------------------------------------------------------------------------------


@part
def _renew(line, marks, at, j, n_vectors, generation, chain):
    """Bring a line from its generation to the current one."""
    born, first = np.int64(marks[j, at + BORN]), 4 if n_vectors == 4 else 2
    for b in range(n_vectors):
        v = line[j, b]
        line[j, first + b] += v * chain[born, b, P]
        line[j, b] = v * chain[born, b, F]
    marks[j, at + BORN] = generation


@piece
def _renew_row(line, marks, at, indices, lo, hi, n_vectors, generation, chain):
    for i in range(np.uint64(lo), np.uint64(hi)):
        j = np.uint64(indices[i])
        if marks[j, at + BORN] != generation:
            _renew(line, marks, at, j, n_vectors, generation, chain)


@part
def _read(line, marks, at, values, indices, lo, hi, n_vectors, generation, chain):
    """Σ a v over a row, every vector a lane."""
    total = lanes(0.0)
    for i in range(np.uint64(lo), np.uint64(hi)):
        j = np.uint64(indices[i])
        if marks[j, at + BORN] != generation:
            _renew(line, marks, at, j, n_vectors, generation, chain)
        total = total + entry(values, i) * load(line, j, 0)
    return total


@part
def _write(line, wide, values, indices, lo, hi, change, change_sums):
    """line += a·(what a step does to v and to R)."""
    for i in range(np.uint64(lo), np.uint64(hi)):
        j, a = np.uint64(indices[i]), entry(values, i)
        store(line, j, 0, load(line, j, 0) + a * change)
        if wide is not None:
            store(line, j, 4, load(line, j, 4) + a * change_sums)


@piece
def _from_origin(origin, phi, phi_next, t, rate, names, faded, n, slots, out):
    """Products of x_0 with D."""
    for b in range(len(origin)):
        row, at = origin[b], 3 * slots[b]
        p0 = p1 = p2 = 0.0
        for i in range(phi[2][t], phi[2][t + 1]):
            p0 += entry(phi[0], i) * row[phi[1][i]]
        for i in range(phi_next[2][t], phi_next[2][t + 1] if rate != 0.0 else phi_next[2][t]):
            p1 += entry(phi_next[0], i) * row[phi_next[1][i]]
        for i in range(n):
            p2 += faded[i] * row[names[i]]
        out[at], out[at + 1], out[at + 2] = p0, p1, p2


@piece
def _restart(scale, chain, counter):
    """Begin a generation: every older map is extended by what happened in this one."""
    for g in range(counter[GENERATION] + 1):
        for b in range(len(scale)):
            chain[g, b, P] += chain[g, b, F] * scale[b, P]
            chain[g, b, F] *= scale[b, F]
    counter[GENERATION] += 1
    _first(scale, chain, counter[GENERATION])


@piece
def _first(scale, chain, generation):
    """A generation begins with the identity."""
    for b in range(len(scale)):
        scale[b, F] = chain[generation, b, F] = 1.0
        scale[b, P] = chain[generation, b, P] = 0.0


@kernel
def flush(line, marks, at, scale, chain, norms, counter, origin, sums):
    """Bring every line up to date and count the norms anew; the sums are moved to `sums` where it has room for them."""
    line, marks, scale, chain = borrow(line), borrow(marks), borrow(scale), borrow(chain)
    n_vectors, current, moves = len(scale), counter[GENERATION], len(sums) > 0
    first = 4 if n_vectors == 4 else 2
    norms[:, MOVED] = norms[:, ALONG] = 0.0
    for j in range(len(line)):
        if marks[j, at + BORN] != current:
            _renew(line, marks, at, j, n_vectors, current, chain)
        for b in range(n_vectors):
            v = line[j, b]
            total, now = line[j, first + b] + v * scale[b, P], v * scale[b, F]
            if moves:
                sums[b, j], total = total, 0.0
            line[j, b], line[j, first + b] = now, total
            start = origin[b, j] if b < len(origin) else 0.0
            norms[b, MOVED] += (now - start) * (now - start)
            norms[b, ALONG] += (now - start) * start
        if marks[j, at + BORN] != 0.0:
            marks[j, at + BORN] = 0.0
    counter[GENERATION] = counter[SINCE] = 0
    _first(scale, chain, 0)


@kernel
def materialise(line, marks, at, scale, chain, counter, values, sums):
    """Write the values of the first vectors, as many as there is room for, and so the sums; the state is left alone."""
    line, marks, scale, chain = borrow(line), borrow(marks), borrow(scale), borrow(chain)
    first, current = 4 if len(scale) == 4 else 2, counter[GENERATION]
    for j in range(len(line)):
        born = np.int64(marks[j, at + BORN])
        for b in range(len(values)):
            v, more = line[j, b], 0.0
            if born != current:
                v, more = v * chain[born, b, F], v * chain[born, b, P]
            values[b, j] = v * scale[b, F]
            if b < len(sums):
                sums[b, j] = line[j, first + b] + more + v * scale[b, P]


@part
def _follow_norms(norms, room, from_origin, slots, gram, rate):
    """‖v − v_0‖² and ⟨v − v_0, v_0⟩ after the step (s, c); v_0 is 0 for y."""
    for b in range(len(norms)):
        slot = slots[b]
        s, c = room[NUMBERS, S + slot], room[NEXT]
        more = s - 1.0
        moved, along, start = norms[b, MOVED], norms[b, ALONG], norms[b, ORIGIN]
        with_v, with_start = inner(c, room[U], slot), inner(c, from_origin, slot)
        total = s * s * moved + more * (2.0 * s * along + more * start) + square(c, slot, gram, rate)
        norms[b, MOVED] = max(total + 2.0 * (s * (with_v - with_start) + more * with_start), 0.0)
        norms[b, ALONG] = s * along + more * start + with_start


@kernel
def stream(
    rule, phi, phi_next, reward, discount, fresh, old, alpha, line, marks, names, faded, scale, chain, norms, counter,
    slots, work, origin, record, M, m, norm_M, damping, l2, wide, traced, measured, sized, trial, weigh, every, radius,
    ball, limit,
):  # fmt: skip
    """Advance the state by rows; returns how many were taken before the run diverged, or before the trace was full.

    `measured` is None for a step set by hand, `sized` where nobody asks for a norm, `trial` without a trial point,
    `traced` without traces, `wide` unless there are four vectors. `weigh` is 0 where nothing is averaged; a flush comes
    `every` so many rows.
    """
    line, marks, names, faded = borrow(line), borrow(marks), borrow(names), borrow(faded)
    scale, chain, norms, counter, slots = borrow(scale), borrow(chain), borrow(norms), borrow(counter), borrow(slots)
    origin, record, M, m, l2 = borrow(origin), borrow(record), borrow(M), borrow(m), borrow(l2)
    G, room, gram, from_origin = borrow(work[0]), borrow(work[1]), borrow(work[2]), borrow(work[3])
    damping, change = borrow(damping), borrow(work[4])
    phi, phi_next, numbers = borrowed(phi), borrowed(phi_next), room[NUMBERS]
    n_vectors, k, saddle, tol = len(scale), len(m) // 3, 3 * len(scale) > len(m), TRACE_TOL
    at, first, length = 0 if wide is not None else MARKS, 4 if wide is not None else 2, 0
    old_discount = old_fresh = np.nan
    counter[FULL] = 0
    for t in range(len(reward)):
        fetch_row(line, phi, t + 1)
        fetch_row(line, phi_next, t + 1)
        if wide is not None:
            fetch_row(marks, phi, t + 1)
            fetch_row(marks, phi_next, t + 1)
        rate, generation = discount[t], counter[GENERATION]
        lo, hi, next_lo = phi[2][t], phi[2][t + 1], phi_next[2][t]
        next_hi = phi_next[2][t + 1] if rate != 0.0 else next_lo
        if traced is not None:
            if counter[TRACED] + hi - lo > len(names):
                counter[FULL] = 1
                return t
            length = fade(marks, at, names, faded, counter[TRACED], old[t], tol)
            length = counter[TRACED] = join(marks, at, names, faded, length, phi, t, fresh[t])
        for q in range(3 if traced is not None else 2):
            if q == 0:
                total = _read(line, marks, at, phi[0], phi[1], lo, hi, n_vectors, generation, chain)
            elif q == 1:
                total = _read(line, marks, at, phi_next[0], phi_next[1], next_lo, next_hi, n_vectors, generation, chain)
            else:
                total = _read(line, marks, at, faded, names, 0, length, n_vectors, generation, chain)
            store(change, q, 0, total)
            for b in range(n_vectors):
                room[U, 3 * slots[b] + q] = scale[b, F] * change[q, b]
        if not products_in_range(record, room, reward[t], rate, limit):
            return t
        if rate != old_discount or fresh[t] != old_fresh:
            old_discount, old_fresh = rate, fresh[t]
            fold(G, M, m, k, traced is not None, rate, old_fresh)
        if sized is not None:
            measure_row(
                marks, at, phi, phi_next, t, rate, old_fresh, faded, length, traced is not None, gram
            )  # fmt: skip
            for b in range(n_vectors):
                numbers[N + slots[b]] = norms[b, MOVED] + 2.0 * norms[b, ALONG] + norms[b, ORIGIN]
        step = beta = alpha[t]
        if measured is None:
            fixed_plan(room, G, reward[t], step, damping, k, traced is not None, saddle)
        else:
            step, beta = plan(
                rule, record, room, G, gram, reward[t], alpha[t], rate, damping, l2, norm_M, radius, ball,
                trial is not None, k, traced is not None, saddle,
            )  # fmt: skip
        record[WEIGHT] += step
        for b in range(n_vectors):
            slot = slots[b]
            shrink = 1.0 / (1.0 + (step if b < k else beta) * l2[slot])
            numbers[S + slot] *= shrink
            for i in range(3 * slot, 3 * slot + 3):
                room[NEXT, i] *= shrink
        if sized is not None:
            if len(origin) > 0:
                _from_origin(origin, phi, phi_next, t, rate, names, faded, length, slots, from_origin)
            if radius < np.inf:
                into_ball(room, NEXT, S, 2 - k, 2, radius, gram, rate)
            if saddle and ball < np.inf:
                into_ball(room, NEXT, S, 2, 4, ball, gram, rate)
            _follow_norms(norms, room, from_origin, slots, gram, rate)
        restart, moved = False, 0.0
        for b in range(n_vectors):
            o = numbers[T + slots[b]] if trial is not None else 1.0
            scale[b, P] += weigh * step * o * scale[b, F]
            scale[b, F] *= numbers[S + slots[b]]
            restart = restart or not SMALLEST < abs(scale[b, F]) < 1.0 / SMALLEST
            moved += norms[b, MOVED] if b < k or ball == np.inf else 0.0
        record[REACH] = max(record[REACH], np.sqrt(moved))
        if restart:
            _restart(scale, chain, counter)
            generation = counter[GENERATION]
            _renew_row(line, marks, at, phi[1], lo, hi, n_vectors, generation, chain)
            _renew_row(line, marks, at, phi_next[1], next_lo, next_hi, n_vectors, generation, chain)
            if traced is not None:
                _renew_row(line, marks, at, names, 0, length, n_vectors, generation, chain)
        for q in range(3 if traced is not None else 2):
            for b in range(n_vectors):
                i = 3 * slots[b] + q
                more, row = room[NEXT, i] / scale[b, F], 3 + q if wide is not None else q
                change[q, b] = more
                change[row, first % 4 + b] = weigh * step * room[TRIAL, i] - more * scale[b, P]
        _write(line, wide, phi[0], phi[1], lo, hi, load(change, 0, 0), load(change, 3, 0))
        _write(line, wide, phi_next[0], phi_next[1], next_lo, next_hi, load(change, 1, 0), load(change, 4, 0))
        if traced is not None:
            _write(line, wide, faded, names, 0, length, load(change, 2, 0), load(change, 5, 0))
        counter[SINCE] += 1
        if counter[SINCE] >= every or counter[GENERATION] + 1 == len(chain):
            flush(line, marks, at, scale, chain, norms, counter, origin, line[:0])
    return len(reward)
