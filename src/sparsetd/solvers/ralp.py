"""RALP: ℓ1-regularised approximate linear programming (Petrik et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers.linear_program import AT_ONCE, Program, minimise
from sparsetd.solvers.rows import Fold, Rows, RowSolver, RowState, RowSystem, weights
from sparsetd.system import Array, Solution, Table

FIRST_ROWS = 50  # inequalities of the first round


@dataclass(frozen=True)
class Ralp(RowSolver):
    """Finds the smallest values that satisfy every sampled Bellman inequality, within a budget for the coefficients.

    min_θ mean_t φ_tᵀθ subject to φ_tᵀθ ≥ r_t + ψ_tᵀθ for every sample and Σ_i factor_i|θ_i| ≤ budget.

    The smallest value function that satisfies every sampled Bellman inequality: an upper bound on the values of the
    sampled states, for deterministic transitions. With random ones each sample is taken at its word, so the bound is
    loose: this method has no expectation in it. Samples of one state under several actions make it a method for
    control. Keep a constant feature without penalty: with γ < 1 it makes the program feasible for any budget.

    Every row counts once, in the mean with its ratio × interest; rows where that is zero are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> phi, phi_next = np.array([[1.0, 0.0], [1.0, 1.0]]), np.ones((2, 2))
    >>> model = LinearTD(gamma=0.5, solver=solvers.Ralp(budget=10.0))
    >>> model.fit(phi, [0.0, 1.0], phi_next).predict(phi).round(6)
    array([1., 2.])
    """

    fold: ClassVar[Fold] = "never"
    budget: float = 1.0

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        if table.lam:
            raise ValueError("RALP has one Bellman inequality per sample and no traces: use lam=0")
        system = state.system()
        assert isinstance(system, RowSystem)  # they are never folded
        factors = weights(penalty, factor, state.n_features)[2]
        used = np.flatnonzero(system.weight)
        objective = np.asarray(system.left.sum(axis=0)).ravel() / len(system.reward)
        theta, status, rounds = ralp(objective, system.right[used], system.reward[used], factors, self.budget)
        coef = theta.astype(state.dtype)
        return Solution(coef, coef.copy(), rounds, status, extras={"objective": float(objective @ theta)})


def ralp(objective: Array, rows: Rows, reward: Array, factor: Array, budget: float) -> tuple[Array, str, int]:
    """argmin objectiveᵀθ with rows·θ ≥ reward and factorᵀ|θ| ≤ budget."""
    columns: Any = rows.tocsc() if sp.issparse(rows) else np.asfortranarray(rows)

    def column(j: int) -> Array:
        return np.asarray(columns[:, [j]].toarray()[:, 0] if sp.issparse(columns) else columns[:, j])

    no_weight, no_limit = np.zeros(len(objective)), np.full(len(reward), np.inf)
    program = Program(objective, no_weight, column, lambda y: rows.T @ y, reward, no_limit, factor, budget)
    promising = np.argsort(-np.abs(objective), kind="stable")[:AT_ONCE]
    demanding = np.argsort(-reward, kind="stable")[:FIRST_ROWS]
    return minimise(program, {*np.flatnonzero(factor == 0).tolist(), *promising.tolist()}, demanding.tolist())
