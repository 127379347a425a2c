"""Regularised dual averaging on the saddle point: every iterate is truly sparse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers import adaptive_kernels as kernels
from sparsetd.solvers import sparse_dual_averaging
from sparsetd.solvers.adaptive import Adaptive, AdaptiveState
from sparsetd.solvers.sparse_adaptive import Rows
from sparsetd.solvers.streaming import DUAL_BALL, Average, FitNorm
from sparsetd.solvers.streaming import _limit as limit
from sparsetd.system import Array, Table


@dataclass
class DualAveragingState(AdaptiveState):
    """The sums of gradients that the point is a function of, and how often each coordinate was not zero."""

    sum_x: Array = field(default_factory=lambda: np.zeros((1, 0)))
    sum_y: Array = field(default_factory=lambda: np.zeros((1, 0)))
    share: Array = field(default_factory=lambda: np.zeros((1, 0)))
    earlier_share: Array = field(default_factory=lambda: np.zeros((1, 0)))

    def _point(self) -> Array:
        return sparse_dual_averaging.point(self)

    def _fill(self) -> None:
        sparse_dual_averaging.settle(self)


@dataclass(frozen=True)
class DualAveraging(Adaptive):
    """min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x) with the point a function of the sums of all gradients:

        x = argmin ⟨Σa_i g_x, x⟩ + Σa_i h(x) + ½√Σ‖g_x‖² ‖x − x_0‖²      y = Π(R Σa_i g_y / √Σa_i²‖g_y‖²)

    with a_i = max(r̄_i, r_0) and gradients at trial points, which include the row's own gradient (dual extrapolation).
    The threshold Σa_i ρ grows as fast as the sum of gradients itself: a coordinate is exactly zero unless its *mean*
    gradient exceeds ρ, where a proximal step only ever shaves off αρ. Sparsity counts from x_0 = 0.

    The average of sparse points is not sparse. With `sparse` it is reported with zeros where the points it averages
    were zero for at least half of the weight; average='none' reports the last point as it is.

    References
    ----------
    Xiao (2010), Dual averaging methods for regularized stochastic learning and online optimization.
    Nesterov (2007), Dual extrapolation and its applications to solving variational inequalities and related problems.
    """

    average: Average = "suffix"
    fit_norm: FitNorm = 2
    sparse: bool = True

    saddle: ClassVar[bool] = True
    start: ClassVar[float] = 0.3

    @property
    def ball(self) -> int:
        return DUAL_BALL[self.fit_norm]

    def _begin(self, x: Array, y: Array | None) -> DualAveragingState:
        zeros: dict[str, Any] = {name: np.zeros_like(x) for name in ("sum_x", "sum_y", "share", "earlier_share")}
        return DualAveragingState(**vars(super()._begin(x, y)), **zeros)

    def _run_kernel(self, state: Any, columns: tuple[Array, ...], constants: tuple[Any, ...]) -> int:
        share = None if self.average == "none" else state.share
        return int(
            kernels.dual_averaging(
                *columns, state.x, state.y, *self._sums(state), share, state.origin, state.trace, state.record,
                state.sum_x, state.sum_y, *constants, self.ball, self._dual_radius(state.x.size), self.radius,
                self.start, limit(state.x.dtype),
            )
        )  # fmt: skip

    def _run_sparse(
        self,
        state: Any,
        phi: Rows,
        phi_next: Rows,
        columns: tuple[Array, ...],
        table: Table,
        constants: tuple[Any, ...],
    ) -> int:
        del constants
        rule = (self._dual_radius(state.x.size), self.start, limit(state.x.dtype))
        return sparse_dual_averaging.dual_averaging(state, phi, phi_next, columns, table, *rule)

    def _enter(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> None:
        sparse_dual_averaging.enter(state, self.average != "none", l1, l2, factor)

    def _take_sums(self, state: Any) -> None:
        sparse_dual_averaging.take_sums(state)

    def _serves(self, state: Any, l1: Array, l2: Array, factor: Array | None) -> bool:
        """Untouched coordinates are a function of their own sums and of scalars: from x_0 = 0, with the l2 ball."""
        del l1, l2, factor
        from_zero = state.lazy is not None or not state.origin.any()
        return self.ball == 2 and not np.isfinite(self.radius) and from_zero

    def _rotate(self, state: Any) -> None:
        before = state.totals
        super()._rotate(state)
        if state.totals is not before:
            state.earlier_share, state.share = state.share, np.zeros_like(state.share)

    def _reported(self, state: Any) -> tuple[Array, Array | None]:
        x, y = super()._reported(state)
        if self.average == "none" or not self.sparse:
            return x, y
        suffix = self.average == "suffix"
        weight = state.totals.weight + (state.earlier.weight if suffix else 0.0)
        share = state.share + state.earlier_share if suffix else state.share
        # Equal weights make exact ties common; rounding must not decide them.
        return np.where(2.0 * share > (1.0 + 1e-9) * weight, x, 0.0).astype(x.dtype), y
