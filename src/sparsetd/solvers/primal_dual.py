"""The paper's saddle-point iteration: RO-TD and RO-GQ(λ)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsetd.solvers.compiled.balls import DUAL_BALL
from sparsetd.solvers.stream import FitNorm, HandSet


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
