"""Dantzig-LSTD: the sparsest (in ℓ1) coefficients that nearly solve the LSTD equation (Geist et al., 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.solvers.lars import lars_path
from sparsetd.solvers.linear_program import Program, minimise
from sparsetd.solvers.rows import RowSolver, RowState, System, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Dantzig(RowSolver):
    """Finds the smallest coefficients in the l1 norm that nearly solve the LSTD equation, by a linear program.

    min_θ Σ_i factor_i|θ_i| subject to |Aθ − b|_i ≤ ρ factor_i, for the means A and b: a linear program.

    Always convex: no P-matrix is needed, so off-policy data are no obstacle. A Lasso-TD fixed point is feasible, so
    this has the smaller ‖θ‖₁ of the two, and the features of LARS-TD's path are where the search begins. Infeasible
    only if A is singular and ρ is small; then `status` says so and θ = 0.

    See also `Lars`: a fixed point that satisfies the same bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Dantzig())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        if kappa:
            raise ValueError("a linear program has no quadratic term: use penalty L1, not one with an ℓ2 part")
        theta, status, rounds = dantzig(system, rho, factors)
        product = sum((theta[j] * system.column(j) for j in np.flatnonzero(theta).tolist()), start=np.zeros(len(theta)))
        coef = theta.astype(state.dtype)
        extras = {"residual": float(np.max(np.abs(product - system.b), initial=0.0))}
        return Solution(coef, coef.copy(), rounds, status, extras=extras)


def dantzig(system: System, rho: float, factor: Array) -> tuple[Array, str, int]:
    """argmin factorᵀ|θ| with |Aθ − b| ≤ ρ factor, entry by entry."""
    bound, b = rho * factor, system.b
    path = lars_path(system.column, b, rho, factor, max_steps=200)
    start = {*path.indices[-1].tolist(), *np.flatnonzero(factor == 0).tolist()} or {int(np.argmax(np.abs(b)))}
    program = Program(np.zeros(len(b)), factor, system.column, system.adjoint, b - bound, b + bound, factor)
    return minimise(program, start, start)
