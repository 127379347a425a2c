"""LSTD-ℓ1: a Lasso on the LSTD equation."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.lstd_l1 import LstdL1


@dataclass(kw_only=True, eq=False, repr=False)
class LSTDL1(SecondOrderTD):
    """min ½‖Aθ − b‖² + ρ_θ‖θ‖₁, with its whole regularisation path.

    Convex for every A, so off-policy data are no obstacle. RO-TD's Extension has the same objective (in [w; θ]). With
    `projected` the norm is that of C⁻¹, C = E[φφᵀ]: min ½ MSPBE(θ) + ρ_θ‖θ‖₁, Geist and Scherrer's ℓ1-PBR.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    rho_theta : float
        Weight of ‖θ‖₁ against a squared residual of means: its scale is that of Aᵀb (of AᵀC⁻¹b if projected).
    projected : bool
        Measure the residual in C⁻¹ (its pseudo-inverse where C is singular).
    max_steps : int
        Most events (features that enter or leave) on the path.

    Attributes
    ----------
    knots_, path_, n_active_, n_turns_, rho_reached_
        The path, as in `LARSTD`; `n_turns_` is 0.

    References
    ----------
    Geist & Scherrer (2011), ℓ1-penalized projected Bellman residual.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTDL1
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> LSTDL1(gamma=0.5, rho_theta=0.01).fit(X, y).coef_.round(3)
    array([0.053, 0.286, 0.843])
    """

    lam: float = 0.0
    rho_theta: float = 0.001
    projected: bool = False
    max_steps: int = 1000

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.L1(self.rho_theta), LstdL1(self.max_steps, self.projected)
