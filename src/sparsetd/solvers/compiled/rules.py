"""Which step: a rule maps what a run has seen to the steps (α of x, β of y) of a row. Scalars only.

A rule is a NamedTuple of its constants and a function of them, registered with `rule`:

    @rule(Mine)
    def _mine(rule, record, alpha, nx, ny):
        return alpha_of_x, beta_of_y

`record` holds the statistics below, float64 whatever the type of the state; they are kept for every rule but `Fixed`.
nx and ny are ‖g_x‖² and ‖g_y‖² of this row, which `record` does not contain yet (with a trial point, the larger of its
two gradients). `alpha` is the step that was set by hand, or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from sparsetd.solvers.compiled.compile import FAST, OPTIONS, part

# Entries of `record`: Σ‖g_x‖², Σ‖g_y‖², r̄ = max‖x_i − x_0‖, max ‖A_t x − b_t‖/‖A_t‖ (a length in the units of x), the
# weight of the averages, Σ of dual averaging's weights, Σ of the bounds of ‖A_t‖, rows, the scale of the values, how
# many bounds were summed, and the last of them.
GX, GY, REACH, START, WEIGHT, MASS, SIZE, ROWS, SCALE, SIZED, LAST = range(11)
RECORD = 11

# A value beyond GROWTH times the run's own scale (the largest reward, or value of the first SETTLING rows) diverges.
GROWTH, SETTLING = 1e8, 10.0

INLINE: Any = {**OPTIONS, "fastmath": FAST, "forceinline": True}
STEPS: dict[type, Callable[..., Any]] = {}


def rule(kind: type) -> Callable[..., Any]:
    """Register the function of a rule."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        STEPS[kind] = function
        return function

    return register


def steps(rule, record, alpha, nx, ny):
    """(α, β) of a row."""
    return STEPS[type(rule)](rule, record, alpha, nx, ny)


@overload(steps, jit_options=INLINE)
def _compiled_steps(rule, record, alpha, nx, ny):  # noqa: ARG001
    return STEPS[rule.instance_class]


class Fixed(NamedTuple):
    """The step that was set by hand, the same for x and y."""


@rule(Fixed)
def _fixed(rule, record, alpha, nx, ny):  # noqa: ARG001
    return alpha, alpha


class DistanceOverGradients(NamedTuple):
    """α = max(r̄, r_0)/√Σ‖g_x‖² and β = dual_radius/√Σ‖g_y‖² with r_0 = start·START.

    α is at most cap over the mean of the bounds of ‖A_t‖, and 1.5 cap over that of this row. dual_radius 0 asks for one
    step in x and y.
    """

    start: float
    cap: float
    dual_radius: float


@rule(DistanceOverGradients)
def _distance_over_gradients(rule, record, alpha, nx, ny):  # noqa: ARG001
    reach = max(record[REACH], rule.start * record[START])
    top = np.inf
    if record[LAST] > 0.0:
        top = rule.cap * min(record[SIZED] / record[SIZE], 1.5 / record[LAST])
    if rule.dual_radius == 0.0:
        both = min(over_root(reach, record[GX] + nx + record[GY] + ny), top)
        return both, both
    return min(over_root(reach, record[GX] + nx), top), over_root(rule.dual_radius, record[GY] + ny)


class Averaging(NamedTuple):
    """The weight a = max(r̄, start·START) of dual averaging, for x and y alike."""

    start: float


@rule(Averaging)
def _averaging(rule, record, alpha, nx, ny):  # noqa: ARG001
    reach = max(record[REACH], rule.start * record[START])
    return reach, reach


@part
def into_unit_ball(factor, size):
    """The factor of y = factor·v, or of its projection on the unit ball, for ‖v‖² = size."""
    return 1.0 / np.sqrt(size) if factor * factor * size > 1.0 else factor


@part
def over_root(top, square):
    """top/√square, and 0 where nothing has been seen."""
    return top / np.sqrt(square) if square > 0.0 else 0.0


@part
def size_of_row(ff, gg, ee):
    """‖φ‖² + ‖ψ‖² + ‖e‖ max(‖φ‖, ‖ψ‖) from the squares: no system multiplies e, which may be long, with itself."""
    return ff + gg + np.sqrt(ee * max(ff, gg))


@part
def see(record, residual, bound):
    """Take note of a row before its step: ‖A_t x − b_t‖ and a bound of ‖A_t‖."""
    if residual > (record[START] * bound) ** 2 and bound > 0.0:  # seldom: to wait for a root costs as much as the rest
        record[START] = np.sqrt(residual) / bound
    record[SIZE] += bound
    record[SIZED] += 1.0
    record[LAST] = bound


@part
def see_distance(record, moved):
    """Take note of ‖x − x_0‖² after a step."""
    if moved > record[REACH] ** 2:
        record[REACH] = np.sqrt(moved)


@part
def in_range(record, reward, value, others, limit):
    """Count a row; whether `value` = |θᵀφ| + |θᵀψ| stays within the run's own scale, and all else is finite."""
    scale = max(record[SCALE], abs(reward))
    if (record[ROWS] < SETTLING or scale == 0.0) and value < limit:
        scale = max(scale, value)
    record[SCALE] = scale
    record[ROWS] += 1.0
    return value <= GROWTH * scale and value + others < limit
