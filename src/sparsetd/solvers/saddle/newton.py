"""The solution on the few features that matter, by Newton steps, and the proof on all features that no other one does.

**The working set.** At the optimum |(Aᵀy)_i| < l1_i for the features left out. So: solve with the features W, take the
dual point to all of A (one product), add those whose constraint it violates, and stop when the duality gap *of the
whole problem* is small.

**On the working set** a proximal-point method with semismooth Newton steps takes a few dozen small factorisations to
full accuracy. Each round solves, to growing accuracy,

    min F(z) + h(x) + ‖x − x̄‖²/(2σ) + ‖z − z̄‖²/(2τ)    subject to    Ax − z = b

through its smooth concave dual in y, whose gradient and (generalised) Hessian are

    ∇(y) = A x(y) − z(y) − b,    x(y) = prox_{σh}(x̄ − σAᵀy),    z(y) = prox_{τF}(z̄ + τy)
    H(y) = σ A J_h Aᵀ + τ J_F                                       (only active columns enter)

First-order methods stall on ill-conditioned features; these steps do not, and x(y), a prox, has exact zeros.

**The columns** A_W are computed once, kept while they are small, and compressed. For m = 2 only lengths matter, so a
tall block may be replaced by its triangular factor, which is built from a few rows at a time:

    [A_W  b] = Q R      ⇒      ‖A_W x − b‖₂ = ‖R_W x − R_b‖₂        (|W| + 1 rows instead of kd)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr

from sparsetd.solvers.mean import Linear, Matrix, gathered
from sparsetd.solvers.saddle.problem import Point, Problem
from sparsetd.solvers.saddle.support import sign_search
from sparsetd.system import Array

KEEP_BELOW = 4 * 10**7  # numbers (320 MB): larger blocks are streamed, not stored
GROW = 4.0  # a round that reached its accuracy lets the next one go this much further
MOST_ROUNDS, MOST_STEPS = 60, 50  # of the proximal-point method, and Newton steps of one of its rounds
RIDGE = 1e-3  # ridge of a Newton step, times the relative gradient, so that it vanishes at the solution


@dataclass
class _Dual:
    """The dual of one round at y: value, gradient, the primal answer and the points where the proxes were taken."""

    y: Array
    value: float
    gradient: Array
    x: Array
    z: Array
    u: Array
    v: Array


@dataclass
class _Round:
    """One proximal subproblem; `sigma` has one entry per coordinate, the same within a group."""

    problem: Problem
    A: Array
    x_bar: Array
    z_bar: Array
    sigma: Array
    tau: float

    def at(self, y: Array) -> _Dual:
        norm, terms = self.problem.norm, self.problem.terms
        u, v = self.x_bar - self.sigma * (y @ self.A), self.z_bar + self.tau * y
        x, z = terms.prox(u, self.sigma), norm.prox(v, self.tau)
        gradient = self.A @ x - z - self.problem.A.b
        moved = np.sum((x - self.x_bar) ** 2 / self.sigma) / 2 + np.sum((z - self.z_bar) ** 2) / (2 * self.tau)
        return _Dual(y, terms.value(x) + norm.value(z) + float(moved + y @ gradient), gradient, x, z, u, v)

    def direction(self, here: _Dual) -> Array:
        """H⁻¹ ∇ with a vanishing ridge."""
        a, spike = self.problem.norm.jacobian(here.v, self.tau)
        R = self.problem.terms.root_columns(self.A, here.u, self.sigma)
        R = np.column_stack([R, np.sqrt(self.tau) * spike])
        far = min(float(np.linalg.norm(here.gradient) / np.linalg.norm(self.problem.A.b)), 1.0)
        return _solve_low_rank(self.tau * (a + RIDGE * far + 1e-13), R, here.gradient, 1e-7 * self.tau)


def _solve_low_rank(diagonal: Array, R: Array, g: Array, small: float) -> Array:
    """(diag + R Rᵀ)⁻¹ g, where the diagonal has large entries Z and entries K that are next to nothing.

    Rows Z are eliminated by Woodbury, C = I + R_ZᵀD_Z⁻¹R_Z, which leaves (D_K + R_K C⁻¹R_Kᵀ) y_K = …: two matrices of
    the sizes of R's columns and of K. With more columns than rows everything is K.
    """
    K = diagonal <= small if R.shape[1] < len(R) else np.ones(len(R), dtype=bool)
    R_Z, R_K, D_Z = R[~K], R[K], diagonal[~K]
    C = cho_factor(np.eye(R.shape[1]) + R_Z.T @ (R_Z / D_Z[:, None])) if len(D_Z) else None

    def through(v: Array) -> Array:
        return np.asarray(v if C is None else cho_solve(C, v))

    seen = R_Z.T @ (g[~K] / D_Z)
    H = R_K @ through(R_K.T)
    H[np.diag_indices_from(H)] += diagonal[K] + 1e-15 * np.trace(H)
    y = np.empty_like(g)
    y[K] = cho_solve(cho_factor(H, overwrite_a=True), g[K] - R_K @ through(seen)) if len(H) else 0.0
    y[~K] = (g[~K] - R_Z @ through(seen + R_K.T @ y[K])) / D_Z
    return y


def proximal_newton(problem: Problem, A: Array, x: Array, y: Array, tol: float) -> Point:
    """Solves a small formed problem from (x, y) until its relative duality gap is at most `tol`.

    A round that reaches its accuracy lets the next one go four times further; one that does not is taken back. Steps
    are in units of ‖A_j‖², averaged over each group, so that they do not depend on the units of the features.
    """
    square, label = np.einsum("ij,ij->j", A, A), problem.terms.label
    if label is not None:
        square = (np.bincount(label, square) / np.bincount(label))[label]
    metric = 1.0 / np.maximum(square, 1e-16 * square.max(initial=1e-300))
    best = problem.point(x, y)
    z, unit = best.Ax - problem.A.b, float(np.linalg.norm(problem.A.b))
    tau, accuracy = unit**2 / (problem.norm.value(problem.A.b) or 1.0), 1e-2
    for _ in range(MOST_ROUNDS):
        if best.relative_gap <= tol or problem.late:
            break
        end = _ascend(_Round(problem, A, x, z, tau * metric, tau), y, accuracy * unit)
        x, z, y = end.x, end.z, end.y
        point = problem.point(x, problem.norm.project(y))
        best = point if point.gap < best.gap else best
        if np.linalg.norm(end.gradient) <= accuracy * unit:
            tau, accuracy = GROW * tau, max(0.2 * accuracy, 1e-14)
        else:
            tau /= GROW
    return best


def _ascend(now: _Round, y: Array, accuracy: float) -> _Dual:
    """Newton ascent on the dual of one round, until the norm of its gradient is at most `accuracy`."""
    here = now.at(y)
    for _ in range(MOST_STEPS):
        if np.linalg.norm(here.gradient) <= accuracy or now.problem.late:
            break
        direction = now.direction(here)
        slope, length = float(here.gradient @ direction), 1.0
        for _ in range(40):
            trial = now.at(here.y + length * direction)
            # Armijo's condition, with room for the rounding of the values themselves near the solution.
            if trial.value >= here.value + 1e-4 * length * slope - 1e-14 * abs(here.value):
                break
            length *= 0.5
        else:  # no step ascends any more: what is left is rounding
            break
        here = trial
    return here


@dataclass
class Columns:
    """A[:, index], growing; `values` is None while the block is too large to keep."""

    A: Linear
    index: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: Array | None = None

    def extend(self, index: Array) -> int:
        """Adds the coordinates that are not there yet, and says how many; those that are keep their places."""
        new = np.setdiff1d(index, self.index)
        total = self.A.size * (len(self.index) + len(new))
        if total > KEEP_BELOW:
            self.values = None
        elif len(new):
            block = gathered(self.A, new)
            self.values = block if self.values is None else np.column_stack([self.values, block])
        self.index = np.append(self.index, new)
        return len(new)

    def triangular(self) -> Array:
        """R of [A_W  b] = Q R."""
        b = self.A.b[:, None]
        if self.values is not None:
            return _triangle(np.column_stack([self.values, b]))
        R = np.empty((0, len(self.index) + 1))
        for rows, values in self.A.columns(self.index, chunk=max(KEEP_BELOW // (20 * len(self.index)), 1000)):
            block = np.column_stack([values, b[rows]])
            R = _triangle(np.vstack([R, block[block.any(axis=1)]]))
        return R


def _triangle(block: Array) -> Array:
    if len(block) <= block.shape[1]:
        return block
    return np.asarray(qr(block, mode="r", check_finite=False, overwrite_a=True)[0][: block.shape[1]])


FIRST, MOST_SETS = 20, 50  # features to begin with (the set at most doubles from round to round), and rounds


def solve_on_working_set(problem: Problem, tol: float, start: Point, columns: Columns, max_working: int) -> Point:
    """Improves `start` until its relative gap is at most `tol`, or the working set exceeds `max_working`."""
    best, accuracy, finest, label = start, 1e-2, 0.3 * tol, problem.terms.label
    wanted = np.flatnonzero((start.x != 0) | (problem.terms.l1 == 0))
    wanted = np.union1d(wanted, _violators(problem, start.z, np.inf, max(FIRST, len(wanted))))
    for _ in range(MOST_SETS):
        problem.note(best, len(columns.index))
        if label is not None:  # groups enter as a whole
            wanted = np.flatnonzero(np.isin(label, label[wanted]))
        done = best.relative_gap <= tol or finest < 1e-15 or problem.late
        # Only the Euclidean norm lets A_W be compressed; the others need it in memory.
        too_large = problem.norm.m != 2.0 and problem.A.size * len(wanted) > KEEP_BELOW
        if done or too_large or len(wanted) > max_working:
            break
        problem.n_columns += columns.extend(wanted)
        accuracy = max(finest, min(accuracy, 0.1 * best.relative_gap))
        point, z_raw, accuracy = _restricted(problem, columns, best, accuracy, finest)
        best = best.merged(point)
        wanted = np.setdiff1d(_violators(problem, z_raw, 1.0 + accuracy, max(FIRST, len(columns.index))), columns.index)
        if not len(wanted):  # the features are the right ones, but the solution on them is not accurate enough
            finest, accuracy = (finest if accuracy > finest else 0.1 * finest), 0.1 * accuracy
        wanted = np.append(columns.index, wanted)
    return best


def _violators(problem: Problem, z: Array, beyond: float, at_most: int) -> Array:
    """The coordinates with the largest |(Aᵀy)_i| / l1_i; with a finite `beyond`, only those above it."""
    l1 = problem.terms.l1
    ratio = np.where(l1 > 0, problem.terms.magnitude(z) / np.where(l1 > 0, l1, 1.0), 0.0)
    order = np.argpartition(-ratio, min(at_most, len(ratio) - 1))[:at_most]
    return order if np.isinf(beyond) else order[ratio[order] > beyond]


def _restricted(
    problem: Problem, columns: Columns, warm: Point, accuracy: float, finest: float
) -> tuple[Point, Array, float]:
    """Solves with the columns at hand, to `accuracy` or, where that is as cheap, to `finest`.

    Returns the point certified on all of A, Aᵀy before it was made feasible, and the accuracy that was asked for.
    """
    euclidean, index, b = problem.norm.m == 2.0, columns.index, problem.A.b
    # Norms that are not invariant under rotation need A_W itself; there the block is always kept.
    R = columns.triangular() if euclidean or columns.values is None else np.column_stack([columns.values, b])
    small = Problem(Matrix(R[:, :-1], R[:, -1]), problem.norm, problem.terms[index], problem.until)
    answer = sign_search(small, R[:, :-1], warm.x[index])
    if answer is not None and answer.relative_gap <= finest:
        accuracy = finest
    else:
        x = warm.x[index] if answer is None else answer.x
        answer = proximal_newton(small, R[:, :-1], x, small.residual_dual(R[:, :-1] @ x), accuracy)
    x, along = np.zeros((2, problem.A.size))
    x[index] = answer.x
    Ax, y = problem.apply(x) if columns.values is None else columns.values @ answer.x, answer.y
    # The dual point in the space of all rows is the residual's direction. A residual of zero has no direction, and a
    # tiny one has hardly a digit of it: where the fit is exact, the dual point is Q y.
    if euclidean and np.linalg.norm(Ax - b) > 1e-6 * np.linalg.norm(b):
        y = problem.residual_dual(Ax)
    elif euclidean:
        weights = np.linalg.lstsq(R, answer.y, rcond=None)[0]
        along[index] = weights[:-1]
        y = problem.apply(along) + weights[-1] * b
    z = problem.adjoint(y)
    return problem.point(x, y, Ax, z), z, accuracy
