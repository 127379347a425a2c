"""TDRC(λ): TDC with a regularised correction."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class TDRC(StreamingTD):
    """θ as in TDC, w ← w + ηα(δe − (φᵀw)φ − βw).

    β = 0 is TDC, β → ∞ is TD; with η = β = 1 it needs no second step size.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.
    beta : float
        Strength of the pull of w to 0.

    References
    ----------
    Ghiassian et al. (2020), Gradient temporal-difference learning with regularized corrections.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TDRC
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDRC(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0
    beta: float = 1.0

    def _parts(self) -> Parts:
        table = operators.tdrc(self.eta, self.lam, self.beta)
        return table, penalties.NoPenalty(), self._stochastic
