"""The Extension's formulation: least squares and an l1 norm as one saddle point, without a proximal step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsetd.solvers.stream import HandSet


@dataclass(frozen=True)
class LeastSquaresSaddle(HandSet):
    """min_x ½‖Ax − b‖² + ρ‖x‖₁ = min_x max_{|u_j| ≤ ρ, y} xᵀu + yᵀ(Ax − b) − ½‖y‖² (`eq:formula2` with its scaling
    mended).

    x ← x − α(u + A_tᵀy), y ← y + α(A_t x − b_t − y), u ← clip(u + αx, ±ρ) (`eq:ROTD2` in the variables ρu, ρy).
    """

    saddle: ClassVar[bool] = True
    boxed: ClassVar[bool] = True
    dual_damping: ClassVar[float] = 1.0
