"""What the streaming solvers share: their state, the averages, and the way into the kernels."""

from __future__ import annotations

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
        shape = (table.n_blocks, n_features)
        x = _aligned_zeros(shape, dtype)
        if coef_init is not None:
            x[-1] = coef_init
        y = _aligned_zeros(shape, dtype) if self.saddle else None
        u = _aligned_zeros(shape, dtype) if self.boxed else None
        trace = np.zeros((2, n_features), dtype) if table.lam > 0 else None
        return StreamState(x, y, u, trace, self._empty(x, y), self._empty(x, y))

    def update(
        self, state: StreamState, batch: Batch, table: Table, penalty: PenaltyLike, factor: Array | None = None
    ) -> StreamState:
        """Take the rows of `batch` in order."""
        fresh, old = trace_weights(table, batch, state.carry)
        alpha = steps(self.step_size, state.t, len(batch))
        at_once = len(batch) if self._lazily(state, batch, table, penalty) else _rows_at_once(batch)
        done = 0
        while done < len(batch) and not state.diverged:
            stop = min(len(batch), done + self._until_rotation(state.t), done + at_once)
            rows = slice(done, stop)
            part = batch if stop - done == len(batch) else batch[rows]  # a slice of CSR rows is a copy
            self._advance(state, part, fresh[rows], old[rows], alpha[rows], table, penalty, factor)
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

    def _advance(
        self,
        state: StreamState,
        batch: Batch,
        fresh: Array,
        old: Array,
        alpha: Array,
        table: Table,
        penalty: PenaltyLike,
        factor: Array | None,
    ) -> None:
        """Rows that one kernel can take in one call: the lazy one where rows are sparse, else a dense one."""
        self._rotate(state)
        shrinkage = penalty.shrinkage(table.n_blocks)
        if shrinkage is not None and self._lazily(state, batch, table, penalty):
            limit = _limit(state.x.dtype)
            taken = lazy.advance(self, state, batch, fresh, old, alpha, table, shrinkage, factor, limit)
        else:
            lazy.leave(state)
            phi, phi_next = (_rows(r, state.x.dtype) for r in (batch.phi, batch.phi_next))
            columns = (phi, phi_next, batch.reward, batch.discount, fresh, old, alpha)
            if shrinkage is None and getattr(penalty, "groups", None) is None:
                taken = plain.stream(self, state, columns, table, penalty, factor)
            else:
                taken = self._run_kernel(state, columns, table, shrinkage, factor, penalty)
        state.t += taken
        # A running sum, not a sum of sums: every split of the stream must give the same bits.
        state.totals.weight = float(np.cumsum(np.append(state.totals.weight, alpha[:taken]))[-1])
        state.diverged = taken < len(batch)

    def _run_kernel(
        self,
        state: StreamState,
        columns: tuple[Array, ...],
        table: Table,
        shrinkage: tuple[Array, Array] | None,
        factor: Array | None,
        penalty: Any,
    ) -> int:
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
            memory, balls = (state.trace, state.pending, np.zeros((2, 6, 7))), (self.ball == 2, clip, radius)
            return int(kernels.stream(*moving, *memory, *system, l1, ridge, weights, *balls, limit))
        l1, l2 = (np.zeros(k), np.zeros(k)) if shrinkage is None else shrinkage
        groups = None if shrinkage is not None else np.asarray(penalty.groups, dtype=np.int64)
        group_l1 = np.zeros((k, 0)) if shrinkage is not None else penalty.group_weights(k, factor)
        middle = tuple(None if v is None else np.empty_like(v) for v in blocks) if self.mirror else (None,) * 4
        shape = (l1, l2, weights, groups, group_l1, self.ball, self.radius, self.dual_damping, self.exponent, limit)
        return int(kernels.stream_stepwise(*moving, *_split(state.u, k), *middle, state.trace, *system, *shape))

    def _lazily(self, state: StreamState, batch: Batch, table: Table, penalty: PenaltyLike) -> bool:
        """A stream that began with sparse rows stays lazy: the kernel must not depend on how the stream is cut."""
        sparse = batch.is_sparse or state.lazy is not None
        return sparse and lazy.serves(self, table, penalty.shrinkage(table.n_blocks))

    @property
    def _one_pass(self) -> bool:
        """Nothing has to be done to the state between the passes of two rows."""
        return not (self.mirror or self.boxed or self.dual_damping or self.ball == 1) and self.exponent == 2

    @staticmethod
    def _empty(x: Array, y: Array | None) -> Totals:
        return Totals(_aligned_zeros(x.shape, x.dtype), None if y is None else _aligned_zeros(y.shape, y.dtype))

    def _until_rotation(self, t: int) -> int:
        """Rows until the next power of two, where a suffix average forgets its older half."""
        if self.average != "suffix":
            return np.iinfo(np.int64).max
        return (1 << t.bit_length()) - t

    def _rotate(self, state: StreamState) -> None:
        if self.average == "suffix" and state.t >= 2 and state.t & (state.t - 1) == 0:
            lazy.leave(state)
            state.earlier, state.totals = state.totals, self._empty(state.x, state.y)


def _aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros whose rows begin on cache lines: vector registers that straddle two cost half as much again."""
    line = 64 // np.dtype(dtype).itemsize
    stride = -(-shape[1] // line) * line
    memory = np.zeros(shape[0] * stride + line, dtype)
    skip = -memory.ctypes.data % 64 // memory.itemsize
    return memory[skip : skip + shape[0] * stride].reshape(shape[0], stride)[:, : shape[1]]


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
