"""TD and what it became without a second vector: emphatic, soft-thresholded and mirror-descent TD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import StreamingTD, Triple


@dataclass(kw_only=True, eq=False, repr=False)
class TD(StreamingTD):
    """Learn values by temporal differences, the classic: O(d) per step, and it may diverge off-policy.

    θ ← θ + αδe, with δ = r + γθᵀφ' − θᵀφ and e_t = ρ_t(φ_t + γλe_{t−1}).

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

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.NoPenalty(), self._stochastic


@dataclass(kw_only=True, eq=False, repr=False)
class ETD(TD):
    """Learn values by emphatic TD, which stays stable off-policy at a higher variance: O(d) per step.

    θ ← θ + αδe with the emphatic trace e_t = ρ_t(m_t φ_t + γλe_{t−1}), m_t = λi_t + (1 − λ)F_t, F_t =
    ρ_{t−1}γF_{t−1} + i_t.

    TD made stable off-policy by weighting each state by how much the target policy leads to it.

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

    def triple(self) -> Triple:
        return operators.etd(self.lam), penalties.NoPenalty(), self._stochastic


@dataclass(kw_only=True, eq=False, repr=False)
class L1TD(TD):
    """Learn sparse values on-policy by TD and a soft threshold: O(d) per step, may diverge off-policy.

    θ ← S_{αρ}(θ + αδe).

    The on-policy ancestor of RO-TD; its fixed point is LARS-TD's, and off-policy it may diverge as TD does.

    Parameters
    ----------
    rho_theta : float
        Weight of ‖θ‖₁.

    References
    ----------
    Painter-Wakefield & Parr (2012), L1 regularized linear temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import L1TD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> L1TD(gamma=0.5, rho_theta=0.1, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.  , 0.06, 0.72])
    """

    rho_theta: float = 0.001

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), self._stochastic


@dataclass(kw_only=True, eq=False, repr=False)
class MirrorDescentTD(TD):
    """Learn sparse values on-policy with mirror-descent steps: O(d) per step, may diverge off-policy.

    ∇ψ(θ⁺) = S_{αρ}(∇ψ(θ) + αδe) with ψ = ½‖θ‖_q², 1/p + 1/q = 1.

    p = 2 is L1-TD; a larger p makes the steps multiplicative in character and favours sparse θ. The soft threshold in
    the mirror image is the exact composite step.

    Parameters
    ----------
    step_size : float or callable
        α or a schedule: automatic steps are Euclidean.
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
    >>> from sparsetd.estimators import MirrorDescentTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> MirrorDescentTD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    step_size: Any = 0.01
    rho_theta: float = 0.0
    p: float = 3.0

    def triple(self) -> Triple:
        if self._automatic:
            raise ValueError("step_size='auto' goes with Euclidean steps: use L1TD, or pass a number or a schedule")
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.MirrorDescent(**self._streaming, p=self.p)
