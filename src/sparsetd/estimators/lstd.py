"""LSTD, and the sparse methods that are convex for every A: LSTD-ℓ1, Dantzig-LSTD and RALP."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(kw_only=True, eq=False, repr=False)
class SecondOrderTD(BaseTD):
    """The base of the methods that collect the mean system of all rows and solve it as a whole.

    An estimator that solves A = (1/N) Σ e(φ − γφ')ᵀ, b = (1/N) Σ r e as a whole; it streams by collecting.

    While there are fewer rows than features the rows themselves are kept and A is never formed.
    """

    def _advice(self, penalty: Any) -> str:
        if self.status_ not in ADVICE:
            return super()._advice(penalty)
        return f"stopped with status {self.status_!r}: {ADVICE[self.status_]}"


@dataclass(kw_only=True, eq=False, repr=False)
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

    _renamed: ClassVar[dict[str, str]] = {"rho_theta": "alpha"}

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


@dataclass(kw_only=True, eq=False, repr=False)
class LSTDL1(SecondOrderTD):
    """Solve the equation of LSTD with an l1 penalty, along the whole path: convex, so it works off-policy.

    min ½‖Aθ − b‖² + ρ_θ‖θ‖₁, with its whole regularisation path.

    Convex for every A, so off-policy data are no obstacle. RO-TD's Extension has the same objective (in [w; θ]). With
    `projected` the norm is that of C⁻¹, C = E[φφᵀ]: min ½ MSPBE(θ) + ρ_θ‖θ‖₁, Geist and Scherrer's ℓ1-PBR.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
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

    lam: float = 0.0
    rho_theta: float = 0.001
    projected: bool = False
    max_steps: int = 1000

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.LstdL1(self.max_steps, self.projected)


@dataclass(kw_only=True, eq=False, repr=False)
class DantzigLSTD(SecondOrderTD):
    """Find the sparsest values that nearly solve the equation of LSTD, by a linear program: works off-policy.

    min ‖θ‖₁ subject to ‖Aθ − b‖_∞ ≤ ρ_θ, a linear program.

    Sparse, and convex for every A: it needs no P-matrix. The linear program is solved on the rows and columns that
    matter, which is exact; A is not formed while there are fewer rows than features.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
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

    lam: float = 0.0
    rho_theta: float = 0.001

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.Dantzig()


@dataclass(kw_only=True, eq=False, repr=False)
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
