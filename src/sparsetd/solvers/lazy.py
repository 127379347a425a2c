"""The way from a streaming solver to the lazy kernels: which solvers they serve, and how a state goes there and back.

A solver that meets CSR rows keeps its iterates in `state.lazy`, a dict of plain values that a checkpoint can hold; its
dense arrays are filled in when somebody reads them. Entering copies the dense state and `settle` copies it back, so the
two can alternate: a dense batch in a sparse stream is taken as sparse rows, and a change of penalty or operator between
two chunks begins a new lazy state from the old values.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers import sparse
from sparsetd.solvers.sparse_kernels import Rows
from sparsetd.system import Array, Batch, Table

# "key" of what it was begun for, "lines" and "rule" of a sparse.State, and the step "settled" of the dense arrays.
Lazy = dict[str, Any]

# Codes of the dual ball in a streaming solver: 0 is ∞.
DUAL_NORM = {-1: None, 0: np.inf, 2: 2.0}


def serves(solver: Any, table: Table, shrinkage: tuple[Array, Array] | None) -> bool:
    """Whether a step moves all untouched coordinates alike: an elastic net, a Euclidean map, an l2 or l∞ ball or none.

    The l1 ball (fit_norm="inf"), a bound on ‖x‖, the p-norm maps, group penalties and the saddle point with u do not,
    nor does an extragradient step with damping; their rows are laid out densely.
    """
    euclidean = solver.exponent == 2 and not np.isfinite(solver.radius)
    plain = not (solver.boxed or solver.dual_damping or (solver.mirror and table.damping.any()))
    return shrinkage is not None and euclidean and plain and solver.ball in DUAL_NORM


def advance(
    solver: Any,
    state: Any,
    batch: Batch,
    fresh: Array,
    old: Array,
    alpha: Array,
    table: Table,
    shrinkage: tuple[Array, Array] | None,
    factor: Array | None,
    limit: float,
) -> int:
    """Take the rows of `batch`; returns how many were taken before a product left ±`limit`."""
    if shrinkage is None:
        raise ValueError("the lazy kernels need a penalty that is separable; ask `serves` first")
    setting = _setting(solver, shrinkage)
    key = _key(setting, table, factor)
    if state.lazy is None or state.lazy["key"] != key:
        settle(state)
        begun = _enter(setting, state, table, factor)
        state.lazy = {"key": key, "settled": state.t, "lines": {}, "rule": begun.rule._asdict()}
    else:
        begun = sparse.restore(state.lazy["lines"], state.lazy["rule"])
    columns = {"reward": batch.reward, "discount": batch.discount, "fresh": fresh, "fading": old, "alpha": alpha}
    taken = begun.update(rows(batch.phi), rows(batch.phi_next), {**columns, "weight": alpha}, limit)
    state.lazy["lines"] = begun.lines._asdict()
    return taken


def settle(state: Any) -> None:
    """Fill the dense arrays of the state; O(d), and nothing to do where they are up to date."""
    if state.lazy is None or state.lazy["settled"] == state.t:
        return
    kept = sparse.restore(state.lazy["lines"], state.lazy["rule"])
    x, y, x_sum, y_sum = kept.materialise()
    state.x[:] = x
    if len(y):
        state.y[:] = y
    if len(x_sum):
        state.totals.x[:] = x_sum
    if len(y_sum):
        state.totals.y[:] = y_sum
    if isinstance(kept, sparse.SparseState) and state.trace is not None:
        state.trace[0] = kept.trace()
    state.lazy["settled"] = state.t


def leave(state: Any) -> None:
    """Continue in the dense arrays, or with a new lazy state after they have been changed."""
    settle(state)
    state.lazy = None


def rows(matrix: Any) -> Rows:
    """CSR rows for the kernels, always of the same types: another type would compile another kernel.

    To Numba a read-only array (a memory map, Arrow's memory) is another type; the kernels only read, so it is lent to
    them as if it were not.
    """
    csr = sp.csr_array(matrix)
    return Rows(_lent(csr.data, np.float64), _lent(csr.indices, np.int32), _lent(csr.indptr, np.int64))


def _lent(array: Array, dtype: Any) -> Array:
    """The array itself, or a view of it that does not say that it is read-only; a copy only for another type."""
    plain = np.ascontiguousarray(array, dtype=dtype)
    return plain if plain.flags.writeable else np.asarray(_Lender(plain))


class _Lender:
    """Presents the memory of an array, which it keeps alive, without the mark that it is read-only."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _setting(solver: Any, shrinkage: tuple[Array, Array]) -> sparse.Setting:
    l1, l2 = (tuple(float(v) for v in part) for part in shrinkage)
    constant = None if callable(solver.step_size) else float(solver.step_size)
    average = solver.average != "none"
    return sparse.Setting(solver.mirror, DUAL_NORM[solver.ball], l1, l2, constant, average, average)


def _enter(setting: sparse.Setting, state: Any, table: Table, factor: Array | None) -> sparse.State:
    """A lazy state with the values of the dense one, whose pending projections are applied."""
    x, none = state.primal, np.zeros((0, state.x.shape[1]))
    y = none if state.y is None else state.dual
    y_sum = none if state.y is None else state.totals.y
    state.pending[:] = 1.0
    trace = None if state.trace is None else state.trace[0]
    return sparse.begin(setting, table, x, y, state.totals.x, y_sum, factor, trace)


def _key(setting: sparse.Setting, table: Table, factor: Array | None) -> str:
    """A digest of everything that a lazy state holds fixed."""
    arrays = (table.M, table.m, table.damping, np.ones(0) if factor is None else factor)
    parts = (repr(setting).encode(), repr(table.lam).encode(), *(np.asarray(v, dtype=float).tobytes() for v in arrays))
    return hashlib.sha256(b"|".join(parts)).hexdigest()
