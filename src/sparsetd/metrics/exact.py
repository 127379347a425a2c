"""The same errors without sampling, from anything that has A, b and C (a finite problem, or the arrays of a chain)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sparsetd.system import Array


class HasSystem(Protocol):
    """A = ΦᵀΞ(I − γP)Φ, b = ΦᵀΞR, C = ΦᵀΞΦ."""

    @property
    def A(self) -> Array: ...
    @property
    def b(self) -> Array: ...
    @property
    def C(self) -> Array: ...


class HasValue(Protocol):
    """The true V, the features of the states and their weights ξ."""

    @property
    def value(self) -> Array: ...
    @property
    def features(self) -> Array: ...
    @property
    def xi(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class ExactSystem:
    """A, b, C and V of a chain given as arrays; rows of P that may terminate sum to less than one."""

    P: Array
    R: Array
    features: Array
    xi: Array
    gamma: float

    @cached_property
    def A(self) -> Array:
        """ΦᵀΞ(I − γP)Φ."""
        return (self.features.T * self.xi) @ (self.features - self.gamma * self.P @ self.features)

    @cached_property
    def b(self) -> Array:
        """ΦᵀΞR."""
        return (self.features.T * self.xi) @ self.R

    @cached_property
    def C(self) -> Array:
        """ΦᵀΞΦ."""
        return (self.features.T * self.xi) @ self.features

    @cached_property
    def value(self) -> Array:
        """(I − γP)⁻¹R."""
        return np.linalg.solve(np.eye(len(self.P)) - self.gamma * self.P, self.R)


def exact_mspbe(problem: HasSystem, theta: Array) -> float:
    """MSPBE(θ) = (b − Aθ)ᵀ C⁺ (b − Aθ) = ‖Φθ − ΠT(Φθ)‖²_Ξ; C⁺ because collinear features (the star) make C singular."""
    g = problem.b - problem.A @ theta
    # In the eigenvectors of C: those of a null eigenvalue are orthogonal to g, since g = ΦᵀΞ(…)
    values, vectors = np.linalg.eigh(problem.C)
    kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
    return float(((vectors[:, kept].T @ g) ** 2 / values[kept]).sum())


def exact_rmspbe(problem: HasSystem, theta: Array) -> float:
    """RMSPBE(θ) = √MSPBE(θ)."""
    return float(np.sqrt(exact_mspbe(problem, theta)))


def exact_neu(problem: HasSystem, theta: Array) -> float:
    """NEU(θ) = ‖b − Aθ‖²."""
    g = problem.b - problem.A @ theta
    return float(g @ g)


def value_error(problem: HasValue, theta: Array) -> float:
    """‖Φθ − V‖_Ξ = √Σ_s ξ(s)(φ(s)ᵀθ − V(s))²."""
    return float(np.sqrt(problem.xi @ (problem.features @ theta - problem.value) ** 2))
