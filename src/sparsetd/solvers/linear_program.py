"""Dantzig-LSTD and RALP: linear programs with few non-zeros and few binding rows, by generating columns and rows.

    min costᵀθ + weightᵀ|θ|     subject to     lower ≤ Rθ ≤ upper,     factorᵀ|θ| ≤ budget

SciPy's HiGHS gets only the rows K and the columns J that matter (θ_J = u − v, u, v ≥ 0). With the multipliers y of its
rows and ν ≤ 0 of the budget, the answer solves the whole program if

    lower ≤ Rθ ≤ upper     and     |cost − Rᵀy|_j ≤ weight_j − ν factor_j     for every row and every j,

which are its optimality conditions. The rows and columns that violate them most join K and J.

References
----------
Geist, Scherrer, Lazaric & Ghavamzadeh (2012), Dantzig-LSTD. Petrik, Taylor, Parr & Zilberstein (2010), RALP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from sparsetd.solvers.path_following import Column, lars_path, ridged_columns
from sparsetd.solvers.rows import Fold, Posed, RowSolver
from sparsetd.system import Array, Solution, TraceCarry, scaled, trace_weights

STATUS = {0: "converged", 1: "step_limit", 2: "infeasible", 3: "unbounded"}
TOLERANCE = 1e-7  # violations below this share of the largest number involved are rounding: HiGHS's own tolerance
AT_ONCE = 20  # rows or columns that may join in one round, or as many as are chosen already


@dataclass(frozen=True, eq=False)
class Program:
    """The program above; `column(j)` is R[:, j], `adjoint(y)` is Rᵀy. A row has an upper bound, a lower one or both."""

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

    def joined(self, columns: Iterable[int], rows: Iterable[int]) -> _Selection:
        new = [int(j) for j in columns]
        R = np.column_stack([self.R, *(self.program.column(j) for j in new)])
        return _Selection(self.program, self.columns + new, np.union1d(self.rows, list(rows)).astype(np.intp), R)

    def solve(self) -> Any:
        """Solve the program on the chosen rows and columns by HiGHS, whose basic solutions have exact zeros."""
        R, upper, lower = self.R[self.rows], self.program.upper[self.rows], self.program.lower[self.rows]
        above, below, chosen = np.isfinite(upper), np.isfinite(lower), self.columns
        parts, limits = [np.hstack([R, -R])[above], np.hstack([-R, R])[below]], [upper[above], -lower[below]]
        if np.isfinite(self.program.budget):
            parts.append(np.tile(self.program.factor[chosen], 2)[None])
            limits.append(np.array([self.program.budget]))
        cost, weight = self.program.cost[chosen], self.program.weight[chosen]
        return linprog(np.concatenate([weight + cost, weight - cost]), np.vstack(parts), np.concatenate(limits))

    def missing(self, answer: Any) -> tuple[Array, Array]:
        """Return the columns and rows that must join. Without an answer there are no prices, so everything joins."""
        program, none = self.program, np.zeros(0, dtype=np.intp)
        if answer.status == 2:
            return np.setdiff1d(np.arange(len(program.cost)), self.columns), none
        if answer.status in (3, 4):  # HiGHS may not be able to tell unbounded from infeasible
            return none, np.setdiff1d(np.arange(len(program.lower)), self.rows)
        if answer.status != 0:
            return none, none
        product = self.R @ _difference(answer)
        excess = np.maximum(product - program.upper, program.lower - product)
        excess[self.rows] = 0.0
        rows = _worst(excess, len(self.rows), float(np.abs(product).max(initial=0.0)))
        y, multipliers = np.zeros(len(program.upper)), answer.ineqlin.marginals
        above, below = np.isfinite(program.upper[self.rows]), np.isfinite(program.lower[self.rows])
        y[self.rows[above]] += multipliers[: above.sum()]
        y[self.rows[below]] -= multipliers[above.sum() : above.sum() + below.sum()]
        nu = multipliers[-1] if np.isfinite(program.budget) else 0.0
        price = np.abs(program.cost - program.adjoint(y))
        excess = price - (program.weight - nu * program.factor)
        excess[self.columns] = 0.0
        return _worst(excess, len(self.columns), float(price.max(initial=0.0))), rows


def minimise(program: Program, columns: Iterable[int], rows: Iterable[int]) -> tuple[Array, str, int]:
    """Solve the program from these columns and rows; return θ (zero if there is none), status and number of rounds."""
    nothing = _Selection(program, [], np.zeros(0, dtype=np.intp), np.zeros((len(program.lower), 0)))
    selection = nothing.joined(sorted(set(columns)), rows)
    answer, rounds, theta = selection.solve(), 1, np.zeros(len(program.cost))
    while any(map(len, missing := selection.missing(answer))):
        selection = selection.joined(*missing)
        answer, rounds = selection.solve(), rounds + 1
    if answer.status == 0:
        theta[selection.columns] = _difference(answer)
    return theta, STATUS.get(answer.status, "failed"), rounds


def _difference(answer: Any) -> Array:
    u, v = answer.x.reshape(2, -1)
    return np.asarray(u - v)


def _worst(excess: Array, size: int, scale: float) -> Array:
    """Return the places with the largest excess: at most AT_ONCE, or as many as are chosen already."""
    worst = np.argsort(-excess, kind="stable")[: max(AT_ONCE, size)]
    return np.asarray(worst[excess[worst] > TOLERANCE * max(1.0, scale)])


@dataclass(frozen=True)
class Dantzig(RowSolver):
    """Finds the smallest coefficients in the l1 norm that nearly solve the LSTD equation, by a linear program.

    min_θ Σ_i factor_i|θ_i| subject to |Aθ − b|_i ≤ ρ factor_i, for the means A and b: a linear program.

    The program is convex for every A: it needs no P-matrix, so off-policy data are no obstacle. A Lasso-TD fixed point
    is feasible, so this solution has the smaller ‖θ‖₁ of the two. The search begins with the features of LARS-TD's
    path. The program is infeasible only if A is singular and ρ is small; then `status` says so and θ = 0.

    See also `Lars`: a fixed point that satisfies the same bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Dantzig())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    def solve(self, given: Posed) -> Solution:
        if given.ridge.any():
            raise ValueError("a linear program has no quadratic term: use penalty L1, not one with an ℓ2 part")
        system, factor, bound = given.system, given.factor, given.rho * given.factor
        b, column = system.b, ridged_columns(system, given.ridge)
        path = lars_path(column, b, given.rho, factor, max_steps=200)
        start = {*path.indices[-1].tolist(), *np.flatnonzero(factor == 0).tolist()} or {int(np.argmax(np.abs(b)))}
        program = Program(np.zeros(len(b)), factor, column, system.adjoint, b - bound, b + bound, factor)
        theta, status, rounds = minimise(program, start, start)
        residual = float(np.max(np.abs(system.apply(theta) - b), initial=0.0))
        return given.solution(theta, rounds, status, residual=residual)


FIRST_ROWS = 50  # inequalities of the first round


@dataclass(frozen=True)
class Ralp(RowSolver):
    """Finds the smallest values that satisfy every sampled Bellman inequality, within a budget for the coefficients.

    min_θ mean_t φ_tᵀθ subject to φ_tᵀθ ≥ r_t + ψ_tᵀθ for every sample and Σ_i factor_i|θ_i| ≤ budget.

    With deterministic transitions the solution is an upper bound on the values of the sampled states. With random ones
    the bound is loose, because each sample has to satisfy its inequality, not their mean. If a state was sampled under
    several actions, the solution bounds its *optimal* value, as control needs it. Keep a constant feature without
    penalty: with γ < 1 it makes the program feasible for any budget.

    Each row is one inequality, and has the weight ratio × interest in the mean. Rows of weight zero are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, solvers
    >>> phi, phi_next = np.array([[1.0, 0.0], [1.0, 1.0]]), np.ones((2, 2))
    >>> model = LinearTD(gamma=0.5, solver=solvers.Ralp(budget=10.0))
    >>> model.fit(phi, [0.0, 1.0], phi_next).predict(phi).round(6)
    array([1., 2.])
    """

    fold: ClassVar[Fold] = "never"
    budget: float = 1.0

    def solve(self, given: Posed) -> Solution:
        batch = given.state.batch()
        if given.table.lam:
            raise ValueError("RALP has one Bellman inequality per sample and no traces: use lam=0")
        weight, _ = trace_weights(given.table, batch, TraceCarry())
        used = np.flatnonzero(weight)
        objective = np.asarray(batch.phi.T @ weight) / len(batch)
        rows, reward = (batch.phi - scaled(batch.discount, batch.phi_next))[used], batch.reward[used]
        columns = sp.csc_array(rows)

        def column(j: int) -> Array:
            return np.asarray(columns[:, [j]].toarray()[:, 0])

        no_weight, no_limit = np.zeros(len(objective)), np.full(len(reward), np.inf)
        program = Program(
            objective, no_weight, column, lambda y: rows.T @ y, reward, no_limit, given.factor, self.budget
        )
        promising = np.argsort(-np.abs(objective), kind="stable")[:AT_ONCE]
        demanding = np.argsort(-reward, kind="stable")[:FIRST_ROWS]
        theta, status, rounds = minimise(program, [*np.flatnonzero(given.factor == 0), *promising], demanding)
        return given.solution(theta, rounds, status, objective=float(objective @ theta))
