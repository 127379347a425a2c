"""SparseTD: the paper's problem solved exactly, with proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sparsetd import operators, penalties
from sparsetd.estimators.base import BaseTD, Triple
from sparsetd.solvers.saddle import Family, Saddle, Units, without_w
from sparsetd.system import Batch

# Parameters of the estimators that their solver has under the same name.
SHARED = ("fit_norm", "tol", "max_iter", "method", "refit", "standardize", "time_limit")


class ExactTD(BaseTD):
    """The parameters that the certified estimators share.

    SparseTD and SparseTDSelect minimise ‖Ax − b‖_m + h(x) on the mean TDC system of all rows, with proof.

    Parameters
    ----------
    eta : float
        Weight of the rows of w.
    lam : float
        λ of the eligibility trace.
    fit_norm : {1, 2, "inf", "rmspbe"}
        m; 2 is the paper's. "rmspbe" is m = 2 in the metric of C = E[φφᵀ]: the root of the projected Bellman error,
        which no change of basis alters. It drops w and forms C.
    l1_ratio : float
        1 is the L1 penalty, 0 ridge, and between them ρ(κ‖·‖₁ + ½(1 − κ)‖·‖²), the elastic net.
    groups : sequence of int or None
        The number of each feature's group; then features enter and leave by groups, with weight ρ√|g|.
    standardize : bool
        Pose the problem for columns of one scale (centred where there is an intercept; sparse columns are only scaled),
        so that units never matter; coefficients are reported in the units of X. False takes the columns as they come,
        as the paper does.
    refit : bool
        Report LSTD's coefficients on the selected features, free of shrinkage; the minimiser stays in `coef_last_`.
    tol : float
        Relative duality gap at which the solver stops.
    max_iter : int
        Most first-order iterations, where they are needed.
    method : {"auto", "working_set", "pdhg"}
        How it is solved; the answer is the same.
    time_limit : float or None
        Seconds after which the best point so far is reported, with its gap and a warning.

    Attributes
    ----------
    dual_gap_ : float
        The objective at `coef_last_`, the penalised solution, is at most this far from its minimum. A proof, not an
        estimate. With `refit` it says nothing about `coef_`, which LSTD computes on the selected features.
    objective_ : float
        The objective at `coef_last_`.
    absorbed_ : float
        Share of θ's residual that w hides (only with `rho_w`).
    n_applications_ : int
        Products with the whole of A and of Aᵀ, a pair counting as one and a single column as a quarter.
    """

    eta: float = 1.0
    lam: float = 0.0
    fit_norm: Literal[1, 2, "inf", "rmspbe"] = 2
    l1_ratio: float = 1.0
    groups: Sequence[int] | None = None
    standardize: bool = True
    refit: bool = False
    tol: float = 1e-8
    max_iter: int = 10_000
    method: Literal["auto", "working_set", "pdhg"] = "auto"
    time_limit: float | None = None
    rho_w: float | None = None

    def _posed(self, rho_theta: float, *, relative: bool = False) -> Triple:
        """The triple for this ρ_θ; without w it is the one-block system, times the c of ‖[ηu; u]‖ = c‖u‖."""
        dropped, rhos = self.rho_w is None, (rho_theta, self.rho_w or 0.0)
        table = operators.td(self.lam) if dropped else operators.tdc(self.eta, self.lam)
        scale = without_w(self.fit_norm, self.eta) if dropped else 1.0
        shared = {name: getattr(self, name) for name in SHARED}
        solver = Saddle(**shared, scale=scale, constant=self.fit_intercept, relative=relative)
        if self.groups is None:
            return table, penalties.ElasticNet(*rhos, self.l1_ratio), solver
        groups = np.asarray(self.groups, dtype=np.intp)
        constant = [groups.max() + 1] if self.fit_intercept else []
        return table, penalties.GroupL1(np.append(groups, constant).astype(np.intp), *rhos), solver

    def _family(self, batch: Batch) -> tuple[Family, Batch, Units]:
        """The problems on a batch for every ρ_θ, its rows with columns of one scale, and the units that lead back."""
        table, penalty, solver = self._posed(1.0)
        even, units = solver.even(batch)
        return solver.family(even, table, penalty, self._factor(batch.n_features)), even, units


class SparseTD(ExactTD):
    """Minimise the objective of RO-TD over a whole log, with exact zeros and a certificate: works off-policy.

    min_x ‖Ax − b‖_m + ρ_θ‖θ‖₁ + ρ_w‖w‖₁ on the mean TDC system of all rows, with exact zeros and a duality gap.

    `ROTD` streams towards this minimiser and is never exactly sparse; here it is computed, and `dual_gap_` proves how
    close it is. With `rho_w=None` (the default) w is dropped: what is left is a square-root Lasso on the LSTD equation,
    √(1+η²)‖Gθ − g‖₂ + ρ_θ‖θ‖₁ for m = 2, whose useful ρ_θ lie between 0 and a ρ_max known in closed form and do not
    depend on the scale of the rewards. `SparseTDSelect` chooses ρ_θ. With `standardize` (the default) A and b are those
    of columns of one scale; `objective_` and `dual_gap_` are measured there.

    Parameters
    ----------
    rho_theta : float
        Weight ρ_θ of ‖θ‖₁.
    rho_w : float or None
        Weight of ‖w‖₁. If it is small for ρ_θ, w absorbs the residual in place of θ, which `absorbed_` measures and a
        warning reports; None drops w.
    rho_share : float or None
        ρ_θ as a share of ρ_max, the least weight at which no feature is left, in place of `rho_theta`: 0.1 suits data
        of any scale, and every policy of a policy iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import SparseTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> model = SparseTD(rho_theta=0.2, gamma=0.5, standardize=False).fit(X, y)
    >>> model.coef_.round(3), model.status_
    (array([0.   , 0.21 , 0.781]), 'converged')
    """

    rho_theta: float = 0.1
    rho_share: float | None = None

    def triple(self) -> Triple:
        if self.rho_share is not None:
            return self._posed(self.rho_share, relative=True)
        return self._posed(self.rho_theta)
