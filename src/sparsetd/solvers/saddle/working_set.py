"""Solves on the few features that matter, and proves on all of them that no other one does.

At the optimum |(Aᵀy)_i| < l1_i for the features left out. So: solve with the features W, take the dual point to all of
A (one product), add those whose constraint it violates, and stop when the duality gap *of the whole problem* is small.
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.saddle.certificate import Point, Problem, Trail
from sparsetd.solvers.saddle.columns import KEEP_BELOW, Columns
from sparsetd.solvers.saddle.linear import Matrix
from sparsetd.solvers.saddle.newton import proximal_newton
from sparsetd.solvers.saddle.sign_search import sign_search
from sparsetd.system import Array

FIRST = 20  # features to begin with; the set at most doubles from round to round


def solve_on_working_set(
    problem: Problem,
    tol: float,
    start: Point,
    columns: Columns | None = None,
    max_working: int = 4000,
    max_rounds: int = 50,
    trail: Trail | None = None,
) -> Point:
    """Improves `start` until its relative gap is at most `tol`, or the working set exceeds `max_working`."""
    columns = Columns(problem.A) if columns is None else columns
    trail = Trail() if trail is None else trail
    best, accuracy, finest = start, 1e-2, 0.3 * tol
    wanted = np.flatnonzero((start.x != 0) | (problem.terms.l1 == 0))
    wanted = np.union1d(wanted, _violators(problem, start.z, np.inf, max(FIRST, len(wanted))))
    for _ in range(max_rounds):
        trail.note(best, len(columns.index))
        wanted = _whole_groups(problem, wanted)
        done = best.relative_gap <= tol or finest < 1e-15 or trail.late
        if done or len(wanted) > max_working or _too_large(problem, wanted):
            break
        problem.n_columns += columns.extend(wanted)
        accuracy = max(finest, min(accuracy, 0.1 * best.relative_gap))
        point, z_raw, accuracy = _restricted(problem, columns, best, accuracy, finest, trail)
        best = best.merged(point)
        wanted = np.setdiff1d(_violators(problem, z_raw, 1.0 + accuracy, max(FIRST, len(columns.index))), columns.index)
        if not len(wanted):  # the features are right and the digits are missing
            finest, accuracy = (finest if accuracy > finest else 0.1 * finest), 0.1 * accuracy
        wanted = np.append(columns.index, wanted)
    return best


def _too_large(problem: Problem, wanted: Array) -> bool:
    """Only the Euclidean norm lets A_W be compressed; the others need it in memory."""
    return problem.norm.m != 2.0 and problem.A.size * len(wanted) > KEEP_BELOW


def _violators(problem: Problem, z: Array, beyond: float, at_most: int) -> Array:
    """The coordinates with the largest |(Aᵀy)_i| / l1_i; with a finite `beyond`, only those above it."""
    l1 = problem.terms.l1
    ratio = np.where(l1 > 0, problem.terms.magnitude(z) / np.where(l1 > 0, l1, 1.0), 0.0)
    order = np.argpartition(-ratio, min(at_most, len(ratio) - 1))[:at_most]
    return order if np.isinf(beyond) else order[ratio[order] > beyond]


def _whole_groups(problem: Problem, index: Array) -> Array:
    label = problem.terms.label
    return index if label is None else np.flatnonzero(np.isin(label, label[index]))


def _restricted(
    problem: Problem, columns: Columns, warm: Point, accuracy: float, finest: float, trail: Trail
) -> tuple[Point, Array, float]:
    """Solves with the columns at hand, to `accuracy` or, where that is as cheap, to `finest`.

    Returns the point certified on all of A, Aᵀy before it was made feasible, and the accuracy that was asked for.
    """
    euclidean, index = problem.norm.m == 2.0, columns.index
    R = columns.triangular() if euclidean else np.column_stack([columns.dense(), problem.A.b])
    small = Problem(Matrix(R[:, :-1], R[:, -1]), problem.norm, problem.terms[index])
    answer = sign_search(small, R[:, :-1], warm.x[index])
    if answer is not None and answer.relative_gap <= finest:
        accuracy = finest
    else:
        x = warm.x[index] if answer is None else answer.x
        answer = proximal_newton(small, R[:, :-1], x, small.residual_dual(R[:, :-1] @ x), accuracy, trail)
    x = np.zeros(problem.A.size)
    x[index] = answer.x
    Ax = problem.apply(x) if columns.values is None else columns.values @ answer.x
    y = _expanded(problem, columns, R, answer, Ax) if euclidean else answer.y
    z = problem.adjoint(y)
    return problem.point(x, y, Ax, z), z, accuracy


def _expanded(problem: Problem, columns: Columns, R: Array, answer: Point, Ax: Array) -> Array:
    """The dual point in the space of all rows: the residual's direction, or Q y where the fit is exact."""
    if np.linalg.norm(Ax - problem.A.b) > 1e-6 * np.linalg.norm(problem.A.b):
        return problem.residual_dual(Ax)
    weights = np.linalg.lstsq(R, answer.y, rcond=None)[0]
    x = np.zeros(problem.A.size)
    x[columns.index] = weights[:-1]
    return problem.apply(x) + weights[-1] * problem.A.b
