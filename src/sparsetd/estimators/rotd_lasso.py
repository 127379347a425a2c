"""The Extension of RO-TD: squared residual, no proximal step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class ROTDLasso(StreamingTD):
    """min_x ½‖Ax − b‖² + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ with A_t, b_t of TDC, by

        x ← x − α(u + A_tᵀy),   y ← y + α(A_t x − b_t − y),   u ← clip(u + αx, ±ρ)      (`eq:ROTD2`)

    Parameters
    ----------
    eta : float
        Weight of the rows of w.
    lam : float
        λ of the eligibility trace.
    rho_theta, rho_w : float
        Weights of the two l1 norms.

    References
    ----------
    Liu, Mahadevan & Liu (2012), Regularized off-policy TD-learning, section "Extension".

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import ROTDLasso
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ROTDLasso(gamma=0.5, step_size=0.1, n_passes=5000, average="none").fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    average: Literal["all", "suffix", "none"] | None = "all"
    eta: float = 1.0
    lam: float = 0.0
    rho_theta: float = 0.0
    rho_w: float = 0.0

    def _parts(self) -> Parts:
        penalty = penalties.L1(self.rho_theta, self.rho_w)
        kind = solvers.LeastSquaresDistanceOverGradients if self._automatic else solvers.LeastSquaresSaddle
        return operators.tdc(self.eta, self.lam), penalty, kind(**self._streaming)
