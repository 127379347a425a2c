"""The exact batch solver in the solvers' protocol: updates store rows, the result is solved and certified."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.solvers.saddle.linear import Linear, Matrix, mean_operator, refit, second_moments
from sparsetd.solvers.saddle.problem import RMSPBE, FitNorm, Problem, Terms
from sparsetd.solvers.saddle.solve import Family, Outcome, point_at, solve
from sparsetd.solvers.saddle.units import Units, whitened
from sparsetd.system import Array, Batch, Solution, Table


@dataclass
class SaddleState:
    """The rows seen so far and where to start."""

    n_features: int
    dtype: Any
    start: Array | None = None
    batches: list[Batch] = field(default_factory=list)

    def batch(self) -> Batch:
        """All rows as one batch of float64."""
        if len(self.batches) > 1:
            self.batches = [_joined(self.batches)]
        return self.batches[0]


@dataclass(frozen=True)
class Saddle:
    """min_x scale·‖Ax − b‖_m + h(x) on the mean system of all rows, to a certified relative duality gap of `tol`.

    `fit_norm` is m (1, 2 or "inf"), or "rmspbe" for m = 2 in the metric of C. The rows are kept and joined before
    anything is computed, so any chunking of the stream gives the same bits. With `standardize` the problem is posed for
    columns of one scale (centred where the last column is a `constant`), and x is handed back in the user's units. With
    `refit`, θ is LSTD's on the support of the minimiser, which stays in `coef_last`. After `time_limit` seconds the
    best point so far is returned with its gap. With `relative` the penalty's ρ_θ is a share of ρ_max.
    """

    fit_norm: int | str | float = 2
    scale: float = 1.0
    tol: float = 1e-8
    max_iter: int = 10_000
    method: str = "auto"
    refit: bool = False
    standardize: bool = False
    constant: bool = False
    time_limit: float | None = None
    relative: bool = False

    def init(self, table: Table, n_features: int, dtype: Any, coef_init: Array | None = None) -> SaddleState:
        FitNorm.of(self.fit_norm)
        start = None
        if coef_init is not None:
            start = np.zeros((table.n_blocks, n_features))
            given = np.atleast_2d(np.asarray(coef_init, dtype=np.float64))
            start[-len(given) :] = given
        return SaddleState(n_features, dtype, start)

    def update(
        self,
        state: SaddleState,
        batch: Batch,
        table: Table,  # noqa: ARG002 (the protocol's signature)
        penalty: Any,  # noqa: ARG002
        factor: Array | None = None,  # noqa: ARG002
    ) -> SaddleState:
        state.batches.append(_doubles(batch))
        return state

    def result(self, state: SaddleState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        batch, units = self.even(state.batch())
        return self.solution(self.problem(batch, table, penalty, factor), state, table, batch, units)

    def even(self, batch: Batch) -> tuple[Batch, Units]:
        """The rows with columns of one scale, if that is wanted, and the units that lead back."""
        if not self.standardize:
            return batch, Units.none(batch.n_features, self.constant)
        units = Units.of(batch.phi, self.constant)
        return units.applied(batch), units

    def solution(self, problem: Problem, state: SaddleState, table: Table, batch: Batch, units: Units) -> Solution:
        """The problem on the rows of the state solved to `tol`, in the user's units."""
        start = None if state.start is None else point_at(problem, units.forth(state.start).ravel())
        how = {"method": self.method, "time_limit": self.time_limit}
        outcome = solve(problem, tol=self.tol, start=start, max_iter=self.max_iter, **how)  # type: ignore[arg-type]
        if outcome.status != "converged":
            _warn_not_converged(outcome, self.tol)
        return self.handed_back(problem, outcome, state, table, batch, units)

    def handed_back(
        self, problem: Problem, outcome: Outcome, state: SaddleState, table: Table, batch: Batch, units: Units
    ) -> Solution:
        """The outcome as a solution, refitted if that is wanted, in the user's units."""
        solution = _solution(problem, outcome, table)
        selected = np.flatnonzero(solution.coef)
        if self.refit and len(selected):
            solution.coef[selected] = refit(table, batch, selected)
        for name in ("coef", "coef_last", "aux", "dual"):
            values = getattr(solution, name)
            setattr(solution, name, None if values is None else units.back(values).astype(state.dtype))
        return solution

    def problem(self, batch: Batch, table: Table, penalty: Any, factor: Array | None = None) -> Problem:
        """The problem that `result` solves."""
        A = self.measured(mean_operator(table, batch, form=True if self.fit_norm == RMSPBE else None), batch)
        norm = FitNorm.of(self.fit_norm, self.scale)
        if self.relative:
            largest = Family(A, norm, penalty, table.n_blocks, factor).rho_max()
            penalty = replace(penalty, rho_theta=penalty.rho_theta * largest)
        return Problem(A, norm, Terms.of(penalty, table.n_blocks, batch.n_features, factor))

    def measured(self, A: Linear, batch: Batch) -> Linear:
        """The system whose Euclidean residual is measured in the metric that `fit_norm` asks for."""
        if self.fit_norm != RMSPBE:
            return A
        if not isinstance(A, Matrix) or len(A.b) != batch.n_features:
            raise ValueError('fit_norm="rmspbe" measures θ alone, with C formed: leave out rho_w, or take fit_norm=2')
        return Matrix(*whitened(A.A, A.b, second_moments(batch)))


def _solution(problem: Problem, outcome: Outcome, table: Table) -> Solution:
    point = outcome.point
    x, y = (part.reshape(table.n_blocks, -1) for part in (point.x, point.y))
    extras: dict[str, Any] = {
        "dual_gap": point.gap,
        "objective": point.primal,
        "n_applications": problem.n_applications,
    }
    if len(x) == 2:
        extras["absorbed"] = absorbed(problem, point.x)
    return Solution(
        coef=x[-1].copy(),
        coef_last=x[-1].copy(),
        n_iter=len(outcome.trail.gap),
        status=outcome.status,
        aux=x[0] if len(x) == 2 else None,
        dual=y,
        history=outcome.trail.columns(),
        extras=extras,
    )


def absorbed(problem: Problem, x: Array) -> float:
    """1 − ‖A[w; θ] − b‖ / ‖A[0; θ] − b‖: the share of θ's residual that w hides; warns when there is any."""
    w = x[: len(x) // 2]
    if not w.any():
        return 0.0
    alone = np.concatenate([np.zeros_like(w), x[len(w) :]])
    with_w, without = (problem.norm.value(problem.A.apply(v) - problem.A.b) for v in (x, alone))
    share = 1.0 - with_w / without if without > 0 else 0.0
    warnings.warn(
        f"w absorbs {share:.0%} of the residual in place of theta ({np.count_nonzero(w)} non-zero entries of w): rho_w "
        "is too small for rho_theta; use rho_w=None, which drops w",
        stacklevel=2,
    )
    return share


def _warn_not_converged(outcome: Outcome, tol: float) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"the relative duality gap is {outcome.point.relative_gap:.1e}, above tol={tol:.1e}: raise max_iter, tol or "
        "rho_theta",
        ConvergenceWarning,
        stacklevel=3,
    )


def _doubles(batch: Batch) -> Batch:
    """A copy with float64 features: what the caller does to its arrays afterwards is its own affair."""
    phi, phi_next = (rows.astype(np.float64) for rows in (batch.phi, batch.phi_next))
    return Batch(phi, phi_next, batch.reward, batch.discount, batch.ratio, batch.start, batch.interest)


def _joined(batches: list[Batch]) -> Batch:
    def stack(name: str) -> Any:
        parts = [getattr(batch, name) for batch in batches]
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr"))
        return np.concatenate(parts)

    return Batch(*(stack(name) for name in ("phi", "phi_next", "reward", "discount", "ratio", "start", "interest")))
