"""min_x F(Ax − b) + h(x), with proof: one problem, and one problem for many values of ρ_θ.

A path goes from ρ_max, where θ = 0, downwards, each solution the start of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from sparsetd.solvers.mean import Linear
from sparsetd.solvers.saddle.newton import Columns, solve_on_working_set
from sparsetd.solvers.saddle.pdhg import pdhg
from sparsetd.solvers.saddle.problem import FitNorm, Point, Problem, Terms, Trail
from sparsetd.solvers.saddle.support import polished
from sparsetd.system import Array

METHODS = ("auto", "working_set", "pdhg")


@dataclass(frozen=True)
class Outcome:
    """The certified pair, whether it met the tolerance, and how it got there."""

    point: Point
    status: str
    trail: Trail


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
) -> Outcome:
    """Minimises to a relative duality gap of `tol`, from x = 0 or from `start`.

    "working_set" solves ever larger selections of features by Newton steps, "pdhg" takes first-order steps on all of
    them, and "auto" begins with the first and turns to the second once more than `max_working` features are wanted.
    `columns` keeps what has been computed of A for the next call on the same data. After `time_limit` seconds the best
    point so far is returned, with its gap.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    trail = Trail(until=np.inf if time_limit is None else monotonic() + time_limit)
    point = point_at(problem) if start is None else start
    # The factorisations are small: on a busy machine they lose far more to waiting threads than they gain.
    with _threads().limit(limits=1, user_api="blas"):
        if method != "pdhg":
            limit = max_working if method == "auto" else problem.A.size
            point = solve_on_working_set(problem, tol, point, columns, limit, trail=trail)
        if method != "working_set" and point.relative_gap > tol:
            point = pdhg(problem, tol, point, max_iter, trail)
        if polish and point.relative_gap > 0.0:
            point = polished(problem, point)
            trail.note(point, int(np.count_nonzero(point.x)))
    return Outcome(point, "converged" if point.relative_gap <= tol else "not_converged", trail)


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


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
        if self.n_blocks == 1 and not len(one.terms.free):
            z = self.A.adjoint(one.residual_dual(np.zeros(self.A.size)))
        else:
            start = point_at(one)
            size = float(np.max(one.terms.magnitude(start.z)[penalised] / one.terms.l1[penalised], initial=1.0))
            z = solve(self.problem(BEYOND * size), tol=1e-9).point.z
        return float(np.max(one.terms.magnitude(z)[penalised] / one.terms.l1[penalised]))

    def solutions(self, rhos: Array, tol: float, polish: bool = True) -> Iterator[Outcome]:
        """The solution at each ρ_θ in turn, lazily: stop asking and the rest is not computed."""
        last: Point | None = None
        for rho in rhos:
            problem = self.problem(float(rho))
            # The products come along, so that a warm start costs no pass over the data.
            start = None if last is None else problem.point(last.x, last.y, last.Ax, last.z)
            outcome = solve(problem, tol=tol, start=start, columns=self.columns, polish=polish)
            last = outcome.point
            yield outcome

    def supports(self, n_rhos: int, eps: float) -> Iterator[Array]:
        """The θ_i that are not zero or not penalised, for falling ρ_θ; none where ρ_max is 0."""
        top, free = self.rho_max(), self.free
        for outcome in self.solutions(rho_grid(top, n_rhos, eps), SUPPORT_TOLERANCE, polish=False) if top > 0 else ():
            yield (outcome.point.x[-len(free) :] != 0) | free

    def last_support(self, limit: int, n_rhos: int = 60, eps: float = 1e-3) -> Array:
        """The last of the `supports` that has at most `limit` penalised features."""
        last = self.free
        for support in self.supports(n_rhos, eps):
            if np.count_nonzero(support & ~self.free) > limit:
                break
            last = support
        return last


def rho_grid(rho_max: float, n_rhos: int, eps: float) -> Array:
    """Log-spaced from ρ_max to eps·ρ_max."""
    return np.geomspace(rho_max, eps * rho_max, n_rhos) if rho_max > 0 else np.zeros(n_rhos)
