"""The fit norm F(r) = c‖r‖_m for m = 1, 2, ∞, told through its dual ball {‖y‖_n ≤ c}, 1/m + 1/n = 1.

    F(r) = max { yᵀr : ‖y‖_n ≤ c },        prox_{τF}(v) = v − τ Π(v/τ),        Π the *nearest* point of the ball.

Radial scaling is that nearest point only for n = 2; for n = 1 it would lead to another problem's solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.system import Array

# "rmspbe" is the Euclidean norm in the metric of C = E[φφᵀ]: the system is whitened (`units`), the norm is that of m
# = 2.
RMSPBE = "rmspbe"
_ORDERS: dict[object, float] = {1: 1.0, 2: 2.0, "inf": np.inf, np.inf: np.inf, RMSPBE: 2.0}


@dataclass(frozen=True)
class FitNorm:
    """F(r) = scale · ‖r‖_m."""

    m: float = 2.0
    scale: float = 1.0

    @classmethod
    def of(cls, order: object, scale: float = 1.0) -> FitNorm:
        if order not in _ORDERS:
            raise ValueError(f'fit_norm must be 1, 2, "inf" or "rmspbe", got {order!r}')
        return cls(_ORDERS[order], scale)

    def value(self, r: Array) -> float:
        return self.scale * float(np.linalg.norm(r, self.m))

    def dual_norm(self, y: Array) -> float:
        """‖y‖_n / c: at most 1 inside the dual ball."""
        return float(np.linalg.norm(y, {1.0: np.inf, 2.0: 2, np.inf: 1}[self.m])) / self.scale

    def project(self, y: Array) -> Array:
        """Π(y): the point of the dual ball nearest to y."""
        if self.m == 1.0:
            return np.clip(y, -self.scale, self.scale)
        if self.dual_norm(y) <= 1.0:
            return y
        if self.m == 2.0:
            return np.asarray(y * (self.scale / np.linalg.norm(y)))
        return np.asarray(np.sign(y) * np.maximum(np.abs(y) - _threshold(np.abs(y), self.scale), 0.0))

    def prox(self, v: Array, step: float) -> Array:
        return np.asarray(v - step * self.project(v / step))

    def jacobian(self, v: Array, step: float) -> tuple[Array, Array]:
        """(a, u) with diag(a) + uuᵀ an element of the generalised Jacobian of the prox at v."""
        inside, zero = self.dual_norm(v / step) <= 1.0, np.zeros_like(v)
        if self.m == 1.0:
            return (np.abs(v) > step * self.scale).astype(np.float64), zero
        if inside:
            return zero, zero
        if self.m == 2.0:
            length = float(np.linalg.norm(v))
            share = step * self.scale / length
            return np.full_like(v, 1.0 - share), np.sqrt(share) * v / length
        kept = np.abs(v) > step * _threshold(np.abs(v) / step, self.scale)
        return 1.0 - kept, np.sign(v) * kept / np.sqrt(max(kept.sum(), 1))


def _threshold(magnitude: Array, radius: float) -> float:
    """The t ≥ 0 with Σ max(|y_i| − t, 0) = radius, by sorting."""
    ordered = -np.sort(-magnitude)
    candidates = (np.cumsum(ordered) - radius) / np.arange(1, len(ordered) + 1)
    return float(candidates[np.nonzero(ordered > candidates)[0][-1]])


def without_w(order: object, eta: float) -> float:
    """The c in ‖[ηu; u]‖_m = c‖u‖_m: with w gone, both halves of the system say the same, once times η.

    The projected Bellman error is measured as it is: c = 1.
    """
    if order == RMSPBE:
        return 1.0
    return {1.0: 1.0 + eta, 2.0: float(np.hypot(1.0, eta)), np.inf: max(1.0, eta)}[FitNorm.of(order).m]
