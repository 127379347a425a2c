"""The exact batch solver in the solvers' protocol: updates store rows, the result is solved and certified."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsetd.solvers.mean import Linear, Matrix, mean_operator, refit, second_moments
from sparsetd.solvers.rows import Fold, RowSolver, RowState
from sparsetd.solvers.saddle.family import Family, Outcome, point_at, solve
from sparsetd.solvers.saddle.problem import RMSPBE, FitNorm, Problem
from sparsetd.solvers.saddle.units import Units, whitened
from sparsetd.system import Array, Batch, Solution, Table


@dataclass(frozen=True)
class Saddle(RowSolver):
    """min_x scale·‖Ax − b‖_m + h(x) on the mean system of all rows, to a certified relative duality gap of `tol`.

    `fit_norm` is m (1, 2 or "inf"), or "rmspbe" for m = 2 in the metric of C. The rows are kept and joined before
    anything is computed, so any chunking of the stream gives the same bits. With `standardize` the problem is posed for
    columns of one scale (centred where the last column is a `constant`), and x is handed back in the user's units. With
    `refit`, θ is LSTD's on the support of the minimiser, which stays in `coef_last`. After `time_limit` seconds the
    best point so far is returned with its gap. With `relative` the penalty's ρ_θ is a share of ρ_max.
    """

    fold: ClassVar[Fold] = "never"
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

    def init(self, table: Table, n_features: int, dtype: Any, coef_init: Array | None = None) -> RowState:
        FitNorm.of(self.fit_norm)
        start = None
        if coef_init is not None:
            start = np.zeros((table.n_blocks, n_features))
            given = np.atleast_2d(np.asarray(coef_init, dtype=np.float64))
            start[-len(given) :] = given
        return RowState(n_features, np.dtype(dtype).name, start)

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        batch, units = self.even(state.batch())
        return self.solution(self.problem(batch, table, penalty, factor), state, table, batch, units)

    def even(self, batch: Batch) -> tuple[Batch, Units]:
        """The rows with columns of one scale, if that is wanted, and the units that lead back."""
        if not self.standardize:
            return batch, Units.none(batch.n_features, self.constant)
        units = Units.of(batch.phi, self.constant)
        return units.applied(batch), units

    def problem(self, batch: Batch, table: Table, penalty: Any, factor: Array | None = None) -> Problem:
        """The problem that `result` solves."""
        family = self.family(batch, table, penalty, factor)
        return family.problem(penalty.rho_theta * family.rho_max() if self.relative else None)

    @property
    def projected(self) -> bool:
        return self.fit_norm == RMSPBE

    def system(self, table: Table, batch: Batch, weight: Array | None = None) -> Linear:
        """The mean system of these rows; `weight` reweights them."""
        if self.projected and table.n_blocks > 1:
            raise ValueError('fit_norm="rmspbe" measures θ alone, with C formed: leave out rho_w, or take fit_norm=2')
        return mean_operator(table, batch, weight, form=True if self.projected else None)

    def family(
        self, batch: Batch, table: Table, penalty: Any, factor: Array | None = None, system: Linear | None = None
    ) -> Family:
        """The problems on these rows, which have one scale already, for every ρ_θ; or on another `system` of them."""
        A = self.system(table, batch) if system is None else system
        if self.projected and isinstance(A, Matrix):
            A = Matrix(*whitened(A.A, A.b, second_moments(batch)))
        return Family(A, FitNorm.of(self.fit_norm, self.scale), penalty, table.n_blocks, factor)

    def solution(self, problem: Problem, state: RowState, table: Table, batch: Batch, units: Units) -> Solution:
        """The problem on the rows of the state solved to `tol`, refitted if that is wanted, in the user's units."""
        start = None if state.coef_init is None else point_at(problem, units.forth(state.coef_init).ravel())
        limits = {"max_iter": self.max_iter, "time_limit": self.time_limit}
        outcome = solve(problem, tol=self.tol, start=start, method=self.method, **limits)  # type: ignore[arg-type]
        if outcome.status != "converged":
            warnings.warn(
                f"the relative duality gap is {outcome.point.relative_gap:.1e}, above tol={self.tol:.1e}: raise "
                "max_iter, tol or rho_theta",
                ConvergenceWarning,
                stacklevel=2,
            )
        solution = _solution(problem, outcome, table)
        selected = np.flatnonzero(solution.coef)
        if self.refit and len(selected):
            solution.coef[selected] = refit(table, batch, selected)
        for name in ("coef", "coef_last", "aux", "dual"):
            values = getattr(solution, name)
            setattr(solution, name, None if values is None else units.back(values).astype(state.dtype))
        return solution


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
        history={"relative_gap": outcome.trail.gap, "n_working": outcome.trail.n_working},
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
