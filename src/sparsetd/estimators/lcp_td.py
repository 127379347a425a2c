"""LCP-TD: LARS-TD's fixed point, reached from a warm start."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.lcp import Lcp


@dataclass(kw_only=True, eq=False, repr=False)
class LCPTD(SecondOrderTD):
    """The Lasso-TD fixed point as a linear complementarity problem: the same θ as `LARSTD`, at one ρ_θ only.

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
    >>> from sparsetd import LCPTD
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

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.ElasticNet(self.rho_theta, l1_ratio=self.l1_ratio), Lcp(self.max_steps)
