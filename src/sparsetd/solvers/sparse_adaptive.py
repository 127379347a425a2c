"""The way from the automatic steps to their sparse kernels, and how a state goes there and back.

On CSR rows the iterates live in `state.lazy`, a dict of plain values that a checkpoint can hold; the dense arrays of
the state are filled in when somebody reads them (`settle`). Entering copies them, so dense and sparse rows alternate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsetd.solvers import sparse_adaptive_kernels as kernels
from sparsetd.solvers.lazy import rows
from sparsetd.solvers.sparse import aligned_zeros
from sparsetd.system import Array, Batch, Table

TRACE_TOL = 1e-12  # as where the step is set by hand
GENERATIONS = 256
ROOM = 72  # and multiples of 512 on top of it: the rows of `hot` must not fall on the same cache sets


class Rows(NamedTuple):
    """CSR rows, of which a slice is no copy; `values` is empty where every stored entry is 1."""

    values: Array
    indices: Array
    indptr: Array

    def between(self, first: int, stop: int) -> Rows:
        return self._replace(indptr=self.indptr[first : stop + 1])


def rows_of(batch: Batch) -> tuple[Rows, Rows]:
    """φ and φ' for the kernels."""
    return Rows(*rows(batch.phi)), Rows(*rows(batch.phi_next))


def enter(state: Any, averages: bool) -> None:
    """Go on in lines that hold the values of the dense state; nothing to do where they do already."""
    n_vectors, d = (1 if state.y is None else 2) * len(state.x), state.x.shape[1]
    n_sums = averages * n_vectors
    if state.lazy is not None and state.lazy["n_sums"] == n_sums:
        return
    state.leave()
    vectors, totals = _stacked(state.x, state.y), _stacked(state.totals.x, state.totals.y)
    state.lazy = {
        "settled": state.t,
        "n_sums": n_sums,
        "line": aligned_zeros(d, 1 << (n_vectors + n_sums).bit_length()),
        "hot": np.zeros((kernels.HOT_ROWS, ROOM)),
        "names": np.zeros(ROOM, dtype=np.int64),
        "scale": np.tile([1.0, 0.0], (n_vectors, 1)),
        "chain": np.tile([1.0, 0.0], (GENERATIONS, n_vectors, 1)),
        "norms": _norms(vectors, state.origin),
        "counter": np.zeros(4, dtype=np.int64),
        "room": np.zeros((7, 3 * n_vectors)),
    }
    for place, vector in enumerate([*vectors, *totals[:n_sums]]):
        if vector.any():  # memory that is never written costs nothing
            state.lazy["line"][:, place] = vector
    _heat(state, vectors, totals)


def point(state: Any) -> Array:
    """x, O(d)."""
    return _materialised(state, len(state.x), 0)[0]


def settle(state: Any) -> None:
    """Fill the dense arrays of the state, O(d)."""
    k, lazy = len(state.x), state.lazy
    values, sums = _materialised(state, len(lazy["scale"]), lazy["n_sums"])
    state.x, state.y = split(values, k, state.x.dtype)
    if len(sums):
        state.totals.x, state.totals.y = split(sums, k, state.x.dtype)
    settle_trace(state)


def settle_trace(state: Any) -> None:
    """Fill the dense trace."""
    n_hot = state.lazy["counter"][kernels.HOT]
    state.trace[:] = 0.0
    state.trace[state.lazy["names"][:n_hot]] = state.lazy["hot"][kernels.TRACE, :n_hot]


def take_sums(state: Any) -> None:
    """Move the weighted sums from the lines to the dense arrays, and begin new ones."""
    sums = np.empty((state.lazy["n_sums"], state.x.shape[1]))
    _flush(state, sums)
    state.totals.x, state.totals.y = split(sums, len(state.x), state.x.dtype)


def distance_over_gradients(
    state: Any, phi: Rows, phi_next: Rows, columns: tuple[Array, ...], table: Table, *system: Any
) -> int:
    """Take rows whose columns are reward, discount, fresh and old; returns how many were taken.

    `system` is passed on to the kernel: damping and ridge of every vector, and the rule from `ball` on.
    """
    lazy, taken, n = state.lazy, 0, len(columns[0])
    while True:
        taken += kernels.distance_over_gradients(
            *phi.between(taken, n), *phi_next.between(taken, n), *(column[taken:] for column in columns),
            *(lazy[name] for name in ("line", "hot", "names", "scale", "chain", "norms", "counter", "room")),
            _origin(state), state.record, len(state.x), lazy["n_sums"], tolerance(table), horizon(state.x.shape[1]),
            table.M, table.m, *system,
        )  # fmt: skip
        if not lazy["counter"][kernels.FULL]:
            return taken
        widen(lazy, longest(phi, phi_next))


def tolerance(table: Table) -> float:
    """Entries of the trace of at most this size are dropped; without traces it has no past at all."""
    return TRACE_TOL if table.lam > 0 else np.inf


def longest(phi: Rows, phi_next: Rows) -> int:
    """The most coordinates that a row can touch."""
    return sum(int(np.diff(rows.indptr).max(initial=0)) for rows in (phi, phi_next))


def horizon(d: int) -> int:
    """Rows between flushes: so many that a flush, O(d), costs little per row."""
    return max(4 * d, 1 << 16)


def _materialised(state: Any, n_vectors: int, n_sums: int) -> tuple[Array, Array]:
    """The first so many vectors and weighted sums."""
    values, sums = np.empty((n_vectors, state.x.shape[1])), np.empty((n_sums, state.x.shape[1]))
    parts = (state.lazy[name] for name in ("line", "hot", "names", "scale", "chain", "counter"))
    kernels.materialise(*parts, values, sums)
    return values, sums


def _norms(vectors: Array, origin: Array) -> Array:
    """‖v − v_0‖², ⟨v − v_0, v_0⟩ and ‖v_0‖² of every vector; v_0 is 0 for y."""
    norms = np.zeros((len(vectors), 3))
    for b, vector in enumerate(vectors):
        start = np.asarray(origin[b] if b < len(origin) else 0.0 * vector, dtype=np.float64)
        norms[b] = (vector - start) @ (vector - start), (vector - start) @ start, start @ start
    return norms


def _flush(state: Any, sums: Array) -> None:
    lazy = state.lazy
    lines = (lazy[name] for name in ("line", "hot", "scale", "chain", "norms", "counter"))
    kernels.flush(*lines, _origin(state), lazy["n_sums"], sums)


def _heat(state: Any, vectors: Array, totals: Array) -> None:
    """Make the coordinates of the trace hot."""
    lazy, names = state.lazy, np.flatnonzero(np.abs(state.trace) > TRACE_TOL)
    widen(lazy, len(names))
    hot, n, n_sums = lazy["hot"], len(names), lazy["n_sums"]
    hot[kernels.VALUE : kernels.VALUE + len(vectors), :n] = vectors[:, names]
    hot[kernels.TOTAL : kernels.TOTAL + n_sums, :n] = totals[:n_sums, names]
    hot[kernels.ORIGIN : kernels.ORIGIN + len(state.x), :n] = state.origin[:, names]
    hot[kernels.TRACE, :n], lazy["names"][:n], lazy["line"][names, -1] = state.trace[names], names, np.arange(1, n + 1)
    lazy["counter"][kernels.HOT] = n


def widen(lazy: dict[str, Any], more: int) -> None:
    """Room for `more` hot coordinates, and as many again as there are."""
    room = 512 * (1 + (2 * len(lazy["names"]) + more) // 512) + ROOM
    hot, names = np.zeros((len(lazy["hot"]), room)), np.zeros(room, dtype=np.int64)
    hot[:, : len(lazy["names"])], names[: len(lazy["names"])] = lazy["hot"], lazy["names"]
    lazy["hot"], lazy["names"] = hot, names


def _origin(state: Any) -> Array:
    """x_0, or an array without rows where it is zero."""
    if not state.lazy["norms"][:, kernels.ORIGIN_SIZE].any():
        return np.zeros((0, 0))
    return np.asarray(state.origin, dtype=np.float64)


def _stacked(x: Array, y: Array | None) -> Array:
    return x if y is None else np.concatenate([x, y])


def split(vectors: Array, k: int, dtype: Any) -> tuple[Array, Array | None]:
    """(x, y) of stacked vectors."""
    x, y = vectors[:k].astype(dtype, copy=False), vectors[k:].astype(dtype, copy=False)
    return x, y if len(y) else None
