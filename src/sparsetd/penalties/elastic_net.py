"""Sparsity and shrinkage together."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd.penalties.base import Separable, blockwise
from sparsetd.system import Array


@dataclass(frozen=True)
class ElasticNet(Separable):
    """h(x) = Σ_b ρ_b (κ‖x_b‖₁ + ½(1 − κ)‖x_b‖²), with κ = `l1_ratio`: 1 is L1, 0 is ridge."""

    rho_theta: float
    rho_w: float = 0.0
    l1_ratio: float = 0.5

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        rho = blockwise(self.rho_theta, self.rho_w, n_blocks)
        return self.l1_ratio * rho, (1.0 - self.l1_ratio) * rho
