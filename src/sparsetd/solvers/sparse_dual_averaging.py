"""The way from dual averaging to its sparse kernel: as `sparse_adaptive`, but the lines hold sums of gradients.

The point is a function of them: x = S(−s_x, l1 Σa_i)/(√Σ‖g_x‖² + l2 Σa_i) and y = F s_y with F = 1/√Σa_i²‖g_y‖², or
less where that leaves the ball.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers import sparse_adaptive_kernels as kernels
from sparsetd.solvers.sparse import aligned_zeros
from sparsetd.solvers.sparse_adaptive import (
    ROOM,
    TRACE_TOL,
    Rows,
    horizon,
    longest,
    settle_trace,
    split,
    tolerance,
    widen,
)
from sparsetd.system import Array, Table


def enter(state: Any, averages: bool, l1: Array, l2: Array, factor: Array | None) -> None:
    """Go on in lines that hold the sums of the dense state; nothing to do where they do already.

    A feature with a penalty of its own takes part in every row. Another penalty begins new lines; it counts from the
    current point on, which the dense steps leave as it is for one more row.
    """
    k, d = state.x.shape
    special = np.zeros(0, dtype=np.int64) if factor is None else np.flatnonzero(factor != 1.0)
    multiplier = np.ones(0) if factor is None else np.asarray(factor[special], dtype=np.float64)
    n_sums = 2 * k if averages else 0
    made_for = {"n_sums": n_sums, "l1": l1, "l2": l2, "special": special, "multiplier": multiplier}
    if state.lazy is not None and all(np.array_equal(state.lazy[name], value) for name, value in made_for.items()):
        return
    state.leave()
    state.lazy = {
        **made_for,
        "settled": state.t,
        "line": aligned_zeros(d, 1 << (3 * k + n_sums + n_sums // 2).bit_length()),
        "hot": np.zeros((kernels.WIDE_ROWS, ROOM)),
        "names": np.zeros(ROOM, dtype=np.int64),
        "scale": np.zeros((2 * k, 3)),
        "active": np.zeros((2 * k, 4)),
        "counter": np.zeros(5, dtype=np.int64),
        "room": np.zeros((3, 6 * k)),
    }
    if _fill(state, l1):
        _flush(state, forget=False)
    squares = np.array([state.record[kernels.GY], state.lazy["active"][k, kernels.SQUARES]])
    state.lazy["scale"][k, kernels.F] = 1.0 / np.sqrt(squares.max()) if squares[0] > 0 else 0.0


def point(state: Any) -> Array:
    """x, O(d)."""
    return _point(state, _materialised(state, len(state.x), 0)[0])


def settle(state: Any) -> None:
    """Fill the dense arrays of the state, O(d)."""
    lazy, k, dtype = state.lazy, len(state.x), state.x.dtype
    values, sums = _materialised(state, 2 * k, lazy["n_sums"])
    state.x[:] = _point(state, values[:k])
    state.y[:] = lazy["scale"][k, kernels.F] * values[k:]
    state.sum_x, state.sum_y = split(values, k, dtype)
    np.negative(state.sum_x, out=state.sum_x)
    if len(sums):
        state.totals.x, state.totals.y = split(sums[: 2 * k], k, dtype)
        state.share = sums[2 * k :].astype(dtype, copy=False)
    settle_trace(state)


def take_sums(state: Any) -> None:
    """Move the weighted sums and shares from the lines to the dense arrays, and begin new ones."""
    k, dtype = len(state.x), state.x.dtype
    _, sums = _materialised(state, 2 * k, 2 * k)
    state.totals.x, state.totals.y = split(sums[: 2 * k], k, dtype)
    state.share = sums[2 * k :].astype(dtype, copy=False)
    _flush(state, forget=True)


def dual_averaging(
    state: Any, phi: Rows, phi_next: Rows, columns: tuple[Array, ...], table: Table, *rule: float
) -> int:
    """Take rows whose columns are reward, discount, fresh and old; returns how many were taken.

    `rule` is passed on to the kernel: the radius of the dual ball, what multiplies the first reach, and the limit.
    """
    lazy, taken, n = state.lazy, 0, len(columns[0])
    names = ("line", "hot", "names", "scale", "active", "keys", "owners", "counter", "room")
    while True:
        taken += kernels.dual_averaging(
            *phi.between(taken, n), *phi_next.between(taken, n), *(column[taken:] for column in columns),
            *(lazy[name] for name in names), state.record, len(state.x), lazy["n_sums"], len(lazy["special"]),
            tolerance(table), horizon(state.x.shape[1]), table.M, table.m, lazy["l1"], lazy["l2"], *rule,
        )  # fmt: skip
        if not lazy["counter"][kernels.FULL]:
            return taken
        widen(lazy, longest(phi, phi_next))
        for name in ("keys", "owners"):
            lazy[name] = np.append(lazy[name], np.zeros(len(lazy[name]) + 4 * len(lazy["names"]), lazy[name].dtype))


def _fill(state: Any, l1: Array) -> bool:
    """Lines, hot coordinates and an empty heap with room for all active ones; returns whether there is any sum."""
    lazy, k, mass = state.lazy, len(state.x), float(state.record[kernels.MASS])
    vectors = np.concatenate([-state.sum_x, state.sum_y]).astype(np.float64)
    active = np.abs(vectors[:k]) > l1[:, None] * mass
    columns = [*vectors]
    if lazy["n_sums"]:
        columns += [*state.totals.x, *state.totals.y, *(state.share - mass * active)]
    for place, column in enumerate(columns):
        if column.any():  # memory that is never written costs nothing
            lazy["line"][:, place] = column
    if active.any():
        lazy["line"][:, -1 - k : -1] = (active & (l1[:, None] > 0)).T
    lazy["active"][:k, kernels.LEVEL] = l1 * mass
    room = 2 * int(active.sum()) + 8 * ROOM
    lazy["keys"], lazy["owners"] = np.zeros(room), np.zeros(room, dtype=np.int64)
    _heat(state, vectors)
    return bool(vectors.any())


def _heat(state: Any, vectors: Array) -> None:
    """Make the special coordinates hot, and after them those of the trace."""
    lazy, k, special = state.lazy, len(state.x), state.lazy["special"]
    faded = np.setdiff1d(np.flatnonzero(np.abs(state.trace) > TRACE_TOL), special)
    names = np.concatenate([special, faded])
    n, n_sums = len(names), lazy["n_sums"]
    widen(lazy, n)
    hot = lazy["hot"]
    hot[kernels.SUM : kernels.SUM + 2 * k, :n] = vectors[:, names]
    if n_sums:
        hot[kernels.TOTAL : kernels.TOTAL + n_sums, :n] = np.concatenate([state.totals.x, state.totals.y])[:, names]
        hot[kernels.SHARE : kernels.SHARE + k, :n] = state.share[:, names]
    hot[kernels.MULTIPLIER, :n] = 1.0
    hot[kernels.MULTIPLIER, : len(special)] = lazy["multiplier"]
    hot[kernels.TRACE, :n], lazy["names"][:n], lazy["line"][names, -1] = state.trace[names], names, np.arange(1, n + 1)
    lazy["counter"][kernels.HOT] = n


def _point(state: Any, sums: Array) -> Array:
    """x = S(v, l1 Σa_i)/(√Σ‖g_x‖² + l2 Σa_i)."""
    lazy, mass, multiplier = state.lazy, float(state.record[kernels.MASS]), np.ones(sums.shape[1])
    multiplier[lazy["special"]] = lazy["multiplier"]
    root = np.sqrt(state.record[kernels.GX])
    x = np.zeros_like(sums)
    for b in range(len(x) if root > 0 else 0):
        bound = lazy["l1"][b] * mass * multiplier
        x[b] = (sums[b] - np.clip(sums[b], -bound, bound)) / (root + lazy["l2"][b] * mass * multiplier)
    return x


def _materialised(state: Any, n_vectors: int, n_sums: int) -> tuple[Array, Array]:
    """v of the first vectors; Σ a x, Σ a y and the shares of x if asked for."""
    lazy, (k, d) = state.lazy, state.x.shape
    values, sums = np.empty((n_vectors, d)), np.empty((n_sums + n_sums // 2, d))
    parts = (lazy[name] for name in ("line", "hot", "names", "scale", "counter"))
    mass = float(state.record[kernels.MASS])
    kernels.materialise_sums(*parts, k, lazy["n_sums"], lazy["l1"], mass, values, sums)
    return values, sums


def _flush(state: Any, forget: bool) -> None:
    lazy, mass = state.lazy, float(state.record[kernels.MASS])
    parts = (lazy[name] for name in ("line", "hot", "scale", "active", "keys", "owners", "counter"))
    kernels.flush_sums(*parts, len(state.x), lazy["n_sums"], lazy["l1"], mass, forget)
