"""min_x F(Ax − b) + h(x), with proof: one problem, one problem for many values of ρ_θ, and a solver of estimators.

A path goes from ρ_max, where θ = 0, downwards, each solution the start of the next. As a solver of the protocol,
updates store rows, and the result is solved and certified.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsetd._tools.workers import thread_pools
from sparsetd.solvers.mean import Linear, Matrix, mean_operator, refit, second_moments
from sparsetd.solvers.rows import Fold, RowSolver, RowState
from sparsetd.solvers.saddle.newton import Columns, solve_on_working_set
from sparsetd.solvers.saddle.pdhg import pdhg
from sparsetd.solvers.saddle.problem import RMSPBE, FitNorm, Point, Problem, Terms
from sparsetd.solvers.saddle.scaling import Units, whitened
from sparsetd.solvers.saddle.support import polished
from sparsetd.system import Array, Batch, Solution, Table

METHODS = ("auto", "working_set", "pdhg")


def point_at(problem: Problem, x: Array | None = None) -> Point:
    """x (or 0) with the dual point that its residual proposes."""
    Ax = np.zeros(problem.A.size) if x is None else problem.apply(x)
    return problem.point(np.zeros(problem.A.size) if x is None else x, problem.residual_dual(Ax), Ax)


def solve(
    problem: Problem,
    *,
    tol: float = 1e-8,
    start: Point | None = None,
    method: str = "auto",
    max_iter: int = 10_000,
    max_working: int = 4000,
    columns: Columns | None = None,
    polish: bool = True,
    time_limit: float | None = None,
) -> Point:
    """Minimises to a relative duality gap of `tol`, from x = 0 or from `start`.

    "working_set" solves ever larger selections of features by Newton steps, "pdhg" takes first-order steps on all of
    them, and "auto" begins with the first and turns to the second once more than `max_working` features are wanted.
    `columns` keeps what has been computed of A for the next call on the same data. After `time_limit` seconds the best
    point so far is returned, with its gap.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    problem.until = np.inf if time_limit is None else monotonic() + time_limit
    problem.history = {"relative_gap": [], "n_working": []}
    point = point_at(problem) if start is None else start
    # The factorisations are small: on a busy machine they lose far more to waiting threads than they gain.
    with thread_pools().limit(limits=1, user_api="blas"):
        if method != "pdhg":
            limit = max_working if method == "auto" else problem.A.size
            point = solve_on_working_set(problem, tol, point, columns or Columns(problem.A), limit)
        if method != "working_set" and point.relative_gap > tol:
            point = pdhg(problem, tol, point, max_iter)
        if polish and point.relative_gap > 0.0:
            point = polished(problem, point)
            problem.note(point, int(np.count_nonzero(point.x)))
    return point


BEYOND = 1e9  # times a weight of 1: no feature enters
SUPPORT_TOLERANCE = 1e-4  # relative duality gap where a support is wanted, not digits


@dataclass
class Family:
    """min_x F(Ax − b) + h(x) for every weight ρ_θ of one penalty on one system."""

    A: Linear
    norm: FitNorm
    penalty: Any
    n_blocks: int
    factor: Array | None = None

    def __post_init__(self) -> None:
        self.columns = Columns(self.A)  # those that were needed are kept for the next problem

    @property
    def free(self) -> Array:
        """The features that no penalty touches."""
        n_features = self.A.size // self.n_blocks
        return np.zeros(n_features, dtype=bool) if self.factor is None else self.factor == 0

    def problem(self, rho: float | None = None) -> Problem:
        """The problem with this ρ_θ, or with the penalty's own."""
        penalty = self.penalty if rho is None else replace(self.penalty, rho_theta=rho)
        terms = Terms.of(penalty, self.n_blocks, self.A.size // self.n_blocks, self.factor)
        return Problem(self.A, self.norm, terms)

    def rho_max(self) -> float:
        """The smallest ρ_θ at which every penalised θ_i is 0: max_i |(Aᵀy)_i| / factor_i with y = c b/‖b‖₂ (m = 2).

        With unpenalised features, or a w that is not 0, y is the dual point of the solution in those alone.
        """
        one = self.problem(1.0)
        theta = np.arange(self.A.size) >= self.A.size - self.A.size // self.n_blocks
        penalised = theta & (one.terms.l1 > 0)
        if not penalised.any():
            raise ValueError("rho_max exists only for a penalty with an L1 or group part: use l1_ratio > 0")
        start = point_at(one)
        size = float(np.max(one.terms.magnitude(start.z)[penalised] / one.terms.l1[penalised], initial=1.0))
        z = solve(self.problem(BEYOND * size), tol=1e-9).z
        return float(np.max(one.terms.magnitude(z)[penalised] / one.terms.l1[penalised]))

    def solutions(self, rhos: Array, tol: float, polish: bool = True) -> Iterator[Point]:
        """The solution at each ρ_θ in turn, lazily: stop asking and the rest is not computed."""
        last: Point | None = None
        for rho in rhos:
            problem = self.problem(float(rho))
            # The products come along, so that a warm start costs no pass over the data.
            start = None if last is None else problem.point(last.x, last.y, last.Ax, last.z)
            last = solve(problem, tol=tol, start=start, columns=self.columns, polish=polish)
            yield last

    def last_support(self, limit: int, n_rhos: int = 60, eps: float = 1e-3) -> Array:
        """The θ_i that are not zero or not penalised, at the last ρ_θ of a path with at most `limit` penalised ones."""
        top, last = self.rho_max(), self.free
        for point in self.solutions(rho_grid(top, n_rhos, eps), SUPPORT_TOLERANCE, polish=False) if top > 0 else ():
            support = (point.x[-len(last) :] != 0) | self.free
            if np.count_nonzero(support & ~self.free) > limit:
                break
            last = support
        return last


def rho_grid(rho_max: float, n_rhos: int, eps: float) -> Array:
    """Log-spaced from ρ_max to eps·ρ_max."""
    return np.geomspace(rho_max, eps * rho_max, n_rhos) if rho_max > 0 else np.zeros(n_rhos)


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

    def family(
        self, batch: Batch, table: Table, penalty: Any, factor: Array | None = None, weight: Array | None = None
    ) -> Family:
        """The problems on these rows, which have one scale already, for every ρ_θ; `weight` reweights the rows."""
        projected = self.fit_norm == RMSPBE
        if projected and table.n_blocks > 1:
            raise ValueError('fit_norm="rmspbe" measures θ alone, with C formed: leave out rho_w, or take fit_norm=2')
        A = mean_operator(table, batch, weight, form=projected or None)
        if projected and isinstance(A, Matrix):
            A = Matrix(*whitened(A.A, A.b, second_moments(batch)))
        return Family(A, FitNorm.of(self.fit_norm, self.scale), penalty, table.n_blocks, factor)

    def solution(
        self, problem: Problem, state: RowState, table: Table, batch: Batch, units: Units, kept: Array | None = None
    ) -> Solution:
        """The problem on the rows of the state solved to `tol`, in the user's units.

        If a refit is wanted, θ is LSTD's on the features that are not zero, or on those that were `kept`.
        """
        start = None if state.coef_init is None else point_at(problem, units.forth(state.coef_init).ravel())
        limits = {"max_iter": self.max_iter, "time_limit": self.time_limit}
        point = solve(problem, tol=self.tol, start=start, method=self.method, **limits)  # type: ignore[arg-type]
        converged, two = point.relative_gap <= self.tol, table.n_blocks == 2
        if not converged:
            warnings.warn(
                f"the relative duality gap is {point.relative_gap:.1e}, above tol={self.tol:.1e}: raise "
                "max_iter, tol or rho_theta",
                ConvergenceWarning,
                stacklevel=2,
            )
        x, y = (part.reshape(table.n_blocks, -1) for part in (point.x, point.y))
        found = {"dual_gap": point.gap, "objective": point.primal, "n_applications": problem.n_applications}
        solution = Solution(
            coef=x[-1].copy(),
            coef_last=x[-1].copy(),
            n_iter=len(problem.history["relative_gap"]),
            status="converged" if converged else "not_converged",
            aux=x[0] if two else None,
            dual=y,
            history=problem.history,
            extras=found | ({"absorbed": absorbed(problem, point.x)} if two else {}),
        )
        selected = np.flatnonzero(solution.coef) if kept is None else kept
        if self.refit:
            solution.coef[:] = 0.0
            solution.coef[selected] = refit(table, batch, selected) if len(selected) else 0.0
        for name in ("coef", "coef_last", "aux", "dual"):
            values = getattr(solution, name)
            setattr(solution, name, None if values is None else units.back(values).astype(state.dtype))
        return solution


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
