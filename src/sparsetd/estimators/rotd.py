"""RO-TD: the paper's regularised off-policy TD."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators
from sparsetd.estimators.base import Parts
from sparsetd.estimators.saddle import SaddleTD


@dataclass(kw_only=True, eq=False, repr=False)
class ROTD(SaddleTD):
    """min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ by

        x ← prox_{αh}(x − αA_tᵀy),   y ← Π_n(y + α(A_t x − b_t))      (`eq:RO-TD`, Algorithm 1)

    with A_t, b_t of TDC, in O(d) per row; `coef_` is the θ of the α-weighted average (`eq:averaging`).

    Parameters
    ----------
    lam : float
        λ of the eligibility trace (0 in the paper).

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

    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.tdc(self.eta, self.lam), self._penalty, self._solver
