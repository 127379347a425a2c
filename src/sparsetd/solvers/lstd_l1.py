"""LSTD with an ℓ1 penalty on the residual of its own equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsetd.solvers.lars import lars_path, path_solution
from sparsetd.solvers.rows import RowSolver, RowState, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class LstdL1(RowSolver):
    """min_θ ½‖Aθ − b‖² + ρ‖θ‖₁, a Lasso whose rows are the LSTD equations.

    Convex, unlike Lasso-TD, so it exists for every A and every policy; in exchange it squares the condition number. The
    whole path is followed on the normal equations, AᵀA and Aᵀb; their matrix is positive semidefinite, so the path
    never turns.
    """

    max_steps: int = 1000

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)

        def column(i: int) -> Array:
            out = system.adjoint(system.column(i))
            out[i] += kappa * factors[i]
            return out

        walk = lars_path(column, system.adjoint(system.b), rho, factors, self.max_steps)
        return path_solution(walk, state)
