"""The law of dual averaging: the point is a function of sums of gradients (`compiled.sums`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.csr import TRACE_TOL, Rows, aligned_zeros, horizon, longest
from sparsetd.solvers.compiled.rules import GX, GY, MASS
from sparsetd.solvers.compiled.sums import (
    FULL,
    HOT,
    HOT_ROWS,
    LEVEL,
    MULTIPLIER,
    SHARE,
    SQUARES,
    SUM,
    TOTAL,
    TRACE,
    F,
    flush,
    materialise,
    stream,
)
from sparsetd.solvers.laws.lines import stacked, unstack
from sparsetd.system import Array

ROOM = 72  # and multiples of 512 on top of it: the rows of `hot` must not fall on the same cache sets


def key(solver: Any, system: Any) -> str:
    """What a lazy state is begun for. Another penalty counts from the current point on, which the dense steps leave as
    it is for one more row."""
    factor = None if system.factor is None else system.factor.tolist()
    return repr((solver.average != "none", system.l1.tolist(), system.l2.tolist(), factor))


def begin(solver: Any, state: Any, system: Any) -> dict[str, Any]:
    """Lines that hold the sums of the dense state; a feature with a penalty of its own takes part in every row."""
    (k, d), factor = state.x.shape, system.factor
    special = np.zeros(0, dtype=np.int64) if factor is None else np.flatnonzero(factor != 1.0)
    n_sums = 2 * k if solver.average != "none" else 0
    lazy: dict[str, Any] = {
        "n_sums": n_sums,
        "l1": system.l1[2 - k : 2].copy(),
        "l2": system.l2[2 - k : 2].copy(),
        "special": special,
        "multiplier": np.ones(0) if factor is None else np.asarray(factor[special], dtype=np.float64),
        "line": aligned_zeros(d, 1 << (3 * k + n_sums + n_sums // 2).bit_length()),
        "hot": np.zeros((HOT_ROWS, ROOM)),
        "names": np.zeros(ROOM, dtype=np.int64),
        "scale": np.zeros((2 * k, 3)),
        "active": np.zeros((2 * k, 4)),
        "counter": np.zeros(4, dtype=np.int64),
    }
    if _fill(state, lazy):
        _flush(state, lazy, forget=False)
    squares = np.array([state.record[GY], lazy["active"][k, SQUARES]])
    lazy["scale"][k, F] = 1.0 / np.sqrt(squares.max()) if squares[0] > 0 else 0.0
    return lazy


def advance(solver: Any, state: Any, phi: Rows, phi_next: Rows, columns: tuple[Array, ...], system: Any) -> int:
    """Take rows; returns how many before the run diverged."""
    lazy, taken, n = state.lazy, 0, len(columns[0])
    arrays = ("line", "hot", "names", "scale", "active", "keys", "owners", "counter")
    tol, work = TRACE_TOL if system.traced else np.inf, (np.zeros((6, 7)), np.zeros((6, 12)))
    rule = (solver.dual_radius(state.x.size), float(solver.start), solver.limit(state))
    while True:
        taken += stream(
            tuple(phi.between(taken, n)), tuple(phi_next.between(taken, n)), *(c[taken:] for c in columns[:4]),
            *(lazy[name] for name in arrays), work, state.record, len(state.x), lazy["n_sums"], len(lazy["special"]),
            tol, horizon(state.x.shape[1]), system.M, system.m, lazy["l1"], lazy["l2"], *rule,
        )  # fmt: skip
        if not lazy["counter"][FULL]:
            return taken
        _widen(lazy, longest(phi, phi_next))
        for name in ("keys", "owners"):
            lazy[name] = np.append(lazy[name], np.zeros(len(lazy[name]) + 4 * len(lazy["names"]), lazy[name].dtype))


def point(state: Any) -> Array:
    """x, O(d)."""
    return _point_of(state, _materialised(state, len(state.x), 0)[0])


def settle(state: Any) -> None:
    """Fill the dense arrays of the state, O(d)."""
    lazy, k = state.lazy, len(state.x)
    values, sums = _materialised(state, 2 * k, lazy["n_sums"])
    state.x[:] = _point_of(state, values[:k])
    state.y[:] = lazy["scale"][k, F] * values[k:]
    state.more["sum_x"][:], state.more["sum_y"][:] = -values[:k], values[k:]
    if len(sums):
        unstack(sums[: 2 * k], state.totals.x, state.totals.y)
        state.more["share"][:] = sums[2 * k :]
    if state.trace is not None:
        n = lazy["counter"][HOT]
        state.trace[0] = 0.0
        state.trace[0, lazy["names"][:n]] = lazy["hot"][TRACE, :n]


def take_sums(state: Any) -> None:
    """Move the weighted sums and shares from the lines to the dense arrays, and begin new ones."""
    k = len(state.x)
    _, sums = _materialised(state, 2 * k, 2 * k)
    unstack(sums[: 2 * k], state.totals.x, state.totals.y)
    state.more["share"][:] = sums[2 * k :]
    _flush(state, state.lazy, forget=True)


def _fill(state: Any, lazy: dict[str, Any]) -> bool:
    """Lines, hot coordinates and an empty heap with room for all active ones; returns whether there is any sum."""
    k, l1, mass, share = len(state.x), lazy["l1"], float(state.record[MASS]), state.more["share"]
    vectors = np.concatenate([-state.more["sum_x"], state.more["sum_y"]]).astype(np.float64)
    active = np.abs(vectors[:k]) > l1[:, None] * mass
    columns = [*vectors]
    if lazy["n_sums"]:
        columns += [*state.totals.x, *state.totals.y, *(share - mass * active)]
    for place, column in enumerate(columns):
        if column.any():  # memory that is never written costs nothing
            lazy["line"][:, place] = column
    if active.any():
        lazy["line"][:, -1 - k : -1] = (active & (l1[:, None] > 0)).T
    lazy["active"][:k, LEVEL] = l1 * mass
    room = 2 * int(active.sum()) + 8 * ROOM
    lazy["keys"], lazy["owners"] = np.zeros(room), np.zeros(room, dtype=np.int64)
    _heat(state, lazy, vectors)
    return bool(vectors.any())


def _heat(state: Any, lazy: dict[str, Any], vectors: Array) -> None:
    """Make the special coordinates hot, and after them those of the trace."""
    k, special, n_sums = len(state.x), lazy["special"], lazy["n_sums"]
    trace = np.zeros(state.x.shape[1]) if state.trace is None else state.trace[0]
    names = np.concatenate([special, np.setdiff1d(np.flatnonzero(np.abs(trace) > TRACE_TOL), special)])
    n = len(names)
    _widen(lazy, n)
    hot = lazy["hot"]
    hot[SUM : SUM + 2 * k, :n] = vectors[:, names]
    if n_sums:
        hot[TOTAL : TOTAL + n_sums, :n] = stacked(state.totals.x, state.totals.y)[:, names]
        hot[SHARE : SHARE + k, :n] = state.more["share"][:, names]
    hot[MULTIPLIER, :n] = 1.0
    hot[MULTIPLIER, : len(special)] = lazy["multiplier"]
    hot[TRACE, :n], lazy["names"][:n], lazy["line"][names, -1] = trace[names], names, np.arange(1, n + 1)
    lazy["counter"][HOT] = n


def _widen(lazy: dict[str, Any], more: int) -> None:
    """Room for `more` hot coordinates, and as many again as there are."""
    room = 512 * (1 + (2 * len(lazy["names"]) + more) // 512) + ROOM
    hot, names = np.zeros((HOT_ROWS, room)), np.zeros(room, dtype=np.int64)
    hot[:, : len(lazy["names"])], names[: len(lazy["names"])] = lazy["hot"], lazy["names"]
    lazy["hot"], lazy["names"] = hot, names


def _point_of(state: Any, sums: Array) -> Array:
    """x = S(v, l1 Σa_i)/(√Σ‖g_x‖² + l2 Σa_i)."""
    lazy, mass, multiplier = state.lazy, float(state.record[MASS]), np.ones(sums.shape[1])
    multiplier[lazy["special"]] = lazy["multiplier"]
    return argmin(0.0 * sums, -sums, float(state.record[GX]), mass * lazy["l1"], mass * lazy["l2"], multiplier)


def argmin(origin: Array, sums: Array, squares: float, l1: Array, l2: Array, factor: Array | None) -> Array:
    """argmin ⟨s, x⟩ + h(x) + ½√Σ‖g_x‖² ‖x − x_0‖² with h of weights l1 and l2; x_0 before the first gradient."""
    root, weigh = np.sqrt(squares), 1.0 if factor is None else factor
    if not root > 0:
        return origin
    x, bound = origin - sums / root, l1[:, None] * weigh / root
    return np.asarray((x - np.clip(x, -bound, bound)) / (1.0 + l2[:, None] * weigh / root))


def _materialised(state: Any, n_vectors: int, n_sums: int) -> tuple[Array, Array]:
    """v of the first vectors; Σ a x, Σ a y and the shares of x if asked for."""
    lazy, (k, d) = state.lazy, state.x.shape
    values, sums = np.empty((n_vectors, d)), np.empty((n_sums + n_sums // 2, d))
    parts = (lazy[name] for name in ("line", "hot", "names", "scale", "counter"))
    materialise(*parts, k, lazy["n_sums"], lazy["l1"], float(state.record[MASS]), values, sums)
    return values, sums


def _flush(state: Any, lazy: dict[str, Any], forget: bool) -> None:
    parts = (lazy[name] for name in ("line", "hot", "scale", "active", "keys", "owners", "counter"))
    flush(*parts, len(state.x), lazy["n_sums"], lazy["l1"], float(state.record[MASS]), forget)
