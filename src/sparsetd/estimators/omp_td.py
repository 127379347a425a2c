"""OMP-TD: LSTD on greedily chosen features."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.omp import Omp


@dataclass(kw_only=True, eq=False, repr=False)
class OMPTD(SecondOrderTD):
    """Choose the feature with the largest |b − Aθ|_i, solve LSTD on the chosen ones, repeat while that is above ρ_θ.

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

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.L1(self.rho_theta), Omp(self.max_features)
