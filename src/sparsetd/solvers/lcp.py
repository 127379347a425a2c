"""LCP-TD: the Lasso-TD fixed point as a linear complementarity problem with warm starts (Johns et al., 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.solvers.active_set import ActiveSet, Column
from sparsetd.solvers.homotopy import Line, Walk, follow
from sparsetd.solvers.lars import with_ridge
from sparsetd.solvers.rows import RowSolver, RowState, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Lcp(RowSolver):
    """Solves the Lasso-TD fixed point from a warm start: take it where a nearby solution is known, as in control.

    θ and c = b − Aθ with −ρ ≤ c ≤ ρ, θ_i > 0 ⇒ c_i = ρ, θ_i < 0 ⇒ c_i = −ρ: a complementarity problem with bounds.

    It is solved by a parametric (Lemke-type) path: the system (A, b') that `coef_init` solves exactly is moved along a
    line to the system (A, b), and the solution follows by pivots. So a start whose signs are right costs no pivot at
    all, and a start from the previous policy about as many as there are changes in the active set. From θ = 0 the path
    is LARS-TD's. If the path from the warm start fails (A is no P-matrix), the one from zero is tried.

    See also `Lars`: the same fixed point, with its whole path.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Lcp())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        column, bound = with_ridge(system, kappa * factors), rho * factors
        warm = state.coef_init is not None and bool(np.any(state.coef_init))
        walk = lcp_path(column, system.b, bound, self.max_steps, state.coef_init if warm else None)
        pivots = walk.n_steps
        if warm and walk.status != "converged":
            walk, warm = lcp_path(column, system.b, bound, self.max_steps), False
            pivots += walk.n_steps
        coef = np.zeros(state.n_features, dtype=state.dtype)
        coef[walk.indices[-1]] = walk.values[-1]
        return Solution(
            coef, coef.copy(), pivots, walk.status, extras={"n_pivots": pivots, "n_turns": walk.n_turns, "warm": warm}
        )


def lcp_path(column: Column, b: Array, bound: Array, max_steps: int, start: Array | None = None) -> Walk:
    """From the system that `start` (default: only features without bound are non-zero) solves, at t = 1, to t = 0."""
    begin = np.zeros(len(b)) if start is None else np.array(start, dtype=np.float64)
    active = ActiveSet(column, len(b), np.flatnonzero((bound == 0) | (begin != 0)).tolist())
    sign = np.zeros(len(b))
    sign[active.indices] = np.sign(begin[active.indices])
    sign[bound == 0] = 0.0
    values = begin[active.indices] if start is not None else active.solve(b[active.indices])
    product = active.columns @ values
    c = b - product
    if start is None:  # shrink c until it is inside its bounds: one index enters first, as in LARS-TD
        inside = c * min(1.0, 1.0 / float(np.max(np.abs(c)[bound > 0] / bound[bound > 0], initial=1.0)))
    else:  # c must be at its bound where θ is not zero; elsewhere violated entries start from 0, the worst enters first
        inside = np.where(np.abs(c) <= bound, c, 0.0)
        inside[active.indices] = sign[active.indices] * bound[active.indices]
    return follow(active, sign, Line(b, inside + product - b, bound, np.zeros(len(b))), 1.0, 0.0, max_steps)
