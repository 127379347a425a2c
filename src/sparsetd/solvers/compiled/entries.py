"""Awake, entry by entry: rows whose step is written into the lines of `law` in place, without gathering them.

A row is read (its products with every vector), planned (`points`), and then added to its coordinates one entry after
the other, duplicates and all. That is possible in two cases, and then about twice as fast as to gather coordinates:

    nothing has a threshold    any rule; what a row does to a line is linear: v ← v + c·D/F, R ← R + (ω ĉ − P c/F)·D
    a step set by hand         the prox of the step is implicit in L: p = S_{ρL}(v) − step, v' = p + sgn(p) ρL, and
                               R' = R + (what v added so far) − (v' P − sgn(v') ρ Q)

In the first case norms follow from the Gram matrix of the row, and l2 balls are factors of F. In the second ‖y‖ is
measured on the way; its ball is a factor of F, or a clip of the coordinates touched. A coordinate that has fallen to
zero did so at m, the first step with ρ L_m ≥ |v|, and its sum stopped there (`crossings`).

What multiplies the ρ of a feature with a penalty of its own stands in its line.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from sparsetd.solvers.compiled import crossings, points
from sparsetd.solvers.compiled import law as asleep
from sparsetd.solvers.compiled.compile import kernel, part
from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, store, within
from sparsetd.solvers.compiled.law import MARKS, MOVED, RHO, SINCE, F, L, P, Q, R, V, fetch_ahead, shrink
from sparsetd.solvers.compiled.points import NEXT, NUMBERS, TRIAL, N, S, T, U, inner, into_ball
from sparsetd.solvers.compiled.rules import WEIGHT, see_distance

WORK = (*points.ROOM, 4, 0)  # the lengths of rows in the room for a step, and in what follows it


class Kinds(NamedTuple):
    """What a kernel is compiled for: the shape of a line, traces, a rule that looks at gradients, norms that somebody
    asks for, a trial point, thresholds, crossings that are searched for, thresholds that differ between features."""

    shape: int
    traced: bool
    measured: bool
    sized: bool
    trial: bool
    bent: bool
    searched: bool
    own: bool


# --- rows -----------------------------------------------------------------------------------------------------------


@part
def _row(rows, s, length, q, t, discount):
    """φ_t (0), φ'_t (1) or e_t (2): values, indices, and the first and last entry; empty if ψ = 0."""
    if q == 2:
        return s.faded, s.names, np.uint64(0), np.uint64(length)
    values, indices, indptr = rows[q]
    return values, indices, np.uint64(indptr[t]), np.uint64(indptr[t + (q == 0 or discount != 0.0)])


@part
def _read(s, row, marks, kinds, drop, mark, times):
    """Σ a S(v, drop) over a row, every vector a lane; times·a is left in a mark, if one is given."""
    values, indices, lo, hi = row
    line, total, generation = s.line, lanes(0.0), float(s.counter[asleep.GENERATION])
    for i in range(lo, hi):
        j = np.uint64(np.uint32(indices[i]))
        if line[j, marks.born] != generation:
            asleep.renew(line, j, s.chain, marks, generation)
        v = load(line, j, V)
        if kinds.bent:
            v = shrink(v, asleep.weigh(line, j, marks.front, kinds.own) * drop)
        total = total + values[i] * v
        if mark >= 0:
            line[j, mark] += times * values[i]
    return total


@part
def _write(line, row, ahead, width, change, change_sums):
    """line += a·(what a step does to v and to R, where there is one)."""
    values, indices, lo, hi = row
    for i in range(lo, hi):
        if ahead:
            fetch_ahead(line, indices, i, (width + 4) // 8)
        j, a = np.uint64(np.uint32(indices[i])), values[i]
        store(line, j, V, load(line, j, V) + a * change)
        if width > R:
            store(line, j, R, load(line, j, R) + a * change_sums)


@part
def _write_bent(s, row, ahead, marks, kinds, step, law):
    """v ← v − a·step before the prox, its sum unchanged; returns the growth of v² where there is no prox."""
    values, indices, lo, hi = row
    line, growth = s.line, lanes(0.0)
    for i in range(lo, hi):
        if ahead:
            fetch_ahead(line, indices, i, (marks.width + 4) // 8)
        j = np.uint64(np.uint32(indices[i]))
        drop, mass, loss, closed, last = asleep.weighed(law, asleep.weigh(line, j, marks.front, kinds.own), kinds.own)
        v, move = load(line, j, V), values[i] * step
        gone = v * mass - np.sign(v) * loss if kinds.searched else asleep.gone_closed(v, closed, last)
        p = shrink(v, drop) - move
        new = p + np.copysign(drop, p)
        store(line, j, V, new)
        store(line, j, R, load(line, j, R) + (gone - (new * mass - np.copysign(loss, p))))
        growth = growth + move * (move - (v + v))
    return growth


@part
def _finish_row(s, row, mark, kinds, bound, law):
    """The l∞ ball, which touched coordinates alone can leave; and those that the prox has just set to zero are settled
    at once, so that nobody has to search for the step later."""
    _, indices, lo, hi = row
    line = s.line
    for i in range(lo, hi):
        j = np.uint64(np.uint32(indices[i]))
        drop, mass, loss, _, _ = asleep.weighed(law, asleep.weigh(line, j, mark, kinds.own), kinds.own)
        v, total = load(line, j, V), load(line, j, R)
        if kinds.searched:
            fell = within(v, drop)
            total, v = total + fell * (v * mass - np.sign(v) * loss), v - fell * v
        clipped = np.minimum(np.maximum(v, -bound), bound)
        store(line, j, V, clipped)
        store(line, j, R, total + (v - clipped) * mass)


# --- norms ----------------------------------------------------------------------------------------------------------


@part
def _measure(s, marks, phi, about, fresh, traced, gram):
    """Γ of (φ, δ, e) from φ and ψ in the marks, which are cleared on the way: duplicate entries count once."""
    t, length, rate = about
    line, faded, front, back = s.line, s.faded, marks.front, marks.back
    sums, ee = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0
    for q in range(2):
        _, indices, lo, hi = _row(phi, s, length, q, t, rate)
        for i in range(lo, hi):
            j = np.uint64(np.uint32(indices[i]))
            f, at = line[j, front], np.int64(line[j, marks.place]) - 1 if traced else -1
            sums = points.gram_with(sums, f, f - line[j, back], faded[at] if at >= 0 else 0.0, traced)
            line[j, front] = line[j, back] = 0.0
    for i in range(length if traced else 0):
        ee += faded[i] * faded[i]
    ff, fd, dd, fe, de, _ = sums  # the trace has entries that neither row names
    points.write_gram(gram, (ff, fd, dd, fe, de, ee), traced, fresh)


@part
def _into_dual_ball(s, growth):
    """Keep y in its l2 ball by a factor of F."""
    here, dual = load(s.scalar, F, 0), load(s.lane, asleep.DUAL, 0)
    store(s.norms, MOVED, 0, load(s.norms, MOVED, 0) + here * (here * growth))
    radius = math.sqrt(max(s.norms[MOVED, 2] + s.norms[MOVED, 3], 1.0))
    size = (1.0 - dual) + radius * dual
    store(s.norms, MOVED, 0, load(s.norms, MOVED, 0) / (size * size))
    store(s.scalar, F, 0, here / size)


# --- one step -------------------------------------------------------------------------------------------------------


@part
def _ridge(room, l2, step, beta):
    """The prox of the squared norms, as factors of the next point."""
    for b in range(4):
        if l2[b] != 0.0:
            points.multiply(room, NEXT, S, b, 1.0 / (1.0 + (step if b < 2 else beta) * l2[b]))


@part
def _products(s, past, phi, about, kinds, room):
    """Read φ, φ' and e of a row: their products with every vector, and φ and ψ in the marks if they are measured."""
    (t, length, rate), marks, drop = about, MARKS[kinds.shape], load(s.lane, RHO, 0) * load(s.scalar, L, 0)
    for q in range(3 if kinds.traced else 2):
        row = _row(phi, s, length, q, t, rate)
        if kinds.searched:
            ends = (row[2], row[3])
            crossings.settle_fallen(s.line, row[1], *ends, past, s.lane, marks.front, kinds.own, s.counter[SINCE])
        mark = (marks.front if q == 0 else marks.back) if kinds.sized and q < 2 else -1
        total = _read(s, row, marks, kinds, drop, mark, 1.0 if q == 0 else rate)
        store(room, U, 4 * q, load(s.lane, asleep.HELD, 0) * (load(s.scalar, F, 0) * total))


@part
def _step_bent(s, past, phi, about, kinds, step, room, bound):
    """Write a step set by hand: thresholds, the history, and the ball of y."""
    (t, length, rate), marks, n_rows = about, MARKS[kinds.shape], 3 if kinds.traced else 2
    before, level, since, growth = load(s.scalar, F, 0), load(s.scalar, L, 0), s.counter[SINCE] + 1, lanes(0.0)
    omega = step * (load(s.lane, asleep.SUMMED, 0) * before)
    asleep.add(s.scalar, Q, omega * level)
    asleep.add(s.scalar, P, omega)
    asleep.add(s.scalar, L, step * load(s.lane, asleep.BENT, 0))
    after = asleep.law_of(s, float(since))
    law = (load(s.lane, RHO, 0) * level, after[1], after[2], after[3], after[4])
    for q in range(n_rows):
        row, move = _row(phi, s, length, q, t, rate), -load(room, NEXT, 4 * q) / before
        growth = growth + _write_bent(s, row, q < 2, marks, kinds, move, law)
    if kinds.searched:
        crossings.remember(past, since, s.scalar, 0 if s.lane[RHO, 0] > 0.0 else 1)
    boxed = bound[0, 3] < np.inf  # the l∞ ball of y
    if kinds.searched or boxed:
        for q in range(n_rows):
            _finish_row(s, _row(phi, s, length, q, t, rate), marks.front, kinds, load(bound, 0, 0), after)
    if marks.vectors == 4 and not boxed:
        _into_dual_ball(s, growth)
        if s.scalar[F, 3] < s.smallest:
            asleep.restart(s)


@part
def _step_linear(s, phi, about, kinds, step, room):
    """Write a step without thresholds."""
    (t, length, rate), marks, n_rows = about, MARKS[kinds.shape], 3 if kinds.traced else 2
    out, here, weight = False, load(s.scalar, F, 0), step * load(s.lane, asleep.SUMMED, 0)
    counted = load(room, NUMBERS, T) if kinds.trial else lanes(1.0)
    store(s.scalar, P, 0, load(s.scalar, P, 0) + weight * (counted * here))
    store(s.scalar, F, 0, load(room, NUMBERS, S) * here)
    for b in range(marks.vectors):
        out = out or not s.smallest < abs(s.scalar[F, b]) < 1.0 / s.smallest
    if out:
        asleep.restart(s)
        for q in range(n_rows):
            _read(s, _row(phi, s, length, q, t, rate), marks, kinds, lanes(0.0), -1, 0.0)
    for q in range(n_rows):  # the change of v and R per entry of φ, φ' and e
        change = load(room, NEXT, 4 * q) / load(s.scalar, F, 0)
        change_sums = weight * load(room, TRIAL, 4 * q) - change * load(s.scalar, P, 0)
        _write(s.line, _row(phi, s, length, q, t, rate), q < 2, marks.width, change, change_sums)


@part
def _follow(s, phi, about, k, vectors, origin, from_origin, fixed, room, gram, inverse):
    """Project the next point (s, c) on its balls, and follow ‖v − v_0‖² and ⟨v − v_0, v_0⟩, where v_0 is 0 for y.

    Returns the square of the distance from x_0, with that of y where no ball bounds it.
    """
    (t, length, rate), norms, c, distance = about, s.norms, room[NEXT], 0.0
    for b in range(len(origin)):  # products of x_0 with D
        for q in range(3):
            values, indices, lo, hi = _row(phi, s, length, q, t, rate)
            total = 0.0
            for i in range(lo, hi):
                total += values[i] * origin[b, indices[i]]
            from_origin[4 * q + 2 - k + b] = total
    if fixed.radius < np.inf:
        into_ball(room, NEXT, S, 2 - k, fixed.radius, gram, inverse)
    if vectors == 4 and fixed.ball < np.inf:
        into_ball(room, NEXT, S, 2, fixed.ball, gram, inverse)
    for b in range(vectors):
        moved, along, start = norms[MOVED, b], norms[asleep.ALONG, b], norms[asleep.ORIGIN, b]
        keep, more = room[NUMBERS, S + b], room[NUMBERS, S + b] - 1.0
        with_v, with_start = inner(c, room[U], b), inner(c, from_origin, b)
        total = keep * keep * moved + more * (2.0 * keep * along + more * start)
        total += points.square(c, b, gram, inverse)
        norms[MOVED, b] = max(total + 2.0 * (keep * (with_v - with_start) + more * with_start), 0.0)
        norms[asleep.ALONG, b] = keep * along + more * start + with_start
        distance += norms[MOVED, b] if b < 2 or fixed.ball == np.inf else 0.0
    return distance


# --- all coordinates ------------------------------------------------------------------------------------------------


@part
def _awakened(s, past, j, how, here, law, out, i):
    """Write x and Σωx of coordinate j into line i of `out`."""
    (_, searched, own), marks = how, MARKS[how[0]]
    weight = asleep.weigh(s.line, j, marks.front, own)
    drop, gained, loss, closed, last = asleep.weighed(law, weight, own)
    older, v = 2 * np.int64(s.line[j, marks.born]), load(s.line, j, V)
    store(out, i, V, v * load(s.chain, older, 0))
    if marks.width == R:  # no sums are kept
        return store(out, i, V, here * load(out, i, V))
    store(out, i, R, load(s.line, j, R) + v * load(s.chain, older + 1, 0))
    if searched:
        crossings.settle_line(out, i, past, s.lane, weight, s.counter[SINCE])
    v = load(out, i, V)
    gone = v * gained - np.sign(v) * loss if searched else asleep.gone_closed(v, closed, last)
    store(out, i, R, load(out, i, R) + gone)
    store(out, i, V, here * shrink(v, drop))


@kernel
def materialise(s, past, how, first, vectors, out):
    """Write x and Σωx of the lines from `first` on into `out`, a row for each lane; the state is left alone.

    `vectors` are the first lane that is asked for and the one after the last. `how` is the shape of a line, whether
    crossings are searched for, and whether thresholds differ between features.
    """
    s, past, out, line = borrow(s, 0), borrow(past, 4), borrow(out, 0), np.zeros((1, 8))
    here, law = load(s.scalar, F, 0), asleep.law_of(s, float(s.counter[SINCE]))
    for i in range(out.shape[1]):
        _awakened(s, past, first + i, how, here, law, line, 0)
        for b in range(vectors[0], vectors[1]):
            out[V + b, i], out[R + b, i] = line[0, V + b], line[0, R + b]


@kernel
def flush(s, past, origin, how, sums):
    """Bring every line up to date, count the norms anew and begin all scalars afresh; the sums of w, θ, y1 and y2 are
    moved to `sums` if these have room for them."""
    s, past, origin, sums, moves = borrow(s, 0), borrow(past, 4), borrow(origin, 0), borrow(sums, 0), len(sums[0]) > 0
    here, law, marks = load(s.scalar, F, 0), asleep.law_of(s, float(s.counter[SINCE])), MARKS[how[0]]
    line, norms, counter, first = s.line, s.norms, s.counter, 2 - len(origin)
    norms[MOVED] = norms[asleep.ALONG] = 0.0
    for j in range(counter[asleep.SEEN]):
        _awakened(s, past, j, how, here, law, line, j)
        line[j, marks.born] = asleep.FIRST
        for b in range(marks.vectors):
            if moves:
                sums[b][j], line[j, R + b] = line[j, R + b], 0.0
            start = origin[b - first, j] if first <= b < 2 else 0.0
            moved = line[j, b] - start
            norms[MOVED, b] += moved * moved
            norms[asleep.ALONG, b] += moved * start
    counter[asleep.GENERATION] = counter[asleep.OLDEST] = asleep.FIRST
    counter[SINCE] = 0
    for row in range(len(s.scalar)):
        store(s.scalar, row, 0, lanes(1.0 if row == F else 0.0))
    store(s.chain, 2 * asleep.FIRST, 0, lanes(1.0))
    store(s.chain, 2 * asleep.FIRST + 1, 0, lanes(0.0))
    past[3][0], past[4][0] = 0, 0.0  # a new history, whose first row is always zero, with a new guide


# --- all rows -------------------------------------------------------------------------------------------------------


@cache
def stepping(kinds):
    """The kernel of these kinds: (rule, rows, begin, s, past, work, origin, record, constants, every) → rows taken.

    It begins with row `begin`, and stops where the run has diverged, or where the trace is full, which counter[FULL]
    tells. A flush comes `every` so many rows.
    """
    # Numba leaves out what follows an `if` on a plain constant of the closure before it looks at types.
    traced, measured, sized, bent = kinds.traced, kinds.measured, kinds.sized, kinds.bent
    marks, saddle = MARKS[kinds.shape], kinds.shape == asleep.WIDE
    widths = asleep.WIDTHS._replace(line=marks.width)

    def stream(rule, rows, begin, s, past, work, origin, record, constants, every):
        s, past, rows, record = borrow(s, widths), borrow(past, 4), borrow(rows, 0), borrow(record, 0)
        (G, room, gram, folded, bound, from_origin), origin = borrow(work, WORK), borrow(origin, 0)
        fixed, phi, k, counter = borrow(constants, 0), (rows.phi, rows.phi_next), len(constants.m) // 3, s.counter
        length, chosen = counter[asleep.TRACED], (measured, kinds.trial, 2, kinds.traced, saddle)
        room[NUMBERS, :N] = 1.0  # where there is no vector, too
        empty = s.faded[:0]
        counter[asleep.FULL] = 0
        for t in range(begin, len(rows.reward)):
            reward, rate, fresh, step = rows.reward[t], rows.discount[t], rows.fresh[t], rows.alpha[t]
            if traced:
                length = asleep.follow_trace(s, marks.place, phi[0], t, rows.old[t], fresh)
                if length < 0:
                    counter[asleep.FULL] = 1
                    return t
            about = (t, length, rate)
            _products(s, past, phi, about, kinds, room)
            if sized:
                _measure(s, marks, phi, about, fresh, kinds.traced, gram)
                twice = 2.0 * load(s.norms, asleep.ALONG, 0)
                store(room, NUMBERS, N, load(s.norms, MOVED, 0) + twice + load(s.norms, asleep.ORIGIN, 0))
            if not points.products_in_range(record, room, reward, rate, fixed.limit):
                return t
            inverse = points.fold(G, folded, fixed, k, kinds.traced, rate, fresh)
            steps = points.plan(rule, record, room, G, gram, reward, step, inverse, fixed, chosen)
            record[WEIGHT] += steps[0]
            if bent:
                _step_bent(s, past, phi, about, kinds, step, room, bound)
            else:
                _ridge(room, fixed.l2, *steps)
                if sized:
                    distance = _follow(s, phi, about, k, marks.vectors, origin, from_origin, fixed, room, gram, inverse)
                    see_distance(record, distance)
                _step_linear(s, phi, about, kinds, steps[0], room)
            counter[SINCE] += 1
            if counter[SINCE] >= every or 2 * counter[asleep.GENERATION] + 4 > len(s.chain):
                flush(s, past, origin, (kinds.shape, kinds.searched, kinds.own), (empty, empty, empty, empty))
        return len(rows.reward)

    return kernel(stream)
