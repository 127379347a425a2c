"""TD(λ), the classic; may diverge off-policy."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class TD(StreamingTD):
    """θ ← θ + αδe, with δ = r + γθᵀφ' − θᵀφ and e_t = ρ_t(φ_t + γλe_{t−1}).

    Converges on-policy. Off-policy it may diverge (on the star it must): `status_` then says so.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.

    References
    ----------
    Sutton (1988), Learning to predict by the methods of temporal differences.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    lam: float = 0.0

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.NoPenalty(), self._stochastic
