"""Dantzig-LSTD: the sparsest (in ℓ1) coefficients that nearly solve the LSTD equation (Geist et al., 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.solvers.linear_program import between, minimise
from sparsetd.solvers.rows import RowSolver, RowState, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Dantzig(RowSolver):
    """min_θ Σ_i factor_i|θ_i| subject to |Aθ − b|_i ≤ ρ factor_i, for the means A and b: a linear program.

    Always convex: no P-matrix is needed, so off-policy data are no obstacle. A Lasso-TD fixed point is feasible, so
    this has the smaller ‖θ‖₁ of the two. Infeasible only if A is singular and ρ is small; then `status` says so and
    θ = 0.
    """

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        if kappa:
            raise ValueError("a linear program has no quadratic term: use penalty L1, not one with an ℓ2 part")
        theta, status = dantzig(system.matrix, system.b, rho * factors, factors)
        residual = float(np.max(np.abs(system.matrix @ theta - system.b), initial=0.0))
        coef = theta.astype(state.dtype)
        return Solution(coef, coef.copy(), 1, status, extras={"residual": residual})


def dantzig(A: Array, b: Array, bound: Array, factor: Array) -> tuple[Array, str]:
    """argmin factorᵀ|θ| with |Aθ − b| ≤ bound, entry by entry."""
    return minimise(np.zeros(len(b)), factor, [between(b - bound, A, b + bound)])
