"""TDC(λ): TD with gradient correction."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class TDC(StreamingTD):
    """θ ← θ + α(δe − γ(1−λ)(eᵀw)φ'), w ← w + ηα(δe − (φᵀw)φ)  (`eq:TDCupdate`).

    Converges off-policy for η large enough; w estimates the projected TD error and vanishes at the solution.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TDC
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDC(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.tdc(self.eta, self.lam), penalties.NoPenalty(), self._stochastic
