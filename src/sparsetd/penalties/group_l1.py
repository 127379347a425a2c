"""Features that enter or leave together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.penalties.base import blockwise
from sparsetd.system import Array


@dataclass(frozen=True, eq=False)
class GroupL1:
    """h(x) = Σ_b ρ_b Σ_g √|g| ‖x_{b,g}‖₂, where `groups[j]` is the number of feature j's group.

    A group whose features all have factor 0 is unpenalised; otherwise the factor of a group is the mean of its
    features'.
    """

    groups: Array
    rho_theta: float
    rho_w: float = 0.0

    def weights(self, factor: Array | None = None) -> Array:
        """√|g| times the mean factor of each group."""
        size = np.bincount(self.groups)
        mean = 1.0 if factor is None else np.bincount(self.groups, factor) / np.maximum(size, 1)
        return np.asarray(np.sqrt(size) * mean)

    def group_weights(self, n_blocks: int, factor: Array | None = None) -> Array:
        """ρ_b √|g| of every block and group, shape (k, number of groups)."""
        return np.outer(blockwise(self.rho_theta, self.rho_w, n_blocks), self.weights(factor))

    def norms(self, x: Array) -> Array:
        """‖x_{b,g}‖₂ of every block and group, shape (k, number of groups)."""
        return np.sqrt([np.bincount(self.groups, row**2) for row in x])

    def value(self, x: Array, factor: Array | None = None) -> float:
        return float(np.sum(self.group_weights(len(x), factor) * self.norms(x)))

    def prox(self, x: Array, step: float, factor: Array | None = None) -> Array:
        """Scales each group by max(0, 1 − step ρ_b √|g| / ‖x_{b,g}‖)."""
        norms, threshold = self.norms(x), step * self.group_weights(len(x), factor)
        scale = np.maximum(1.0 - threshold / np.where(norms > 0, norms, 1.0), 0.0)
        return np.asarray(x * scale[:, self.groups])

    def shrinkage(self, n_blocks: int) -> None:  # noqa: ARG002 (the protocol's signature; not separable for any k)
        return None
