"""The last digits in closed form, once the support S and the signs are known (m = 2, L1).

Stationarity on S: A_Sᵀ r = −t q with r = A_S x − b, t = ‖r‖₂ and q_i = l1_i sign(x_i)/c. With A_S = QR and u = R⁻ᵀq

    x_S = R⁻¹(Qᵀb − t u),        t² = ‖b − QQᵀb‖² / (1 − ‖u‖²),

because r = −(b − QQᵀb) − t Q u. Nothing is iterated, so the error is that of one triangular solve.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from sparsetd.solvers.saddle.certificate import Point, Problem
from sparsetd.system import Array


def polished(problem: Problem, point: Point) -> Point:
    """The closed form on the support of `point` where it applies and has a smaller gap, otherwise `point`."""
    support = np.flatnonzero(point.x)
    simple = problem.norm.m == 2.0 and problem.terms.label is None and not problem.terms.l2[support].any()
    if not simple or not 0 < len(support) <= min(4000, problem.A.size):
        return point
    q = problem.terms.l1[support] * np.sign(point.x[support]) / problem.norm.scale
    values = _closed_form(problem.gather(support), problem.A.b, q)
    if values is None or np.any(np.sign(values) != np.sign(point.x[support])):
        return point
    x = np.zeros_like(point.x)
    x[support] = values
    Ax = problem.apply(x)
    exact = problem.point(x, problem.residual_dual(Ax), Ax)
    return exact if exact.gap <= point.gap else point


def _closed_form(A: Array, b: Array, q: Array) -> Array | None:
    """x_S, or None where the columns are dependent or the fit is exact (t = 0)."""
    Q, R = qr(A, mode="economic", check_finite=False)
    diagonal = np.abs(np.diag(R))
    if diagonal.min() <= 1e-13 * diagonal.max():
        return None
    u, along = solve_triangular(R, q, trans="T"), Q.T @ b
    left, slack = float(np.sum((b - Q @ along) ** 2)), 1.0 - float(u @ u)
    if slack <= 0.0:
        return None
    return np.asarray(solve_triangular(R, along - np.sqrt(left / slack) * u))
