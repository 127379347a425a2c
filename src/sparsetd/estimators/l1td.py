"""L1-TD: TD with a soft threshold."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class L1TD(StreamingTD):
    """θ ← S_{αρ}(θ + αδe).

    The on-policy ancestor of RO-TD; its fixed point is LARS-TD's, and off-policy it may diverge as TD does.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    rho_theta : float
        Weight of ‖θ‖₁.

    References
    ----------
    Painter-Wakefield & Parr (2012), L1 regularized linear temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import L1TD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> L1TD(gamma=0.5, rho_theta=0.1, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.  , 0.06, 0.72])
    """

    lam: float = 0.0
    rho_theta: float = 0.001

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.L1(self.rho_theta), self._stochastic
