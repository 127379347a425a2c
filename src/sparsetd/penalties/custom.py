"""A penalty of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsetd.system import Array


@dataclass(frozen=True)
class Custom:
    """h given by its prox: `prox_function(x, step)` returns argmin_u h(u) + ‖u − x‖²/(2 step) for x of shape (k, d).

    The solvers then call Python once per step, at some microseconds each. `value_function(x)` is only needed by
    metrics.
    """

    prox_function: Callable[[Array, float], Array]
    value_function: Callable[[Array], float] | None = None

    def value(self, x: Array, factor: Array | None = None) -> float:
        self._without(factor)
        if self.value_function is None:
            raise ValueError("this penalty has no value: pass value_function=h to Custom")
        return float(self.value_function(x))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        self._without(factor)
        return np.asarray(self.prox_function(x, step))

    def shrinkage(self, n_blocks: int) -> None:  # noqa: ARG002 (the protocol's signature; unknown for any k)
        return None

    @staticmethod
    def _without(factor: Array | None) -> None:
        if factor is not None:
            raise ValueError("a Custom penalty treats every feature alike: leave features unpenalised inside its prox")
