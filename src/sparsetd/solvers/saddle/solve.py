"""min_x F(Ax − b) + h(x), with proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import monotonic

import numpy as np
from threadpoolctl import ThreadpoolController

from sparsetd.solvers.saddle.certificate import Point, Problem, Trail
from sparsetd.solvers.saddle.columns import Columns
from sparsetd.solvers.saddle.pdhg import pdhg
from sparsetd.solvers.saddle.polish import polished
from sparsetd.solvers.saddle.working_set import solve_on_working_set
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
