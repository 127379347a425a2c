"""The law of the soft threshold on sparse rows: steps set by hand with an l1 penalty, with a dual, or with its box.

Every vector of the state (w, θ and y1, y2, as many as there are) is a lane, and for all lanes alike

    x_t = F S_{ρL}(v)        Σ_{i<t} ω_i x_i = R + v P − sgn(v) ρ Q        L ← L + α,  P ← P + ω F,  Q ← Q + ω F L

where ρ = 0 for y and F = 1 for x, so that L, P and Q are common to all penalised lanes. A row is added to its
coordinates one after the other, duplicates and all, since the prox of the step is implicit in L:

    p = S_{ρL}(v) − step      v' = p + sgn(p) ρL      R' = R + (what v added so far) − (v' P − sgn(v') ρ Q)

so a step reads φ, φ' and e (the products), and then writes them. The ball is a factor of F, or a clip afterwards.

A coordinate that has fallen to zero did so at m, the first step with ρ L_m ≥ |v|, and its sum stopped there. For a
constant step m = ⌈|v|/(ρα)⌉, without a branch, for it would be a coin toss. For any other schedule, m is looked up in
the history of (L, P, Q), and coordinates that the prox has just set to zero are settled at once.

F only shrinks. When it is small a new *generation* of y begins with F = 1, as in `lines`. Every so many steps all
coordinates are flushed, which bounds the history and the rounding errors of the sums; flushing is left to the caller.
Features with a penalty of their own are few: they are columns of dense numbers that take part in every step.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from sparsetd.solvers.compiled import crossings
from sparsetd.solvers.compiled.balls import BOX, L2_BALL
from sparsetd.solvers.compiled.compile import part
from sparsetd.solvers.compiled.crossings import RHO, SINCE, SUMS, WIDTH, L, exact, exact_kernel, remember, settle_fallen
from sparsetd.solvers.compiled.csr import TRACE_TOL, borrowed, fetch_ahead
from sparsetd.solvers.compiled.dense import products_in_range
from sparsetd.solvers.compiled.intrinsics import borrow, borrow_rows, lanes, load, store, within
from sparsetd.solvers.compiled.lines import FULL, TRACED, fade, join
from sparsetd.solvers.compiled.points import NEXT, U, fixed_plan, fold
from sparsetd.solvers.compiled.rules import WEIGHT

F, P, Q, CARRY = 0, 2, 3, 3  # rows of `scalar`; CARRY further on the rounding of L, P and Q
GENERATION, OLDEST = 1, 4  # entries of `counter`, beside those that `lines` has for the trace
NORM = 0  # entry of `number`: ‖y‖², beside the width of a step of the guide
PENALISED, SUMMED, DUAL, PER, UNIT, HALF = 1, 2, 3, 4, 5, 6  # rows of `fixed`, after RHO
OWN_SLOT = 6  # place of the generation in a line, where there is room for it


# A lazy state: lines, the scalars and constants above, the trace, special columns, and the rows between flushes.
Lines = namedtuple("Lines", "line scalar counter number scale mass fixed slots names faded columns rows horizon")


@part
def _lent(s):
    """The same without an owner, lest calls count references, and with widths that the compiler knows."""
    lanes = borrow_rows(s.scale, 4), borrow_rows(s.mass, 4), borrow_rows(s.fixed, 4)
    more = borrow(s.slots), borrow(s.names), borrow(s.faded), borrow(s.columns), borrow(s.rows), s.horizon
    return Lines(borrow_rows(s.line, 8), borrow_rows(s.scalar, 4), borrow(s.counter), borrow(s.number), *lanes, *more)


# The running scalars --------------------------------------------------------------------------------------------------


@exact
def _add(scalar, row, term):
    """Compensated summation: the sums run over millions of steps, and their differences matter."""
    before = load(scalar, row, 0)
    term = term - load(scalar, row + CARRY, 0)
    total = before + term
    store(scalar, row + CARRY, 0, (total - before) - term)
    store(scalar, row, 0, total)


@exact
def _next_generation(scalar, counter, scale, mass, dual, last):
    """Begin a generation of y; extend the older ones that are still alive."""
    current, here, gained = counter[GENERATION], load(scalar, F, 0), load(scalar, P, 0)
    for g in range(counter[OLDEST], current + 1):
        store(mass, g, 0, load(mass, g, 0) + load(scale, g, 0) * (dual * gained))
        store(scale, g, 0, load(scale, g, 0) * here)
    counter[OLDEST] += scale[counter[OLDEST], last] == 0.0
    counter[GENERATION] = current + 1
    store(scale, current + 1, 0, lanes(1.0))
    store(mass, current + 1, 0, lanes(0.0))
    store(scalar, F, 0, lanes(1.0))
    store(scalar, P, 0, (1.0 - dual) * gained)
    store(scalar, P + CARRY, 0, (1.0 - dual) * load(scalar, P + CARRY, 0))


@exact
def _shrink(v, drop):
    """S_drop(v)."""
    return v - np.minimum(np.maximum(v, -drop), drop)


@exact
def _closed(fixed):
    """The constants of `_gone_closed`."""
    return load(fixed, PER, 0), load(fixed, UNIT, 0), load(fixed, HALF, 0)


@exact
def _gone_closed(v, closed, last):
    """What v added to its sum in m = min(⌈|v|/(ρα)⌉, last) steps: α (m v − sgn(v) ρα m(m − 1)/2), or v P if ρ = 0."""
    per, unit, half = closed
    m = np.minimum(np.ceil(np.abs(v) * per), last)
    return m * (unit * v - np.copysign(half * m - half, v))


# Rows -----------------------------------------------------------------------------------------------------------------


@exact
def _row(rows, trace, length, q, t, discount):
    """φ_t (0), φ'_t (1) or e_t (2): values, indices, and the first and last entry; empty if ψ = 0."""
    if q == 2:
        return trace[0], trace[1], np.uint64(0), np.uint64(length)
    values, indices, indptr = rows[q]
    return values, indices, np.uint64(indptr[t]), np.uint64(indptr[t + (q == 0 or discount != 0.0)])


@exact
def _renew(line, j, tags, slot, current, scale, mass):
    """Bring a line from its generation to the current one."""
    generation = np.uint64(tags[j, slot])
    v = load(line, j, 0)
    store(line, j, SUMS, load(line, j, SUMS) + v * load(mass, generation, 0))
    store(line, j, 0, v * load(scale, generation, 0))
    tags[j, slot] = current


@exact
def _read(line, tags, slot, current, scale, mass, values, indices, lo, hi, drop):
    """Σ a S(v, drop) over a row."""
    total = lanes(0.0)
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        if tags[j, slot] != current:
            _renew(line, j, tags, slot, current, scale, mass)
        total = total + values[i] * _shrink(load(line, j, 0), drop)
    return total


@exact
def _move(line, j, v, gone, move, drop, mass, loss):
    """v ← v − move before the prox, its sum unchanged; returns the growth of v² where there is no prox."""
    p = _shrink(v, drop) - move
    new = p + np.copysign(drop, p)
    store(line, j, 0, new)
    store(line, j, SUMS, load(line, j, SUMS) + (gone - (new * mass - np.copysign(loss, p))))
    return move * (move - (v + v))


@exact
def _settle_row(line, indices, lo, hi, drop, mass, loss):
    """Coordinates that the prox has just set to zero: at once, so that nobody has to search for the step later."""
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        v = load(line, j, 0)
        fell = within(v, drop)
        store(line, j, SUMS, load(line, j, SUMS) + fell * (v * mass - np.sign(v) * loss))
        store(line, j, 0, v - fell * v)


@exact
def _clip_row(line, indices, lo, hi, bound, mass):
    """The l∞ ball: touched coordinates are the only ones that can leave it."""
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        v = load(line, j, 0)
        clipped = np.minimum(np.maximum(v, -bound), bound)
        store(line, j, 0, clipped)
        store(line, j, SUMS, load(line, j, SUMS) + (v - clipped) * mass)


# Steps ----------------------------------------------------------------------------------------------------------------


@exact
def _special_products(special, rows, traced, u, slots):
    """Add the special columns to the products: `rows` are their φ, φ' and e."""
    for b in range(len(slots)):
        for q in range(3 if traced else 2):
            total = 0.0
            for j in range(special.shape[1]):
                total += special[b, j] * rows[q, j]
            u[3 * slots[b] + q] += total


@exact
def _move_special(special, sums, rows, traced, c, slots, k, thresholds, omega, summed, clip):
    """One plain step of the special columns; returns the growth of ‖y‖²."""
    growth = 0.0
    for b in range(len(slots)):
        i = 3 * slots[b]
        for j in range(special.shape[1]):
            v = special[b, j]
            sums[b, j] += omega * summed[b] * v
            p = v + c[i] * rows[0, j] + c[i + 1] * rows[1, j]
            if traced:
                p += c[i + 2] * rows[2, j]
            if b < k:
                bound = omega * thresholds[b, j]
                p -= min(max(p, -bound), bound)
            elif clip:
                p = min(max(p, -1.0), 1.0)
            special[b, j] = p
            growth += p * p - v * v if b >= k else 0.0
    return growth


@exact_kernel
def stream(rows, apart, lines, born, past, bound, work, record, constants, ball, restart, traced):
    """Advance the state by rows; returns how many were taken before a flush is due or the run diverged.

    `apart` are the special columns of φ and φ' and their thresholds, `born` the generations where a line has no room
    for its own, `past` is what finds zero crossings where the step is not constant, and `bound` what an l∞ ball allows
    every lane; without these they are None, and the kernel is compiled without what they are for.
    """
    lines = _lent(lines)
    line, scalar, counter, number, scale, mass, fixed, slots, names, faded, special, special_rows, horizon = lines
    G, room, change = borrow_rows(work[0], 7), borrow_rows(work[1], 12), borrow_rows(work[2], 4)
    m, u, record, limit, closed = borrow(constants.m), room[U], borrow(record), constants.limit, _closed(fixed)
    reward, discount, fresh, old, alpha = rows.reward, rows.discount, rows.fresh, rows.old, rows.alpha
    if past is not None:
        history, guide, fallen = borrow_rows(past[0], 4), borrow(past[1]), borrow(past[2])
    rows = (borrowed(rows.phi), borrowed(rows.phi_next))
    entries, length, undamped = (faded, names), 0, borrow(constants.damping)
    if born is None:
        tags, slot = line, OWN_SLOT
    else:
        tags, slot = borrow_rows(born, 1 if traced is None else 2), 0
    rho, penalised, summed = load(fixed, RHO, 0), load(fixed, PENALISED, 0), load(fixed, SUMMED, 0)
    dual, k, n_vectors, n_rows = load(fixed, DUAL, 0), len(m) // 3, len(slots), 2 if traced is None else 3
    any_penalised = 0 if fixed[RHO, 0] > 0.0 else 1
    old_discount = old_fresh = np.nan
    counter[FULL] = 0
    for t in range(len(reward)):
        since, current = counter[SINCE], float(counter[GENERATION])
        if since >= horizon or counter[GENERATION] + 1 >= len(scale):
            return t
        if traced is not None:
            if counter[TRACED] + rows[0][2][t + 1] - rows[0][2][t] > len(names):
                counter[FULL] = 1
                return t
            length = fade(tags, slot - 1, names, faded, counter[TRACED], old[t], TRACE_TOL)
            length = counter[TRACED] = join(tags, slot - 1, names, faded, length, rows[0], t, fresh[t])
        before, level = load(scalar, F, 0), load(scalar, L, 0)
        drop = rho * level
        for q in range(n_rows):
            values, indices, lo, hi = _row(rows, entries, length, q, t, discount[t])
            if past is not None:
                settle_fallen(line, indices, lo, hi, history, guide, counter, number, fixed, fallen)
            total = _read(line, tags, slot, current, scale, mass, values, indices, lo, hi, drop)
            store(change, q, 0, before * total)
            for b in range(n_vectors):
                u[3 * slots[b] + q] = change[q, b]
        if apart is not None:
            for i in range(special.shape[1]):
                special_rows[0, i], special_rows[1, i] = apart[0][t, i], apart[1][t, i]
                special_rows[2, i] = fresh[t] * apart[0][t, i] + old[t] * special_rows[2, i]
            _special_products(special, special_rows, traced is not None, u, slots)
        if not products_in_range(record, room, reward[t], discount[t], limit):
            return t
        if discount[t] != old_discount or fresh[t] != old_fresh:
            old_discount, old_fresh = discount[t], fresh[t]
            fold(G, constants.M, m, k, traced is not None, old_discount, old_fresh)
        fixed_plan(room, G, reward[t], alpha[t], undamped, 2, traced is not None, n_vectors > k)
        record[WEIGHT] += alpha[t]
        omega = alpha[t] * (summed * before)
        _add(scalar, Q, omega * level)
        _add(scalar, P, omega)
        _add(scalar, L, alpha[t] * penalised)
        gained, loss = load(scalar, P, 0), rho * load(scalar, Q, 0)
        last = (since + 1.0) * penalised + (1.0 - penalised) * gained
        growth = lanes(0.0)
        for q in range(n_rows):
            values, indices, lo, hi = _row(rows, entries, length, q, t, discount[t])
            for b in range(n_vectors):
                change[q, b] = -room[NEXT, 3 * slots[b] + q]
            step = load(change, q, 0) / before
            for i in range(lo, hi):
                if q < 2:
                    fetch_ahead(line, indices, i, 1)
                    if born is not None:
                        fetch_ahead(tags, indices, i, 1)
                j = np.uint32(indices[i])
                v = load(line, j, 0)
                gone = _gone_closed(v, closed, last) if past is None else v * gained - np.sign(v) * loss
                growth = growth + _move(line, j, v, gone, values[i] * step, drop, gained, loss)
        more = 0.0
        if apart is not None:
            more = _move_special(
                special, special[n_vectors:], special_rows, traced is not None, room[NEXT], slots, k,
                apart[2], alpha[t], fixed[SUMMED], ball == BOX,
            )  # fmt: skip
        counter[SINCE] += 1
        if past is not None:
            remember(history, guide, counter, number, scalar, any_penalised)
            drop = rho * load(scalar, L, 0)
            for q in range(n_rows):
                _, indices, lo, hi = _row(rows, entries, length, q, t, discount[t])
                _settle_row(line, indices, lo, hi, drop, gained, loss)
        if bound is not None:
            for q in range(n_rows):
                _, indices, lo, hi = _row(rows, entries, length, q, t, discount[t])
                _clip_row(line, indices, lo, hi, load(bound, 0, 0), gained)
        if ball == L2_BALL:
            store(change, 0, 0, growth)
            for b in range(k, n_vectors):
                more += scalar[F, b] * scalar[F, b] * change[0, b]
            number[NORM] += more
            radius = math.sqrt(max(number[NORM], 1.0))
            number[NORM] = min(number[NORM], 1.0)
            store(scalar, F, 0, before / ((1.0 - dual) + radius * dual))
            if apart is not None and radius > 1.0:
                for b in range(k, n_vectors):
                    for i in range(special.shape[1]):
                        special[b, i] /= radius
            if scalar[F, k] < restart:
                _next_generation(scalar, counter, scale, mass, dual, n_vectors - 1)
    return len(reward)


@exact_kernel
def evaluate(lines, born, past, first, out):
    """Write values and sums of the lines from `first` on into `out`, as lines, or into the lines themselves."""
    line, out, fixed, counter = borrow(lines.line), borrow(out), borrow(lines.fixed), borrow(lines.counter)
    scalar, number, scale, mass, closed = lines.scalar, lines.number, lines.scale, lines.mass, _closed(fixed)
    if born is None:
        tags, slot = line, OWN_SLOT
    else:
        tags, slot = borrow(born), 0
    penalised = load(fixed, PENALISED, 0)
    here, rho, gained = load(scalar, F, 0), load(fixed, RHO, 0), load(scalar, P, 0)
    drop, loss = rho * load(scalar, L, 0), rho * load(scalar, Q, 0)
    last = float(counter[SINCE]) * penalised + (1.0 - penalised) * gained
    for i in range(len(out)):
        generation = np.int64(tags[first + i, slot])
        v = load(line, first + i, 0)
        store(out, i, SUMS, load(line, first + i, SUMS) + v * load(mass, generation, 0))
        store(out, i, 0, v * load(scale, generation, 0))
        if past is not None:
            for b in range(2):
                if 0.0 < abs(out[i, b]) <= fixed[RHO, b] * scalar[L, b]:
                    rho, width = fixed[RHO, b], number[WIDTH]
                    crossings.settle(out, i, b, past[0], past[1], counter, (rho, 1.0 / rho), (width, 1.0 / width))
        v = load(out, i, 0)
        gone = _gone_closed(v, closed, last) if past is None else v * gained - np.sign(v) * loss
        store(out, i, SUMS, load(out, i, SUMS) + gone)
        store(out, i, 0, here * _shrink(v, drop))
