"""The linear value function on chosen features, and how each episode moved it.

    θ = A⁻¹ b      A = (1/N) Σ ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = (1/N) Σ ρ_t r_t φ_t

Episodes are independent, rows within one are not. By linearisation, episode i adds A⁻¹ g_i with g_i = Σ_{t∈i} ρ_t δ_t
φ_t to N(θ̂ − θ), so for any fixed c

    cᵀθ̂ − cᵀθ ≈ (1/n) Σ_i (n/N) cᵀA⁻¹ g_i                                   (the sandwich, clustered by episode)

and the value of the start states, v = mean φ(s₀)ᵀθ, has the further term φ(s_{0,i})ᵀθ − v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000


@dataclass(frozen=True, eq=False)
class LinearValue:
    """LSTD on the columns `support` of φ with a constant: θ, the rows it was fitted on and their scores ρδφ."""

    support: Array
    theta: Array
    inverse: Array
    phi: Array
    scores: Array
    episodes: Episodes

    @classmethod
    def fit(cls, batch: Batch, support: Array, episodes: Episodes) -> LinearValue:
        """Solve the mean system; by the pseudo-inverse where it is singular (collinear or constant columns)."""
        phi, phi_next = design(batch.phi, support), design(batch.phi_next, support)
        change = phi - batch.discount[:, None] * phi_next
        weighted = batch.ratio[:, None] * phi
        A, b = weighted.T @ change / len(batch), weighted.T @ batch.reward / len(batch)
        inverse = scipy.linalg.pinv(A, rtol=len(b) * np.finfo(float).eps)
        theta = inverse @ b
        error = batch.reward - change @ theta
        return cls(support, theta, inverse, phi, weighted * error[:, None], episodes)

    def predict(self, phi: Array | sp.csr_array) -> Array:
        """V(s) = θᵀφ(s) of every row."""
        return np.asarray(design(phi, self.support) @ self.theta)

    def influence(self, c: Array) -> Array:
        """What each episode adds to n times the error of cᵀθ̂."""
        return self.episodes.total(self.scores @ (self.inverse.T @ c)) * len(self.episodes) / len(self.phi)

    def start_value(self) -> tuple[float, Array]:
        """v = mean of V over the first states, and its influence per episode."""
        start = self.phi[self.episodes.first]
        values = start @ self.theta
        return float(values.mean()), self.influence(start.mean(axis=0)) + values - values.mean()

    def coefficients(self) -> list[Estimate]:
        """θ of every chosen feature (not the constant), with its standard error."""
        n = len(self.episodes)
        each = np.stack([self.episodes.total(column) for column in (self.scores @ self.inverse.T).T], axis=1)
        each *= n / len(self.phi)
        return [
            Estimate.of_influence("", self.theta[j], each[:, j], n_fitted=len(self.theta) - 1)
            for j in range(len(self.support))
        ]


def design(phi: Array | sp.csr_array, support: Array) -> Array:
    """The chosen columns with a constant one at the end, dense."""
    if len(support) > MAX_COLUMNS:
        raise ValueError(
            f"`features` leaves {len(support)} columns after selection, more than {MAX_COLUMNS} for an interval: "
            "use a stronger penalty."
        )
    columns: Any = phi[:, support]
    dense = columns.toarray() if sp.issparse(columns) else np.asarray(columns, dtype=np.float64)
    return np.hstack([dense, np.ones((dense.shape[0], 1))])


def next_values(batch: Batch, value: Array) -> Array:
    """V(s') where the episode goes on and 0 where it terminated, out of θᵀφ' of every row."""
    return np.where(batch.discount > 0, value, 0.0)
