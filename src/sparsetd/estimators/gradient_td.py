"""Gradient TD: methods with a second vector w, which converge off-policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, StreamingTD, Triple


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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


@dataclass(kw_only=True, eq=False, repr=False)
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
