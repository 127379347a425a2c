"""Regularised dual averaging on the saddle point: every iterate is truly sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers.adaptive import Automatic
from sparsetd.solvers.compiled import averaging
from sparsetd.solvers.compiled.balls import DUAL_BALL, L2_BALL
from sparsetd.solvers.compiled.rules import GY, MASS
from sparsetd.solvers.laws import sums
from sparsetd.solvers.state import LAWS, StreamState
from sparsetd.solvers.stream import FitNorm, System
from sparsetd.system import Array, Table

LAWS["sums"] = sums


@dataclass(frozen=True)
class DualAveraging(Automatic):
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

    fit_norm: FitNorm = 2
    sparse: bool = True

    saddle: ClassVar[bool] = True
    start: ClassVar[float] = 0.3

    @property
    def ball(self) -> int:
        return DUAL_BALL[self.fit_norm]

    @property
    def _simple(self) -> bool:
        return self.ball == L2_BALL and not np.isfinite(self.radius)

    def init(
        self, table: Table, n_features: int, dtype: Any = np.float64, coef_init: Array | None = None
    ) -> StreamState:
        state = super().init(table, n_features, dtype, coef_init)
        names = ("sum_x", "sum_y", "share", "earlier_share")
        state.more = {name: np.zeros(state.x.shape, dtype) for name in names}
        return state

    def _law(self, state: StreamState, system: System) -> str | None:
        """Untouched coordinates are a function of their own sums and of scalars: from x_0 = 0, with the l2 ball."""
        del system
        return "sums" if self._simple and not state.origin.any() else None

    def _advance(self, state: StreamState, columns: tuple[Array, ...], system: System) -> int:
        more, (x_sum, y_sum) = state.more, self._sums(state)
        share = None if self.average == "none" else more["share"]
        rule = (system.l1, system.l2, system.factor, self.dual_radius(state.x.size), float(self.start))
        given = (*rule, self.limit(state))
        if not self._simple:
            state.apply_pending()
            points = (tuple(state.x), tuple(state.y), *(None if v is None else tuple(v) for v in (x_sum, y_sum)))  # type: ignore[arg-type]
            rest = (share, tuple(state.origin), state.trace, state.record, more["sum_x"], more["sum_y"])
            kernel = averaging.stepwise
            return int(kernel(*columns[:-1], *points, *rest, system.M, system.m, *given, self.ball, self.radius))
        origin = tuple(state.origin) if state.origin.any() else None
        totals = tuple(None if v is None else tuple(v) for v in (x_sum, y_sum))
        taken = averaging.stream(
            *columns[:-1], *totals, share, origin, state.trace, state.record, more["sum_x"], more["sum_y"],
            system.M, system.m, *given,
        )  # fmt: skip
        self._point(state, system)
        return int(taken)

    def _point(self, state: StreamState, system: System) -> None:
        """x and y from the sums."""
        k, mass, total = system.k, state.record[MASS], state.more["sum_y"].astype(np.float64)
        l1, l2 = mass * system.l1[2 - k : 2], mass * system.l2[2 - k : 2]
        state.x[:] = sums.argmin(state.origin, state.more["sum_x"], state.record, l1, l2, system.factor)
        scale = self.dual_radius(state.x.size) / np.sqrt(state.record[GY]) if state.record[GY] > 0 else 0.0
        y = scale * total
        state.y[:] = y / max(1.0, float(np.linalg.norm(y)))  # type: ignore[index]

    def _rotate(self, state: StreamState) -> None:
        before = state.totals
        super()._rotate(state)
        if state.totals is not before:
            state.more["earlier_share"], state.more["share"] = state.more["share"], np.zeros_like(state.more["share"])

    def _averaged(self, state: StreamState, last: Array, dual: Array | None) -> tuple[Array, Array | None]:
        x, y = super()._averaged(state, last, dual)
        if self.average == "none" or not self.sparse:
            return x, y
        suffix = self.average == "suffix"
        weight = state.totals.weight + (state.earlier.weight if suffix else 0.0)
        share = state.more["share"] + state.more["earlier_share"] if suffix else state.more["share"]
        # Equal weights make exact ties common; rounding must not decide them.
        return np.where(2.0 * share > (1.0 + 1e-9) * weight, x, 0.0).astype(x.dtype), y
