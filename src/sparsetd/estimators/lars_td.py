"""LARS-TD: sparse LSTD with its whole regularisation path."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.lars import Lars


@dataclass(kw_only=True, eq=False, repr=False)
class LARSTD(SecondOrderTD):
    """The Lasso-TD fixed point: |b − Aθ|_i ≤ ρ_θ, and b_i − (Aθ)_i = ρ_θ sign(θ_i) where θ_i ≠ 0.

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

    def _parts(self) -> Parts:
        return (
            operators.td(self.lam),
            penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio),
            Lars(self.max_steps, self.rho_share),
        )
