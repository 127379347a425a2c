"""Asleep: how a coordinate moves while no row touches it. One law for every vector of the state (w, θ, y1, y2):

    x_t = F S_{ρL}(v)        Σ_{i<t} ω_i x_i = R + v P − sgn(v) ρ Q        until ρL reaches |v|, then not a term more

A coordinate has two numbers (v, R) in each vector, and all sleepers together the scalars F, L, P and Q of the vector:

    a step with the factor f and the threshold αρ      L ← L + α      F ← f F
    the point that a step counts with weight ω         P ← P + ω F̂   Q ← Q + ω F̂ L

ρ = 0 without a penalty and for y, and then L and Q do not matter. What a row does to the coordinates it touches is the
business of `entries` (in place, entry by entry) and of `awake` (dual averaging, which must know who reached zero).

F may fall without end. When it leaves (2⁻¹⁰, 2¹⁰) a new *generation* begins with F = 1, because P would no longer
resolve the terms added to it; `chain` holds the composed map (F, P) from the start of every older generation to that of
the current one, until it has faded to zero. Every so many rows all coordinates are brought up to date (a flush), which
renews the tracked norms and bounds the history. This happens at fixed row numbers: any chunking gives the same bits.

Lines lie in the order in which their coordinates came (`place`), so that memory is written from its beginning on and
follows the features that were seen, not all that there could be. A flush visits the lines of these alone. A line of
zeros is a coordinate that no row has touched yet: generations count from 1, and 0 is that of such a line.

w, θ, y1 and y2 are lanes of a register. Lanes without a vector hold nothing, or the marks of a coordinate, which the
law leaves alone because there F = 1 and ρ = P = Q = 0.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from sparsetd.solvers.compiled.compile import kernel, part, piece
from sparsetd.solvers.compiled.intrinsics import borrow, lanes, load, prefetch, store

# A line is the v of its vectors, their R, and its marks: the generation, φ and ψ (while a row is at work), and 1 + its
# place in the trace. Where there are thresholds nobody measures φ, and its place holds what multiplies ρ, less 1. Where
# there is no y the marks lie in its lanes: 64 bytes in all, and 32 where nothing is averaged or measured, and R is left
# out.
V, R = 0, 4
Marks = namedtuple("Marks", "width vectors born front back place")
MARKS = (Marks(4, 2, 2, 0, 0, 3), Marks(8, 2, 6, 2, 3, 7), Marks(12, 4, 8, 9, 11, 10))
THIN, NARROW, WIDE = range(3)
# Rows of `scalar`: F, L, P and Q, and CARRY further on the rounding of the last three.
F, L, P, Q, CARRY = 0, 1, 2, 3, 3
# Rows of `lane`: ρ, whether there is a threshold, whether sums are kept, whether there is a vector, whether it is y,
# whether F may move; and for crossings in closed form 1/(ρα), α and ρα²/2 (or ∞, 1 and 0).
RHO, BENT, SUMMED, HELD, DUAL, FREE, PER, UNIT, HALF = range(9)
# Entries of `counter`: the length of the trace, the generation and the oldest that has not faded, rows since the last
# flush, whether the trace is full, how many coordinates have a line.
TRACED, GENERATION, OLDEST, SINCE, FULL, SEEN = range(6)
FIRST = 1  # the first generation
# Rows of `norms`: ‖v − v_0‖², ⟨v − v_0, v_0⟩, ‖v_0‖².
MOVED, ALONG, ORIGIN = range(3)

TRACE_TOL = 1e-12  # entries of a trace of at most this size are dropped; e is then wrong by at most tol/(1 − γλ)
AHEAD = 128  # entries: a row at most so long is asked for well before its turn
NEAR = 2**16  # features: so many places lie near the core by themselves

# A lazy state: lines, the trace, the scalars and constants above, and the smallest F.
Lines = namedtuple("Lines", "line names faded scalar chain norms lane counter smallest")
WIDTHS = Lines(0, 0, 0, 4, 4, 4, 4, 0, 0)  # the lengths of rows that do not depend on the number of vectors


@part
def shrink(v, drop):
    """S_drop(v)."""
    return v - np.minimum(np.maximum(v, -drop), drop)


@part
def add(scalar, row, term):
    """Compensated summation: the sums run over millions of steps, and their differences matter."""
    before = load(scalar, row, 0)
    term = term - load(scalar, row + CARRY, 0)
    total = before + term
    store(scalar, row + CARRY, 0, (total - before) - term)
    store(scalar, row, 0, total)


# --- what a coordinate has in its sum -------------------------------------------------------------------------------


@part
def gone_closed(v, closed, last):
    """The sum of m = min(⌈|v|/(ρα)⌉, last) steps of v: α (m v − sgn(v) ρα m(m − 1)/2), or v P if ρ = 0."""
    per, unit, half = closed
    m = np.minimum(np.ceil(np.abs(v) * per), last)
    return m * (unit * v - np.copysign(half * m - half, v))


@part
def weigh(line, j, mark, own):
    """The factor of ρ of coordinate j: 1, unless the feature has a penalty of its own."""
    return 1.0 + line[j, mark] if own else 1.0


@part
def weighed(law, weight, own):
    """(ρL, P, ρQ, closed form, last) of a coordinate whose ρ is multiplied."""
    if not own:
        return law
    drop, gained, loss, (per, unit, half), last = law
    closed = ((1.0 / max(weight, 1e-150)) * per, unit, weight * half)
    return weight * drop, gained, weight * loss, closed, last


@part
def law_of(s, since):
    """(ρL, P, ρQ, closed form, last) of a vector so many steps after a flush.

    The closed form are the constants of crossings for a constant step, and `last` is the bound of m in `gone_closed`:
    the steps so far, or P if ρ = 0.
    """
    rho, bent, gained = load(s.lane, RHO, 0), load(s.lane, BENT, 0), load(s.scalar, P, 0)
    closed = load(s.lane, PER, 0), load(s.lane, UNIT, 0), load(s.lane, HALF, 0)
    last = since * bent + (1.0 - bent) * gained
    return rho * load(s.scalar, L, 0), gained, rho * load(s.scalar, Q, 0), closed, last


# --- generations ----------------------------------------------------------------------------------------------------


@part
def renew(line, j, chain, marks, generation):
    """Bring line j from its generation to the current one."""
    older, v = 2 * np.int64(line[j, marks.born]), load(line, j, V)
    if marks.width > R:
        store(line, j, R, load(line, j, R) + v * load(chain, older + 1, 0))
    store(line, j, V, v * load(chain, older, 0))
    line[j, marks.born] = generation


@piece
def restart(s):
    """Begin a generation: every older map that has not faded is extended by what happened in this one."""
    scalar, chain, free = s.scalar, s.chain, load(s.lane, FREE, 0)
    here, gained, current = load(scalar, F, 0), free * load(scalar, P, 0), s.counter[GENERATION]
    for g in range(s.counter[OLDEST], current + 1):
        older = load(chain, 2 * g, 0)
        store(chain, 2 * g + 1, 0, load(chain, 2 * g + 1, 0) + older * gained)
        store(chain, 2 * g, 0, older * here)
    faded, oldest = True, 2 * s.counter[OLDEST]
    for b in range(4):
        faded = faded and (chain[oldest, b] == 0.0 or s.lane[FREE, b] == 0.0)
    s.counter[OLDEST] += faded
    s.counter[GENERATION] = current + 1
    store(chain, 2 * current + 2, 0, lanes(1.0))
    store(chain, 2 * current + 3, 0, lanes(0.0))
    store(scalar, F, 0, lanes(1.0))
    for row in (P, P + CARRY):
        store(scalar, row, 0, (1.0 - free) * load(scalar, row, 0))


# --- the trace ------------------------------------------------------------------------------------------------------


@part
def follow_trace(s, at, row, t, old, fresh):
    """e ← old·e + fresh·φ without the entries that have faded; returns how many there are, or −1 without room."""
    line, names, faded, kept = s.line, s.names, s.faded, 0
    values, indices, indptr = row
    if s.counter[TRACED] + indptr[t + 1] - indptr[t] > len(names):
        return -1
    for i in range(s.counter[TRACED]):
        value, j = old * faded[i], names[i]
        if abs(value) > TRACE_TOL:
            faded[kept], names[kept] = value, j
            kept += 1
            line[j, at] = kept
        else:
            line[j, at] = 0.0
    for i in range(indptr[t], indptr[t + 1]):
        j = np.int64(indices[i])
        if line[j, at] == 0.0:
            names[kept], faded[kept] = j, 0.0
            kept += 1
            line[j, at] = kept
        faded[np.int64(line[j, at]) - 1] += fresh * values[i]
    s.counter[TRACED] = kept
    return kept


# --- sparse rows ----------------------------------------------------------------------------------------------------


@part
def fetch_ahead(array, indices, i, lines):
    """Ask for so many cache lines of the entry AHEAD of this one, well before its turn."""
    ahead = i + np.uint64(AHEAD)
    j = np.uint32(indices[ahead if ahead < np.uint64(len(indices)) else i])
    for line in range(lines):
        prefetch(array, j, 8 * line)


@kernel
def scatter(out, names, values):
    """out[names] = values; the memory of `out` is asked for ahead, which NumPy would wait for."""
    out, names = borrow(out, 1), borrow(names, 0)
    for i in range(len(names)):
        fetch_ahead(out, names, np.uint64(i), 1)
        out[np.uint32(names[i]), 0] = values[i]


@part
def _place_row(of, names, n, rows, t, room, at):
    """The places of row t, written from `at` on; returns how many places are taken."""
    indices, indptr = rows[1], rows[2]
    lo, hi, first, begin = np.uint64(indptr[t]), np.uint64(indptr[t + 1]), np.uint64(indptr[0]), np.uint64(at)
    for i in range(lo, hi):
        if len(of) > NEAR:
            fetch_ahead(of, indices, i, 1)
        j = np.uint32(indices[i])
        if of[j, 0] == 0:
            names[n] = j
            n += 1
            of[j, 0] = n
        room[i - first + begin] = of[j, 0] - np.int32(1)
    return n


@kernel
def place(of, names, n, rows, room, at, follows):
    """Write the places of φ into `room`, and those of φ' from `at` on; whoever has none gets the next one.

    Places are given row by row, φ before φ': how a stream is cut into chunks must not change them. Where φ' `follows`,
    it is the φ of the next row, and only that of the last row is not written yet.
    """
    of, names, room, (phi, phi_next) = borrow(of, 1), borrow(names, 0), borrow(room, 0), borrow(rows, 0)
    last = len(phi[2]) - 2
    for t in range(last + 1):
        n = _place_row(of, names, n, phi, t, room, 0)
        if t == last or not follows:
            n = _place_row(of, names, n, phi_next, t, room, at)
    return n
