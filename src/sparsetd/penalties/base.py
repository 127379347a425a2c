"""What a penalty is, and the separable family that the compiled solvers apply themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from sparsetd.system import Array


@runtime_checkable
class Penalty(Protocol):
    """h(x) for x = [w; θ] of shape (k, d), last block θ.

    `factor` multiplies the penalty feature by feature; 0 leaves a feature unpenalised.
    """

    def value(self, x: Array, factor: Array | None = None) -> float:
        """h(x)."""
        ...

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        """argmin_u h(u) + ‖u − x‖²/(2 step)."""
        ...

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None:
        """(l1, l2), one number per block, if h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖²; None otherwise."""
        ...


def blockwise(rho_theta: float, rho_w: float, n_blocks: int) -> Array:
    """Weights in the order of the blocks: [ρ_θ] or [ρ_w, ρ_θ]."""
    return np.array([rho_w, rho_theta])[-n_blocks:]


def soft_threshold(v: Array, threshold: Array | float) -> Array:
    """S_τ(v) = max(v − τ, 0) − max(−v − τ, 0)."""
    return np.asarray(np.maximum(v - threshold, 0.0) - np.maximum(-v - threshold, 0.0))


class Separable:
    """h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖²: subclasses state the two weights of each block."""

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array]:
        raise NotImplementedError

    def value(self, x: Array, factor: Array | None = None) -> float:
        l1, l2 = self.shrinkage(len(x))
        weight = np.ones(x.shape[1]) if factor is None else factor
        return float(l1 @ (np.abs(x) @ weight) + 0.5 * l2 @ (x**2 @ weight))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        l1, l2 = self.shrinkage(len(x))
        weight = np.ones(x.shape[1]) if factor is None else factor
        threshold, shrink = step * np.outer(l1, weight), 1.0 + step * np.outer(l2, weight)
        return np.asarray(soft_threshold(x, threshold) / shrink)
