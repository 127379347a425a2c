"""The last digits in closed form, once the support S and the signs are known (m = 2, L1).

Stationarity on S: A_Sᵀ r = −t q with r = A_S x − b, t = ‖r‖₂ and q_i = l1_i sign(x_i)/c. With A_S = QR and u = R⁻ᵀq

    x_S = R⁻¹(Qᵀb − t u),        t² = ‖b − QQᵀb‖² / (1 − ‖u‖²),

because r = −(b − QQᵀb) − t Q u. Nothing is iterated, so the error is that of one triangular solve.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtrtrs

from sparsetd.solvers.saddle.certificate import Point, Problem
from sparsetd.system import Array

EXACT = 1e-13  # a residual below this share of b is rounding


def polished(problem: Problem, point: Point) -> Point:
    """The closed form on the support of `point` where it applies and has a smaller gap, otherwise `point`."""
    support = np.flatnonzero(point.x)
    if not has_closed_form(problem) or not 0 < len(support) <= min(4000, problem.A.size):
        return point
    q = problem.terms.l1[support] * np.sign(point.x[support]) / problem.norm.scale
    found = closed_form(problem.gather(support), problem.A.b, q)
    if found is None:
        return point
    x = np.zeros_like(point.x)
    x[support] = found[0]
    exact = problem.point(x, problem.norm.scale * found[1])
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
