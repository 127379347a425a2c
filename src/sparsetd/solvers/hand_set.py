"""Steps that are set by hand: the stochastic iterations, the paper's saddle point, and their Mirror-Prox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers.compiled.balls import DUAL_BALL
from sparsetd.solvers.compiled.rules import Fixed
from sparsetd.solvers.schedules import Schedule, steps
from sparsetd.solvers.state import StreamState
from sparsetd.solvers.stream import Average, FitNorm, Streaming
from sparsetd.system import Array


@dataclass(frozen=True)
class HandSet(Streaming):
    """Steps that are set by hand."""

    step_size: float | Schedule = 0.01
    average: Average = "all"
    radius: float = np.inf

    def rule(self, size: int) -> Any:
        del size
        return Fixed()

    def _steps(self, first: int, count: int) -> Array:
        return steps(self.step_size, first, count)

    def _last_weight(self, state: StreamState) -> float:
        """The average counts both ends (`eq:averaging`), but a trial point beyond the last row does not exist."""
        return 0.0 if self.extragradient or state.diverged else float(steps(self.step_size, state.t, 1)[0])


@dataclass(frozen=True)
class Stochastic(HandSet):
    """x ← prox_{αh}(x − α(A_t x − b_t)): each method's own update, with a proximal step.

    The last iterate is reported unless an average is asked for.
    """

    average: Average = "none"


@dataclass(frozen=True)
class PrimalDual(HandSet):
    """min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x) by x ← prox_{αh}(x − αA_tᵀy), y ← Π_n(y + α(A_t x − b_t)) (`eq:RO-TD`).

    Both steps use the old point. `fit_norm` is m; the dual ball has the conjugate exponent n and Π_n is the true
    Euclidean projection (the paper's radial scaling is that only for n = 2; for n = 1 it converges to the wrong point).
    """

    fit_norm: FitNorm = 2

    saddle: ClassVar[bool] = True

    @property
    def ball(self) -> int:
        return DUAL_BALL[self.fit_norm]


@dataclass(frozen=True)
class MirrorDescent(HandSet):
    """∇ψ(x⁺) = S_{αρ}(∇ψ(x) − α(A_t x − b_t)) with ψ = ½‖·‖_q², q = p/(p − 1), block by block.

    With an l1 penalty the soft threshold in the mirror image is the exact composite step. p = 2 is the Euclidean step.
    """

    p: float = 2.0

    @property
    def exponent(self) -> float:
        return self.p


@dataclass(frozen=True)
class MirrorProx(MirrorDescent):
    """Trial step x_m from x, then x⁺ from x with the gradient at x_m, both on the same row; the average is of the x_m.

    On the residual operator A_t x − b_t itself: GTD2-MP and TDC-MP.
    """

    extragradient: ClassVar[bool] = True


@dataclass(frozen=True)
class SaddleMirrorProx(PrimalDual):
    """Mirror-Prox on min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + h(x): RO-TD with an extragradient. x may have a p-norm map."""

    p: float = 2.0

    extragradient: ClassVar[bool] = True

    @property
    def exponent(self) -> float:
        return self.p


@dataclass(frozen=True)
class LeastSquaresSaddle(HandSet):
    """min_x ½‖Ax − b‖² + ρ‖x‖₁ = min_x max_{|u_j| ≤ ρ, y} xᵀu + yᵀ(Ax − b) − ½‖y‖² (`eq:formula2` with its scaling
    mended).

    x ← x − α(u + A_tᵀy), y ← y + α(A_t x − b_t − y), u ← clip(u + αx, ±ρ) (`eq:ROTD2` in the variables ρu, ρy).
    """

    saddle: ClassVar[bool] = True
    boxed: ClassVar[bool] = True
    dual_damping: ClassVar[float] = 1.0
