"""Step sizes: a number, or any callable from step indices to steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsetd.system import Array

Schedule = Callable[[Array], Array]


@dataclass(frozen=True)
class PowerDecay:
    """Lets the step size fall as a power of the number of steps: for solvers whose steps are set by hand.

    α_t = scale / (1 + t/horizon)^power: power 1/2 and 1 are the usual decays.

    Proposition 1 needs Σα = ∞ and Σα² < ∞ (power in (½, 1]); a constant step reaches an O(α) neighbourhood only.

    See also `Stochastic`: takes it as `step_size`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.solvers import PowerDecay
    >>> PowerDecay(0.1, horizon=100.0, power=1.0)(np.array([0, 100, 300]))
    array([0.1  , 0.05 , 0.025])
    """

    scale: float
    horizon: float = 1000.0
    power: float = 0.5

    def __call__(self, t: Array) -> Array:
        return np.asarray(self.scale / (1.0 + t / self.horizon) ** self.power)


def steps(step_size: float | Schedule, first: int, count: int) -> Array:
    """α_t for t = first, …, first + count − 1, as float64."""
    if not callable(step_size):
        return np.full(count, float(step_size))
    alpha = np.asarray(step_size(np.arange(first, first + count)), dtype=np.float64)
    if alpha.shape != (count,):
        raise ValueError(
            f"step_size returned shape {alpha.shape} for {count} step indices; a schedule maps an array of indices "
            "to an array of the same length"
        )
    bad = ~(np.isfinite(alpha) & (alpha > 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"step_size gave {alpha[i]} at step {first + i}; steps must be positive and finite")
    return alpha
