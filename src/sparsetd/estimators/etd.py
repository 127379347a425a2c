"""Emphatic TD(λ)."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class ETD(StreamingTD):
    """θ ← θ + αδe with the emphatic trace e_t = ρ_t(m_t φ_t + γλe_{t−1}), m_t = λi_t + (1 − λ)F_t, F_t =
    ρ_{t−1}γF_{t−1} + i_t.

    TD made stable off-policy by weighting each state by how much the target policy leads to it.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Sutton, Mahmood & White (2016), An emphatic approach to the problem of off-policy temporal-difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import ETD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> ETD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.etd(self.lam), penalties.NoPenalty(), self._stochastic
