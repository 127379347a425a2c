"""Exact O(nnz) steps on the lines themselves, four vectors at a time.

The common case of `sparse_kernels`: no traces, extragradients, ridge, damping or special coordinates. Every vector of
the state (w, θ and y1, y2, as many as there are) is a lane, and for all lanes alike

    x_t = F S_{ρL}(v)        Σ_{i<t} ω_i x_i = R + v P − sgn(v) ρ Q        L ← L + α,  P ← P + ω F,  Q ← Q + ω F L

where ρ = 0 for y and F = 1 for x, so that L, P and Q are common to all penalised lanes. A row is added to its
coordinates one after the other, duplicates and all, since the prox of the step is implicit in L:

    p = S_{ρL}(v) − step      v' = p + sgn(p) ρL      R' = R + (what v added so far) − (v' P − sgn(v') ρ Q)

so a step reads φ and φ' (the products), and then writes them. The ball is a factor of F, or a clip afterwards.

A coordinate that has fallen to zero did so at m, the first step with ρ L_m ≥ |v|, and its sum stopped there. For a
constant step m = ⌈|v|/(ρα)⌉, without a branch, for it would be a coin toss. For any other schedule, m is looked up in
the history of (L, P, Q), and coordinates that the prox has just set to zero are settled at once.

Generations (of y) and flushes are those of `sparse_kernels`; flushing is left to the caller.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sparsetd.solvers.intrinsics import borrow, lanes, load, prefetch, store, within

Array = NDArray[Any]

L2_BALL, LINF_BALL = 2, 3
F, L, P, Q, CARRY = 0, 1, 2, 3, 3  # rows of `scalar`; CARRY further on the rounding of L, P and Q
SINCE_FLUSH, STEPS, GENERATION, OLDEST, GUIDED = 0, 1, 2, 3, 4  # entries of `counter`
NORM, WIDTH = 0, 1  # entries of `number`
RHO, PENALISED, SUMMED, DUAL, PER, UNIT, HALF = 0, 1, 2, 3, 4, 5, 6  # rows of `fixed`
SUMS, OWN_SLOT = 4, 6  # places in a line: the first sum, and the generation where there is room for it
TABLE, PRODUCTS, GROWTH = 0, 18, 20  # rows of `room`
AHEAD = 128  # entries: a row at most so long is asked for well before its turn

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
MACRO = {**OPTIONS, "inline": "always"}  # not compiled on its own


class Lines(NamedTuple):
    """The state. A line: v of four vectors, R of the summed ones and, if these are not four, the generation of y."""

    line: Array  # (d, 8): one cache line per coordinate
    born: Array  # (d, 1): the generation of y where the line is full
    scalar: Array  # (7, 4): F L P Q of every vector and the compensation of L P Q
    counter: Array  # (5,) integers, see the names above
    number: Array  # (2,): ‖y‖² and the width of a step of `guide`
    scale: Array  # (generations, 4): F from the beginning of a generation to that of the current one; 1 for x
    mass: Array  # (generations, 4): P over the same time; 0 for x
    room: Array  # (21, 4) to work in: allocated inside, it would be freed as soon as it is borrowed
    # What finds zero crossings; empty for a constant step, or without sums.
    history: Array  # (horizon + 1, 3): L P Q of the penalised vectors after every step since the flush
    guide: Array  # (4097,): the first step whose L reaches i · width, and after these the current step
    fallen: Array  # (512,): room for a list of coordinates

    @property
    def state(self) -> tuple[Array, ...]:
        return tuple(self[:-3])

    @property
    def past(self) -> tuple[Array, ...] | None:
        """None is a type of its own to Numba: the kernel of a constant step is compiled without the search."""
        return tuple(self[-3:]) if len(self.history) else None


class Rule(NamedTuple):
    """Constants of a run."""

    ball: int
    n_blocks: int  # k
    n_vectors: int
    horizon: int  # steps between flushes
    slot: int  # where a line keeps its generation, or 0 for `born`
    restart: float  # the F at which a new generation begins
    table: Array  # (3, 18, 4): the step, see `_weights`, as a polynomial in `fresh`
    fixed: Array  # (7, 4): ρ, whether penalised, summed and dual; 1/(ρα), α and ρα²/2 (or ∞, 1 and 0)

    @property
    def bound(self) -> Array | None:
        """What an l∞ ball allows every vector, (1, 4); the kernel without one is compiled without the clip."""
        return np.where(self.fixed[DUAL : DUAL + 1], 1.0, np.inf) if self.ball == LINF_BALL else None


# The running scalars --------------------------------------------------------------------------------------------------


@njit(**MACRO)
def _add(scalar, row, term):
    """Compensated summation: the sums run over millions of steps, and their differences matter."""
    before = load(scalar, row, 0)
    term = term - load(scalar, row + CARRY, 0)
    total = before + term
    store(scalar, row + CARRY, 0, (total - before) - term)
    store(scalar, row, 0, total)


@njit(**MACRO)
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


@njit(**MACRO)
def _remember(history, guide, counter, number, scalar, b):
    """Append L, P, Q of vector b to the history and to its guide, whose width doubles where it is full."""
    since, level = counter[SINCE_FLUSH], scalar[L, b]
    for c in range(3):
        history[since, c] = scalar[L + c, b]
    if number[WIDTH] == 0.0 and level > 0.0:
        number[WIDTH] = max(level / 64.0, 1e-300)
    while number[WIDTH] > 0.0 and number[WIDTH] * counter[GUIDED] <= level < np.inf:
        if counter[GUIDED] + 1 == len(guide):
            counter[GUIDED] //= 2
            number[WIDTH] *= 2.0
            for i in range(counter[GUIDED]):
                guide[i] = guide[2 * i]
        else:
            guide[counter[GUIDED]] = since
            counter[GUIDED] += 1
    guide[counter[GUIDED]] = since


# Zero crossings -------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _search(history, below, reached, level):
    """First step in (below, reached] whose L reaches `level`: L increases, so Newton and, for safety, bisection."""
    guess, tries = (below + reached) // 2, 0
    while reached - below > 1:
        at = min(max(guess, below + 1), reached - 1)
        here = history[at, 0]
        if here >= level:
            reached = at
        else:
            below = at
        tries += 1
        guess = (below + reached) // 2
        slope = here - history[at - 1, 0]
        if tries % 4 != 0 and slope > 0.0:
            guess = at + np.int64(np.ceil((level - here) / slope))
    return reached


@njit(**MACRO)
def _settle(line, j, b, history, guide, counter, number, rho):
    """Complete the sum of a coordinate of x that has fallen to zero, and mark it by v = 0.

    The guide and a step of Newton nearly always meet m, without a branch that could be mispredicted.
    """
    v, width = line[j, b], number[WIDTH]
    level = abs(v) / rho
    i = max(min(np.int64(level / width), counter[GUIDED] - 1), 0)
    below, reached = guide[i], guide[i + 1]
    at = min(max(below + np.int64((level / width - i) * (reached - below)), 1), counter[SINCE_FLUSH])
    slope = max(history[at, 0] - history[at - 1, 0], 1e-9 * width)
    m = min(max(at + np.int64(np.ceil((level - history[at, 0]) / slope)), 1), counter[SINCE_FLUSH])
    if not history[m - 1, 0] < level <= history[m, 0]:
        m = _search(history, max(below - 1, 0), reached, level)
    line[j, SUMS + b] += v * history[m, 1] - np.sign(v) * rho * history[m, 2]
    line[j, b] = 0.0


@njit(**OPTIONS)
def _settle_fallen(line, indices, lo, hi, history, guide, counter, number, fixed, fallen):
    """Settle the coordinates of a row that have fallen to zero since they were last touched.

    They are listed first: branches on which of them fell would be coin tosses, and their searches can overlap.
    """
    level, n = history[counter[SINCE_FLUSH], 0], 0
    for i in range(lo, hi):
        j = np.int64(indices[i])
        for b in range(2):
            size = abs(line[j, b])
            fallen[n] = 2 * j + b
            n += (size > 0.0) & (size <= fixed[RHO, b] * level)
        if n + 2 > len(fallen) or i + 1 == hi:
            for c in range(n):
                j, b = fallen[c] // 2, fallen[c] % 2
                _settle(line, j, b, history, guide, counter, number, fixed[RHO, b])
            n = 0


@njit(**MACRO)
def _shrink(v, drop):
    """S_drop(v)."""
    return v - np.minimum(np.maximum(v, -drop), drop)


@njit(**MACRO)
def _gone_closed(v, fixed, last):
    """What v added to its sum in m = min(⌈|v|/(ρα)⌉, last) steps: α (m v − sgn(v) ρα m(m − 1)/2), or v P if ρ = 0."""
    half = load(fixed, HALF, 0)
    m = np.minimum(np.ceil(np.abs(v) * load(fixed, PER, 0)), last)
    return m * (load(fixed, UNIT, 0) * v - np.copysign(half * m - half, v))


# Rows -----------------------------------------------------------------------------------------------------------------


@njit(**MACRO)
def _borrowed(rows):
    return borrow(rows[0]), rows[1], borrow(rows[2]), borrow(rows[3])


@njit(**MACRO)
def _row(rows, q, t, discount):
    """φ_t (0) or φ'_t (1): values, how far apart they are, indices, and the first and last entry; empty if ψ = 0."""
    values, spread, indices, indptr = rows[q]
    return values, spread, indices, np.uint64(indptr[t]), np.uint64(indptr[t + (q == 0 or discount != 0.0)])


@njit(**MACRO)
def _renew(line, j, tags, slot, current, scale, mass):
    """Bring a line from its generation to the current one."""
    generation = np.int64(tags[j, slot])
    v = load(line, j, 0)
    store(line, j, SUMS, load(line, j, SUMS) + v * load(mass, generation, 0))
    store(line, j, 0, v * load(scale, generation, 0))
    tags[j, slot] = current


@njit(**MACRO)
def _read(line, tags, slot, current, scale, mass, values, spread, indices, lo, hi, drop):
    """Σ a S(v, drop) over a row."""
    total = lanes(0.0)
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        if tags[j, slot] != current:
            _renew(line, j, tags, slot, current, scale, mass)
        total = total + values[i * spread] * _shrink(load(line, j, 0), drop)
    return total


@njit(**MACRO)
def _fetch_ahead(line, tags, slot, indices, i):
    """Ask for a line, and for its generation where that is not in it."""
    ahead = i + np.uint64(AHEAD)
    j = np.uint32(indices[ahead if ahead < len(indices) else i])
    prefetch(line, j)
    if slot == 0:
        prefetch(tags, j)


@njit(**MACRO)
def _move(line, j, v, gone, move, drop, mass, loss):
    """v ← v − move before the prox, its sum unchanged; returns the growth of v² where there is no prox."""
    p = _shrink(v, drop) - move
    new = p + np.copysign(drop, p)
    store(line, j, 0, new)
    store(line, j, SUMS, load(line, j, SUMS) + (gone - (new * mass - np.copysign(loss, p))))
    return move * (move - (v + v))


@njit(**MACRO)
def _settle_row(line, indices, lo, hi, drop, mass, loss):
    """Coordinates that the prox has just set to zero: at once, so that nobody has to search for the step later."""
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        v = load(line, j, 0)
        fell = within(v, drop)
        store(line, j, SUMS, load(line, j, SUMS) + fell * (v * mass - np.sign(v) * loss))
        store(line, j, 0, v - fell * v)


@njit(**MACRO)
def _clip_row(line, indices, lo, hi, bound, mass):
    """The l∞ ball: touched coordinates are the only ones that can leave it."""
    for i in range(lo, hi):
        j = np.uint32(indices[i])
        v = load(line, j, 0)
        clipped = np.minimum(np.maximum(v, -bound), bound)
        store(line, j, 0, clipped)
        store(line, j, SUMS, load(line, j, SUMS) + (v - clipped) * mass)


# Steps ----------------------------------------------------------------------------------------------------------------


@njit(**MACRO)
def _weights(room, direction, reward):
    """Weights of φ (0) or ψ (1) in the step of every vector: what eight products and the reward add to them."""
    row = TABLE + 9 * direction
    from_phi, from_psi = reward * load(room, row + 8, 0), lanes(0.0)
    for b in range(4):
        from_phi = from_phi + room[PRODUCTS, b] * load(room, row + b, 0)
        from_psi = from_psi + room[PRODUCTS + 1, b] * load(room, row + 4 + b, 0)
    return from_phi + from_psi


@njit(**OPTIONS)
def run(lines, past, bound, rule, phi, phi_next, reward, discount, fresh, alpha, weight, limit):
    """Advance the state by rows; returns how many were taken before a flush is due or a product left ±`limit`.

    Everything is a plain tuple, for a disk cache that names a class cannot be read without it. Rows are values, the
    number of values between two entries (0 where all are the same), indices and indptr. e = `fresh` · φ.
    """
    line, born, scalar, counter, number, scale, mass, room = lines
    ball, k, n_vectors, horizon, slot, restart, table, fixed = rule
    line, born, scalar, counter, number = borrow(line), borrow(born), borrow(scalar), borrow(counter), borrow(number)
    scale, mass, room, table, fixed = borrow(scale), borrow(mass), borrow(room), borrow(table), borrow(fixed)
    if past is not None:
        history, guide, fallen = borrow(past[0]), borrow(past[1]), borrow(past[2])
    tags, rows, known = line if slot > 0 else born, (_borrowed(phi), _borrowed(phi_next)), np.nan
    rho, penalised, summed = load(fixed, RHO, 0), load(fixed, PENALISED, 0), load(fixed, SUMMED, 0)
    dual = load(fixed, DUAL, 0)
    any_penalised = 0 if fixed[RHO, 0] > 0.0 else 1
    for t in range(len(reward)):
        since, current = counter[SINCE_FLUSH], float(counter[GENERATION])
        if since >= horizon or counter[GENERATION] + 1 >= len(scale):
            return t
        before, level = load(scalar, F, 0), load(scalar, L, 0)
        drop = rho * level
        for q in range(2):
            values, spread, indices, lo, hi = _row(rows, q, t, discount[t])
            if past is not None:
                _settle_fallen(line, indices, lo, hi, history, guide, counter, number, fixed, fallen)
            total = _read(line, tags, slot, current, scale, mass, values, spread, indices, lo, hi, drop)
            store(room, PRODUCTS + q, 0, (discount[t] if q == 1 else 1.0) * (before * total))
        for b in range(4):
            if not abs(room[PRODUCTS, b]) + abs(room[PRODUCTS + 1, b]) < limit:
                return t
        if fresh[t] != known:
            known = fresh[t]
            for row in range(PRODUCTS):
                square = known * (load(table[1], row, 0) + known * load(table[2], row, 0))
                store(room, row, 0, load(table[0], row, 0) + square)
        omega, along = weight[t] * (summed * before), alpha[t] / before
        _add(scalar, Q, omega * level)
        _add(scalar, P, omega)
        _add(scalar, L, alpha[t] * penalised)
        gained, loss = load(scalar, P, 0), rho * load(scalar, Q, 0)
        last = (since + 1.0) * penalised + (1.0 - penalised) * gained
        growth = lanes(0.0)
        for q in range(2):
            values, spread, indices, lo, hi = _row(rows, q, t, discount[t])
            step = (discount[t] if q == 1 else 1.0) * (_weights(room, q, reward[t]) * along)
            if past is None:
                for i in range(lo, hi):
                    _fetch_ahead(line, tags, slot, indices, i)
                    j = np.uint32(indices[i])
                    v = load(line, j, 0)
                    gone = _gone_closed(v, fixed, last)
                    growth = growth + _move(line, j, v, gone, values[i * spread] * step, drop, gained, loss)
            else:
                for i in range(lo, hi):
                    _fetch_ahead(line, tags, slot, indices, i)
                    j = np.uint32(indices[i])
                    v = load(line, j, 0)
                    gone = v * gained - np.sign(v) * loss
                    growth = growth + _move(line, j, v, gone, values[i * spread] * step, drop, gained, loss)
        counter[SINCE_FLUSH] += 1
        counter[STEPS] += 1
        if past is not None:
            _remember(history, guide, counter, number, scalar, any_penalised)
            drop = rho * load(scalar, L, 0)
            for q in range(2):
                _, _, indices, lo, hi = _row(rows, q, t, discount[t])
                _settle_row(line, indices, lo, hi, drop, gained, loss)
        if bound is not None:
            for q in range(2):
                _, _, indices, lo, hi = _row(rows, q, t, discount[t])
                _clip_row(line, indices, lo, hi, load(bound, 0, 0), gained)
        if ball == L2_BALL:
            store(room, GROWTH, 0, growth)
            for b in range(k, n_vectors):
                number[NORM] += scalar[F, b] * scalar[F, b] * room[GROWTH, b]
            radius = math.sqrt(max(number[NORM], 1.0))
            number[NORM] = min(number[NORM], 1.0)
            store(scalar, F, 0, before / ((1.0 - dual) + radius * dual))
            if scalar[F, k] < restart:
                _next_generation(scalar, counter, scale, mass, dual, n_vectors - 1)
    return len(reward)


# All coordinates ------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def evaluate(lines, past, rule, first, out):
    """Write values and sums of the lines from `first` on into `out`, as lines, or into the lines themselves."""
    line, born, scalar, counter, number, scale, mass, _ = lines
    _, _, _, _, slot, _, _, fixed = rule
    line, out, fixed, counter = borrow(line), borrow(out), borrow(fixed), borrow(counter)
    tags, penalised = borrow(line if slot > 0 else born), load(fixed, PENALISED, 0)
    here, rho, gained = load(scalar, F, 0), load(fixed, RHO, 0), load(scalar, P, 0)
    drop, loss = rho * load(scalar, L, 0), rho * load(scalar, Q, 0)
    last = float(counter[SINCE_FLUSH]) * penalised + (1.0 - penalised) * gained
    for i in range(len(out)):
        generation = np.int64(tags[first + i, slot])
        v = load(line, first + i, 0)
        store(out, i, SUMS, load(line, first + i, SUMS) + v * load(mass, generation, 0))
        store(out, i, 0, v * load(scale, generation, 0))
        if past is not None:
            for b in range(2):
                if 0.0 < abs(out[i, b]) <= fixed[RHO, b] * scalar[L, b]:
                    _settle(out, i, b, past[0], past[1], counter, number, fixed[RHO, b])
        v = load(out, i, 0)
        gone = _gone_closed(v, fixed, last) if past is None else v * gained - np.sign(v) * loss
        store(out, i, SUMS, load(out, i, SUMS) + gone)
        store(out, i, 0, here * _shrink(v, drop))
