"""Mirror-descent TD: p-norm steps, for many features of which few matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import Parts
from sparsetd.estimators.streaming import StreamingTD


@dataclass(kw_only=True, eq=False, repr=False)
class MirrorDescentTD(StreamingTD):
    """∇ψ(θ⁺) = S_{αρ}(∇ψ(θ) + αδe) with ψ = ½‖θ‖_q², 1/p + 1/q = 1.

    p = 2 is L1-TD; a larger p makes the steps multiplicative in character and favours sparse θ. The soft threshold in
    the mirror image is the exact composite step.

    Parameters
    ----------
    step_size : float or callable
        α or a schedule: automatic steps are Euclidean.
    lam : float
        λ of the eligibility trace.
    rho_theta : float
        Weight of ‖θ‖₁.
    p : float
        Exponent of the mirror map. 2 max(1, log₁₀ d) is customary.

    References
    ----------
    Mahadevan & Liu (2012), Sparse Q-learning with mirror descent.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import MirrorDescentTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> MirrorDescentTD(gamma=0.5, step_size=0.1, n_passes=3000, p=2.5).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    step_size: Any = 0.01
    lam: float = 0.0
    rho_theta: float = 0.0
    p: float = 3.0

    def _parts(self) -> Parts:
        if self._automatic:
            raise ValueError("step_size='auto' goes with Euclidean steps: use L1TD, or pass a number or a schedule")
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.MirrorDescent(**self._streaming, p=self.p)
