"""LSTD with an ℓ1 penalty on the residual of its own equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers.lars import lars_path, path_solution
from sparsetd.solvers.rows import MatrixSystem, RowSolver, RowState, System, weights
from sparsetd.system import Array, Solution, Table


@dataclass(frozen=True)
class LstdL1(RowSolver):
    """Minimises the squared residual of the LSTD equation plus an l1 penalty, which is convex for every policy.

    min_θ ½‖Aθ − b‖² + ρ‖θ‖₁, a Lasso whose rows are the LSTD equations.

    With `projected` the residual is measured in C⁻¹, C = E[φφᵀ]: ‖Aθ − b‖²_{C⁻¹} is the projected Bellman error, and
    the method is ℓ1-PBR. C⁻¹ is the pseudo-inverse where C is singular, as it always is with more features than rows.

    Convex, unlike Lasso-TD, so it exists for every A and every policy. The whole path is followed on the normal
    equations; their matrix is positive semidefinite, so the path never turns.

    See also `Lars`: the Lasso-TD fixed point, which need not exist off-policy.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.LstdL1())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000
    projected: bool = False

    @property
    def needs_phi(self) -> bool:
        return self.projected

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:  # noqa: ARG002
        system = state.system()
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        root = inverse_root(system) if self.projected else None

        def pulled_back(v: Array) -> Array:
            """AᵀC⁻¹v, or Aᵀv."""
            return system.adjoint(v if root is None else root.T @ (root @ v))

        def column(i: int) -> Array:
            out = pulled_back(system.column(i))
            out[i] += kappa * factors[i]
            return out

        return path_solution(lars_path(column, pulled_back(system.b), rho, factors, self.max_steps), state)


def inverse_root(system: System) -> Array:
    """W with WᵀW = C⁺, from the eigenvalues of C, or from the singular values of Φ where that has fewer rows."""
    if isinstance(system, MatrixSystem):
        return _root(system.C)
    n, d = system.phi.shape
    if n >= d:
        gram = system.phi.T @ system.phi / n
        return _root(gram.toarray() if sp.issparse(gram) else gram)
    phi = system.phi.toarray() if sp.issparse(system.phi) else system.phi
    _, sigma, V = np.linalg.svd(phi / np.sqrt(n), full_matrices=False)
    return np.asarray(V[_kept(sigma)] / sigma[_kept(sigma), None])


def _root(C: Array) -> Array:
    values, vectors = np.linalg.eigh(C)
    kept = values > len(C) * np.finfo(np.float64).eps * values[-1]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


def _kept(sigma: Array) -> Array:
    """The singular values whose squares are not rounding."""
    return np.asarray(sigma > np.sqrt(len(sigma) * np.finfo(np.float64).eps) * sigma[0])
