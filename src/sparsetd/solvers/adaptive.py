"""Steps that nobody sets: distance over gradients, for the stochastic iterations and for the saddle point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers import adaptive_kernels as kernels
from sparsetd.solvers import sparse_adaptive
from sparsetd.solvers.streaming import DUAL_BALL, Average, FitNorm, PenaltyLike, StreamState, Totals
from sparsetd.solvers.streaming import _limit as limit
from sparsetd.solvers.streaming import _rows as contiguous
from sparsetd.solvers.streaming import _rows_at_once as rows_at_once
from sparsetd.system import Array, Batch, Solution, Table, trace_weights


@dataclass
class AdaptiveState(StreamState):
    """A stream whose steps depend on what it has seen: x_0 and the scalars that the kernels keep."""

    origin: Array = field(default_factory=lambda: np.zeros((1, 0)))
    record: Array = field(default_factory=lambda: np.zeros(kernels.RECORD))

    @property
    def primal(self) -> Array:
        if self.lazy is None or self.lazy["settled"] == self.t:
            return self.x.copy()
        return self._point().astype(self.x.dtype, copy=False)

    @property
    def dual(self) -> Array | None:
        self.settle()
        return None if self.y is None else self.y.copy()

    def settle(self) -> None:
        """Fill the dense arrays, if the iterates live elsewhere and have moved since."""
        if self.lazy is not None and self.lazy["settled"] != self.t:
            self._fill()
            self.lazy["settled"] = self.t

    def leave(self) -> None:
        """Go on in the dense arrays."""
        self.settle()
        self.lazy = None

    def _point(self) -> Array:
        return sparse_adaptive.point(self)

    def _fill(self) -> None:
        sparse_adaptive.settle(self)


@dataclass(frozen=True)
class Adaptive:
    """What the solvers without a step size share: the stream, its averages and the report."""

    average: Average = "suffix"
    radius: float = np.inf

    saddle: ClassVar[bool] = False
    dual_damping: ClassVar[float] = 0.0
    start: ClassVar[float] = 1.0  # r_0 = start·max_t ‖A_t x − b_t‖/‖A_t‖
    cap: ClassVar[float] = np.inf  # α ≤ cap over the mean of ‖A_t‖

    @property
    def ball(self) -> int:
        return -1

    @property
    def exponent(self) -> float:
        """Exponent of the mirror map of x: these steps are Euclidean."""
        return 2.0

    def init(
        self, table: Table, n_features: int, dtype: Any = np.float64, coef_init: Array | None = None
    ) -> AdaptiveState:
        """The state before the first row: θ = `coef_init` (or 0), w = 0, y = 0."""
        if self.saddle and table.damping.any():
            raise ValueError(
                f"operator {table.name!r} damps w, which a saddle-point solver cannot carry; "
                "use 'tdc', 'gtd2', 'gq', 'htd' or 'td'"
            )
        x = np.zeros((table.n_blocks, n_features), dtype)
        if coef_init is not None:
            x[-1] = coef_init
        return self._begin(x, np.zeros_like(x) if self.saddle else None)

    def update(
        self, state: AdaptiveState, batch: Batch, table: Table, penalty: PenaltyLike, factor: Array | None = None
    ) -> AdaptiveState:
        """Take the rows of `batch` in order."""
        shrinkage = penalty.shrinkage(table.n_blocks)
        if shrinkage is None:
            raise ValueError(
                f"{type(self).__name__} takes no penalty={penalty!r}: "
                "pass one that is separable (L1, Ridge, ElasticNet)"
            )
        weights = trace_weights(table, batch, state.carry)
        # To the kernels a read-only array is another type, for which they would be compiled again.
        columns = tuple(np.require(c, np.float64, ["C", "W"]) for c in (batch.reward, batch.discount, *weights))
        factor = None if factor is None else np.asarray(factor, dtype=state.x.dtype)
        constants = (table.M, table.m, table.damping, *shrinkage, factor)
        sparse = sparse_adaptive.rows_of(batch) if self._lazily(state, batch, shrinkage, factor) else None
        at_once = rows_at_once(batch) if sparse is None else len(batch)
        done = 0
        while done < len(batch) and not state.diverged:
            self._rotate(state)
            stop = min(len(batch), done + self._until_rotation(state.t), done + at_once)
            rows = slice(done, stop)
            numbers = tuple(c[rows] for c in columns)
            if sparse is None:
                directions = (contiguous(v[rows], state.x.dtype) for v in (batch.phi, batch.phi_next))
                taken = self._run_kernel(state, (*directions, *numbers), constants)
            else:
                phi, phi_next = (v.between(done, stop) for v in sparse)
                taken = self._run_sparse(state, phi, phi_next, numbers, table, constants)
            state.t += taken
            state.totals.weight = float(state.record[kernels.WEIGHT])
            state.diverged = taken < stop - done
            done = stop
        return state

    def result(self, state: AdaptiveState, table: Table, penalty: PenaltyLike, factor: Array | None = None) -> Solution:
        """The averaged point or, with average='none', the last one."""
        del table, penalty, factor
        state.settle()
        x, y = self._reported(state)
        return Solution(
            coef=np.array(x[-1]),
            coef_last=np.array(state.x[-1]),
            aux=np.array(x[0]) if len(x) == 2 else None,
            dual=y,
            n_iter=state.t,
            status="diverged" if state.diverged else "finished",
        )

    def _begin(self, x: Array, y: Array | None) -> AdaptiveState:
        trace = np.zeros(x.shape[1], x.dtype)
        return AdaptiveState(x, y, None, trace, self._empty(x, y), self._empty(x, y), origin=x.copy())

    def _run_kernel(self, state: Any, columns: tuple[Array, ...], constants: tuple[Any, ...]) -> int:
        raise NotImplementedError

    def _run_sparse(
        self,
        state: Any,
        phi: sparse_adaptive.Rows,
        phi_next: sparse_adaptive.Rows,
        columns: tuple[Array, ...],
        table: Table,
        constants: tuple[Any, ...],
    ) -> int:
        raise NotImplementedError

    def _serves(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> bool:
        """Whether the steps can be made in O(nnz)."""
        del state, l1, l2, factor
        return False

    def _enter(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> None:
        """Make the state ready for sparse rows."""
        raise NotImplementedError

    def _take_sums(self, state: Any) -> None:
        """Bring the weighted sums from the sparse state to the dense one, and begin new ones."""
        raise NotImplementedError

    def _lazily(self, state: Any, batch: Batch, shrinkage: tuple[Array, Array], factor: Array | None) -> bool:
        """A stream that began with sparse rows stays lazy: the kernel must not depend on how the stream is cut."""
        lazily = (batch.is_sparse or state.lazy is not None) and self._serves(state, *shrinkage, factor)
        if lazily:
            self._enter(state, *shrinkage, factor)
        else:
            state.leave()
        return lazily

    def _sums(self, state: AdaptiveState) -> tuple[Array | None, Array | None]:
        return (None, None) if self.average == "none" else (state.totals.x, state.totals.y)

    def _reported(self, state: AdaptiveState) -> tuple[Array, Array | None]:
        """(x̄, ȳ), or the last point while nothing has been averaged."""
        totals = {"all": [state.totals], "suffix": [state.totals, state.earlier], "none": []}[self.average]
        weight = sum(s.weight for s in totals)
        if not weight > 0:
            return state.x, None if state.y is None else state.y.copy()
        x = np.asarray(sum(s.x for s in totals) / weight, dtype=state.x.dtype)
        if state.y is None:
            return x, None
        return x, np.asarray(sum(s.y for s in totals if s.y is not None) / weight, dtype=state.x.dtype)

    @staticmethod
    def _empty(x: Array, y: Array | None) -> Totals:
        return Totals(np.zeros_like(x), None if y is None else np.zeros_like(y))

    def _until_rotation(self, t: int) -> int:
        """Rows until the next power of two, where a suffix average forgets its older half."""
        return (1 << t.bit_length()) - t if self.average == "suffix" else int(np.iinfo(np.int64).max)

    def _rotate(self, state: AdaptiveState) -> None:
        if self.average == "suffix" and state.t >= 2 and state.t & (state.t - 1) == 0:
            if state.lazy is not None:
                self._take_sums(state)
            state.earlier, state.totals = state.totals, self._empty(state.x, state.y)
            state.record[kernels.WEIGHT] = 0.0

    def _dual_radius(self, size: int) -> float:
        """l2 radius of the dual ball; 0 where no ball bounds y and x and y share one step."""
        return {0: float(np.sqrt(size)), -1: 0.0}.get(self.ball, 1.0)


@dataclass(frozen=True)
class DistanceOverGradients(Adaptive):
    """x ← prox_{αh}(x − α_t(A_t x − b_t)) with α_t = max(r̄_t, r_0)/√Σ_{i≤t}‖g_i‖², r̄_t = max_{i≤t}‖x_i − x_0‖ (DoG).

    The distance moved so far estimates the distance to go, and r_0 = max_t ‖A_t x − b_t‖/‖A_t‖ starts it. Both have the
    units of x, so the iterates follow a change of the units of rewards or features exactly. The factor in front is 1
    for a reason: on a monotone operator ‖x_{t+1} − x*‖² ≤ ‖x_t − x*‖² + r̄_t²‖g_t‖²/Σ‖g_i‖² lets x grow by no fixed
    factor per step, while at 2 the stochastic iterations of skew operators (GTD2) do. Where there is hardly any noise
    to hold it down, α is kept below 2 over the mean of the bounds ‖M‖(‖φ‖² + ‖ψ‖² + ‖e‖²) of ‖A_t‖, which are loose
    by a factor of about 3.

    `average` is that of the iterates with weights α_t, over all rows or over the last quarter to half of them
    ("suffix"). With `extragradient` the gradient is taken at a trial point (on the same row), and the trial points are
    averaged.

    References
    ----------
    Ivgi, Hinder & Carmon (2023), DoG is SGD's best friend: a parameter-free dynamic step size schedule.
    """

    extragradient: bool = False

    cap: ClassVar[float] = 2.0

    def _run_kernel(self, state: Any, columns: tuple[Array, ...], constants: tuple[Any, ...]) -> int:
        return int(
            kernels.distance_over_gradients(
                *columns, state.x, state.y, *self._sums(state), state.origin, state.trace, state.record, *constants,
                self.ball, self._dual_radius(state.x.size), self.dual_damping, self.radius, self.extragradient,
                self.start, self.cap, limit(state.x.dtype),
            )
        )  # fmt: skip

    def _run_sparse(
        self,
        state: Any,
        phi: sparse_adaptive.Rows,
        phi_next: sparse_adaptive.Rows,
        columns: tuple[Array, ...],
        table: Table,
        constants: tuple[Any, ...],
    ) -> int:
        _, _, damping, _, l2, _ = constants
        dual = 0 if state.y is None else len(damping)
        damping, l2 = np.append(damping, np.full(dual, self.dual_damping)), np.append(l2, np.zeros(dual))
        return sparse_adaptive.distance_over_gradients(
            state, phi, phi_next, columns, table, damping, l2, self.ball, self._dual_radius(state.x.size), self.radius,
            self.extragradient, self.start, self.cap, limit(state.x.dtype),
        )  # fmt: skip

    def _enter(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> None:
        del l1, l2, factor
        sparse_adaptive.enter(state, self.average != "none")

    def _take_sums(self, state: Any) -> None:
        sparse_adaptive.take_sums(state)

    def _serves(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> bool:
        """Untouched coordinates move alike without an l1 penalty or the l1 ball, and with one ridge for all."""
        del state
        alike = factor is None or not l2.any() or bool(np.all(factor == 1.0))
        return not l1.any() and alike and self.ball != 1


@dataclass(frozen=True)
class SaddleDistanceOverGradients(DistanceOverGradients):
    """min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x): extragradient steps, x by distance over gradients, y by R/√Σ‖g_y‖².

    R is the l2 radius of the dual ball, which is known. Without the trial point the iteration circles the saddle point
    and r̄ takes the radius of the circle for a distance to go. The steps fall as 1/√t, and with them the bias of using
    one row twice.
    """

    average: Average = "all"
    extragradient: bool = True
    fit_norm: FitNorm = 2

    saddle: ClassVar[bool] = True
    start: ClassVar[float] = 0.3
    cap: ClassVar[float] = np.inf  # y is bounded: what α multiplies has the units of ‖A_t‖, not of ‖A_t‖‖x‖

    @property
    def ball(self) -> int:
        return DUAL_BALL[self.fit_norm]


@dataclass(frozen=True)
class LeastSquaresDistanceOverGradients(DistanceOverGradients):
    """min_x max_y yᵀ(Ax − b) − ½‖y‖² + h(x) = min_x ½‖Ax − b‖² + h(x): one step for x and y, since no ball bounds y.

    An l1 penalty enters by its prox: the problem of `eq:formula2` without its box.
    """

    average: Average = "all"
    extragradient: bool = True

    saddle: ClassVar[bool] = True
    dual_damping: ClassVar[float] = 1.0
    cap: ClassVar[float] = np.inf
