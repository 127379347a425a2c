"""Linear programs with few non-zeros and few binding rows, by column and row generation on SciPy's HiGHS.

    min costᵀθ + weightᵀ|θ|     subject to     lower ≤ Rθ ≤ upper,     factorᵀ|θ| ≤ budget

Only the rows K and the columns J that matter are handed to HiGHS (θ_J = u − v, u, v ≥ 0). With the multipliers y of its
rows and ν ≤ 0 of the budget, the answer solves the whole program if

    lower ≤ Rθ ≤ upper     and     |cost − Rᵀy|_j ≤ weight_j − ν factor_j     for every row and every j,

its optimality conditions. The rows and columns that violate them most join K and J.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from sparsetd.solvers.active_set import Column
from sparsetd.system import Array

STATUS = {0: "converged", 1: "step_limit", 2: "infeasible", 3: "unbounded"}
TOLERANCE = 1e-7  # violations below this share of the largest number involved are rounding: HiGHS's own tolerance
AT_ONCE = 20  # rows or columns that join in one round, or as many as there are


@dataclass(frozen=True, eq=False)
class Program:
    """The data above; `column(j)` is R[:, j] and `adjoint(y)` is Rᵀy. A row has an upper bound, a lower one or both."""

    cost: Array
    weight: Array
    column: Column
    adjoint: Callable[[Array], Array]
    lower: Array
    upper: Array
    factor: Array
    budget: float = np.inf


@dataclass(eq=False)
class _Selection:
    """The chosen columns J with R[:, J], and the chosen rows K."""

    program: Program
    columns: list[int]
    rows: Array
    R: Array

    @classmethod
    def of(cls, program: Program, columns: Iterable[int], rows: Iterable[int]) -> _Selection:
        empty = cls(program, [], np.zeros(0, dtype=np.intp), np.zeros((len(program.lower), 0)))
        return empty.joined(sorted(set(columns)), rows)

    def joined(self, columns: Iterable[int], rows: Iterable[int]) -> _Selection:
        new = list(columns)
        R = np.column_stack([self.R, *(self.program.column(j) for j in new)])
        return _Selection(self.program, self.columns + new, np.union1d(self.rows, list(rows)).astype(np.intp), R)

    def solve(self) -> Any:
        """HiGHS on what is chosen. A basic solution has exact zeros."""
        R, upper, lower = self.R[self.rows], self.program.upper[self.rows], self.program.lower[self.rows]
        above, below, chosen = np.isfinite(upper), np.isfinite(lower), self.columns
        parts, limits = [np.hstack([R, -R])[above], np.hstack([-R, R])[below]], [upper[above], -lower[below]]
        if np.isfinite(self.program.budget):
            parts.append(np.tile(self.program.factor[chosen], 2)[None])
            limits.append(np.array([self.program.budget]))
        cost, weight = self.program.cost[chosen], self.program.weight[chosen]
        return linprog(np.concatenate([weight + cost, weight - cost]), np.vstack(parts), np.concatenate(limits))

    def violated_rows(self, answer: Any) -> Array:
        product = self.R @ _difference(answer)
        excess = np.maximum(product - self.program.upper, self.program.lower - product)
        excess[self.rows] = 0.0
        return _worst(excess, len(self.rows), float(np.abs(product).max(initial=0.0)))

    def violated_columns(self, answer: Any) -> Array:
        program, y, multipliers = self.program, np.zeros(len(self.program.upper)), answer.ineqlin.marginals
        above, below = np.isfinite(program.upper[self.rows]), np.isfinite(program.lower[self.rows])
        y[self.rows[above]] += multipliers[: above.sum()]
        y[self.rows[below]] -= multipliers[above.sum() : above.sum() + below.sum()]
        nu = multipliers[-1] if np.isfinite(program.budget) else 0.0
        price = np.abs(program.cost - program.adjoint(y))
        excess = price - (program.weight - nu * program.factor)
        excess[self.columns] = 0.0
        return _worst(excess, len(self.columns), float(price.max(initial=0.0)))


def minimise(program: Program, columns: Iterable[int], rows: Iterable[int]) -> tuple[Array, str, int]:
    """θ (zero if there is none), the status and the number of rounds, beginning with these columns and rows."""
    selection, rounds = _Selection.of(program, columns, rows), 0
    while True:
        answer, rounds = selection.solve(), rounds + 1
        grown = _grown(selection, answer)
        if grown is None:
            break
        selection = grown
    theta = np.zeros(len(program.cost))
    if answer.status == 0:
        theta[selection.columns] = _difference(answer)
    return theta, STATUS.get(answer.status, "failed"), rounds


def _grown(selection: _Selection, answer: Any) -> _Selection | None:
    """What has to join, or None at the end. Without an answer there is nothing to price with: everything joins."""
    d, n = len(selection.program.cost), len(selection.program.lower)
    if answer.status == 0:
        columns, rows = selection.violated_columns(answer), selection.violated_rows(answer)
    elif answer.status == 2 and len(selection.columns) < d:
        columns, rows = np.setdiff1d(np.arange(d), selection.columns), np.zeros(0)
    elif answer.status in (3, 4) and len(selection.rows) < n:  # HiGHS may not know whether unbounded or infeasible
        columns, rows = np.zeros(0), np.arange(n)
    else:
        return None
    return selection.joined(columns.astype(int).tolist(), rows.tolist()) if len(columns) or len(rows) else None


def _difference(answer: Any) -> Array:
    u, v = answer.x.reshape(2, -1)
    return np.asarray(u - v)


def _worst(excess: Array, size: int, scale: float) -> Array:
    """Return where the excess is largest, as many as are chosen already."""
    worst = np.argsort(-excess, kind="stable")[: max(AT_ONCE, size)]
    return np.asarray(worst[excess[worst] > TOLERANCE * max(1.0, scale)])
