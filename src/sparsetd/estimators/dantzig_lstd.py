"""Dantzig-LSTD: the LSTD equation up to ρ, with the smallest ℓ1 norm."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.dantzig import Dantzig


@dataclass(kw_only=True, eq=False, repr=False)
class DantzigLSTD(SecondOrderTD):
    """min ‖θ‖₁ subject to ‖Aθ − b‖_∞ ≤ ρ_θ, a linear program.

    Sparse, and convex for every A: it needs no P-matrix. The linear program is solved on the rows and columns that
    matter, which is exact; A is not formed while there are fewer rows than features.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    rho_theta : float
        The largest entry of the residual that is allowed, on the scale of means over rows.

    Attributes
    ----------
    residual_ : float
        ‖Aθ − b‖_∞.
    n_iter_ : int
        Rounds of column and row generation.

    References
    ----------
    Geist, Scherrer, Lazaric & Ghavamzadeh (2012), A Dantzig selector approach to temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import DantzigLSTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> DantzigLSTD(gamma=0.5, rho_theta=0.1).fit(X, y).coef_.round(3)
    array([0.  , 0.05, 0.7 ])
    """

    lam: float = 0.0
    rho_theta: float = 0.001

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.L1(self.rho_theta), Dantzig()
