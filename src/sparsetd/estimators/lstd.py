"""LSTD(λ), with or without a ridge."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Parts


@dataclass(kw_only=True, eq=False, repr=False)
class LSTD(BaseTD):
    """(E[e(φ − γφ')ᵀ] + ρ_θ I) θ = E[r e]; by the pseudo-inverse where the matrix is singular.

    The exact answer of the methods above without a penalty, in O(d²) per row and O(d³) at the end. ρ_θ > 0 is l2-LSTD,
    which with fewer rows than features needs no d × d matrix.

    Parameters
    ----------
    lam : float
        λ of the eligibility trace.
    rho_theta : float
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
    rho_theta: float = 0.0

    def _parts(self) -> Parts:
        return operators.td(self.lam), penalties.Ridge(self.rho_theta), solvers.LeastSquares()

    def _warn(self, penalty: Any) -> None:
        super()._warn(penalty)
        if self.status_ == "singular":
            warnings.warn(
                f"LSTD has {self.rank_} independent equations for {self.n_features_in_ + int(self.fit_intercept)} "
                "unknowns: the shortest of many solutions is reported; drop redundant features, add rows or a ridge "
                "(rho_theta)",
                ConvergenceWarning,
                stacklevel=4,
            )
