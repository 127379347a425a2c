"""The penalty as numbers, coordinate by coordinate: what a certificate needs beyond value and prox is the conjugate.

    h(x) = Σ_i l1_i|x_i| + ½ l2_i x_i²               h*(z) = Σ_i (|z_i| − l1_i)₊² / (2 l2_i),   l2_i = 0: |z_i| ≤ l1_i
    h(x) = Σ_g l1_g ‖x_g‖₂                           h*(z) = 0 while ‖z_g‖₂ ≤ l1_g

A coordinate with l1 = l2 = 0 is free: its dual constraint is the equation z_i = 0, which scaling cannot repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.system import Array


@dataclass(frozen=True, eq=False)
class Terms:
    """Weights of every coordinate of the flat x; `label` names each coordinate's group, or is None."""

    l1: Array
    l2: Array
    label: Array | None = None

    @classmethod
    def of(cls, penalty: Any, n_blocks: int, n_features: int, factor: Array | None = None) -> Terms:
        """Reads a penalty: the separable ones through `shrinkage`, the group penalty through its groups and weights."""
        shrinkage = penalty.shrinkage(n_blocks)
        if shrinkage is not None:
            weight = np.ones(n_features) if factor is None else np.asarray(factor, dtype=np.float64)
            l1, l2 = (np.outer(part, weight).ravel() for part in shrinkage)
            return cls(l1, l2)
        if not hasattr(penalty, "groups"):
            raise TypeError(
                f"a certificate needs the conjugate of the penalty, which {type(penalty).__name__} does not have: "
                "use L1, Ridge, ElasticNet or GroupL1"
            )
        rho = np.array([penalty.rho_w, penalty.rho_theta])[-n_blocks:]
        groups = np.asarray(penalty.groups)
        l1 = np.outer(rho, penalty.weights(factor)[groups]).ravel()
        label = (np.arange(n_blocks)[:, None] * (groups.max() + 1) + groups).ravel()
        return cls(l1, np.zeros_like(l1), label)

    def __len__(self) -> int:
        return len(self.l1)

    def __getitem__(self, index: Array) -> Terms:
        label = None if self.label is None else np.unique(self.label[index], return_inverse=True)[1]
        return Terms(self.l1[index], self.l2[index], label)

    @property
    def free(self) -> Array:
        return np.flatnonzero((self.l1 == 0) & (self.l2 == 0))

    def magnitude(self, z: Array) -> Array:
        """|z_i|, or ‖z_g‖₂ for every member of the group g."""
        if self.label is None:
            return np.abs(z)
        return np.asarray(np.sqrt(np.bincount(self.label, z**2))[self.label])

    def value(self, x: Array) -> float:
        if self.label is None:
            return float(self.l1 @ np.abs(x) + 0.5 * self.l2 @ x**2)
        first = np.unique(self.label, return_index=True)[1]
        return float(self.l1[first] @ self.magnitude(x)[first])

    def prox(self, v: Array, step: Array | float) -> Array:
        return np.asarray(self._shrink(v, step) * v)

    def _shrink(self, v: Array, step: Array | float) -> Array:
        """The factor in [0, 1] by which the prox multiplies each coordinate."""
        size = self.magnitude(v)
        excess = np.maximum(size - step * self.l1, 0.0)
        return np.asarray(excess / np.where(size > 0, size, 1.0) / (1.0 + step * self.l2))

    def conjugate(self, z: Array) -> float:
        """h*(z) for a z that satisfies the constraints of the coordinates with l2 = 0."""
        bent = self.l2 > 0
        return float(np.sum(np.maximum(np.abs(z[bent]) - self.l1[bent], 0.0) ** 2 / (2 * self.l2[bent])))

    def feasible_scale(self, z: Array) -> float:
        """The largest α ≤ 1 for which αz satisfies every constraint |αz_i| ≤ l1_i of the coordinates with l2 = 0."""
        hard = (self.l2 == 0) & (self.l1 > 0)
        ratio = self.magnitude(z)[hard] / self.l1[hard]
        return 1.0 / max(1.0, float(ratio.max(initial=0.0)))

    def root_columns(self, A: Array, v: Array, step: Array) -> Array:
        """Columns R with R Rᵀ = A diag(step) J Aᵀ, where J is a generalised Jacobian of the prox at v."""
        size, shrink = self.magnitude(v), self._shrink(v, step)
        active = np.flatnonzero(size > step * self.l1)
        columns = A[:, active] * np.sqrt(step / (1.0 + step * self.l2))[active]
        if self.label is None:
            return np.asarray(columns)
        # On a group J has eigenvalue 1 along v_g and `shrink` across it.
        root, unit = np.sqrt(shrink[active]), v[active] / size[active]
        label = np.unique(self.label[active], return_inverse=True)[1]
        along = np.zeros((label.max(initial=-1) + 1, len(A)))
        np.add.at(along, label, (columns * unit).T)
        return np.asarray(columns * root + along[label].T * ((1.0 - root) * unit))
