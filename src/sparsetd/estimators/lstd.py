"""The methods that collect the mean system and solve it as a whole: LSTD, and its sparse kin.

LSTD-ℓ1, Dantzig-LSTD and RALP are convex for every A. The Lasso-TD fixed point, by its path (LARS-TD) or from a warm
start (LCP-TD), and greedy OMP-TD follow active sets.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Triple

ADVICE = {
    "ray": "the path left without reaching rho_theta because A is not a P-matrix, which is common off-policy; coef_ is "
    "the point with the smallest weight reached: try a larger rho_theta, l1_ratio < 1, DantzigLSTD or LSTDL1",
    "step_limit": "the path is longer than max_steps; coef_ is the point with the smallest weight reached: try a "
    "larger rho_theta, or a larger max_steps",
    "singular": "features that depend on the chosen ones had to be left out, and without them no solution was found: "
    "try a larger rho_theta, or drop duplicate columns",
    "infeasible": "no coefficients satisfy all constraints, and coef_ is zero: try a larger rho_theta (DantzigLSTD), a "
    "larger budget, or fit_intercept=True (RALP)",
    "unbounded": "the linear program has no minimum, and coef_ is zero: penalise all features but the constant",
    "failed": "the linear program could not be solved, and coef_ is zero: scale the features to similar sizes",
}


class SecondOrderTD(BaseTD):
    """The base of the methods that collect the mean system of all rows and solve it as a whole.

    An estimator that solves A = (1/N) Σ e(φ − γφ')ᵀ, b = (1/N) Σ r e as a whole; it streams by collecting.

    While there are fewer rows than features the rows themselves are kept and A is never formed.
    """

    def _advice(self, penalty: Any) -> str:
        if self.status_ not in ADVICE:
            return super()._advice(penalty)
        return f"stopped with status {self.status_!r}: {ADVICE[self.status_]}"


class PenalisedTD(SecondOrderTD):
    """The parameters that these methods share where they have a trace and a penalty.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    rho_theta : float
        Weight of the penalty.
    """

    lam: float = 0.0
    rho_theta: float = 0.001


class LSTD(BaseTD):
    """Solve for the values of a log exactly, with a ridge where asked: quadratic cost per row, works off-policy.

    (E[e(φ − γφ')ᵀ] + α I) θ = E[r e]; by the pseudo-inverse where the matrix is singular.

    The exact answer of the methods above without a penalty, in O(d²) per row and O(d³) at the end. α > 0 is l2-LSTD,
    which with fewer rows than features needs no d × d matrix.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    alpha : float
        The ridge, on the scale of means over rows.

    Attributes
    ----------
    rank_ : int
        Numerical rank of the system; `status_` is "singular" if it is not full.

    References
    ----------
    Bradtke & Barto (1996), Linear least-squares algorithms for temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> LSTD(gamma=0.5).fit(X, y).predict(X)
    array([0.25, 0.5 , 1.  ])
    """

    lam: float = 0.0
    alpha: float = 0.0

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.Ridge(self.alpha), solvers.LeastSquares()

    def _advice(self, penalty: Any) -> str:
        if self.status_ != "singular":
            return super()._advice(penalty)
        unknowns = self.n_features_in_ + int(self.fit_intercept)
        return (
            f"has {self.rank_} independent equations for {unknowns} unknowns: the shortest of many solutions is "
            "reported; drop redundant features, add rows or a ridge (alpha)"
        )


class LSTDL1(PenalisedTD):
    """Solve the equation of LSTD with an l1 penalty, along the whole path: convex, so it works off-policy.

    min ½‖Aθ − b‖² + ρ_θ‖θ‖₁, with its whole regularisation path.

    Convex for every A, so off-policy data are no obstacle. RO-TD's Extension has the same objective (in [w; θ]). With
    `projected` the norm is that of C⁻¹, C = E[φφᵀ]: min ½ MSPBE(θ) + ρ_θ‖θ‖₁, Geist and Scherrer's ℓ1-PBR.

    Parameters
    ----------
    rho_theta : float
        Weight of ‖θ‖₁ against a squared residual of means: its scale is that of Aᵀb (of AᵀC⁻¹b if projected).
    projected : bool
        Measure the residual in C⁻¹ (its pseudo-inverse where C is singular).
    max_steps : int
        Most events (features that enter or leave) on the path.

    Attributes
    ----------
    knots_, path_, n_active_, n_turns_, rho_reached_
        The path, as in `LARSTD`; `n_turns_` is 0.

    References
    ----------
    Geist & Scherrer (2011), ℓ1-penalized projected Bellman residual.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTDL1
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> LSTDL1(gamma=0.5, rho_theta=0.01).fit(X, y).coef_.round(2)
    array([0.05, 0.29, 0.84])
    """

    projected: bool = False
    max_steps: int = 1000

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.LstdL1(self.max_steps, self.projected)


class DantzigLSTD(PenalisedTD):
    """Find the sparsest values that nearly solve the equation of LSTD, by a linear program: works off-policy.

    min ‖θ‖₁ subject to ‖Aθ − b‖_∞ ≤ ρ_θ, a linear program.

    Sparse, and convex for every A: it needs no P-matrix. The linear program is solved on the rows and columns that
    matter, which is exact; A is not formed while there are fewer rows than features.

    Parameters
    ----------
    rho_theta : float
        The largest entry of the residual that is allowed, on the scale of means over rows.

    Attributes
    ----------
    residual_ : float
        ‖Aθ − b‖_∞.
    n_iter_ : int
        Rounds of column and row generation.

    References
    ----------
    Geist, Scherrer, Lazaric & Ghavamzadeh (2012), A Dantzig selector approach to temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import DantzigLSTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> DantzigLSTD(gamma=0.5, rho_theta=0.1).fit(X, y).coef_.round(3)
    array([0.  , 0.05, 0.7 ])
    """

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.Dantzig()


class RALP(SecondOrderTD):
    """Bound the values from above by a sparse linear program: for deterministic transitions, also for control.

    min mean V(s) subject to V(s) ≥ r + γV(s') for every row and ‖θ‖₁ ≤ budget, for V = θᵀφ + intercept.

    An upper bound on the value, tight for deterministic transitions. Rows of one state under several actions give the
    *optimal* value: it is then a method for control. Random transitions are taken at their word, row by row.

    Parameters
    ----------
    budget : float
        ψ: the most that Σ|θ_i| may be. The intercept and unpenalised features are not counted.
    fit_intercept : bool
        True by default: with γ < 1 the constant makes the program feasible for every budget.

    Attributes
    ----------
    objective_ : float
        The mean value of the rows' states.
    n_iter_ : int
        Rounds of column and row generation.

    References
    ----------
    Petrik, Taylor, Parr & Zilberstein (2010), Feature selection using regularization in approximate linear programs for
    Markov decision processes.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import RALP
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> RALP(gamma=0.5, budget=10.0).fit(X, y).predict(X).round(3)
    array([0.25, 0.5 , 1.  ])
    """

    budget: float = 1.0
    fit_intercept: bool = True

    # An upper bound on V within a fixed budget: neither odd nor homogeneous in the rewards.
    _odd: ClassVar[bool] = False
    _homogeneous: ClassVar[bool] = False

    def triple(self) -> Triple:
        return operators.td(), penalties.NoPenalty(), solvers.Ralp(self.budget)


class LARSTD(PenalisedTD):
    """Follow the fixed points of Lasso-TD along all penalties: sparse and exact, but the path may fail off-policy.

    The Lasso-TD fixed point: |b − Aθ|_i ≤ ρ_θ, and b_i − (Aθ)_i = ρ_θ sign(θ_i) where θ_i ≠ 0.

    Exact, sparse and with every ρ on the way from ρ_max; at γ = 0 it is `LassoLars`. The path may fail if A is not a
    P-matrix, which off-policy data make likely: then `status_` is "ray" or "step_limit" and a warning says so. A path
    of p steps costs O(Ndp + dp² + p³).

    Parameters
    ----------
    rho_theta : float
        Weight of the penalty, on the scale of means over rows (Kolter and Ng's β is N times as large).
    l1_ratio : float
        κ in ρ_θ(κ‖θ‖₁ + ½(1 − κ)‖θ‖²). Less than 1 moves A towards a P-matrix.
    rho_share : float or None
        ρ_θ as a share of ρ_max, where the path begins, in place of `rho_theta`.
    max_steps : int
        Most events (features that enter or leave) on the path.

    Attributes
    ----------
    knots_ : array of shape (n_knots,)
        ρ at the events. It falls from ρ_max to ρ_θ; where it rises, A is no P-matrix.
    path_ : CSR array of shape (n_knots, n_features, plus one with an intercept)
        θ at the knots; it is linear between them.
    n_active_ : array of shape (n_knots,)
    n_turns_ : int
        How often the path turned round. Any turn proves that A is no P-matrix.
    rho_reached_ : float
        ρ of `coef_`: ρ_θ times l1_ratio unless the path failed.
    n_iter_ : int
        Events on the path.

    References
    ----------
    Kolter & Ng (2009), Regularization and feature selection in least-squares temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LARSTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> model = LARSTD(gamma=0.5, rho_theta=0.1).fit(X, y)
    >>> model.coef_.round(3), model.knots_.round(3)
    (array([0.  , 0.05, 0.7 ]), array([0.333, 0.111, 0.1  ]))
    """

    rho_share: float | None = None
    l1_ratio: float = 1.0
    max_steps: int = 1000

    def triple(self) -> Triple:
        penalty = penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio)
        return operators.td(self.lam), penalty, solvers.Lars(self.max_steps, self.rho_share)


class LCPTD(PenalisedTD):
    """Find one fixed point of Lasso-TD from a warm start: the answer of `LARSTD`, quickly within policy iteration.

    The Lasso-TD fixed point as a linear complementarity problem: the same θ as `LARSTD`, at one ρ_θ only.

    Starting from `coef_init` it costs about one pivot per feature that enters or leaves. In policy iteration, start
    each evaluation from the last policy's coefficients.

    Parameters
    ----------
    rho_theta : float
        Weight of the penalty, on the scale of means over rows.
    l1_ratio : float
        κ in ρ_θ(κ‖θ‖₁ + ½(1 − κ)‖θ‖²). Less than 1 moves A towards a P-matrix.
    max_steps : int
        Most pivots.

    Attributes
    ----------
    n_pivots_ : int
        Features that entered or left, over all attempts; also `n_iter_`.
    n_turns_ : int
        How often the path turned round. Any turn proves that A is no P-matrix.
    warm_ : bool
        Whether the warm start led to the solution; if not, the path from zero was taken.

    References
    ----------
    Johns, Painter-Wakefield & Parr (2010), Linear complementarity for regularized policy evaluation and improvement.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators import LCPTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> first = LCPTD(gamma=0.5, rho_theta=0.1).fit(X, y)
    >>> again = LCPTD(gamma=0.5, rho_theta=0.1, coef_init=first.coef_).fit(X, y)
    >>> first.n_pivots_, again.n_pivots_
    (2, 0)
    """

    l1_ratio: float = 1.0
    max_steps: int = 1000

    def triple(self) -> Triple:
        penalty = penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio)
        return operators.td(self.lam), penalty, solvers.Lcp(self.max_steps)


class OMPTD(PenalisedTD):
    """Choose features greedily and solve LSTD on them: sparse without shrinkage, works off-policy.

    Choose the feature with the largest |b − Aθ|_i, solve LSTD on the chosen ones, repeat while that is above ρ_θ.

    Nothing is shrunk, so the coefficients are those of LSTD on `order_`. The features should have similar scales: a
    feature of small numbers has a small correlation.

    Parameters
    ----------
    rho_theta : float
        The correlation at which it stops, on the scale of means over rows.
    max_features : int or None
        The most features chosen, beside unpenalised ones.

    Attributes
    ----------
    order_ : array of int
        The features in the order in which they were chosen (unpenalised ones first; n_features is the intercept).
    knots_ : array
        max_i |b − Aθ|_i before each choice and at the end.
    path_ : CSR array, one row per knot
    n_active_ : array of int
        Features at each knot.
    rho_reached_ : float
        The last knot.
    n_iter_ : int
        Features chosen.

    References
    ----------
    Painter-Wakefield & Parr (2012), Greedy algorithms for sparse reinforcement learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import OMPTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> model = OMPTD(gamma=0.5, max_features=2).fit(X, y)
    >>> model.coef_, model.order_
    (array([0. , 0.5, 1. ]), array([2, 1]))
    """

    max_features: int | None = None

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.Omp(self.max_features)
