"""The quadratic penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.penalties.base import Separable, blockwise
from sparsetd.system import Array


@dataclass(frozen=True)
class Ridge(Separable):
    """h(x) = ½ρ_θ‖θ‖² + ½ρ_w‖w‖²."""

    rho_theta: float
    rho_w: float = 0.0

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return np.zeros(n_blocks), blockwise(self.rho_theta, self.rho_w, n_blocks)
