"""LSTD(λ): collect the mean system of θ and solve it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from sparsetd.solvers.mean import MeanOperator, gathered, mixed
from sparsetd.solvers.rows import Fold, Posed, RowSolver, factors
from sparsetd.system import Array, Solution, dense


@dataclass(frozen=True)
class LeastSquares(RowSolver):
    """Solves the mean LSTD system exactly, with a ridge where one is asked for: take it where features are few.

    (A + D) θ = b with A = E[e(φ − γφ')ᵀ], b = E[r e] and a ridge D; a singular system has its shortest solution.

    With more rows than features the cost is O(d²) per row and in memory. With fewer, the system becomes N × N, because
    A = LᵀR/N. With a ridge on every feature θ = D⁻¹Lᵀc where (RD⁻¹Lᵀ/N + I) c = r/N; without any ridge the system is
    solved in the spans of L and R. In sparse rows, features that never occur cost nothing. `rank_` reports the
    numerical rank.

    See also `sparsetd.LSTD`: the estimator that takes this solver.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, solver=solvers.LeastSquares())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> bool(np.abs(model.coef_ - mdp.theta_star).max() < 0.15)
    True
    """

    fold: ClassVar[Fold] = "always"

    def solve(self, given: Posed) -> Solution:
        if given.rho:
            raise ValueError("least squares takes no penalty but a ridge; for sparsity use LARSTD, SparseTD or ROTD")
        system, ridge = given.system, given.ridge
        if isinstance(system, MeanOperator) and system.batch.is_sparse and len(system.batch) < len(ridge):
            theta, rank = _solve_what_occurs(system, ridge)
        else:
            theta, rank = _solve(system, ridge)
        status = "converged" if rank == len(theta) else "singular"
        return Solution(theta, theta.copy(), given.state.n_samples, status, extras={"rank": rank})


def _solve(system: Any, ridge: Array) -> tuple[Array, int]:
    alike = ridge.any() == ridge.all()
    if alike and isinstance(system, MeanOperator) and len(system.batch) < len(ridge):
        return solve_by_rows(system, ridge) if ridge.all() else solve_in_spans(system)
    return solve(gathered(system, np.arange(len(ridge))) + np.diag(ridge), system.b)


def _solve_what_occurs(system: MeanOperator, ridge: Array) -> tuple[Array, int]:
    """Return θ and the rank. A feature that occurs in no row gets no weight, and adds to the rank only by a ridge."""
    rows: tuple[Any, Any] = system.batch.phi, system.batch.phi_next
    occurs = np.union1d(rows[0].indices, rows[1].indices)
    narrow = replace(system.batch, phi=rows[0][:, occurs], phi_next=rows[1][:, occurs])
    theta = np.zeros(len(ridge))
    theta[occurs], rank = _solve(replace(system, batch=narrow), ridge[occurs])
    return theta, rank + int(np.count_nonzero(ridge) - np.count_nonzero(ridge[occurs]))


def solve_by_rows(system: MeanOperator, ridge: Array) -> tuple[Array, int]:
    """Return θ = D⁻¹Lᵀc where (RD⁻¹Lᵀ/N + I) c = r/N, and the rank of LᵀR/N + D: both systems lack the same rank."""
    left, right = _sides(system)
    n, d = left.shape
    scaled = left / ridge
    c, rank = solve(right @ scaled.T / n + np.eye(n), system.batch.reward / n)
    return scaled.T @ c, d - n + rank


def solve_in_spans(system: MeanOperator) -> tuple[Array, int]:
    """θ = Qz where (ST/N) z = S r/N, Lᵀ = PS and Rᵀ = QTᵀ. P and Q are orthonormal, so norms and rank are kept."""
    left, right = _sides(system)
    n = len(left)
    _, S = scipy.linalg.qr(left.T, mode="economic")
    Q, T = scipy.linalg.qr(right.T, mode="economic")
    z, rank = solve(S @ T.T / n, S @ system.batch.reward / n)
    return Q @ z, rank


def _sides(system: MeanOperator) -> tuple[Array, Array]:
    """L and R of A = LᵀR/N, with the rows l_t = B_t m and r_t = B_t v of A_t = l_t r_tᵀ."""
    rows, _ = system.rows(slice(None), np.zeros(system.size))
    left, right = (dense(mixed(side, rows)) for side in factors(system.table))
    return left, right


def solve(A: Array, b: Array) -> tuple[Array, int]:
    """Return the shortest θ that minimises ‖Aθ − b‖₂, and the numerical rank of A.

    Features in very different units look dependent. A system that lacks rank is therefore tried again with rows and
    columns of unit length; if that system is regular, it has the same solution.
    """
    theta, rank = _shortest(A, b)
    if rank < len(b):
        rows = 1.0 / np.maximum(np.linalg.norm(A, axis=1), np.finfo(np.float64).tiny)
        columns = 1.0 / np.maximum(np.linalg.norm(rows[:, None] * A, axis=0), np.finfo(np.float64).tiny)
        even, full = _shortest(rows[:, None] * A * columns, rows * b)
        if full == len(b):
            return columns * even, full
    return theta, rank


def _shortest(A: Array, b: Array) -> tuple[Array, int]:
    theta, _, rank, _ = scipy.linalg.lstsq(A, b, cond=len(b) * np.finfo(np.float64).eps, lapack_driver="gelsd")
    return np.asarray(theta), int(rank)
