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

from collections import namedtuple

import numpy as np

from sparsetd.solvers.compiled import points
from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.csr import TRACE_TOL, borrowed, fetch_ahead
from sparsetd.solvers.compiled.dense import products_in_range, write_gram
from sparsetd.solvers.compiled.intrinsics import borrow, borrow_rows, lanes, load, store
from sparsetd.solvers.compiled.points import (
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
    lent,
    plan,
)
from sparsetd.solvers.compiled.rules import WEIGHT, see_distance

# A line is the v of its vectors, their R, and its marks: generation, φ and ψ (while a row is at work), and 1 + its
# place in the trace. With one or two vectors R begins at 2 and the marks at 4, with four at 4 and at 8.
BORN, FRONT, PLACE, BACK = range(4)
# Entries of `counter`: length of the trace, the generation, rows since the last flush, whether the trace is full.
TRACED, GENERATION, SINCE, FULL = range(4)
# Columns of `norms`: ‖v − v_0‖², ⟨v − v_0, v_0⟩, ‖v_0‖²; of `scale`: F and P, which are rows 2g and 2g + 1 of `chain`.
MOVED, ALONG, ORIGIN = range(3)
F, P = 0, 1
SMALLEST = 2.0**-10


# A lazy state: lines, the trace, the scalars above, the numbers of the vectors, 0 if nothing is averaged, and
# the rows between flushes.
Lines = namedtuple("Lines", "line names faded scale chain norms counter slots weigh every")


@part
def _lent(s, wide):
    """The same without an owner, lest calls count references, and with widths that the compiler knows."""
    line = borrow_rows(s.line, 12 if wide is not None else 8)
    scalars = borrow_rows(s.scale, 2), borrow_rows(s.chain, 4)
    more = borrow_rows(s.norms, 3), borrow(s.counter), borrow(s.slots), s.weigh, s.every
    return Lines(line, borrow(s.names), borrow(s.faded), *scalars, *more)


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
        faded[place] += fresh * values[i]
    return n


# --- the Gram matrix ------------------------------------------------------------------------------------------------


@part
def measure_row(line, at, phi, phi_next, t, rate, fresh, faded, n, traced, gram):
    """Γ of (φ, δ, e) from φ and ψ in the marks, which are cleared on the way: duplicate entries count once."""
    ff = fd = dd = fe = ge = ee = 0.0
    other_ff = other_fd = other_dd = 0.0  # sums that take turns: one alone would wait for itself
    for i in range(np.uint64(phi[2][t]), np.uint64(phi[2][t + 1])):
        j = np.uint64(phi[1][i])
        f, delta = line[j, at + FRONT], line[j, at + FRONT] - line[j, at + BACK]
        ff, other_ff = other_ff + f * f, ff
        fd, other_fd = other_fd + f * delta, fd
        dd, other_dd = other_dd + delta * delta, dd
        line[j, at + FRONT] = line[j, at + BACK] = 0.0
        if traced:
            fe += phi[0][i] * faded[np.int64(line[j, at + PLACE]) - 1]
    for i in range(np.uint64(phi_next[2][t]), np.uint64(phi_next[2][t + 1 if rate != 0.0 else t])):
        j = np.uint64(phi_next[1][i])
        g, place = line[j, at + BACK], np.int64(line[j, at + PLACE]) - 1
        dd, other_dd = other_dd + g * g, dd
        line[j, at + BACK] = 0.0
        if traced and place >= 0:
            ge += rate * phi_next[0][i] * faded[place]
    for i in range(n if traced else 0):
        ee += faded[i] * faded[i]
    write_gram(gram, (ff + other_ff, fd + other_fd, dd + other_dd, fe, fe - ge, ee), traced, fresh)


# --- lines ----------------------------------------------------------------------------------------------------------


@part
def _renew(line, at, j, wide, generation, chain):
    """Bring a line from its generation to the current one."""
    born = 2 * np.int64(line[j, at + BORN])
    if wide is not None:
        v = load(line, j, 0)
        store(line, j, 4, load(line, j, 4) + v * load(chain, born + P, 0))
        store(line, j, 0, v * load(chain, born + F, 0))
    else:
        for b in range(2):
            v = line[j, b]
            line[j, 2 + b] += v * chain[born + P, b]
            line[j, b] = v * chain[born + F, b]
    line[j, at + BORN] = generation


@piece
def _renew_row(line, at, indices, lo, hi, wide, generation, chain):
    for i in range(np.uint64(lo), np.uint64(hi)):
        j = np.uint64(indices[i])
        if line[j, at + BORN] != generation:
            _renew(line, at, j, wide, generation, chain)


@part
def _read(line, at, values, indices, lo, hi, wide, generation, chain, mark, times):
    """Σ a v over a row, every vector a lane; times·a is left in a mark, if one is given."""
    total = lanes(0.0)
    for i in range(np.uint64(lo), np.uint64(hi)):
        j = np.uint64(indices[i])
        if line[j, at + BORN] != generation:
            _renew(line, at, j, wide, generation, chain)
        total = total + values[i] * load(line, j, 0)
        if mark is not None:
            line[j, at + mark] += times * values[i]
    return total


@part
def _write(line, wide, ahead, values, indices, lo, hi, change, change_sums):
    """line += a·(what a step does to v and to R)."""
    for i in range(np.uint64(lo), np.uint64(hi)):
        if ahead:
            fetch_ahead(line, indices, i, 2 if wide is not None else 1)
        j, a = np.uint64(indices[i]), values[i]
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
            p0 += phi[0][i] * row[phi[1][i]]
        for i in range(phi_next[2][t], phi_next[2][t + 1] if rate != 0.0 else phi_next[2][t]):
            p1 += phi_next[0][i] * row[phi_next[1][i]]
        for i in range(n):
            p2 += faded[i] * row[names[i]]
        out[at], out[at + 1], out[at + 2] = p0, p1, p2


@piece
def _restart(scale, chain, counter):
    """Begin a generation: every older map is extended by what happened in this one."""
    for g in range(counter[GENERATION] + 1):
        for b in range(len(scale)):
            chain[2 * g + P, b] += chain[2 * g + F, b] * scale[b, P]
            chain[2 * g + F, b] *= scale[b, F]
    counter[GENERATION] += 1
    _first(scale, chain, counter[GENERATION])


@piece
def _first(scale, chain, generation):
    """A generation begins with the identity."""
    for b in range(len(scale)):
        scale[b, F] = chain[2 * generation + F, b] = 1.0
        scale[b, P] = chain[2 * generation + P, b] = 0.0


@kernel
def flush(line, wide, scale, chain, norms, counter, origin, sums):
    """Bring every line up to date and count the norms anew; the sums are moved to `sums` where it has room for them."""
    line, scale, chain = borrow(line), borrow(scale), borrow(chain)
    current, moves, first = counter[GENERATION], len(sums) > 0, 4 if wide is not None else 2
    norms[:, MOVED] = norms[:, ALONG] = 0.0
    for j in range(np.uint64(len(line))):
        if line[j, 2 * first + BORN] != current:
            _renew(line, 2 * first, j, wide, current, chain)
        for b in range(len(scale)):
            v = line[j, b]
            total, now = line[j, first + b] + v * scale[b, P], v * scale[b, F]
            if moves:
                sums[b, j], total = total, 0.0
            line[j, b], line[j, first + b] = now, total
            start = origin[b, j] if b < len(origin) else 0.0
            norms[b, MOVED] += (now - start) * (now - start)
            norms[b, ALONG] += (now - start) * start
        if line[j, 2 * first + BORN] != 0.0:
            line[j, 2 * first + BORN] = 0.0
    counter[GENERATION] = counter[SINCE] = 0
    _first(scale, chain, 0)


@kernel
def materialise(line, scale, chain, counter, values, sums):
    """Write the values of the first vectors, as many as there is room for, and so the sums; the state is left alone."""
    line, scale, chain = borrow(line), borrow(scale), borrow(chain)
    first, current = 4 if len(scale) == 4 else 2, counter[GENERATION]
    for j in range(len(line)):
        born = np.int64(line[j, 2 * first + BORN])
        for b in range(len(values)):
            v, more = line[j, b], 0.0
            if born != current:
                v, more = v * chain[2 * born + F, b], v * chain[2 * born + P, b]
            values[b, j] = v * scale[b, F]
            if b < len(sums):
                sums[b, j] = line[j, first + b] + more + v * scale[b, P]


@part
def _follow_norms(norms, room, from_origin, slots, gram, inverse):
    """‖v − v_0‖² and ⟨v − v_0, v_0⟩ after the step (s, c); v_0 is 0 for y."""
    for b in range(len(norms)):
        slot = slots[b]
        s, c = room[NUMBERS, S + slot], room[NEXT]
        more = s - 1.0
        moved, along, start = norms[b, MOVED], norms[b, ALONG], norms[b, ORIGIN]
        with_v, with_start = inner(c, room[U], slot), inner(c, from_origin, slot)
        total = s * s * moved + more * (2.0 * s * along + more * start) + points.square(c, slot, gram, inverse)
        norms[b, MOVED] = max(total + 2.0 * (s * (with_v - with_start) + more * with_start), 0.0)
        norms[b, ALONG] = s * along + more * start + with_start


@kernel
def stream(rule, rows, lines, work, origin, record, fixed, wide, traced, measured, sized, trial):
    """Advance the state by rows; returns how many were taken before the run diverged, or before the trace was full.

    `measured` is None for a step set by hand, `sized` where nobody asks for a norm, `trial` without a trial point,
    `traced` without traces, `wide` unless there are four vectors. A flush comes `every` so many rows.
    """
    line, names, faded, scale, chain, norms, counter, slots, weigh, every = _lent(lines, wide)
    record, fixed, origin, room, gram = borrow(record), lent(fixed), borrow(origin), borrow_rows(work[1], 12), work[2]
    G, from_origin, change, numbers = borrow_rows(work[0], 7), borrow(work[3]), borrow_rows(work[4], 4), room[NUMBERS]
    phi, phi_next, gram, l2 = borrowed(rows.phi), borrowed(rows.phi_next), borrow(gram), fixed.l2
    reward, discount, fresh, radius, ball = rows.reward, rows.discount, rows.fresh, fixed.radius, fixed.ball
    n_vectors, k, saddle = len(scale), len(fixed.m) // 3, 3 * len(scale) > len(fixed.m)
    at, first, length = 8 if wide is not None else 4, 4 if wide is not None else 2, 0
    kinds, old_discount, old_fresh, inverse = (trial is not None, 2, traced is not None, saddle), np.nan, np.nan, 0.0
    counter[FULL] = 0
    for t in range(len(reward)):
        rate, generation = discount[t], counter[GENERATION]
        lo, hi, next_lo = phi[2][t], phi[2][t + 1], phi_next[2][t]
        next_hi = phi_next[2][t + 1] if rate != 0.0 else next_lo
        if traced is not None:
            if counter[TRACED] + hi - lo > len(names):
                counter[FULL] = 1
                return t
            length = fade(line, at, names, faded, counter[TRACED], rows.old[t], TRACE_TOL)
            length = counter[TRACED] = join(line, at, names, faded, length, phi, t, fresh[t])
        for q in range(3 if traced is not None else 2):
            if q == 0:
                mark = None if sized is None else FRONT
                total = _read(line, at, phi[0], phi[1], lo, hi, wide, generation, chain, mark, 1.0)
            elif q == 1:
                back, ends = None if sized is None else BACK, (next_lo, next_hi)
                total = _read(line, at, phi_next[0], phi_next[1], *ends, wide, generation, chain, back, rate)
            else:
                total = _read(line, at, faded, names, 0, length, wide, generation, chain, None, 0.0)
            store(change, q, 0, total)
            for b in range(n_vectors):
                room[U, 3 * slots[b] + q] = scale[b, F] * change[q, b]
        if sized is not None:
            measure_row(
                line, at, phi, phi_next, t, rate, fresh[t], faded, length, traced is not None, gram
            )  # fmt: skip
            for b in range(n_vectors):
                numbers[N + slots[b]] = norms[b, MOVED] + 2.0 * norms[b, ALONG] + norms[b, ORIGIN]
        if not products_in_range(record, room, reward[t], rate, fixed.limit):
            return t
        if rate != old_discount or fresh[t] != old_fresh:
            old_discount, old_fresh, inverse = rate, fresh[t], points.inverse_of(rate)
            fold(G, fixed.M, fixed.m, k, traced is not None, rate, old_fresh)
        step = beta = rows.alpha[t]
        if measured is None:
            fixed_plan(room, G, reward[t], step, fixed.damping, 2, traced is not None, saddle)
        else:
            step, beta = plan(rule, record, room, G, gram, reward[t], rows.alpha[t], inverse, fixed, kinds)
        record[WEIGHT] += step
        for b in range(n_vectors):
            slot = slots[b]
            if l2[slot] != 0.0:
                shrink = 1.0 / (1.0 + (step if b < k else beta) * l2[slot])
                numbers[S + slot] *= shrink
                for i in range(3 * slot, 3 * slot + 3):
                    room[NEXT, i] *= shrink
        if sized is not None:
            if len(origin) > 0:
                _from_origin(origin, phi, phi_next, t, rate, names, faded, length, slots, from_origin)
            if radius < np.inf:
                into_ball(room, NEXT, S, 2 - k, 2, radius, gram, inverse)
            if saddle and ball < np.inf:
                into_ball(room, NEXT, S, 2, 4, ball, gram, inverse)
            _follow_norms(norms, room, from_origin, slots, gram, inverse)
        restart, moved = False, 0.0
        for b in range(n_vectors):
            o = numbers[T + slots[b]] if trial is not None else 1.0
            scale[b, P] += weigh * step * o * scale[b, F]
            scale[b, F] *= numbers[S + slots[b]]
            restart = restart or not SMALLEST < abs(scale[b, F]) < 1.0 / SMALLEST
            moved += norms[b, MOVED] if b < k or ball == np.inf else 0.0
        see_distance(record, moved)
        if restart:
            _restart(scale, chain, counter)
            generation = counter[GENERATION]
            _renew_row(line, at, phi[1], lo, hi, wide, generation, chain)
            _renew_row(line, at, phi_next[1], next_lo, next_hi, wide, generation, chain)
            if traced is not None:
                _renew_row(line, at, names, 0, length, wide, generation, chain)
        for b in range(n_vectors):
            undo = 1.0 / scale[b, F]
            for q in range(3 if traced is not None else 2):
                i, row = 3 * slots[b] + q, 3 + q if wide is not None else q
                change[q, b] = more = undo * room[NEXT, i]
                change[row, first % 4 + b] = weigh * step * room[TRIAL, i] - more * scale[b, P]
        _write(line, wide, True, phi[0], phi[1], lo, hi, load(change, 0, 0), load(change, 3, 0))
        _write(line, wide, True, phi_next[0], phi_next[1], next_lo, next_hi, load(change, 1, 0), load(change, 4, 0))
        if traced is not None:
            _write(line, wide, False, faded, names, 0, length, load(change, 2, 0), load(change, 5, 0))
        counter[SINCE] += 1
        if counter[SINCE] >= every or 2 * counter[GENERATION] + 2 == len(chain):
            flush(line, wide, scale, chain, norms, counter, origin, line[:0])
    return len(reward)
