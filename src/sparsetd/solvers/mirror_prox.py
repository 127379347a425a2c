"""Extragradient steps: GTD2-MP, TDC-MP and RO-TD with Mirror-Prox; plain mirror descent as the one-step case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsetd.solvers.primal_dual import PrimalDual
from sparsetd.solvers.stream import HandSet


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
