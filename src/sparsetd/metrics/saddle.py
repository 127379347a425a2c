"""The paper's objective ‖Ax − b‖_m + h(x), its saddle function, and how far a pair (x, y) is from the saddle point.

A = (1/N) Σ A_t is never formed: A x − b and Aᵀy need only Φ and Φ' times vectors, traces included, dense or sparse.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import LinearOperator, lsmr

from sparsetd.system import Array, Batch, MeanOperator, Table


class Penalty(Protocol):
    """The part of a penalty that is needed here."""

    def value(self, x: Array, factor: Array | None = None) -> float: ...

    def shrinkage(self, n_blocks: int) -> tuple[Array, Array] | None: ...


def mean_residual(table: Table, batch: Batch, x: Array) -> Array:
    """Return the mean of the residuals of all rows, without forming their matrix.

    (1/N) Σ (A_t x − b_t) for x of shape (k, d), in O(N d).

    >>> import numpy as np
    >>> from sparsetd import operators
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> mean_residual(table, batch, np.zeros((2, 5))).shape  # w and θ
    (2, 5)
    """
    x = _blocks("x", table, batch, x)
    mean = _mean(table, batch)
    return (mean.apply(x) - mean.b).reshape(x.shape)


def mean_adjoint(table: Table, batch: Batch, y: Array) -> Array:
    """Return the mean of the adjoints of all rows, without forming their matrix.

    (1/N) Σ A_tᵀ y for y of shape (k, d), in O(N d).

    >>> import numpy as np
    >>> from sparsetd import operators
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> x, y, b = np.ones((2, 5)), np.arange(10.0).reshape(2, 5), -mean_residual(table, batch, np.zeros((2, 5)))
    >>> both = np.vdot(y, mean_residual(table, batch, x) + b), np.vdot(mean_adjoint(table, batch, y), x)
    >>> bool(np.isclose(*both))  # ⟨y, A x⟩ = ⟨Aᵀy, x⟩
    True
    """
    y = _blocks("y", table, batch, y)
    return _mean(table, batch).adjoint(y).reshape(y.shape)


def residual_norm(table: Table, batch: Batch, x: Array, fit_norm: float | str = 2) -> float:
    """Return the norm of the mean residual.

    ‖Ax − b‖_m with m = `fit_norm`: 1, 2 or "inf".

    >>> import numpy as np
    >>> from sparsetd import operators
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> x = np.ones((2, 5))
    >>> residual_norm(table, batch, x, "inf") <= residual_norm(table, batch, x) <= residual_norm(table, batch, x, 1)
    True
    """
    return float(np.linalg.norm(mean_residual(table, batch, x).ravel(), ord=_order(fit_norm)))


def primal_value(
    table: Table,
    batch: Batch,
    x: Array,
    penalty: Penalty | None = None,
    fit_norm: float | str = 2,
    factor: Array | None = None,
) -> float:
    """Return the paper's objective, the norm of the residual and the penalty.

    L(x) = ‖Ax − b‖_m + h(x): eq:lossfunc.

    >>> import numpy as np
    >>> from sparsetd import operators, penalties
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> x, penalty = np.ones((2, 5)), penalties.L1(0.1)
    >>> round(primal_value(table, batch, x, penalty) - residual_norm(table, batch, x), 12)  # 0.1 ‖θ‖₁
    0.5
    """
    return residual_norm(table, batch, x, fit_norm) + (0.0 if penalty is None else penalty.value(x, factor))


def saddle_objective(
    table: Table, batch: Batch, x: Array, y: Array, penalty: Penalty | None = None, factor: Array | None = None
) -> float:
    """Return the saddle function at a point, which lies below the objective.

    yᵀ(Ax − b) + h(x): eq:regminimax without the maximum, so ≤ L(x) wherever ‖y‖_n ≤ 1 (Hölder).

    >>> import numpy as np
    >>> from sparsetd import operators
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> x, y = np.ones((2, 5)), np.full((2, 5), 0.1)
    >>> saddle_objective(table, batch, x, y) <= primal_value(table, batch, x)
    True
    """
    product = float(np.vdot(y, mean_residual(table, batch, x)))
    return product + (0.0 if penalty is None else penalty.value(x, factor))


def duality_gap(
    table: Table,
    batch: Batch,
    x: Array,
    y: Array,
    penalty: Penalty | None = None,
    fit_norm: float | str = 2,
    factor: Array | None = None,
) -> float:
    """Certify how far a point is from optimal.

    L(x) − D(y) ≥ L(x) − min L ≥ 0.

    It is not yᵀ(Ax − b) against ‖Ax − b‖, the two curves of the paper's Figure 2, whose order is Hölder's inequality.

    >>> import numpy as np
    >>> from sparsetd import operators, penalties
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> x, penalty = np.zeros((2, 5)), penalties.L1(10.0, 10.0)
    >>> r = mean_residual(table, batch, x)
    >>> round(duality_gap(table, batch, x, r / np.linalg.norm(r), penalty), 9)  # so large a penalty leaves nothing
    0.0
    """
    primal = primal_value(table, batch, x, penalty, fit_norm, factor)
    return primal - dual_value(table, batch, y, penalty, fit_norm, factor)


def dual_value(
    table: Table,
    batch: Batch,
    y: Array,
    penalty: Penalty | None = None,
    fit_norm: float | str = 2,
    factor: Array | None = None,
) -> float:
    """Return a lower bound of the objective from a dual point.

    D(y) = min_x yᵀ(Ax − b) + h(x) = −bᵀy − h*(−Aᵀy), at the best feasible multiple of y.

    With h = Σ l1|x_i| + ½ l2 x_i², h*(v) = Σ max(|v_i| − l1, 0)²/(2 l2), infinite where l2 = 0 and |v_i| > l1. So y is
    scaled into ‖y‖_n ≤ 1 and |Aᵀy|_i ≤ l1_i where l2_i = 0. Where nothing is penalised Aᵀy must vanish, which no
    multiple achieves: there y is projected first (by least squares, so to rounding). y = 0 is always feasible: D ≥ 0.

    >>> import numpy as np
    >>> from sparsetd import operators, penalties
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> dual_value(table, batch, np.zeros((2, 5)), penalties.L1(0.1))
    0.0
    """
    y = _blocks("y", table, batch, y)
    l1, l2 = _weights(penalty, y, factor)
    y = _orthogonal_to_free(table, batch, y, (l1 == 0) & (l2 == 0))
    y = y / max(1.0, float(np.linalg.norm(y.ravel(), ord=_conjugate(_order(fit_norm)))))
    gain = float(np.vdot(mean_residual(table, batch, np.zeros_like(y)), y))  # −bᵀy
    v = np.abs(mean_adjoint(table, batch, y))
    hard = (l2 == 0) & (l1 > 0)
    longest = float(np.min(l1[hard] / np.maximum(v[hard], l1[hard]), initial=1.0))
    if not l2.any():
        return max(0.0, longest * gain)
    soft = l2 > 0

    def loss(scale: float) -> float:
        excess = np.maximum(scale * v[soft] - l1[soft], 0.0)
        return float((excess**2 / (2.0 * l2[soft])).sum()) - scale * gain

    best = minimize_scalar(loss, bounds=(0.0, longest), method="bounded", options={"xatol": 1e-12})
    return max(0.0, -float(best.fun), -loss(longest))


def _blocks(name: str, table: Table, batch: Batch, x: Array) -> Array:
    """x as (k, d); a vector of length d is one block."""
    blocks = np.atleast_2d(np.asarray(x, dtype=np.float64))
    if blocks.shape != (table.n_blocks, batch.n_features):
        expected = f"({table.n_blocks}, {batch.n_features})"
        raise ValueError(f"{name} has shape {np.shape(x)}: pass shape {expected}, in the order w, θ")
    return blocks


def _mean(table: Table, batch: Batch) -> MeanOperator:
    return MeanOperator(table, batch, np.full(len(batch), 1.0 / len(batch)))


def _weights(penalty: Penalty | None, y: Array, factor: Array | None) -> tuple[Array, Array]:
    """(l1, l2) of every entry of x."""
    k, d = y.shape
    shrinkage = (np.zeros(k), np.zeros(k)) if penalty is None else penalty.shrinkage(k)
    if shrinkage is None:
        raise ValueError(f"penalty={penalty!r} is not separable: the duality gap needs L1, ridge or elastic net")
    each = np.ones(d) if factor is None else np.asarray(factor, dtype=np.float64)
    return np.outer(shrinkage[0], each), np.outer(shrinkage[1], each)


def _orthogonal_to_free(table: Table, batch: Batch, y: Array, free: Array) -> Array:
    """y − A_F z with z = argmin ‖A_F z − y‖, F the unpenalised entries: then (Aᵀy)_F = 0."""
    if not free.any():
        return y
    mean = _mean(table, batch)

    def forward(z: Array) -> Array:
        x = np.zeros_like(y)
        x[free] = z.ravel()
        return mean.apply(x)

    def backward(u: Array) -> Array:
        return mean.adjoint(u).reshape(y.shape)[free]

    operator = LinearOperator((y.size, int(free.sum())), matvec=forward, rmatvec=backward, dtype=np.float64)
    z = lsmr(operator, y.ravel(), atol=1e-14, btol=1e-14, conlim=0.0, maxiter=20 * y.size)[0]
    return np.asarray(y - forward(z).reshape(y.shape))


def _order(fit_norm: float | str) -> float:
    order = np.inf if fit_norm == "inf" else fit_norm
    if order not in (1, 2, np.inf):
        raise ValueError(f'fit_norm={fit_norm!r} is unknown: choose 1, 2 or "inf"')
    return float(order)


def _conjugate(m: float) -> float:
    """n with 1/m + 1/n = 1."""
    return {1.0: np.inf, 2.0: 2.0, np.inf: 1.0}[m]
