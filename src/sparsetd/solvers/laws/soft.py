"""The law of the soft threshold: steps set by hand with an l1 penalty, a dual, or its box (`compiled.soft`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.balls import BOX
from sparsetd.solvers.compiled.crossings import GUIDED, SINCE, SUMS, WIDTH
from sparsetd.solvers.compiled.lines import FULL
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.compiled.soft import (
    DUAL,
    GENERATION,
    NORM,
    OLDEST,
    OWN_SLOT,
    SUMMED,
    F,
    Lines,
    evaluate,
    stream,
)
from sparsetd.solvers.laws import lines
from sparsetd.solvers.laws.lines import begin_trace, fill, slots_of, stacked, widen
from sparsetd.solvers.laws.rows import Rows, aligned_zeros, from_row, horizon, longest
from sparsetd.system import Array

GENERATIONS, GUIDE = 4096, 4097
# A new generation of y begins before the sums of y can no longer resolve the terms added to them, or before overflow.
RESTART = {True: 2.0**-10, False: 2.0**-200}


def key(solver: Any, system: Any) -> str:
    """What a lazy state is begun for."""
    factor = None if system.factor is None else system.factor.tolist()
    return repr((solver.average != "none", _constant(solver), system.fixed.l1.tolist(), factor))


def begin(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Lines that hold the values of the dense state, but for the features with a penalty of their own."""
    vectors, totals = stacked(state.x, state.y), stacked(state.totals.x, state.totals.y)
    n, d, k, factor, summed = len(vectors), state.x.shape[1], system.k, system.factor, solver.average != "none"
    special = np.zeros(0, dtype=np.int64) if factor is None else np.flatnonzero(factor != 1.0)
    constant, slot = _constant(solver), 0 if summed and n == 4 else OWN_SLOT
    searched = summed and constant == 0.0 and bool(system.fixed.l1.any())
    every = min(horizon(d), 1 << (20 if searched else 22))
    lazy: dict[str, Any] = {
        "line": aligned_zeros(d, 8),
        "born": np.zeros((0 if slot else d, 2 if system.traced else 1)),
        "scalar": np.zeros((7, 4)),
        "counter": np.zeros(6, dtype=np.int64),
        "number": np.zeros(2),
        "scale": np.zeros((GENERATIONS, 4)),
        "mass": np.zeros((GENERATIONS, 4)),
        "past": (aligned_zeros(every + 1, 4), np.zeros(GUIDE, np.int64), np.zeros(512, np.int64)) if searched else (),
        "names": np.zeros(64, dtype=np.int32),
        "faded": np.zeros(64),
        "special": special,
        "columns": np.array([v[special] for v in (*vectors, *totals)], dtype=np.float64),
        "rows": np.zeros((3, len(special))),
        "slots": slots_of(k, n),
        "slot": slot,
        "horizon": every,
        "fixed": _fixed(system, k, n, n if summed else 0, constant),
    }
    fill(lazy["line"], 0, vectors)
    fill(lazy["line"], SUMS, totals)
    lazy["line"][special] = 0.0
    if state.trace is not None:
        begin_trace(lazy, _tags(lazy), slot - 1, state.trace[0] * _ordinary(lazy, d))
        lazy["rows"][2] = state.trace[0][special]
    lazy["number"][NORM] = sum(np.vdot(v.astype(np.float64), v) for v in vectors[k:] if v.any())
    _begin_afresh(lazy)
    return lazy


def advance(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Take rows; returns how many before the run diverged."""
    lazy, done, k, fixed, special, apart = state.lazy, 0, system.k, system.fixed, state.lazy["special"], None
    if len(special):
        (phi, first), (phi_next, then) = (_apart(part, special, state.x.shape[1]) for part in rows[:2])
        rho = np.asarray(fixed.l1[2 - k : 2, None] * system.factor[special], dtype=np.float64)
        rows, apart = rows._replace(phi=phi, phi_next=phi_next), (first, then, rho)
    bound = np.where(lazy["fixed"][DUAL] > 0, 1.0, np.inf)[None] if solver.ball == BOX else None
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros((3, 4)))
    kinds = (solver.ball, RESTART[bool(lazy["fixed"][SUMMED].any())], system.traced or None)
    while True:
        left = None if apart is None else (apart[0][done:], apart[1][done:], apart[2])
        done += stream(from_row(rows, done), left, *_given(lazy), bound, work, state.record, fixed, *kinds)
        if lazy["counter"][FULL]:
            widen(lazy, longest(rows.phi, rows.phi_next))
        elif done == len(rows.reward) or not _flush_is_due(lazy):
            return done
        else:
            _flush(lazy, k)


def part(state: Any, at: slice) -> Any:
    """The state of some features in plain arrays."""
    lazy, k, n, block = state.lazy, len(state.x), len(state.lazy["slots"]), np.empty((at.stop - at.start, 8))
    evaluate(*_given(lazy), at.start, block)
    here = (at.start <= lazy["special"]) & (lazy["special"] < at.stop)
    places, columns = lazy["special"][here] - at.start, lazy["columns"][:, here].T
    block[places, :n], block[places, SUMS : SUMS + n] = columns[:, :n], columns[:, n:]
    return state.part(at, block.T[:k], block.T[k:n] if n > k else None, block.T[SUMS : SUMS + n])


def trace(state: Any) -> Array:
    """The trace, laid out densely."""
    out = lines.trace(state)
    out[state.lazy["special"]] = state.lazy["rows"][2]
    return out


def take_sums(state: Any) -> None:
    """Move the weighted sums from the lines to the dense arrays, and begin new ones."""
    lazy, n = state.lazy, len(state.lazy["slots"])
    _flush(lazy, len(state.x))
    for place, total in enumerate(stacked(state.totals.x, state.totals.y)):
        total[:] = lazy["line"][:, SUMS + place]
        total[lazy["special"]] = lazy["columns"][n + place]
    lazy["line"][:, SUMS : SUMS + np.count_nonzero(lazy["fixed"][SUMMED])] = 0.0
    lazy["columns"][n:] = 0.0


def _constant(solver: Any) -> float:
    """The step where it is constant, or 0."""
    return 0.0 if callable(solver.step_size) else float(solver.step_size)


def _fixed(system: Any, k: int, n_vectors: int, n_sums: int, constant: float) -> Array:
    """Rows of four lanes: ρ, whether penalised, summed and dual; 1/(ρα), α and ρα²/2 (or ∞, 1 and 0)."""
    rho, lane = np.zeros(4), np.arange(4)
    rho[:k] = system.fixed.l1[2 - k : 2]
    penalised, summed, dual = rho > 0, lane < n_sums, (k <= lane) & (lane < n_vectors)
    per = np.divide(1.0, rho * constant, out=np.full(4, 1e300), where=rho * constant > 0)
    unit, half = np.where(penalised, constant, 1.0) * summed, 0.5 * rho * constant**2 * summed
    return np.array([rho, penalised, summed, dual, per, unit, half], dtype=np.float64)


def _ordinary(lazy: dict[str, Any], d: int) -> Array:
    """1 for the features in lines, 0 for special ones."""
    out = np.ones(d)
    out[lazy["special"]] = 0.0
    return out


def _apart(rows: Rows, special: Array, d: int) -> tuple[Rows, Array]:
    """The rows without their special columns, and these columns, dense."""
    lo, hi = rows.indptr[0], rows.indptr[-1]
    place = np.full(d, -1, dtype=np.int64)
    place[special] = np.arange(len(special))
    indices, where = rows.indices[lo:hi], place[rows.indices[lo:hi]]
    values = rows.values[lo:hi].copy()
    mine, columns = where >= 0, np.zeros((len(rows.indptr) - 1, len(special)))
    numbers = np.repeat(np.arange(len(columns)), np.diff(rows.indptr))
    np.add.at(columns, (numbers[mine], where[mine]), values[mine])
    values[mine] = 0.0
    return Rows(values, np.ascontiguousarray(indices), rows.indptr - lo), columns


def _tags(lazy: dict[str, Any]) -> Array:
    return np.asarray(lazy["line"] if lazy["slot"] else lazy["born"])


def _given(lazy: dict[str, Any]) -> tuple[Lines, Array | None, Any]:
    """What the kernels take: the state, its generations and what finds zero crossings, or None."""
    lines = Lines(**{name: lazy[name] for name in Lines._fields})
    return lines, None if lazy["slot"] else lazy["born"], tuple(lazy["past"]) or None


def _flush_is_due(lazy: dict[str, Any]) -> bool:
    counter = lazy["counter"]
    return bool(counter[GENERATION] + 1 >= len(lazy["scale"]) or counter[SINCE] >= lazy["horizon"])


def _flush(lazy: dict[str, Any], k: int) -> None:
    """Replace every line by its plain value and sum."""
    n, line = len(lazy["slots"]), lazy["line"]
    evaluate(*_given(lazy), 0, line)
    _tags(lazy)[:, lazy["slot"]] = 0.0
    lazy["number"][NORM] = np.sum(np.square(line[:, k:n])) + np.sum(np.square(lazy["columns"][k:n]))
    _begin_afresh(lazy)


def _begin_afresh(lazy: dict[str, Any]) -> None:
    """Scalars, history and generations of a state whose lines hold plain values."""
    lazy["scalar"][:] = 0.0
    lazy["scalar"][F] = lazy["scale"][0] = 1.0
    lazy["mass"][0] = 0.0
    if lazy["past"]:
        lazy["past"][0][:1] = 0.0
    lazy["counter"][[SINCE, GENERATION, OLDEST, GUIDED]] = 0
    lazy["number"][WIDTH] = 0.0
