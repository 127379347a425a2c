"""Combinations without a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from typing import Any

from sparsetd import operators, penalties, solvers
from sparsetd.estimators.base import BaseTD, Triple
from sparsetd.estimators.validation import nearest
from sparsetd.system import Table


class LinearTD(BaseTD):
    """Combine any operator with any penalty and any solver: for combinations that have no name.

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
    step_size : "auto", float, callable or None
        In place of the solver's own; "auto" without a solver is `solvers.DistanceOverGradients()`.
    eta, lam : float or None
        Constants of an operator given by name, in place of its own.
    rho_theta, rho_w : float or None
        Weights of the penalty, in place of its own; without a penalty they are those of an L1.

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
    step_size: Any = None
    eta: float | None = None
    lam: float | None = None
    rho_theta: float | None = None
    rho_w: float | None = None

    def triple(self) -> Triple:
        return self._table(), self._penalty(), self._solver()

    def _table(self) -> Table:
        given = self._given("eta", "lam")
        if isinstance(self.operator, Table):
            self._refuse(given, "operator", "a table with its own constants (to vary one, make a table for each value)")
            return self.operator
        if self.operator not in operators.OPERATORS:
            raise ValueError(nearest("operator", self.operator, operators.OPERATORS))
        make = operators.OPERATORS[self.operator]
        self._refuse(given.keys() - signature(make).parameters.keys(), "operator", repr(self.operator))
        return make(**given)

    def _penalty(self) -> Any:
        given = self._given("rho_theta", "rho_w")
        if self.penalty is None:
            return penalties.L1(**{"rho_theta": 0.0, **given}) if given else penalties.NoPenalty()
        if not isinstance(self.penalty, penalties.Penalty):
            raise TypeError(
                f"penalty={self.penalty!r} has no value, prox and shrinkage; use one of sparsetd.penalties, or "
                "Custom(prox)"
            )
        return self._changed("penalty", given)

    def _solver(self) -> Any:
        given = self._given("step_size")
        if self.solver is None and self.step_size == "auto":
            return solvers.DistanceOverGradients()
        return solvers.Stochastic(**given) if self.solver is None else self._changed("solver", given)

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _changed(self, part: str, given: dict[str, Any]) -> Any:
        """The penalty or the solver with these numbers in place of its own."""
        value = getattr(self, part)
        known = {field.name for field in fields(value)} if is_dataclass(value) else set()
        self._refuse(given.keys() - known, part, type(value).__name__)
        return replace(value, **given) if given else value

    def _refuse(self, names: Iterable[str], part: str, what: str) -> None:
        for name in names:
            raise ValueError(f"{name}={getattr(self, name)!r} does not go with {part}, which is {what}: leave it None")
