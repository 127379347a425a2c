"""The affine law: without an l1 penalty all coordinates that a row does not touch move alike (`compiled.lines`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.csr import TRACE_TOL
from sparsetd.solvers.compiled.lines import FULL, ORIGIN, PLACE, TRACED, Lines, flush, materialise, stream
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.laws.rows import aligned_zeros, from_row, horizon, longest
from sparsetd.system import Array

GENERATIONS = 256


def key(solver: Any, system: Any) -> str:
    """What a lazy state is begun for: whether it keeps averages."""
    del system
    return repr(solver.average != "none")


def begin(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Lines that hold the values of the dense state."""
    k, d, vectors = system.k, state.x.shape[1], stacked(state.x, state.y)
    n, wide = len(vectors), len(vectors) == 4
    line, first = aligned_zeros(d, 12 if wide else 8), 4 if wide else 2
    fill(line, 0, vectors)
    fill(line, first, stacked(state.totals.x, state.totals.y))
    lazy = {
        "line": line,
        "names": np.zeros(64, dtype=np.int32),
        "faded": np.zeros(64),
        "scale": np.tile([1.0, 0.0], (n, 1)),
        "chain": np.tile([[1.0], [0.0]], (GENERATIONS, 4)),
        "norms": _norms(vectors, state.origin),
        "counter": np.zeros(4, dtype=np.int64),
        "slots": slots_of(k, n),
        "weigh": float(solver.average != "none"),
        "every": horizon(d),
    }
    if state.trace is not None:
        begin_trace(lazy, line, 2 * first, state.trace[0])
    return lazy


def begin_trace(lazy: dict[str, Any], marks: Array, at: int, trace: Array) -> None:
    """The list of a trace that is given densely."""
    names = np.flatnonzero(np.abs(trace) > TRACE_TOL)
    widen(lazy, len(names))
    lazy["names"][: len(names)], lazy["faded"][: len(names)] = names, trace[names]
    marks[names, at + PLACE] = np.arange(1, len(names) + 1)
    lazy["counter"][TRACED] = len(names)


def widen(lazy: dict[str, Any], more: int) -> None:
    """Room for `more` entries of the trace, and as many again as there are."""
    for name in ("names", "faded"):
        lazy[name] = np.append(lazy[name], np.zeros(len(lazy[name]) + more, lazy[name].dtype))


def advance(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Take rows; returns how many before the run diverged."""
    lazy, taken, fixed, rule = state.lazy, 0, system.fixed, solver.rule(state.x.size)
    measured = True if solver.measures else None
    sized = True if measured or np.isfinite(fixed.radius) or np.isfinite(fixed.ball) else None
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), np.zeros(12), np.zeros((6, 4)))
    kinds = (_wide(lazy), system.traced or None, measured, sized, solver.extragradient or None)
    while True:
        lines = Lines(**{name: lazy[name] for name in Lines._fields})
        taken += stream(rule, from_row(rows, taken), lines, work, _origin(state), state.record, fixed, *kinds)
        if not lazy["counter"][FULL]:
            return taken
        widen(lazy, longest(rows.phi, rows.phi_next))


def part(state: Any, at: slice) -> Any:
    """The state of some features in plain arrays."""
    lazy, k, n, width = state.lazy, len(state.x), len(state.lazy["scale"]), at.stop - at.start
    values, sums = np.empty((n, width)), np.empty((n, width))
    materialise(lazy["line"][at], *(lazy[name] for name in ("scale", "chain", "counter")), values, sums)
    return state.part(at, values[:k], values[k:] if n > k else None, sums)


def trace(state: Any) -> Array:
    """The trace, laid out densely."""
    lazy, out = state.lazy, np.zeros(state.x.shape[1])
    n = int(lazy["counter"][TRACED])
    out[lazy["names"][:n]] = lazy["faded"][:n]
    return out


def take_sums(state: Any) -> None:
    """Move the weighted sums from the lines to the dense arrays, and begin new ones."""
    lazy, sums = state.lazy, np.empty((len(state.lazy["scale"]), state.x.shape[1]))
    parts = (lazy[name] for name in ("scale", "chain", "norms", "counter"))
    flush(lazy["line"], _wide(lazy), *parts, _origin(state), sums)
    for total, values in zip(stacked(state.totals.x, state.totals.y), sums, strict=True):
        total[:] = values


def slots_of(k: int, n: int) -> Array:
    """The numbers of n vectors, of which k are blocks of x, among w, θ, y1 and y2."""
    return np.append(np.arange(2 - k, 2), np.arange(4 - k, 4))[:n]


def stacked(x: Array, y: Array | None) -> list[Array]:
    """The blocks of x, and then those of y."""
    return [*x, *(() if y is None else y)]


def fill(line: Array, place: int, vectors: list[Array]) -> None:
    """Write vectors into the lines, from a place on."""
    for b, values in enumerate(vectors, place):
        if values.any():  # memory that is never written costs nothing
            line[:, b] = values


def _wide(lazy: dict[str, Any]) -> bool | None:
    """Whether a line holds four vectors, or None."""
    return len(lazy["scale"]) == 4 or None


def _norms(vectors: list[Array], origin: Array) -> Array:
    """‖v − v_0‖², ⟨v − v_0, v_0⟩ and ‖v_0‖² of every vector; v_0 is 0 for y."""
    norms = np.zeros((len(vectors), 3))
    for b, vector in enumerate(vectors):
        if b < len(origin) and origin[b].any():
            start = np.asarray(origin[b], dtype=np.float64)
            norms[b] = (vector - start) @ (vector - start), (vector - start) @ start, start @ start
        elif vector.any():
            norms[b, 0] = np.vdot(vector.astype(np.float64), vector)
    return norms


def _origin(state: Any) -> Array:
    """x_0, or an array without rows where it is zero."""
    if not state.lazy["norms"][:, ORIGIN].any():
        return np.zeros((0, 0))
    return np.asarray(state.origin, dtype=np.float64)
