"""Learning curves of streaming methods on a finite problem with exact answers: Figure 2's common part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.expected_system import expected_system
from reproduction.experiment import Row
from sparsetd.operators import gtd2, td, tdc
from sparsetd.penalties import NoPenalty
from sparsetd.problems import FiniteMDP
from sparsetd.solvers import (
    DistanceOverGradients,
    MirrorProx,
    PrimalDual,
    SaddleDistanceOverGradients,
    SaddleMirrorProx,
    Stochastic,
)
from sparsetd.system import Array, Batch, Table


@dataclass(frozen=True)
class Method:
    """A name, the system it solves and the iteration that solves it; `saddle` methods also move a dual y."""

    table: Callable[[float], Table]
    solver: Any
    colour: str
    automatic: bool = False

    def make(self, alpha: float) -> Any:
        """The solver with step α; one without a step averages the last quarter to half."""
        return self.solver(average="suffix") if self.automatic else self.solver(step_size=alpha, average="all")


# Okabe–Ito colours.
METHODS = {
    "TD": Method(lambda _: td(), Stochastic, "#000000"),
    "TDC": Method(tdc, Stochastic, "#0072B2"),
    "GTD2": Method(gtd2, Stochastic, "#009E73"),
    "GTD2-MP": Method(gtd2, MirrorProx, "#56B4E9"),
    "RO-TD": Method(tdc, PrimalDual, "#D55E00"),
    "RO-TD-MP": Method(tdc, SaddleMirrorProx, "#CC79A7"),
}
# Without a step to set: distance over gradients.
AUTOMATIC = {
    "TDC, automatic step": Method(tdc, DistanceOverGradients, "#009E73", automatic=True),
    "RO-TD, automatic step": Method(tdc, SaddleDistanceOverGradients, "#CC79A7", automatic=True),
}


@dataclass(frozen=True)
class Point:
    """The last and the averaged iterate after t steps; the duals are None where a method has none."""

    t: int
    last: Array
    average: Array
    last_dual: Array | None = None
    average_dual: Array | None = None


def checkpoints(n: int, per_decade: int = 12) -> list[int]:
    """0, every step up to 10, then evenly spaced on a logarithmic axis up to n."""
    late = np.logspace(1, np.log10(n), int(per_decade * (np.log10(n) - 1)) + 1)
    return sorted({0, *range(1, min(10, n) + 1), *np.rint(late).astype(int).tolist(), n})


def mspbe(mdp: FiniteMDP, theta: Array) -> float:
    """(b − Aθ)ᵀ C⁺ (b − Aθ): the pseudo-inverse because the star's features are linearly dependent."""
    residual = mdp.b - mdp.A @ theta
    return float(residual @ np.linalg.pinv(mdp.C) @ residual)


def sampled_path(
    method: Method, eta: float, alpha: float, batch: Batch, theta0: Array, marks: list[int]
) -> Iterator[Point]:
    """The method on the rows of `batch` in order, seen at the given numbers of steps."""
    table, solver, penalty = method.table(eta), method.make(alpha), NoPenalty()
    state = solver.init(table, batch.n_features, np.float64, theta0)
    done = 0
    for mark in marks:
        if not state.diverged:
            solver.update(state, batch[done:mark], table, penalty)
        done = mark
        solution = solver.result(state, table, penalty)
        # Only θ of the average is needed without a dual; a saddle method also reports w and y.
        average = np.vstack([solution.aux, solution.coef]) if solution.aux is not None else solution.coef[None]
        yield Point(mark, state.primal, average, state.dual, solution.dual)


def expected_path(method: Method, eta: float, alpha: float, mdp: FiniteMDP, marks: list[int]) -> Iterator[Point]:
    """The same iteration with (A_t, b_t) replaced by their expectation: no noise, only the method.

    The average is that of x_0 … x_t; an extragradient method averages its trial points.
    """
    table, wanted = method.table(eta), set(marks)
    A, b = expected_system(mdp, table)
    x, y = np.zeros(len(b)), np.zeros(len(b))
    x[-mdp.n_features :] = mdp.theta0
    total, count = [x, y], 1
    for t in range(max(marks) + 1):
        if t in wanted:
            shaped = [v.reshape(table.n_blocks, -1) for v in (x, total[0] / count, y, total[1] / count)]
            yield Point(t, *(shaped if method.solver.saddle else shaped[:2]))
        trial = _step(x, y, x, y, A, b, alpha, method.solver.saddle)
        new = _step(x, y, *trial, A, b, alpha, method.solver.saddle) if method.solver.extragradient else trial
        if method.solver.extragradient and t == 0:
            total, count = [np.zeros_like(x), np.zeros_like(y)], 0
        total, count = [s + v for s, v in zip(total, trial, strict=True)], count + 1
        x, y = new


def _step(
    x0: Array, y0: Array, x: Array, y: Array, A: Array, b: Array, alpha: float, saddle: bool
) -> tuple[Array, Array]:
    """From (x0, y0) along the field at (x, y); y is kept in the unit ball."""
    if not saddle:
        return x0 - alpha * (A @ x - b), y0
    up = y0 + alpha * (A @ x - b)
    return x0 - alpha * (A.T @ y), up / max(1.0, float(np.linalg.norm(up)))


def describe(point: Point, mdp: FiniteMDP, A: Array, b: Array, radius: float) -> Iterator[Row]:
    """MSPBE, ‖Ax − b‖, yᵀ(Ax − b) and the duality gap of the last and of the averaged iterate.

    Without a penalty x is free and the dual function is −∞ unless Aᵀy = 0, so the gap is taken over the ball ‖x‖ ≤
    radius: ‖Ax − b‖ + radius ‖Aᵀy‖ + bᵀy ≥ 0, and 0 only at a saddle point.
    """
    pairs = (("last", point.last, point.last_dual), ("average", point.average, point.average_dual))
    for name, x, y in pairs:
        row: Row = {"t": point.t, "iterate": name, "mspbe": _finite(mspbe(mdp, x[-1]))}
        if y is not None:
            residual, dual = A @ x.ravel() - b, y.ravel()
            row["fit"], row["pairing"] = float(np.linalg.norm(residual)), float(dual @ residual)
            row["gap"] = row["fit"] + radius * float(np.linalg.norm(A.T @ dual)) + float(b @ dual)
        yield row


def _finite(value: float) -> float:
    """A diverged iterate has no MSPBE: call it infinite."""
    return value if np.isfinite(value) else float("inf")


def unlikeness(t: Array, one: Array, two: Array) -> float:
    """Mean |log10(one / two)| over t ≥ 10, every decade of t counting the same: 0.3 is a factor of two."""
    grid, tiny = np.linspace(1.0, np.log10(t[-1]), 200), 1e-300
    ratio = np.abs(np.log10((one[1:] + tiny) / (two[1:] + tiny)))
    return float(np.mean(np.interp(grid, np.log10(t[1:]), ratio)))
