"""The minimiser through its signs: closed form on a support, and one feature in or out at a time (m = 2, L1).

With the support and the signs right, the minimiser is the closed form of `polish`. So begin with those of a warm start
and repeat: go towards the closed form; where a coefficient reaches zero on the way, drop its feature; where all signs
hold, let in the feature whose constraint |(Aᵀy)_i| ≤ l1_i is violated most. Every move lowers the objective, so no
support comes twice, and along a path of penalties a few moves lead from one solution to the next.

References
----------
Lee, Battle, Raina & Ng (2006), Efficient sparse coding algorithms (there for the Lasso: feature-sign search).
"""

from __future__ import annotations

import numpy as np

from sparsetd.solvers.saddle.certificate import Point, Problem
from sparsetd.solvers.saddle.polish import closed_form, has_closed_form
from sparsetd.system import Array

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
        found = _on_support(problem, A[:, support], l1[support] * sign[support] / problem.norm.scale)
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


def _on_support(problem: Problem, columns: Array, q: Array) -> tuple[Array, Array] | None:
    """The closed form and its dual point; with no feature at all x is empty and y is −b in the dual ball."""
    if not columns.size:
        return q, problem.residual_dual(np.zeros(len(columns)))
    found = closed_form(columns, problem.A.b, q)
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
