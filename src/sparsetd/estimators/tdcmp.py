"""TDC-MP: TDC with Mirror-Prox."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class TDCMP(StreamingTD):
    """(w, θ)_m = (w, θ) − αF_t(w, θ), then (w, θ) ← (w, θ) − αF_t((w, θ)_m), F_t = A_t x − b_t of TDC.

    As GTD2-MP with TDC's direction for θ. With average='all', `coef_` is the mean of the trial points.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.
    p : float
        Exponent of the mirror map; 2 is Euclidean.

    References
    ----------
    Liu et al. (2015), Finite-sample analysis of proximal gradient TD algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TDCMP
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDCMP(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0
    p: float = 2.0

    def _parts(self) -> Parts:
        solver = self._mirror_prox(self.p)
        return operators.tdc(self.eta, self.lam), penalties.NoPenalty(), solver
