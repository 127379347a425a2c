"""The minimiser in closed form, where the norm is Euclidean and the penalty L1: on a support, and by searching for it.

**On a support S** with known signs, stationarity is A_Sᵀ r = −t q with r = A_S x − b, t = ‖r‖₂ and
q_i = l1_i sign(x_i)/c. With A_S = QR and u = R⁻ᵀq

    x_S = R⁻¹(Qᵀb − t u),        t² = ‖b − QQᵀb‖² / (1 − ‖u‖²),

because r = −(b − QQᵀb) − t Q u. Nothing is iterated, so the error is that of one triangular solve.

**The search** begins with the support and the signs of a warm start and repeats: go towards the closed form; where a
coefficient reaches zero on the way, drop its feature; where all signs hold, let in the feature whose constraint
|(Aᵀy)_i| ≤ l1_i is violated most. Every move lowers the objective, so no support comes twice, and along a path of
penalties a few moves lead from one solution to the next.

References
----------
Lee, Battle, Raina & Ng (2006), Efficient sparse coding algorithms (there for the Lasso: feature-sign search).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtrtrs

from sparsetd.solvers.saddle.problem import Point, Problem
from sparsetd.system import Array

EXACT = 1e-13  # a residual below this share of b is rounding


def polished(problem: Problem, point: Point) -> Point:
    """The closed form on the support of `point` where it applies and has a smaller gap, otherwise `point`."""
    support = np.flatnonzero(point.x)
    if not has_closed_form(problem) or not 0 < len(support) <= min(4000, problem.A.size):
        return point
    found = _on_support(problem, problem.gather(support), support, np.sign(point.x))
    if found is None:
        return point
    x = np.zeros_like(point.x)
    x[support] = found[0]
    exact = problem.point(x, found[1])
    return exact if exact.gap <= point.gap else point


def has_closed_form(problem: Problem) -> bool:
    """Return whether the norm is Euclidean and the penalty L1 alone, coordinate by coordinate."""
    return problem.norm.m == 2.0 and problem.terms.label is None and not problem.terms.l2.any()


def closed_form(A: Array, b: Array, q: Array) -> tuple[Array, Array] | None:
    """x_S and the unit dual point r/t, or None where the columns are dependent or no t balances the penalty.

    Where the fit is exact, t = 0 and x_S solves A_S x = b; then −Qu is a dual point, and the residual is only rounding.
    """
    Q, R = np.linalg.qr(A)
    diagonal = np.abs(np.diag(R))
    if diagonal.min() <= 1e-13 * diagonal.max():
        return None
    u, along = dtrtrs(R, q, trans=1)[0], Q.T @ b
    across, slack = b - Q @ along, 1.0 - float(u @ u)
    if slack <= 0.0:
        return None
    exact = np.linalg.norm(across) <= EXACT * np.linalg.norm(b)
    t = 0.0 if exact else float(np.linalg.norm(across) / np.sqrt(slack))
    y = -(Q @ u) if exact else -(Q @ u + across / t)
    return np.asarray(dtrtrs(R, along - t * u)[0]), y


AT_MOST = 300  # features: one at a time is for few; beyond, Newton steps change many signs at once
SPARE = 20  # moves beyond one for every feature


def sign_search(problem: Problem, A: Array, x: Array) -> Point | None:
    """Solves a small formed problem from x; None where it has no closed form, or none for the signs that x begins with.

    Without a closed form are other norms and penalties, dependent columns, and signs that no minimum has.
    """
    l1 = problem.terms.l1
    if not has_closed_form(problem) or len(l1) > AT_MOST:
        return None
    sign = np.where(l1 > 0, np.sign(x), 0.0)
    inside = (x != 0) | (l1 == 0)
    for _ in range(len(l1) + SPARE):
        support = np.flatnonzero(inside)
        found = _on_support(problem, A[:, support], support, sign)
        if found is None:
            return None
        goal, y = found
        x, zero = _towards(x, support, goal, sign)
        if zero is not None:
            inside[zero], sign[zero] = False, 0.0
            continue
        z = y @ A
        excess = np.where(inside, -np.inf, np.abs(z) - l1)
        enters = int(np.argmax(excess))
        if excess[enters] <= 1e-12 * l1[enters]:
            return problem.point(x, y, A @ x, z)
        inside[enters], sign[enters] = True, -np.sign(z[enters])
    return None


def _on_support(problem: Problem, columns: Array, support: Array, sign: Array) -> tuple[Array, Array] | None:
    """The closed form and its dual point; with no feature at all x is empty and y is −b in the dual ball."""
    if not columns.size:
        return np.zeros(0), problem.residual_dual(np.zeros(len(columns)))
    found = closed_form(columns, problem.A.b, problem.terms.l1[support] * sign[support] / problem.norm.scale)
    return None if found is None else (found[0], problem.norm.scale * found[1])


def _towards(x: Array, support: Array, goal: Array, sign: Array) -> tuple[Array, int | None]:
    """x on the way to its `goal` on the support, up to where a coefficient would change its sign, and which one."""
    here, s = x[support], sign[support]
    against = np.flatnonzero(s * goal < 0)
    moved = x.copy()
    if not len(against):
        moved[support] = goal
        return moved, None
    length = here[against] / (here[against] - goal[against])
    first = int(np.argmin(length))
    moved[support] = here + length[first] * (goal - here)
    zero = int(support[against[first]])
    moved[zero] = 0.0
    return moved, zero
