"""One problem for many values of ρ_θ: from ρ_max, where θ = 0, downwards, each solution the start of the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.solvers.saddle.certificate import Point, Problem
from sparsetd.solvers.saddle.columns import Columns
from sparsetd.solvers.saddle.linear import Linear
from sparsetd.solvers.saddle.norms import FitNorm
from sparsetd.solvers.saddle.solve import Outcome, point_at, solve
from sparsetd.solvers.saddle.terms import Terms
from sparsetd.system import Array

BEYOND = 1e9  # times a weight of 1: no feature enters


@dataclass
class Family:
    """min_x F(Ax − b) + h(x) for every weight ρ_θ of one penalty on one system."""

    A: Linear
    norm: FitNorm
    penalty: Any
    n_blocks: int
    factor: Array | None = None

    def __post_init__(self) -> None:
        self._columns = Columns(self.A)

    def problem(self, rho: float) -> Problem:
        penalty = replace(self.penalty, rho_theta=rho)
        terms = Terms.of(penalty, self.n_blocks, self.A.size // self.n_blocks, self.factor)
        return Problem(self.A, self.norm, terms)

    def rho_max(self) -> float:
        """The smallest ρ_θ at which every penalised θ_i is 0: max_i |(Aᵀy)_i| / factor_i with y = c b/‖b‖₂ (m = 2).

        With unpenalised features, or a w that is not 0, y is the dual point of the solution in those alone.
        """
        one = self.problem(1.0)
        theta = np.arange(self.A.size) >= self.A.size - self.A.size // self.n_blocks
        penalised = theta & (one.terms.l1 > 0)
        if not penalised.any():
            raise ValueError("rho_max exists only for a penalty with an L1 or group part: use l1_ratio > 0")
        if self.n_blocks == 1 and not len(one.terms.free):
            z = self.A.adjoint(one.residual_dual(np.zeros(self.A.size)))
        else:
            start = point_at(one)
            size = float(np.max(one.terms.magnitude(start.z)[penalised] / one.terms.l1[penalised], initial=1.0))
            z = solve(self.problem(BEYOND * size), tol=1e-9).point.z
        return float(np.max(one.terms.magnitude(z)[penalised] / one.terms.l1[penalised]))

    def solution(self, problem: Problem, tol: float) -> Outcome:
        """The solution of one problem of the family; the columns of A that it needs are kept for the next."""
        return solve(problem, tol=tol, columns=self._columns, polish=False)

    def solutions(self, rhos: Array, tol: float, polish: bool = True) -> Iterator[Outcome]:
        """The solution at each ρ_θ in turn, lazily: stop asking and the rest is not computed."""
        last: Point | None = None
        for rho in rhos:
            problem = self.problem(float(rho))
            # The products come along, so that a warm start costs no pass over the data.
            start = None if last is None else problem.point(last.x, last.y, last.Ax, last.z)
            outcome = solve(problem, tol=tol, start=start, columns=self._columns, polish=polish)
            last = outcome.point
            yield outcome


def rho_grid(rho_max: float, n_rhos: int, eps: float) -> Array:
    """Log-spaced from ρ_max to eps·ρ_max."""
    return np.geomspace(rho_max, eps * rho_max, n_rhos) if rho_max > 0 else np.zeros(n_rhos)
