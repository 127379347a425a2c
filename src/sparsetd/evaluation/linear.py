"""The linear value function on chosen features, and how each episode moved it.

    θ = A⁻¹ b      A = (1/N) Σ ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = (1/N) Σ ρ_t r_t φ_t

Episodes are independent, rows within one are not. By linearisation, episode i adds A⁻¹ g_i with g_i = Σ_{t∈i} ρ_t δ_t
φ_t to N(θ̂ − θ), so for any fixed c

    cᵀθ̂ − cᵀθ ≈ (1/n) Σ_i (n/N) cᵀA⁻¹ g_i                                   (the sandwich, clustered by episode)

and the value of the start states, v = mean φ(s₀)ᵀθ, has the further term φ(s_{0,i})ᵀθ − v.

A⁻¹ is found for columns of unit length, so that the answer does not depend on the units of the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dgecon, dgetrf, dgetri

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.selection.units import lengths
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000
LOST = 1e-4  # share of c outside the row space of A from which cᵀθ counts as undetermined


@dataclass(frozen=True, eq=False)
class LinearValue:
    """LSTD on the columns `support` of φ with a constant: θ (the constant last), A, φ_S of the rows and their ρδ."""

    support: Array
    theta: Array
    A: Array
    inverse: Array
    phi: Array
    error: Array
    episodes: Episodes

    @classmethod
    def fit(
        cls, batch: Batch, support: Array, episodes: Episodes, equation: tuple[Array, Array] | None = None
    ) -> LinearValue:
        """Solve the mean system, formed here unless its (A, b) is given."""
        phi, phi_next = chosen(batch.phi, support), chosen(batch.phi_next, support)
        A, b = _equation(batch, phi, phi_next) if equation is None else equation
        inverse = _inverse(A, np.append(lengths(phi), 1.0), len(batch))
        theta = inverse @ b
        error = batch.reward + batch.discount * _value(phi_next, theta) - _value(phi, theta)
        return cls(support, theta, A, inverse, phi, batch.ratio * error, episodes)

    def predict(self, phi: Array | sp.csr_array) -> Array:
        """V(s) = θᵀφ(s) of every row."""
        return _value(chosen(phi, self.support), self.theta)

    def influence(self, c: Array) -> Array:
        """What each episode adds to n times the error of cᵀθ̂."""
        scores = self.error * _value(self.phi, self.inverse.T @ c)
        return self.episodes.total(scores) * len(self.episodes) / len(self.phi)

    def start_value(self) -> tuple[float, Array]:
        """v = mean of V over the first states, and its influence per episode."""
        values = _value(self.phi[self.episodes.first], self.theta)
        return float(values.mean()), self.influence(self._mean_start()) + values - values.mean()

    def determined(self) -> bool:
        """Whether the log fixes the start value: cᵀA⁻A = cᵀ for c = mean φ(s₀), though A itself may be singular.

        Two equal columns leave V alone. A state that is reached but never left does not: any value of it fits the rows.
        """
        c, scale = self._mean_start(), np.append(lengths(self.phi), 1.0)
        lost = (c @ self.inverse @ self.A - c) / scale
        return bool(np.linalg.norm(lost) <= LOST * np.linalg.norm(c / scale))

    def _mean_start(self) -> Array:
        return np.append(self.phi[self.episodes.first].mean(axis=0), 1.0)

    def coefficients(self) -> list[Estimate]:
        """θ of every chosen feature (not the constant), with its standard error."""
        p, n = len(self.support), len(self.episodes)
        rows = self.inverse[:p]  # cᵀA⁻¹ for the unit vectors c
        scores = self.error[:, None] * (self.phi @ rows[:, :-1].T + rows[:, -1])
        return [
            Estimate.of_influence("", value, self.episodes.total(column) * n / len(self.phi), n_fitted=p)
            for value, column in zip(self.theta[:-1], scores.T, strict=True)
        ]


def _value(phi: Array, theta: Array) -> Array:
    """[φ 1] θ."""
    return np.asarray(phi @ theta[:-1] + theta[-1])


def _equation(batch: Batch, phi: Array, phi_next: Array) -> tuple[Array, Array]:
    """A = mean of ρ[φ 1]([φ 1] − γ[φ' 1])ᵀ and b = mean of ρr[φ 1]."""
    phi, phi_next = _with_constant(phi), _with_constant(phi_next)
    weighted = batch.ratio[:, None] * phi / len(batch)
    return weighted.T @ (phi - batch.discount[:, None] * phi_next), weighted.T @ batch.reward


def _inverse(A: Array, scale: Array, n_rows: int) -> Array:
    """D(DAD)⁻¹D with D = 1/scale, with the pseudo-inverse where A is singular (collinear or constant columns).

    What is as small as the rounding of a sum over the rows counts as zero.
    """
    units = np.outer(scale, scale)
    even, smallest = A / units, max(n_rows, len(A)) * np.finfo(float).eps
    factors, pivots, zero = dgetrf(even)
    if zero == 0 and dgecon(factors, np.abs(even).sum(axis=0).max())[0] > smallest:
        return np.asarray(dgetri(factors, pivots)[0] / units)
    return np.asarray(scipy.linalg.pinv(even, rtol=smallest) / units)


def chosen(phi: Array | sp.csr_array, support: Array) -> Array:
    """The chosen columns, dense; all of a dense φ are itself."""
    if len(support) > MAX_COLUMNS:
        raise ValueError(
            f"`features` leaves {len(support)} columns after selection, more than {MAX_COLUMNS} for an interval: "
            "use a stronger penalty."
        )
    every = not sp.issparse(phi) and np.array_equal(support, np.arange(phi.shape[1]))
    columns: Any = phi if every else phi[:, support]
    return columns.toarray() if sp.issparse(columns) else np.asarray(columns, dtype=np.float64)


def design(phi: Array | sp.csr_array, support: Array) -> Array:
    """The chosen columns with a constant one at the end, dense."""
    return _with_constant(chosen(phi, support))


def _with_constant(dense: Array) -> Array:
    return np.hstack([dense, np.ones((dense.shape[0], 1))])


def next_values(batch: Batch, value: Array) -> Array:
    """V(s') where the episode goes on and 0 where it terminated, out of θᵀφ' of every row."""
    return np.where(batch.discount > 0, value, 0.0)
