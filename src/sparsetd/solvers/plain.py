"""The streaming iterations in plain NumPy, for what needs all coordinates at once or only Python can apply: penalties
that do not separate into features, dual averaging with other balls than the l2 ball, and coin betting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sparsetd.solvers.compiled import rules
from sparsetd.solvers.compiled.points import Stream
from sparsetd.solvers.compiled.rules import GX, GY, MASS, REACH, START, WEIGHT
from sparsetd.system import Array, adjoint, residual

PARTS = (rules.in_range, rules.see, rules.see_distance, rules.over_root, rules.size_of_row)
in_range, see, see_distance, over_root, size_of_row = (getattr(f, "py_func", f) for f in PARTS)

# Columns of `coins`: betting fraction, wealth, Σm², Σ‖g‖², the largest gradient.
BETA, WEALTH, CURVATURE, SQUARES, HINT = range(5)


def take(solver: Any, state: Any, system: Any, given: Stream) -> int:
    """Take rows; returns how many before the run diverged, or came to a bad row."""
    from sparsetd.logs.checks import all_moderate  # seldom needed, and much to load

    if not (all_moderate(given.phi) and all_moderate(given.phi_next)):
        return 0
    state.apply_pending()
    step, taken = _step_for(solver, system), 0
    for t, rows in _rows(state, given, system.fixed.limit):
        step(solver, state, system, rows, given.reward[t], given.alpha[t])
        taken = t + 1
    return taken


def _step_for(solver: Any, system: Any) -> Callable[..., None]:
    """The step of a method, or an error that says why there is none."""
    if solver.family == "coins":
        if system.penalised:
            raise ValueError("CoinBetting has no proximal step: pass no penalty, or another solver")
        return bet
    if system.separable:
        return average
    if not isinstance(solver.rule(1), rules.Fixed):
        raise ValueError(
            f"{type(solver).__name__} takes no penalty={system.penalty!r}: "
            "pass one that is separable (L1, Ridge, ElasticNet)"
        )
    if solver.boxed or solver.p != 2:
        raise ValueError("a penalty that does not separate into features goes with Euclidean proximal steps only")
    return step_by_prox


def _rows(state: Any, given: Stream, limit: float) -> Iterator[tuple[int, Array]]:
    """(t, (φ, ψ, e)) of every row, until the run diverges."""
    phi, phi_next, reward, discount, fresh, old = given[:6]
    e = np.zeros(phi.shape[1], phi.dtype) if state.trace is None else state.trace[0]
    for t in range(len(reward)):
        e = (fresh[t] * phi[t] + old[t] * e).astype(phi.dtype)
        rows = np.stack([phi[t], discount[t] * phi_next[t], e])
        value = float(np.abs(rows[:2] @ state.x[-1]).sum())
        if not in_range(state.record, reward[t], value, float(np.abs(state.x).sum()), limit):
            return
        if state.trace is not None:
            state.trace[0] = e
        yield t, rows


# --- proximal steps -------------------------------------------------------------------------------------------------


def step_by_prox(solver: Any, state: Any, system: Any, rows: Array, reward: float, alpha: float) -> None:
    """The steps of the kernels, with one Python call to `penalty.prox` each."""
    point = (state.x, state.y)
    if solver.extragradient:
        point = _moved(solver, state, system, rows, reward, alpha, point)
    _count(solver, state, alpha, *point)
    _write(state, *_moved(solver, state, system, rows, reward, alpha, point))


def _moved(
    solver: Any, state: Any, system: Any, rows: Array, reward: float, step: float, at: Any
) -> tuple[Array, Array | None]:
    """The step from the state with the gradient at a point."""
    r = residual(system.table, at[0], rows, reward)
    slope = r if state.y is None else adjoint(system.table, at[1], rows)
    x = within(system.penalty.prox(state.x - step * slope, step, system.factor), solver.radius)
    return x, None if state.y is None else projected(state.y + step * r, solver.fit_norm)


# --- dual averaging -------------------------------------------------------------------------------------------------


def average(solver: Any, state: Any, system: Any, rows: Array, reward: float, _: float) -> None:
    """The dual averaging of `compiled.dense` for any ball of y and a bound on ‖x‖."""
    record, more, table = state.record, state.more, system.table
    r, slope = residual(table, state.x, rows, reward), adjoint(table, state.y, rows)
    nx, ny = np.sum(slope**2), np.sum(r**2)
    see(record, ny, system.fixed.norm * size_of_row(*np.sum(rows.astype(np.float64) ** 2, axis=1)))
    a = max(record[REACH], solver.start * record[START])
    sums, squares = (more["sum_x"] + a * slope, more["sum_y"] + a * r), (record[GX] + nx, record[GY] + a * a * ny)
    x, y = solver.point_of(state, system, sums, squares, record[MASS] + a)
    r, slope = residual(table, x, rows, reward), adjoint(table, y, rows)
    record[GX] += max(nx, np.sum(slope**2))
    record[GY] += a * a * max(ny, np.sum(r**2))
    record[MASS] += a
    _count(solver, state, a, x, y)
    if solver.average != "none":
        more["share"] += a * (x != 0)
    more["sum_x"] += a * slope
    more["sum_y"] += a * r
    form_point(solver, state, system)
    see_distance(record, np.sum((state.x - state.origin) ** 2))


def form_point(solver: Any, state: Any, system: Any) -> None:
    """Write x and y of the sums of dual averaging."""
    record, sums = state.record, (state.more["sum_x"], state.more["sum_y"])
    _write(state, *solver.point_of(state, system, sums, (record[GX], record[GY]), record[MASS]))


# --- coin betting ---------------------------------------------------------------------------------------------------


def bet(solver: Any, state: Any, system: Any, rows: Array, reward: float, _: float) -> None:
    """Every block of x with its own coin."""
    directions = state.more["directions"]
    slopes = residual(system.table, state.x, rows, reward)
    _count(solver, state, 1.0, state.x, None)
    bets = [_toss(*parts) for parts in zip(directions, slopes, state.more["coins"], strict=True)]
    _write(state, within(state.origin + np.array(bets)[:, None] * directions, solver.radius), None)


def _toss(u: Array, gradient: Array, coin: Array) -> float:
    """One round of one block: outcome s = gᵀu, new fraction, wealth and direction; returns the next bet βW."""
    norm = float(np.linalg.norm(gradient))
    clip = 1.0 if norm <= coin[HINT] else coin[HINT] / norm
    coin[HINT] = max(coin[HINT], norm)
    s, stake = clip * float(gradient @ u), coin[BETA] * coin[WEALTH]
    slope = s / (1.0 - coin[BETA] * s)
    coin[CURVATURE] += slope * slope
    if coin[CURVATURE] > 0.0:
        most = 0.5 / coin[HINT]
        coin[BETA] = min(max(coin[BETA] - 2.0 * slope / ((2.0 - np.log(3.0)) * coin[CURVATURE]), -most), most)
    coin[WEALTH] -= s * stake
    coin[SQUARES] += (clip * norm) ** 2
    u -= clip * over_root(np.sqrt(0.5), coin[SQUARES]) * gradient
    u[:] = within(u, 1.0)
    return float(coin[BETA] * coin[WEALTH])


# --- all of them ----------------------------------------------------------------------------------------------------


def _count(solver: Any, state: Any, weight: float, x: Array, y: Array | None) -> None:
    """Take a point into the averages."""
    state.record[WEIGHT] += weight
    if solver.average != "none":
        state.totals.x += weight * x
        if y is not None:
            state.totals.y += weight * y


def _write(state: Any, x: Array, y: Array | None) -> None:
    state.x[:] = x
    if y is not None:
        state.y[:] = y


def within(x: Array, radius: float) -> Array:
    """x, scaled into the l2 ball of that radius."""
    return x if not np.isfinite(radius) else x * min(1.0, radius / max(float(np.linalg.norm(x)), 1e-300))


def projected(y: Array, fit_norm: Any) -> Array:
    """Π_n(y): the nearest point of the dual ball of a fit in ‖·‖_m."""
    if fit_norm == 2:
        return within(y, 1.0)
    from sparsetd.solvers.saddle.problem import FitNorm  # seldom needed, and much to load

    return FitNorm.of(fit_norm).project(y.ravel()).reshape(y.shape)
