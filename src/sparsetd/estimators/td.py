"""The methods that take one step per row, without a penalty or with a soft threshold.

TD and its kin have one vector (emphatic, soft-thresholded and mirror-descent TD). Gradient TD has a second one, w, and
converges off-policy.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, StreamingTD, Triple


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


class GradientTD(StreamingTD):
    """The parameters that the methods with an auxiliary vector and a trace share.

    Parameters
    ----------
    eta : float
        β/α, the step of w over that of θ.
    lam : float
        λ of the eligibility trace.
    """

    eta: float = 1.0
    lam: float = 0.0


class TDC(GradientTD):
    """Learn values by TD with a gradient correction: O(d) per step, converges off-policy; the method to begin with.

    θ ← θ + α(δe − γ(1−λ)(eᵀw)φ'), w ← w + ηα(δe − (φᵀw)φ)  (`eq:TDCupdate`).

    Converges off-policy for η large enough; w estimates the projected TD error and vanishes at the solution.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TDC
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDC(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.tdc(self.eta, self.lam), penalties.NoPenalty(), self._stochastic


class TDRC(GradientTD):
    """Learn values by TDC with a regularised correction: O(d) per step, converges off-policy, little to tune.

    θ as in TDC, w ← w + ηα(δe − (φᵀw)φ − βw).

    β = 0 is TDC, β → ∞ is TD; with η = β = 1 it needs no second step size.

    Parameters
    ----------
    beta : float
        Strength of the pull of w to 0.

    References
    ----------
    Ghiassian et al. (2020), Gradient temporal-difference learning with regularized corrections.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import TDRC
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDRC(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    beta: float = 1.0

    def triple(self) -> Triple:
        return operators.tdrc(self.eta, self.lam, self.beta), penalties.NoPenalty(), self._stochastic


class GTD(GradientTD):
    """Learn values by the first gradient TD method, a baseline: O(d) per step, converges off-policy, slowly.

    w ← w + ηα(δe − w), θ ← θ + α(φ − γφ')(eᵀw).

    Descends ‖E[δe]‖²; slower than GTD2 and TDC, kept as the baseline that it is in the literature.

    References
    ----------
    Sutton, Szepesvári & Maei (2008), A convergent O(n) algorithm for off-policy temporal-difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import GTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> GTD(gamma=0.5, step_size=0.2, n_passes=5000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.gtd(self.eta, self.lam), penalties.NoPenalty(), self._stochastic


class GTD2(GradientTD):
    """Learn values by descending the projected Bellman error: O(d) per step, converges off-policy.

    w ← w + ηα(δe − (φᵀw)φ), θ ← θ + α(φ − γφ')(eᵀw).

    Descends the MSPBE; converges off-policy.

    References
    ----------
    Sutton et al. (2009), Fast gradient-descent methods for temporal-difference learning with linear function
    approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import GTD2
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> GTD2(gamma=0.5, step_size=0.2, n_passes=5000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.gtd2(self.eta, self.lam), penalties.NoPenalty(), self._stochastic


class HTD(StreamingTD):
    """Learn values by TD where the data is on-policy and by a gradient method where it is not: O(d) per step.

    θ ← θ + α(ρδφ + (1 − ρ)(φᵀw)(φ − γφ')), w ← w + ηα(ρδφ − (φᵀw)(φ − γφ')).

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
    >>> from sparsetd.estimators import HTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> HTD(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    eta: float = 1.0

    def triple(self) -> Triple:
        return operators.htd(self.eta), penalties.NoPenalty(), self._stochastic


class GQ(GradientTD):
    """Learn action values of a target policy by TDC with traces: O(d) per step, converges off-policy.

    θ ← θ + α(δe − γ(1−λ)(eᵀw)φ̄), w ← w + ηα(δe − (φᵀw)φ), e_t = φ_t + γλρ_t e_{t−1}  (`eq:gq`).

    X holds φ(s, a) of the action taken and X_next the expected φ̄ = Σ_a π(a|s')φ(s', a) under the target policy.

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

    def triple(self) -> Triple:
        return operators.gq(self.eta, self.lam), penalties.NoPenalty(), self._stochastic


class GTD2MP(GradientTD):
    """Learn values by GTD2 with a trial step before each step: O(d) per step, converges off-policy.

    (w, θ)_m = (w, θ) − αF_t(w, θ), then (w, θ) ← (w, θ) − αF_t((w, θ)_m), F_t = A_t x − b_t of GTD2.

    The extragradient takes the step of the trial point; with η = 1 the mean operator is monotone, which is what it
    needs. With average='all', `coef_` is the mean of the trial points.

    Parameters
    ----------
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
    >>> GTD2MP(gamma=0.5, step_size=0.2, n_passes=5000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    p: float = 2.0

    def triple(self) -> Triple:
        return operators.gtd2(self.eta, self.lam), penalties.NoPenalty(), self._mirror_prox(self.p)


class TDCMP(GTD2MP):
    """Learn values by TDC with a trial step before each step: O(d) per step, converges off-policy.

    (w, θ)_m = (w, θ) − αF_t(w, θ), then (w, θ) ← (w, θ) − αF_t((w, θ)_m), F_t = A_t x − b_t of TDC.

    As GTD2-MP with TDC's direction for θ. With average='all', `coef_` is the mean of the trial points.

    References
    ----------
    Liu et al. (2015), Finite-sample analysis of proximal gradient TD algorithms.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import TDCMP
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> TDCMP(gamma=0.5, step_size=0.1, n_passes=2000).fit(X, y).predict(X).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def triple(self) -> Triple:
        return operators.tdc(self.eta, self.lam), penalties.NoPenalty(), self._mirror_prox(self.p)


class PFGTD(BaseTD):
    """Learn values by GTD2 without any step size, through coin betting: O(d) per step, converges off-policy.

    min_θ max_w wᵀ(b − Aθ) − ½‖w‖²_C, with θ and w each played by a gambler who bets on the next gradient.

    The operator is GTD2's with η = 1. No step size; the wealth the gamblers start with takes its place, and is
    forgotten only logarithmically. `TDC` and `GTD2` with step_size='auto' are faster (docs/automatic-steps.md).

    Parameters
    ----------
    wealth : float
        Money of both gamblers together, in units of the objective.
    hint : float
        First guess of the largest norm of a gradient.
    lam : float
        λ of the eligibility trace.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"all", "suffix", "none"}
        What `coef_` is: the mean of all points played, that of the last quarter to half of them, or the last one.
    radius : float
        x = [w; θ] is kept in the l2 ball of this radius.

    References
    ----------
    Jacobsen & Chan (2021), Parameter-free gradient temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import PFGTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> PFGTD(gamma=0.5, n_passes=2000, average="suffix").fit(X, y).predict(X).round(1)
    array([0.2, 0.5, 1. ])
    """

    wealth: float = 1.0
    hint: float = 1.0
    lam: float = 0.0
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] = "all"
    radius: float = float("inf")

    _homogeneous: ClassVar[bool] = False

    def triple(self) -> Triple:
        solver = solvers.CoinBetting(average=self.average, radius=self.radius, wealth=self.wealth, hint=self.hint)
        return operators.gtd2(1.0, self.lam), penalties.NoPenalty(), solver
