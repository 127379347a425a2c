"""PF-GTD: parameter-free gradient TD, a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Parts


@dataclass(kw_only=True, eq=False, repr=False)
class PFGTD(BaseTD):
    """min_θ max_w wᵀ(b − Aθ) − ½‖w‖²_C, with θ and w each played by a gambler who bets on the next gradient.

    The operator is GTD2's with η = 1. No step size; the wealth the gamblers start with takes its place, and is
    forgotten only logarithmically. `TDC` and `GTD2` with step_size='auto' are faster (docs/automatic-steps.md).

    Parameters
    ----------
    wealth : float
        Money of both gamblers together, in units of the objective.
    hint : float
        First guess of the largest norm of a gradient.
    lam : float
        λ of the eligibility trace.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"all", "suffix", "none"}
        What `coef_` is: the mean of all points played, that of the last quarter to half of them, or the last one.
    radius : float
        x = [w; θ] is kept in the l2 ball of this radius.

    References
    ----------
    Jacobsen & Chan (2021), Parameter-free gradient temporal difference learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.estimators.pfgtd import PFGTD
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> PFGTD(gamma=0.5, n_passes=2000, average="suffix").fit(X, y).predict(X).round(1)
    array([0.2, 0.5, 1. ])
    """

    wealth: float = 1.0
    hint: float = 1.0
    lam: float = 0.0
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] = "all"
    radius: float = float("inf")

    _homogeneous: ClassVar[bool] = False

    def _parts(self) -> Parts:
        solver = solvers.CoinBetting(average=self.average, radius=self.radius, wealth=self.wealth, hint=self.hint)
        return operators.gtd2(1.0, self.lam), penalties.NoPenalty(), solver
