"""Errors of a weight vector that cost O(d²), however many rows or states are behind them.

Every one of them is the length of an affine function of θ,

    RMSPBE(θ) = ‖Qᵀ(r − Dθ)‖      √NEU(θ) = ‖Fᵀ(r − Dθ)‖      value error(θ) = ‖V − Φθ‖

with rows weighted by √ξ (a finite problem) or by the ratio over √N (a log), F the features, Q an orthonormal basis of
their columns and D = F − γF'. The products are formed once, and many θ are then measured by one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.problems import FiniteMDP
from sparsetd.system import Array, Batch, dense

NAMES = ("rmspbe", "mspbe", "neu", "value_error")
LARGEST = 8192  # features: the products take 8 d² bytes


@dataclass(frozen=True, eq=False)
class Distance:
    """‖target − matrix·θ‖, or its square."""

    target: Array
    matrix: Array
    squared: bool = False

    def __call__(self, theta: Array) -> Array:
        """The error of each row of `theta`, NaN where the weights are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            gap = self.target - np.atleast_2d(theta) @ self.matrix.T
            square = np.einsum("ij,ij->i", gap, gap)
            return np.asarray(square if self.squared else np.sqrt(square))


def distance(name: str, data: Batch | FiniteMDP) -> Distance:
    """The error of that name on a log or a finite problem."""
    if name not in NAMES:
        raise ValueError(
            f"metric {name!r} is not known: choose from {', '.join(NAMES)}, or pass a function of the model"
        )
    if data.n_features > LARGEST:
        raise ValueError(
            f"metric {name!r} would square {data.n_features} features: pass a function of the fitted model instead"
        )
    if name == "value_error":
        if not isinstance(data, FiniteMDP):
            raise ValueError("metric 'value_error' needs the exact values of a finite problem: use 'rmspbe' on a log")
        root = np.sqrt(data.xi)
        return Distance(root * data.value, root[:, None] * data.features)
    left, reward, change = _weighted(data)
    basis = left if name == "neu" else _orthonormal(left)
    return Distance(basis.T @ reward, basis.T @ change, squared=name in ("mspbe", "neu"))


def _weighted(data: Any) -> tuple[Array, Array, Array]:
    """(F, r, D) such that Fᵀ(r − Dθ) is the expected update E[ρδφ] and FᵀF = E[φφᵀ]."""
    if isinstance(data, FiniteMDP):
        root = np.sqrt(data.xi)
        change = data.features - data.gamma * data.transition @ data.features
        return root[:, None] * data.features, root * data.reward, root[:, None] * change
    weight = data.ratio * data.interest / np.sqrt(len(data))
    phi = dense(data.phi)
    change = phi - data.discount[:, None] * dense(data.phi_next)
    return phi / np.sqrt(len(data)), weight * data.reward, weight[:, None] * change


def _orthonormal(columns: Array) -> Array:
    """A basis of the span of the columns, which may depend on one another."""
    left, size, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, size > max(columns.shape) * np.finfo(np.float64).eps * size[0]])
