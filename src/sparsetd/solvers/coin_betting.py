"""Coin betting on each block: the learner inside PF-GTD."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsetd.solvers import adaptive_kernels as kernels
from sparsetd.solvers.adaptive import Adaptive, AdaptiveState
from sparsetd.solvers.streaming import Average
from sparsetd.solvers.streaming import _limit as limit
from sparsetd.system import Array


@dataclass
class CoinState(AdaptiveState):
    """Directions u (k, d) in the unit ball, and the betting fraction, wealth … of every block."""

    directions: Array = field(default_factory=lambda: np.zeros((1, 0)))
    coins: Array = field(default_factory=lambda: np.zeros((1, kernels.COINS)))


@dataclass(frozen=True)
class CoinBetting(Adaptive):
    """x_b = x_0 + βWu with g = (A_t x − b_t)_b, s = gᵀu, m = s/(1 − βs) for every block b on its own, and

        A += m²   W −= sβW   β ← clip(β − 2m/((2 − ln 3)A), ±1/2h)   u ← Π₁(u − g/√(2Σ‖g‖²))

    A gambler bets the fraction β of a wealth W on the sign of the next outcome, in the direction u. Gradients are cut
    to the largest norm h seen before. `wealth` is shared equally by the blocks. Published code starts u at random; here
    u = 0, which keeps the result a function of the rows. The reported average is uniform.

    References
    ----------
    Jacobsen & Chan (2021), Parameter-free gradient temporal difference learning.
    Cutkosky & Orabona (2018), Black-box reductions for parameter-free online learning in Banach spaces.
    """

    average: Average = "all"
    wealth: float = 1.0
    hint: float = 1.0

    def _begin(self, x: Array, y: Array | None) -> CoinState:
        common = vars(super()._begin(x, y))
        coins = np.zeros((len(x), kernels.COINS))
        coins[:, kernels.WEALTH], coins[:, kernels.HINT] = self.wealth / len(x), self.hint
        return CoinState(**common, directions=np.zeros_like(x), coins=coins)

    def _run_kernel(self, state: Any, columns: tuple[Array, ...], constants: tuple[Any, ...]) -> int:
        M, m, damping, l1, l2, _ = constants
        if l1.any() or l2.any():
            raise ValueError("CoinBetting has no proximal step: pass no penalty, or another solver")
        return int(
            kernels.coin_betting(
                *columns, state.x, self._sums(state)[0], state.origin, state.trace, state.record, state.directions,
                state.coins, M, m, damping, self.radius, limit(state.x.dtype),
            )
        )  # fmt: skip
