"""What the second-order and greedy estimators share: the stream's system is collected, then solved as a whole."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sparsetd.estimators.base import BaseTD

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
    """An estimator that solves A = (1/N) Σ e(φ − γφ')ᵀ, b = (1/N) Σ r e as a whole; it streams by collecting.

    While there are fewer rows than features the rows themselves are kept and A is never formed.
    """

    def _warn(self, penalty: Any) -> None:
        if self.status_ not in ADVICE:
            return super()._warn(penalty)
        message = f"{type(self).__name__} stopped with status {self.status_!r}: {ADVICE[self.status_]}"
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
