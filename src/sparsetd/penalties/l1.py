"""The sparsity penalty, with separate weights for θ and w."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.penalties.base import Separable, blockwise
from sparsetd.system import Array


@dataclass(frozen=True)
class L1(Separable):
    """h(x) = ρ_θ‖θ‖₁ + ρ_w‖w‖₁; its prox is one soft threshold per block (`twothreshold`)."""

    rho_theta: float
    rho_w: float = 0.0

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return blockwise(self.rho_theta, self.rho_w, n_blocks), np.zeros(n_blocks)
