"""RDA-TD: sparse streaming iterates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Parts


@dataclass(kw_only=True, eq=False, repr=False)
class RDATD(BaseTD):
    """min_x ‖Ax − b‖_m + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ by regularised dual averaging: no step size, exact zeros while streaming.

    The problem of `SparseTD`, with which it shares the meaning of its parameters, in O(d) memory and time per row. A
    feature is exactly zero unless its mean gradient exceeds ρ. Use `SparseTD` where the rows can be kept: it is exact.

    Parameters
    ----------
    rho_theta : float
        ρ_θ.
    rho_w : float or None
        ρ_w; None (the default) drops w.
    eta : float
        Weight of the rows of w.
    lam : float
        λ of the eligibility trace.
    fit_norm : {1, 2, "inf"}
        m.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"suffix", "all", "none"}
        What `coef_` is: an average of the iterates, with zeros where they were zero for half of its weight, or the
        last one.
    radius : float
        x is kept in the l2 ball of this radius.

    References
    ----------
    Xiao (2010), Dual averaging methods for regularized stochastic learning and online optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators.rdatd import RDATD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 6))
    >>> model = RDATD(gamma=0.0, rho_theta=0.3).fit(X, X[:, 0] + 0.1 * rng.normal(size=2000))
    >>> model.support_
    array([ True, False, False, False, False, False])
    """

    rho_theta: float = 0.01
    rho_w: float | None = None
    eta: float = 1.0
    lam: float = 0.0
    fit_norm: Literal[1, 2, "inf"] = 2
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] = "suffix"
    radius: float = float("inf")

    def _parts(self) -> Parts:
        solver = solvers.DualAveraging(average=self.average, radius=self.radius, fit_norm=self.fit_norm)
        if self.rho_w is not None:
            return operators.tdc(self.eta, self.lam), penalties.L1(self.rho_theta, self.rho_w), solver
        # Without w both blocks of Ax − b are multiples of Gθ − g: ‖(η, 1)‖_m ‖Gθ − g‖_m + ρ‖θ‖₁.
        scale = np.linalg.norm([self.eta, 1.0], np.inf if self.fit_norm == "inf" else self.fit_norm)
        return operators.td(self.lam), penalties.L1(float(self.rho_theta / scale)), solver
