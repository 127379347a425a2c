"""GTD(λ), the first gradient TD method."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class GTD(StreamingTD):
    """w ← w + ηα(δe − w), θ ← θ + α(φ − γφ')(eᵀw).

    Descends ‖E[δe]‖²; slower than GTD2 and TDC, kept as the baseline that it is in the literature.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Sutton, Szepesvári & Maei (2008), A convergent O(n) algorithm for off-policy temporal-difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import GTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> GTD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.gtd(self.eta, self.lam), penalties.NoPenalty(), self._stochastic
