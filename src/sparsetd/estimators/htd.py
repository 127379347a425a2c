"""HTD: hybrid TD."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class HTD(StreamingTD):
    """θ ← θ + α(ρδφ + (1 − ρ)(φᵀw)(φ − γφ')), w ← w + ηα(ρδφ − (φᵀw)(φ − γφ')).

    TD where the ratio is 1, a gradient method elsewhere.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.

    References
    ----------
    White & White (2016), Investigating practical linear temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import HTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> HTD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0

    def _parts(self) -> Parts:
        return operators.htd(self.eta), penalties.NoPenalty(), self._stochastic
