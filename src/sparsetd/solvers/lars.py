"""LARS-TD: the whole regularisation path of the Lasso-TD fixed point (Kolter and Ng, 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers.active_set import ActiveSet, Column
from sparsetd.solvers.homotopy import Line, Walk, follow
from sparsetd.solvers.rows import RowSolver, RowState, System, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class Lars(RowSolver):
    """Follows the whole path of the Lasso-TD fixed point, from no feature down to the penalty that is asked for.

    θ with θ = argmin_u (1/2N)‖Φu − (R + ΨΘ)‖² + ρ‖u‖₁ at u = θ, for every ρ from ρ_max down to the one asked for.

    That is |b − Aθ|_i ≤ ρ, with b_i − (Aθ)_i = ρ sign(θ_i) where θ_i ≠ 0, for the means A = (1/N) Σ e(φ − ψ)ᵀ and
    b = (1/N) Σ r e. Not the minimum of anything: A is not symmetric. If A is a P-matrix (all principal minors positive)
    the path exists, is unique and ρ falls along it. If not, ρ may rise on the way (`n_turns` counts the turning points,
    each of them a proof that A is no P-matrix) and the path may end on a ray: then `status` is "ray" and θ is the point
    of the path with the smallest ρ (`rho_reached`). A quadratic term in the penalty, A + κI, is the usual remedy.

    At γ = 0 this is the Lasso, ρ being scikit-learn's `alpha`. `max_steps` bounds the events on the path. A `share` is
    the ρ to be reached as a share of ρ_max, in place of the penalty's.

    See also `sparsetd.LARSTD`: the estimator that takes this solver; `Lcp`: the same fixed point, with warm starts.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Lars())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000
    share: float | None = None

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        walk = lars_path(with_ridge(system, kappa * factors), system.b, rho, factors, self.max_steps, self.share)
        return path_solution(walk, state)


def lars_path(column: Column, b: Array, rho: float, factor: Array, max_steps: int, share: float | None = None) -> Walk:
    """From ρ_max = max_i |b_i|/factor_i, where only features without penalty (factor 0) are active, down to ρ."""
    active, zero = ActiveSet(column, len(b), np.flatnonzero(factor == 0).tolist()), np.zeros(len(b))
    c = b - active.columns @ active.solve(b[active.indices])
    penalised = factor > 0
    rho_max = float(np.max(np.abs(c[penalised]) / factor[penalised], initial=0.0))
    rho = rho if share is None else share * rho_max
    return follow(active, zero.copy(), Line(b, zero, zero, factor), max(rho, rho_max), rho, max_steps)


def with_ridge(system: System, ridge: Array) -> Column:
    """The columns of A + diag(ridge)."""
    if not ridge.any():
        return system.column

    def column(i: int) -> Array:
        out = np.array(system.column(i))
        out[i] += ridge[i]
        return out

    return column


def path_solution(walk: Walk, state: RowState) -> Solution:
    """The path as fitted attributes: `knots` (ρ), `path` (one sparse row per knot), `n_active`, `n_turns`."""
    best = len(walk.t) - 1 if walk.status in ("converged", "singular") else int(np.argmin(walk.t))
    path = sparse_rows(walk.indices, walk.values, state.n_features)
    coef = path[[best]].toarray()[0].astype(state.dtype)
    n_active = np.array([len(i) for i in walk.indices])
    return Solution(
        coef,
        coef.copy(),
        n_iter=walk.n_steps,
        status=walk.status,
        history={"rho": list(walk.t), "nonzeros": n_active.astype(float).tolist()},
        extras={
            "knots": np.array(walk.t),
            "path": path,
            "n_active": n_active,
            "n_turns": walk.n_turns,
            "rho_reached": walk.t[best],
        },
    )


def sparse_rows(indices: list[Array], values: list[Array], n_features: int) -> sp.csr_array:
    """One row per list entry."""
    indptr = np.concatenate([[0], np.cumsum([len(i) for i in indices])])
    return sp.csr_array((np.concatenate(values), np.concatenate(indices), indptr), shape=(len(indices), n_features))
