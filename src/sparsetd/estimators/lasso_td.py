"""The Lasso-TD fixed point, by its path (LARS-TD) or from a warm start (LCP-TD), and greedy OMP-TD."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import Triple
from sparsetd.estimators.lstd import SecondOrderTD


@dataclass(kw_only=True, eq=False, repr=False)
class LARSTD(SecondOrderTD):
    """Follow the fixed points of Lasso-TD along all penalties: sparse and exact, but the path may fail off-policy.

    The Lasso-TD fixed point: |b − Aθ|_i ≤ ρ_θ, and b_i − (Aθ)_i = ρ_θ sign(θ_i) where θ_i ≠ 0.

    Exact, sparse and with every ρ on the way from ρ_max; at γ = 0 it is `LassoLars`. The path may fail if A is not a
    P-matrix, which off-policy data make likely: then `status_` is "ray" or "step_limit" and a warning says so. A path
    of p steps costs O(Ndp + dp² + p³).

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
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

    lam: float = 0.0
    rho_theta: float = 0.001
    rho_share: float | None = None
    l1_ratio: float = 1.0
    max_steps: int = 1000

    def triple(self) -> Triple:
        penalty = penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio)
        return operators.td(self.lam), penalty, solvers.Lars(self.max_steps, self.rho_share)


@dataclass(kw_only=True, eq=False, repr=False)
class LCPTD(SecondOrderTD):
    """Find one fixed point of Lasso-TD from a warm start: the answer of `LARSTD`, quickly within policy iteration.

    The Lasso-TD fixed point as a linear complementarity problem: the same θ as `LARSTD`, at one ρ_θ only.

    Starting from `coef_init` it costs about one pivot per feature that enters or leaves. In policy iteration, start
    each evaluation from the last policy's coefficients.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
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

    lam: float = 0.0
    rho_theta: float = 0.001
    l1_ratio: float = 1.0
    max_steps: int = 1000

    def triple(self) -> Triple:
        return (
            operators.td(self.lam),
            penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio),
            solvers.Lcp(self.max_steps),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class OMPTD(SecondOrderTD):
    """Choose features greedily and solve LSTD on them: sparse without shrinkage, works off-policy.

    Choose the feature with the largest |b − Aθ|_i, solve LSTD on the chosen ones, repeat while that is above ρ_θ.

    Nothing is shrunk, so the coefficients are those of LSTD on `order_`. The features should have similar scales: a
    feature of small numbers has a small correlation.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
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

    lam: float = 0.0
    rho_theta: float = 0.001
    max_features: int | None = None

    def triple(self) -> Triple:
        return operators.td(self.lam), penalties.L1(self.rho_theta), solvers.Omp(self.max_features)
