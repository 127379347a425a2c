"""What the streaming solvers share: their state, the averages, and the way into the kernels."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from sparsetd.solvers import kernels, lazy, plain
from sparsetd.solvers.schedules import Schedule, steps
from sparsetd.system import Array, Batch, Solution, Table, TraceCarry, dense, trace_weights

Average = Literal["all", "suffix", "none"]
FitNorm = Literal[1, 2, "inf"]

# The dual ball of ‖·‖_m is that of the conjugate norm; codes as in kernels: 1, 2, 0 for ∞, −1 for none.
DUAL_BALL: dict[FitNorm, int] = {1: 0, 2: 2, "inf": 1}


class PenaltyLike(Protocol):
    """What a streaming solver asks of a penalty."""

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array: ...
    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None: ...


@dataclass
class Totals:
    """Σ α_i x_i and Σ α_i y_i with the sum of their weights."""

    x: Array
    y: Array | None
    weight: float = 0.0

    def clear(self) -> None:
        self.x[:], self.weight = 0.0, 0.0
        if self.y is not None:
            self.y[:] = 0.0


@dataclass
class StreamState:
    """Everything a stream must remember between two chunks; `update` advances it in place."""

    x: Array
    y: Array | None
    u: Array | None
    trace: Array | None
    totals: Totals
    earlier: Totals
    pending: Array = field(default_factory=lambda: np.ones(2))
    carry: TraceCarry = field(default_factory=TraceCarry)
    t: int = 0
    diverged: bool = False
    lazy: lazy.Lazy | None = None  # on sparse rows the iterates live here, and the arrays above are filled in on demand

    @property
    def primal(self) -> Array:
        """x with its pending projection applied."""
        lazy.settle(self)
        return np.asarray(self.pending[0] * self.x, dtype=self.x.dtype)

    @property
    def dual(self) -> Array | None:
        """y with its pending projection applied."""
        lazy.settle(self)
        return None if self.y is None else np.asarray(self.pending[1] * self.y, dtype=self.y.dtype)


@dataclass(frozen=True)
class Streaming:
    """The common machinery; a solver is a choice of the class constants and of the dual ball."""

    step_size: float | Schedule = 0.01
    average: Average = "all"
    radius: float = np.inf

    saddle: ClassVar[bool] = False
    boxed: ClassVar[bool] = False
    mirror: ClassVar[bool] = False
    dual_damping: ClassVar[float] = 0.0

    @property
    def ball(self) -> int:
        return -1

    @property
    def exponent(self) -> float:
        """Exponent of the mirror map of x."""
        return 2.0

    def init(
        self, table: Table, n_features: int, dtype: Any = np.float64, coef_init: Array | None = None
    ) -> StreamState:
        """The state before the first row: θ = `coef_init` (or 0), w = 0, y = 0."""
        if self.saddle and table.damping.any():
            raise ValueError(
                f"operator {table.name!r} damps w, which a saddle-point solver cannot carry; "
                "use 'tdc', 'gtd2', 'gq', 'htd' or 'td'"
            )
        k = table.n_blocks
        x, y, x_sum, y_sum, x_old, y_old = _apart(6 * k, n_features, dtype).reshape(6, k, n_features)
        if coef_init is not None:
            x[-1] = coef_init
        trace = np.zeros((2, n_features), dtype) if table.lam > 0 else None
        u = np.zeros_like(x) if self.boxed else None
        if self.saddle:
            return StreamState(x, y, u, trace, Totals(x_sum, y_sum), Totals(x_old, y_old))
        return StreamState(x, None, u, trace, Totals(x_sum, None), Totals(x_old, None))

    def update(
        self, state: StreamState, batch: Batch, table: Table, penalty: PenaltyLike, factor: Array | None = None
    ) -> StreamState:
        """Take the rows of `batch` in order."""
        columns = (*trace_weights(table, batch, state.carry), steps(self.step_size, state.t, len(batch)))
        shrinkage = penalty.shrinkage(table.n_blocks)
        # A stream that began with sparse rows stays lazy: the kernel must not depend on how the stream is cut.
        lazily = (batch.is_sparse or state.lazy is not None) and lazy.serves(self, table, shrinkage)
        at_once = len(batch) if lazily else _rows_at_once(batch)
        done = 0
        while done < len(batch) and not state.diverged:
            stop = min(len(batch), done + self._until_rotation(state.t), done + at_once)
            rows = slice(done, stop)
            part = batch if stop - done == len(batch) else batch[rows]  # a slice of CSR rows is a copy
            advance = self._advance_lazily if lazily else self._advance
            self._rotate(state)
            part_of = tuple(column[rows] for column in columns)
            taken, state.totals.weight = advance(state, part, part_of, table, penalty, shrinkage, factor)
            state.t += taken
            state.diverged = taken < stop - done
            done = stop
        return state

    def result(self, state: StreamState, table: Table, penalty: PenaltyLike, factor: Array | None = None) -> Solution:
        """The averaged point (`eq:averaging`) or, with average='none', the last one."""
        del table, penalty, factor
        lazy.settle(state)
        last, dual = state.primal, state.dual
        x, y = last, dual
        if self.average != "none":
            weight = float(steps(self.step_size, state.t, 1)[0]) if not self.mirror and not state.diverged else 0.0
            totals = [state.totals] if self.average == "all" else [state.totals, state.earlier]
            total = weight + sum(s.weight for s in totals)
            if total > 0:
                x = (sum(s.x for s in totals) + weight * last) / total
                if dual is not None:
                    y = (sum(s.y for s in totals if s.y is not None) + weight * dual) / total
        return Solution(
            coef=np.array(x[-1]),
            coef_last=last[-1],
            aux=np.array(x[0]) if len(x) == 2 else None,
            dual=None if y is None else np.array(y),
            n_iter=state.t,
            status="diverged" if state.diverged else "finished",
        )

    def _advance_lazily(
        self,
        state: StreamState,
        batch: Batch,
        columns: tuple[Array, ...],
        table: Table,
        penalty: PenaltyLike,  # noqa: ARG002 (as _advance)
        shrinkage: tuple[Array, Array] | None,
        factor: Array | None,
    ) -> tuple[int, float]:
        fresh, old, alpha = columns
        taken = lazy.advance(self, state, batch, fresh, old, alpha, table, shrinkage, factor, _limit(state.x.dtype))
        return taken, _running_sum(state.totals.weight, alpha[:taken])

    def _advance(
        self,
        state: StreamState,
        batch: Batch,
        columns: tuple[Array, ...],
        table: Table,
        penalty: PenaltyLike,
        shrinkage: tuple[Array, Array] | None,
        factor: Array | None,
    ) -> tuple[int, float]:
        """Take rows in one call of a kernel; returns how many before the iteration diverged, and the weights' sum."""
        lazy.leave(state)
        phi, phi_next = (_rows(r, state.x.dtype) for r in (batch.phi, batch.phi_next))
        columns = (phi, phi_next, batch.reward, batch.discount, *columns)
        if shrinkage is None and getattr(penalty, "groups", None) is None:
            taken = plain.stream(self, state, columns, table, penalty, factor)
            return taken, _running_sum(state.totals.weight, columns[-1][:taken])
        return self._run_kernel(state, columns, table, shrinkage, factor, penalty)

    def _run_kernel(
        self,
        state: StreamState,
        columns: tuple[Array, ...],
        table: Table,
        shrinkage: tuple[Array, Array] | None,
        factor: Array | None,
        penalty: Any,
    ) -> tuple[int, float]:
        """The fast kernel where one pass per row is enough, the general one elsewhere; both take the rows in order."""
        k, dtype, totals = table.n_blocks, state.x.dtype, state.totals
        alpha, limit = columns[-1], _limit(dtype)
        blocks = (*_split(state.x, k), *_split(state.y, k))
        sums = (*_split(totals.x, k), *_split(totals.y, k)) if self.average != "none" else (None,) * 4
        weights = None if factor is None else np.asarray(factor, dtype=dtype)
        moving = (*columns, alpha, *blocks, *sums)
        system = (table.M, table.m, table.damping)
        if shrinkage is not None and self._one_pass:
            l1, l2 = shrinkage
            clip = dtype.type(1.0) if self.ball == 0 else None
            radius = self.radius if np.isfinite(self.radius) else None
            if radius is None and state.pending[0] != 1.0:  # a bound that was lifted: the kernel no longer looks at it
                state.x[:], state.pending[0] = state.primal, 1.0
            ridge = l2 if l2.any() else None
            across = True if table.M[1].any() or table.M[:, 1].any() or table.m[1] else None
            room, balls = (state.trace, state.pending, np.zeros((2, 6, 7))), (self.ball == 2, clip, radius)
            penalised = (l1, ridge, weights, across)
            return kernels.stream(*moving, *room, *system, *penalised, *balls, limit, totals.weight)
        l1, l2 = (np.zeros(k), np.zeros(k)) if shrinkage is None else shrinkage
        groups = None if shrinkage is not None else np.asarray(penalty.groups, dtype=np.int64)
        group_l1 = np.zeros((k, 0)) if shrinkage is not None else penalty.group_weights(k, factor)
        middle = tuple(None if v is None else np.empty_like(v) for v in blocks) if self.mirror else (None,) * 4
        shape = (l1, l2, weights, groups, group_l1, self.ball, self.radius, self.dual_damping, self.exponent)
        rest = (*_split(state.u, k), *middle, state.trace)
        return kernels.stream_stepwise(*moving, *rest, *system, *shape, limit, totals.weight)

    @property
    def _one_pass(self) -> bool:
        """Nothing has to be done to the state between the passes of two rows."""
        return not (self.mirror or self.boxed or self.dual_damping or self.ball == 1) and self.exponent == 2

    def _until_rotation(self, t: int) -> int:
        """Rows until the next power of two, where a suffix average forgets its older half."""
        if self.average != "suffix":
            return sys.maxsize
        return (1 << t.bit_length()) - t

    def _rotate(self, state: StreamState) -> None:
        if self.average == "suffix" and state.t >= 2 and state.t & (state.t - 1) == 0:
            lazy.leave(state)
            state.earlier, state.totals = state.totals, state.earlier
            state.totals.clear()


def _apart(n_rows: int, n_features: int, dtype: Any) -> Array:
    """Zeros whose rows begin on cache lines, each five lines further into a page of 4096 bytes than the one before.

    A vector register across two lines costs half as much again, and a store at the same place of a page as a load of
    another row makes the load wait: with all rows at one place a step takes twice as long.
    """
    item = np.dtype(dtype).itemsize
    lines = -(-n_features * item // 64)
    stride = (lines + (5 - lines) % 64) * 64 // item
    memory = np.zeros(n_rows * stride + 64 // item, dtype)
    skip = -memory.ctypes.data % 64 // item
    return memory[skip : skip + n_rows * stride].reshape(n_rows, stride)[:, :n_features]


def _running_sum(total: float, values: Array) -> float:
    """total + v₁ + v₂ + … in this order, not a sum of sums: every split of the stream must give the same bits."""
    if not len(values):
        return total
    running = values.copy()
    running[0] += total
    return float(np.cumsum(running, out=running)[-1])


def _split(v: Array | None, k: int) -> tuple[Array | None, Array | None]:
    """(w, θ) of a stacked array; w is None in a system of θ alone."""
    if v is None:
        return None, None
    return (v[0], v[1]) if k == 2 else (None, v[0])


def _rows(rows: Any, dtype: Any) -> Array:
    """Rows as the kernels want them: contiguous, and writable, since a read-only array is another type to them."""
    array = dense(rows, dtype)
    return array if array.flags.writeable else array.copy()


def _rows_at_once(batch: Batch) -> int:
    """Sparse rows are laid out densely a few at a time, at most 32 MB."""
    return max(1, 2**22 // batch.n_features) if batch.is_sparse else len(batch)


def _limit(dtype: Any) -> float:
    """A product beyond this cannot come back: the iteration has diverged."""
    return 1e100 if np.dtype(dtype) == np.float64 else 1e30
