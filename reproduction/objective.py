"""The paper's objective ‖Ax − b‖_m + h(x), its saddle function, and how far a pair (x, y) is from the saddle point.

A = (1/N) Σ A_t is never formed: A x − b and Aᵀy need only Φ and Φ' times vectors, traces included, dense or sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetd.penalties import NoPenalty
from sparsetd.solvers.mean import mean_operator
from sparsetd.solvers.saddle import FitNorm, Problem, Terms
from sparsetd.system import Array, Batch, Table


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
    mean = mean_operator(table, batch, form=False)
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
    return mean_operator(table, batch, form=False).adjoint(y).reshape(y.shape)


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
    return _norm(fit_norm).value(mean_residual(table, batch, x).ravel())


def primal_value(
    table: Table,
    batch: Batch,
    x: Array,
    penalty: Any = None,
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
    return residual_norm(table, batch, x, fit_norm) + _penalty_value(table, batch, x, penalty, factor)


def saddle_objective(
    table: Table, batch: Batch, x: Array, y: Array, penalty: Any = None, factor: Array | None = None
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
    return product + _penalty_value(table, batch, x, penalty, factor)


def duality_gap(
    table: Table,
    batch: Batch,
    x: Array,
    y: Array,
    penalty: Any = None,
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
    penalty: Any = None,
    fit_norm: float | str = 2,
    factor: Array | None = None,
) -> float:
    """Return a lower bound of the objective from a dual point.

    D(y) = min_x yᵀ(Ax − b) + h(x) = −bᵀy − h*(−Aᵀy), at the best feasible multiple of y.

    With h = Σ l1|x_i| + ½ l2 x_i², h*(v) = Σ max(|v_i| − l1, 0)²/(2 l2), infinite where l2 = 0 and |v_i| > l1. So y is
    scaled into ‖y‖_n ≤ 1 and |Aᵀy|_i ≤ l1_i where l2_i = 0. Where nothing is penalised Aᵀy must vanish, which no
    multiple achieves: there y is made orthogonal to these columns first. y = 0 is always feasible: D ≥ 0.

    >>> import numpy as np
    >>> from sparsetd import operators, penalties
    >>> from sparsetd.problems import random_walk
    >>> batch, table = random_walk().trajectory(500, np.random.default_rng(0)), operators.tdc()
    >>> dual_value(table, batch, np.zeros((2, 5)), penalties.L1(0.1))
    0.0
    """
    y = _blocks("y", table, batch, y)
    terms = Terms.of(penalty or NoPenalty(), table.n_blocks, batch.n_features, factor)
    problem = Problem(mean_operator(table, batch, form=False), _norm(fit_norm), terms)
    point = problem.point(np.zeros(y.size), y.ravel())
    if not terms.l2.any():
        return max(0.0, point.dual)
    # A multiple of y beyond the feasible one is infeasible, but with a quadratic part a smaller one may be better.
    best = minimize_scalar(
        lambda share: -problem.dual(share * point.y, share * point.z),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return max(0.0, point.dual, -float(best.fun))


def _blocks(name: str, table: Table, batch: Batch, x: Array) -> Array:
    """x as (k, d); a vector of length d is one block."""
    blocks = np.atleast_2d(np.asarray(x, dtype=np.float64))
    if blocks.shape != (table.n_blocks, batch.n_features):
        expected = f"({table.n_blocks}, {batch.n_features})"
        raise ValueError(f"{name} has shape {np.shape(x)}: pass shape {expected}, in the order w, θ")
    return blocks


def _penalty_value(table: Table, batch: Batch, x: Array, penalty: Any, factor: Array | None) -> float:
    return 0.0 if penalty is None else float(penalty.value(_blocks("x", table, batch, x), factor))


def _norm(fit_norm: float | str) -> FitNorm:
    if fit_norm not in (1, 2, "inf", np.inf):
        raise ValueError(f'fit_norm must be 1, 2 or "inf", got {fit_norm!r}')
    return FitNorm.of(fit_norm)
