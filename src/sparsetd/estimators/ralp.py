"""RALP: the approximate linear program with an ℓ1 budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sparsetd import operators, penalties
from sparsetd.estimators.base import Parts
from sparsetd.estimators.second_order import SecondOrderTD
from sparsetd.solvers.ralp import Ralp


@dataclass(kw_only=True, eq=False, repr=False)
class RALP(SecondOrderTD):
    """min mean V(s) subject to V(s) ≥ r + γV(s') for every row and ‖θ‖₁ ≤ budget, for V = θᵀφ + intercept.

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
    >>> from sparsetd import RALP
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> RALP(gamma=0.5, budget=10.0).fit(X, y).predict(X).round(3)
    array([0.25, 0.5 , 1.  ])
    """

    budget: float = 1.0
    fit_intercept: bool = True

    # An upper bound on V within a fixed budget: neither odd nor homogeneous in the rewards.
    _odd: ClassVar[bool] = False
    _homogeneous: ClassVar[bool] = False

    def _parts(self) -> Parts:
        return operators.td(), penalties.NoPenalty(), Ralp(self.budget)
