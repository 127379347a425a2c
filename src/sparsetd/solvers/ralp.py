"""RALP: ℓ1-regularised approximate linear programming (Petrik et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsetd.solvers.linear_program import between, minimise, within
from sparsetd.solvers.rows import Rows, RowSolver, RowState, RowSystem, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Ralp(RowSolver):
    """min_θ mean_t φ_tᵀθ subject to φ_tᵀθ ≥ r_t + ψ_tᵀθ for every sample and Σ_i factor_i|θ_i| ≤ budget.

    The smallest value function that satisfies every sampled Bellman inequality: an upper bound on the values of the
    sampled states, for deterministic transitions. With random ones each sample is taken at its word, so the bound is
    loose: this method has no expectation in it. Samples of one state under several actions make it a method for
    control. Keep a constant feature without penalty: with γ < 1 it makes the program feasible for any budget.

    Every row counts once, in the mean with its ratio × interest; rows where that is zero are left out.
    """

    keep_rows: ClassVar[bool] = True
    budget: float = 1.0

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        if table.lam:
            raise ValueError("RALP has one Bellman inequality per sample and no traces: use lam=0")
        system = state.system()
        assert isinstance(system, RowSystem)  # keep_rows
        factors = weights(penalty, factor, state.n_features)[2]
        used = np.flatnonzero(system.weight)
        objective = np.asarray(system.left.sum(axis=0)).ravel() / len(system.reward)
        theta, status = ralp(objective, system.right[used], system.reward[used], factors, self.budget)
        coef = theta.astype(state.dtype)
        return Solution(coef, coef.copy(), 1, status, extras={"objective": float(objective @ theta)})


def ralp(objective: Array, rows: Rows, reward: Array, factor: Array, budget: float) -> tuple[Array, str]:
    """argmin objectiveᵀθ with rows·θ ≥ reward and factorᵀ|θ| ≤ budget."""
    return minimise(objective, np.zeros(len(objective)), [between(reward, rows, np.inf), within(factor, budget)])
