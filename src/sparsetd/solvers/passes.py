"""Which code takes the rows of a stream, and how it is called."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers import plain
from sparsetd.solvers.compiled import averaging, dense, general
from sparsetd.solvers.compiled.balls import BOX, L1_BALL, L2_BALL
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.compiled.rules import GX, GY, MASS
from sparsetd.system import Array

FUSED = ("dense", "averaging")  # passes over dense rows that look for numbers that are not finite as well
LAZY = ("entries", "awake")  # passes over CSR rows, whose iterates live in `state.lazy`


def pass_for(solver: Any, state: Any, system: Any, sparse: bool) -> str:
    """The name of the pass that takes these rows: one answer for a method and its rows.

    method                                                   dense rows    CSR rows
    -------------------------------------------------------  ------------  -----------------------------
    penalty that only its prox knows (groups, own ones)      numpy         numpy, laid out densely
    coin betting                                             numpy         numpy, laid out densely
    dual averaging, l2 ball of y, no radius, from x_0 = 0    averaging     awake
    the same from another x_0                                averaging     averaging, laid out densely
    dual averaging with another ball, or with a radius       numpy         numpy, laid out densely
    p-norm maps, l1 ball of y, the box form of the l1 norm   general       general, laid out densely
    trial points bent by a threshold or a box                general       general, laid out densely
    no l1 penalty (nor box, nor ridges that differ)          dense         entries
    l1 or box, step by hand, no ridge, damping or radius     dense         entries
    l1 or box with any of these, or by an automatic step     dense         dense, laid out densely
    """
    if solver.family == "coins" or not system.separable:
        return "numpy"
    if solver.family == "averaging":
        if solver.ball != L2_BALL or np.isfinite(solver.radius):
            return "numpy"
        return "awake" if sparse and not state.origin.any() else "averaging"
    plain_steps = system.plain and solver.ball != BOX
    if solver.exponent != 2 or solver.boxed or solver.ball == L1_BALL or (solver.extragradient and not plain_steps):
        return "general"
    return "entries" if sparse and (plain_steps or is_simple(solver, system)) else "dense"


def is_simple(solver: Any, system: Any) -> bool:
    """Whether a step is set by hand and nothing but thresholds and balls follows it."""
    fixed, by_hand = system.fixed, not solver.measures
    return by_hand and not (fixed.l2.any() or fixed.damping.any() or np.isfinite(solver.radius))


def is_bent(solver: Any, system: Any) -> bool:
    """Whether `entries` writes thresholds, which serves four vectors without a penalty as well: it measures ‖y‖ on its
    way, for which the linear way needs φᵀφ'."""
    four = solver.saddle and system.k == 2
    return is_simple(solver, system) and (four or solver.ball == BOX or not system.plain)


def take(name: str, solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Take rows by a pass; returns how many before the run diverged, or came to a bad row."""
    if name in LAZY:
        from sparsetd.solvers import lazy

        lazy.enter(solver, state, system, name)
        return int(lazy.advance(solver, state, rows, system))
    return int(
        {"dense": _dense, "averaging": _averaging, "general": _general, "numpy": _numpy}[name](
            solver, state, rows, system
        )
    )


def _numpy(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    state.apply_pending()
    return plain.take(solver, state, rows, system)


def _dense(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """One pass over a dense state per row."""
    rule, fixed, measured = solver.rule(state.x.size), system.fixed, solver.measures or None
    origin = places(state.origin, None) if measured and state.origin.any() else None
    across = bool(fixed.M[1].any() or fixed.M[:, 1].any() or fixed.m[1]) or None
    sized = measured or np.isfinite(solver.radius) or None
    clip = state.x.dtype.type(1.0) if solver.ball == BOX else None
    averages = None if solver.average == "none" else places(state.totals.x, state.totals.y)
    kinds = (system.k == 2 or None, solver.saddle or None, across, measured, sized, solver.extragradient or None, clip)
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), state.pending)
    vectors, more = places(state.x, state.y), (state.trace, origin, state.record, work)
    return int(dense.stream(rule, rows, vectors, averages, *more, fixed, system.factor, *kinds))


def _averaging(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Dual averaging on a dense state; x and y are functions of the sums that it moves."""
    more, rule, record, totals = state.more, solver.rule(state.x.size), state.record, None
    origin = places(state.origin, None) if state.origin.any() else None
    if solver.average != "none":
        totals = (*places(state.totals.x, state.totals.y), *places(more["share"], None)[:2])
    kinds = (origin, state.trace, system.factor, system.k == 2 or None)
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), np.zeros(12))
    sums = places(more["sum_x"], more["sum_y"])
    taken = averaging.stream(rule, rows, sums, totals, *kinds, record, work, system.fixed)
    state.x[:] = solver.primal_of(state, more["sum_x"], record[GX], record[MASS], system)
    y = more["sum_y"].astype(np.float64)
    y *= solver.dual_radius(state.x.size) / np.sqrt(record[GY]) if record[GY] > 0 else 0.0
    state.y[:] = y / max(1.0, float(np.linalg.norm(y)))
    return int(taken)


def _general(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """What needs all coordinates at once, loop by loop."""
    state.apply_pending()
    x, y, u, origin = (_blocks(v) for v in (state.x, state.y, state.u, state.origin))
    averages = None if solver.average == "none" else (_blocks(state.totals.x), _blocks(state.totals.y))
    mid = tuple(_blocks(None if v is None else np.empty_like(v)) for v in (state.x, state.y))
    kinds = (solver.measures or None, solver.extragradient or None, solver.ball, float(solver.exponent))
    more = (mid, state.trace, origin, state.record, system.fixed, system.factor)
    return int(general.stream(solver.rule(state.x.size), rows, x, y, averages, u, *more, *kinds))


def places(x: Array, y: Array | None) -> tuple[Array, Array, Array, Array]:
    """(w, θ, y1, y2); where there is no such vector another one stands in its place."""
    y = x if y is None else y
    return x[0], x[-1], y[0], y[-1]


def _blocks(v: Array | None) -> tuple[Array, ...] | None:
    return None if v is None else tuple(v)
