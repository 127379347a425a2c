"""Combinations without a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Parts
from sparsetd.estimators.validation import nearest
from sparsetd.system import Table


@dataclass(kw_only=True, eq=False, repr=False)
class LinearTD(BaseTD):
    """operator × penalty × solver: any system, any h, any way to solve it.

    Parameters
    ----------
    operator : str or Table
        A name in `sparsetd.operators` (with its default constants), or a table such as `operators.tdc(eta=10)`.
    penalty : penalty or None
        A value from `sparsetd.penalties`; None is no penalty.
    solver : solver or None
        A value from `sparsetd.solvers`; None is `solvers.Stochastic()`.
    n_passes : int
        How often `fit` goes through the rows.

    Examples
    --------
    Prox-TDC with a group penalty:

    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 4)), rng.normal(size=400)
    >>> model = LinearTD(
    ...     operator="tdc",
    ...     penalty=penalties.GroupL1(np.array([0, 0, 1, 1]), rho_theta=0.1),
    ...     solver=solvers.Stochastic(step_size=0.05),
    ... )
    >>> model.fit(X, y).coef_.shape
    (4,)
    """

    operator: Any = "td"
    penalty: Any = None
    solver: Any = None
    n_passes: int = 1

    def _parts(self) -> Parts:
        penalty = penalties.NoPenalty() if self.penalty is None else self.penalty
        if not isinstance(penalty, penalties.Penalty):
            raise TypeError(
                f"penalty={penalty!r} has no value, prox and shrinkage; use one of sparsetd.penalties, or Custom(prox)"
            )
        return self._table(), penalty, solvers.Stochastic() if self.solver is None else self.solver

    def _table(self) -> Table:
        if isinstance(self.operator, Table):
            return self.operator
        if self.operator not in operators.OPERATORS:
            raise ValueError(nearest("operator", self.operator, operators.OPERATORS))
        return operators.OPERATORS[self.operator]()
