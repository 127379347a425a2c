"""OMP-TD: greedy feature selection for LSTD (Painter-Wakefield and Parr, 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.solvers.active_set import ActiveSet, Column
from sparsetd.solvers.lars import sparse_rows, with_ridge
from sparsetd.solvers.rows import RowSolver, RowState, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Omp(RowSolver):
    """Chooses features greedily, the most correlated with the residual first, and solves LSTD on the chosen ones.

    Repeat: I ← I ∪ {argmax_i |c_i|/factor_i}, θ_I = A_II⁻¹ b_I, c = b − Aθ, until |c_i| ≤ ρ factor_i for all i.

    Unlike LARS-TD nothing is shrunk and nothing leaves. A column that depends on the chosen ones is passed over.
    `status`: "converged" (all |c_i| are below ρ), "feature_limit" (`max_features` chosen) or "singular" (only dependent
    columns remain above ρ).

    See also `Lars`: features may leave again, and coefficients are shrunk.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Omp())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_features: int | None = None

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        limit = state.n_features if self.max_features is None else self.max_features
        order, thetas, knots, status = omp_path(with_ridge(system, kappa * factors), system.b, rho, factors, limit)
        coef = np.zeros(state.n_features, dtype=state.dtype)
        coef[order] = thetas[-1]
        free = len(order) - len(thetas) + 1
        path = sparse_rows([np.array(order[: free + k], dtype=np.intp) for k in range(len(thetas))], thetas, len(coef))
        extras = {"order": np.array(order, dtype=np.intp), "knots": np.array(knots), "path": path}
        return Solution(coef, coef.copy(), len(knots) - 1, status, history={"rho": knots}, extras=extras)


def omp_path(
    column: Column, b: Array, rho: float, factor: Array, limit: int
) -> tuple[list[int], list[Array], list[float], str]:
    """The order of entry (features without penalty first), θ_I and max|c| after each entry, and why it stopped."""
    active = ActiveSet(column, len(b), np.flatnonzero(factor == 0).tolist())
    eligible, thetas, knots = factor > 0, [], []
    free = len(active)
    while True:
        theta = active.solve(b[active.indices])
        c = np.abs(b - active.columns @ theta)
        thetas.append(theta)
        knots.append(float(np.max(c[factor > 0] / factor[factor > 0], initial=0.0)))
        if knots[-1] <= rho:
            return active.indices, thetas, knots, "converged"
        if len(active) - free >= limit:
            return active.indices, thetas, knots, "feature_limit"
        if not _enter(active, c / np.where(factor > 0, factor, 1.0), eligible, rho):
            return active.indices, thetas, knots, "singular"


def _enter(active: ActiveSet, c: Array, eligible: Array, rho: float) -> bool:
    """Let the largest |c_i| above ρ enter that does not depend on the active columns; False if there is none."""
    for i in np.argsort(-np.where(eligible, c, -1.0), kind="stable"):
        if not eligible[i] or c[i] <= rho:
            return False
        eligible[i] = False
        if active.add(int(i)):
            return True
    return False
