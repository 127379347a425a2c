"""No penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.penalties.base import Separable
from sparsetd.system import Array


@dataclass(frozen=True)
class NoPenalty(Separable):
    """h(x) = 0."""

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        return np.zeros(n_blocks), np.zeros(n_blocks)
