"""RO-TD, the paper's regularised off-policy TD, and its kin: one saddle point, several ways to reach it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Triple
from sparsetd.estimators.td import GradientTD


class SaddleTD(GradientTD):
    """The parameters that the saddle-point methods of the paper share.

    min_x ‖Ax − b‖_m + ρ_θ‖θ‖₁ + ρ_w‖w‖₁, by the paper's saddle-point iteration.

    The averaged point converges (under a decaying step); the last one cycles. Averages are never exactly sparse: for
    exact zeros and a proof use `SparseTD`.

    Parameters
    ----------
    eta : float
        Weight of the rows of w. 1 is a good value; the paper's 10 makes the sampled iteration much noisier.
    rho_theta, rho_w : float
        ρ₁ and ρ₂ of the paper. If ρ_w/ρ_θ is small, w absorbs the residual in place of θ.
    fit_norm : {1, 2, "inf"}
        m. The dual ball has the conjugate norm, with its true Euclidean projection.
    extragradient : bool
        Mirror-Prox in place of the plain step; automatic steps always have a trial point.
    """

    average: Literal["all", "suffix", "none"] | None = "all"
    rho_theta: float = 0.0
    rho_w: float = 0.0
    fit_norm: Literal[1, 2, "inf"] = 2
    extragradient: bool = False

    @property
    def _penalty(self) -> Any:
        return penalties.L1(self.rho_theta, self.rho_w)

    @property
    def _solver(self) -> Any:
        if self.fit_norm == "rmspbe":  # type: ignore[comparison-overlap]
            raise ValueError('fit_norm="rmspbe" needs C, which a stream does not form: use SparseTD, or fit_norm=2')
        if self._automatic and (self.rho_theta or self.rho_w):
            return solvers.DualAveraging(**self._streaming, fit_norm=self.fit_norm, sparse=False)
        if self._automatic:
            return solvers.SaddleDistanceOverGradients(**self._streaming, fit_norm=self.fit_norm)
        kind = solvers.SaddleMirrorProx if self.extragradient else solvers.PrimalDual
        return kind(**self._streaming, fit_norm=self.fit_norm)


class ROTD(SaddleTD):
    """Learn sparse values off-policy by the paper's saddle-point iteration: O(d) per step, its average converges.

    min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ by

        x ← prox_{αh}(x − αA_tᵀy),   y ← Π_n(y + α(A_t x − b_t))      (`eq:RO-TD`, Algorithm 1)

    with A_t, b_t of TDC, in O(d) per row; `coef_` is the θ of the α-weighted average (`eq:averaging`).

    References
    ----------
    Liu, Mahadevan & Liu (2012), Regularized off-policy TD-learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import ROTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ROTD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.tdc(self.eta, self.lam), self._penalty, self._solver


class ROGQ(SaddleTD):
    """Learn sparse action values off-policy by the paper's second algorithm: O(d) per step, its average converges.

    min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ with A_t, b_t of GQ(λ) (`eq:gqAb`, Algorithm 2).

    X holds φ(s, a) and X_next the expected φ̄ under the target policy; the ratio multiplies the old trace only. At λ =
    0 it is RO-TD on those rows.

    References
    ----------
    Liu, Mahadevan & Liu (2012), Regularized off-policy TD-learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import ROGQ
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ROGQ(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.gq(self.eta, self.lam), self._penalty, self._solver


class ROTDLasso(GradientTD):
    """Learn sparse values off-policy by the paper's extension, with a squared residual: O(d) per step.

    min_x ½‖Ax − b‖² + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ with A_t, b_t of TDC, by

        x ← x − α(u + A_tᵀy),   y ← y + α(A_t x − b_t − y),   u ← clip(u + αx, ±ρ)      (`eq:ROTD2`)

    Parameters
    ----------
    eta : float
        Weight of the rows of w.
    rho_theta, rho_w : float
        Weights of the two l1 norms.

    References
    ----------
    Liu, Mahadevan & Liu (2012), Regularized off-policy TD-learning, section "Extension".

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import ROTDLasso
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ROTDLasso(gamma=0.5, step_size=0.1, n_passes=5000, average="none").fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    average: Literal["all", "suffix", "none"] | None = "all"
    rho_theta: float = 0.0
    rho_w: float = 0.0

    def triple(self) -> Triple:
        penalty = penalties.L1(self.rho_theta, self.rho_w)
        kind = solvers.LeastSquaresDistanceOverGradients if self._automatic else solvers.LeastSquaresSaddle
        return operators.tdc(self.eta, self.lam), penalty, kind(**self._streaming)


class RDATD(BaseTD):
    """Learn values with exact zeros while rows stream in, without a step size: O(d) per step, converges off-policy.

    min_x ‖Ax − b‖_m + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ by regularised dual averaging: no step size, exact zeros while streaming.

    The problem of `SparseTD`, with which it shares the meaning of its parameters, in O(d) memory and time per row. A
    feature is exactly zero unless its mean gradient exceeds ρ. Use `SparseTD` where the rows can be kept: it is exact.

    Parameters
    ----------
    rho_theta : float
        ρ_θ.
    rho_w : float or None
        ρ_w; None (the default) drops w.
    eta : float
        Weight of the rows of w.
    lam : float
        λ of the eligibility trace.
    fit_norm : {1, 2, "inf"}
        m.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"suffix", "all", "none"}
        What `coef_` is: an average of the iterates, with zeros where they were zero for half of its weight, or the
        last one.
    radius : float
        x is kept in the l2 ball of this radius.

    References
    ----------
    Xiao (2010), Dual averaging methods for regularized stochastic learning and online optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import RDATD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 6))
    >>> model = RDATD(gamma=0.0, rho_theta=0.3).fit(X, X[:, 0] + 0.1 * rng.normal(size=2000))
    >>> model.support_
    array([ True, False, False, False, False, False])
    """

    rho_theta: float = 0.01
    rho_w: float | None = None
    eta: float = 1.0
    lam: float = 0.0
    fit_norm: Literal[1, 2, "inf"] = 2
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] = "suffix"
    radius: float = float("inf")

    def triple(self) -> Triple:
        solver = solvers.DualAveraging(average=self.average, radius=self.radius, fit_norm=self.fit_norm)
        if self.rho_w is not None:
            return operators.tdc(self.eta, self.lam), penalties.L1(self.rho_theta, self.rho_w), solver
        # Without w both blocks of Ax − b are multiples of Gθ − g: ‖(η, 1)‖_m ‖Gθ − g‖_m + ρ‖θ‖₁.
        scale = np.linalg.norm([self.eta, 1.0], np.inf if self.fit_norm == "inf" else self.fit_norm)
        return operators.td(self.lam), penalties.L1(float(self.rho_theta / scale)), solver
