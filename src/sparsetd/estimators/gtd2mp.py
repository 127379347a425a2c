"""GTD2-MP: GTD2 with Mirror-Prox."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class GTD2MP(StreamingTD):
    """(w, θ)_m = (w, θ) − αF_t(w, θ), then (w, θ) ← (w, θ) − αF_t((w, θ)_m), F_t = A_t x − b_t of GTD2.

    The extragradient takes the step of the trial point; with η = 1 the mean operator is monotone, which is what it
    needs. With average='all', `coef_` is the mean of the trial points.

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
    >>> from sparsetd import GTD2MP
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> GTD2MP(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0
    p: float = 2.0

    def _parts(self) -> Parts:
        solver = self._mirror_prox(self.p)
        return operators.gtd2(self.eta, self.lam), penalties.NoPenalty(), solver
