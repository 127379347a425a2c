"""RO-GQ(λ): RO-TD for action values with traces."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators
from sparsetd.estimators.base import Parts
from sparsetd.estimators.saddle import SaddleTD


@dataclass(kw_only=True, eq=False, repr=False)
class ROGQ(SaddleTD):
    """min_x max_{‖y‖_n ≤ 1} yᵀ(Ax − b) + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ with A_t, b_t of GQ(λ) (`eq:gqAb`, Algorithm 2).

    X holds φ(s, a) and X_next the expected φ̄ under the target policy; the ratio multiplies the old trace only. At λ =
    0 it is RO-TD on those rows.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Liu, Mahadevan & Liu (2012), Regularized off-policy TD-learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import ROGQ
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ROGQ(gamma=0.5, lam=0.4, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.gq(self.eta, self.lam), self._penalty, self._solver
