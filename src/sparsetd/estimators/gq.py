"""GQ(λ): gradient TD for action values."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class GQ(StreamingTD):
    """θ ← θ + α(δe − γ(1−λ)(eᵀw)φ̄), w ← w + ηα(δe − (φᵀw)φ), e_t = φ_t + γλρ_t e_{t−1}  (`eq:gq`).

    X holds φ(s, a) of the action taken and X_next the expected φ̄ = Σ_a π(a|s')φ(s', a) under the target policy.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Maei & Sutton (2010), GQ(λ): a general gradient algorithm for temporal-difference prediction learning with
    eligibility traces.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import GQ
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> GQ(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0
    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.gq(self.eta, self.lam), penalties.NoPenalty(), self._stochastic
