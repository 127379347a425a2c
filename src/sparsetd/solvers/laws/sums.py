"""The law of dual averaging: the point is a function of sums of gradients (`compiled.sums`, `compiled.hot`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.csr import TRACE_TOL
from sparsetd.solvers.compiled.hot import stream
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.compiled.rules import GX, GY, MASS
from sparsetd.solvers.compiled.sums import (
    DUAL,
    EARLY,
    FACTOR,
    FULL,
    HOT,
    HOT_WIDTH,
    KEY,
    L1,
    L2,
    LEVEL,
    MARK,
    MULTIPLIER,
    SHARE,
    SHARES,
    TOTAL,
    TRACE,
    WIDTH,
    Lines,
    R,
    V,
    flush,
    materialise,
)
from sparsetd.solvers.laws.lines import fill, slots_of, stacked
from sparsetd.solvers.laws.rows import aligned_zeros, from_row, horizon, longest
from sparsetd.solvers.plain import argmin
from sparsetd.system import Array

ROOM = 64  # hot coordinates, at first
PLACE = {V: V, R: TOTAL, SHARE: SHARES}  # of a line, and of a hot coordinate


def key(solver: Any, system: Any) -> str:
    """What a lazy state is begun for. Another penalty counts from the current point on, which the dense steps leave as
    it is for one more row."""
    factor = None if system.factor is None else system.factor.tolist()
    return repr((solver.average != "none", system.fixed.l1.tolist(), system.fixed.l2.tolist(), factor))


def begin(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Lines that hold the sums of the dense state; a feature with a penalty of its own takes part in every row."""
    (k, d), factor, lane = state.x.shape, system.factor, np.arange(4)
    special = np.zeros(0, dtype=np.int64) if factor is None else np.flatnonzero(factor != 1.0)
    l1, l2 = (
        np.where(lane < k, np.append(part[2 - k : 2], np.zeros(4 - k)), 0.0)
        for part in (system.fixed.l1, system.fixed.l2)
    )
    lazy: dict[str, Any] = {
        "weigh": float(solver.average != "none"),
        "fixed": np.array([l1, l2, lane < k, l1 > 0, EARLY / np.where(l1 > 0, l1, 1.0)], dtype=np.float64),
        "slots": slots_of(k, 2 * k),
        "special": special,
        "multiplier": np.ones(0) if factor is None else np.asarray(factor[special], dtype=np.float64),
        "line": aligned_zeros(d, WIDTH),
        "hot": np.zeros((ROOM, HOT_WIDTH)),
        "names": np.zeros(ROOM, dtype=np.int64),
        "scale": np.zeros((2, 4)),
        "active": np.zeros((4, 4)),
        "number": np.zeros(2),
        "counter": np.zeros(4, dtype=np.int64),
    }
    if _fill(state, lazy):
        _flush(state, lazy, forget=False)
    squares = max(float(state.record[GY]), float(lazy["number"][DUAL]))
    lazy["number"][FACTOR] = 1.0 / np.sqrt(squares) if state.record[GY] > 0 else 0.0
    return lazy


def advance(solver: Any, state: Any, rows: Stream, system: Any) -> int:
    """Take rows; returns how many before the run diverged."""
    lazy, taken, rule = state.lazy, 0, solver.rule(state.x.size)
    work = (np.zeros((6, 7)), np.zeros((6, 12)), np.zeros((3, 4)), np.zeros(6))
    numbers = lazy["weigh"], len(lazy["special"]), horizon(state.x.shape[1]), system.traced or None
    while True:
        taken += stream(rule, from_row(rows, taken), _lines(lazy), work, state.record, system.fixed, *numbers)
        if not lazy["counter"][FULL]:
            return taken
        _widen(lazy, longest(rows.phi, rows.phi_next))
        for name in ("keys", "owners"):
            lazy[name] = np.append(lazy[name], np.zeros(len(lazy[name]) + 4 * len(lazy["names"]), lazy[name].dtype))


def part(state: Any, at: slice) -> Any:
    """The state of some features in plain arrays."""
    lazy, k, block, mass = state.lazy, len(state.x), np.empty((at.stop - at.start, 12)), float(state.record[MASS])
    materialise(lazy["line"], lazy["scale"], lazy["fixed"], at.start, mass, block)
    names = lazy["names"][: lazy["counter"][HOT]]
    here = (at.start <= names) & (names < at.stop)
    for place, hot in PLACE.items():
        block[names[here] - at.start, place : place + 4] = lazy["hot"][: len(names)][here, hot : hot + 4]
    values, sums, shares = block.T[V : V + 2 * k], block.T[R : R + 2 * k], block.T[SHARE : SHARE + k]
    known = {"sum_x": -values[:k], "sum_y": values[k:]} | ({"share": shares} if lazy["weigh"] else {})
    y = lazy["number"][FACTOR] * values[k:]
    return state.part(at, _point_of(state, values[:k], at), y, sums if lazy["weigh"] else None, **known)


def trace(state: Any) -> Array:
    """The trace, laid out densely."""
    out, n = np.zeros(state.x.shape[1]), state.lazy["counter"][HOT]
    out[state.lazy["names"][:n]] = state.lazy["hot"][:n, TRACE]
    return out


def take_sums(state: Any) -> None:
    """Move the weighted sums and shares from the lines to the dense arrays, and begin new ones."""
    state.settle()
    _flush(state, state.lazy, forget=True)


def _fill(state: Any, lazy: dict[str, Any]) -> bool:
    """Lines, hot coordinates and an empty heap with room for all active ones; returns whether there is any sum."""
    k, mass, share, line = len(state.x), float(state.record[MASS]), state.more["share"], lazy["line"]
    l1, sums = lazy["fixed"][L1], stacked(state.more["sum_x"], state.more["sum_y"])
    begun = any(values.any() for values in sums)
    vectors = [(-v if b < k else v).astype(np.float64) for b, v in enumerate(sums)] if begun else sums
    room = 8 * ROOM
    lazy["active"][LEVEL] = l1 * mass
    if begun:
        active = [np.abs(v) > mass * weight for v, weight in zip(vectors[:k], l1, strict=False)]
        fill(line, V, vectors)
        fill(line, KEY, [on & (weight > 0) for on, weight in zip(active, l1, strict=False)])
        room += 2 * int(np.sum(active))
        if lazy["weigh"]:
            fill(line, R, stacked(state.totals.x, state.totals.y))
            fill(line, SHARE, [known - mass * on for known, on in zip(share, active, strict=True)])
    lazy["keys"], lazy["owners"] = np.zeros(room), np.zeros(room, dtype=np.int64)
    _heat(state, lazy, vectors)
    return begun


def _heat(state: Any, lazy: dict[str, Any], vectors: list[Array]) -> None:
    """Make the special coordinates hot, and after them those of the trace."""
    k, special = len(state.x), lazy["special"]
    trace = np.zeros(state.x.shape[1]) if state.trace is None else state.trace[0]
    names = np.concatenate([special, np.setdiff1d(np.flatnonzero(np.abs(trace) > TRACE_TOL), special)])
    n = len(names)
    _widen(lazy, n)
    hot = lazy["hot"][:n]
    hot[:, V : V + 2 * k] = np.array([v[names] for v in vectors]).T
    if lazy["weigh"]:
        hot[:, TOTAL : TOTAL + 2 * k] = np.array([v[names] for v in stacked(state.totals.x, state.totals.y)]).T
        hot[:, SHARES : SHARES + k] = state.more["share"][:, names].T
    hot[:, MULTIPLIER] = 1.0
    hot[: len(special), MULTIPLIER] = lazy["multiplier"]
    hot[:, TRACE], lazy["names"][:n], lazy["line"][names, MARK] = trace[names], names, np.arange(1, n + 1)
    lazy["counter"][HOT] = n


def _widen(lazy: dict[str, Any], more: int) -> None:
    """Room for `more` hot coordinates, and as many again as there are."""
    extra = len(lazy["names"]) + more
    lazy["names"] = np.append(lazy["names"], np.zeros(extra, dtype=np.int64))
    lazy["hot"] = np.append(lazy["hot"], np.zeros((extra, HOT_WIDTH)), axis=0)


def _point_of(state: Any, sums: Array, at: slice) -> Array:
    """x = S(v, l1 Σa_i)/(√Σ‖g_x‖² + l2 Σa_i)."""
    lazy, k, multiplier = state.lazy, len(sums), np.ones(sums.shape[1])
    here = (at.start <= lazy["special"]) & (lazy["special"] < at.stop)
    multiplier[lazy["special"][here] - at.start] = lazy["multiplier"][here]
    l1, l2 = float(state.record[MASS]) * lazy["fixed"][[L1, L2], :k]
    return argmin(0.0 * sums, -sums, float(state.record[GX]), l1, l2, multiplier)


def _flush(state: Any, lazy: dict[str, Any], forget: bool) -> None:
    flush(_lines(lazy), float(state.record[MASS]), forget)


def _lines(lazy: dict[str, Any]) -> Lines:
    return Lines(**{name: lazy[name] for name in Lines._fields})
