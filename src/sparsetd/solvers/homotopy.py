"""The piecewise linear path on which both LARS-TD and LCP-TD walk to the Lasso-TD fixed point.

For data that move with one number t, b(t) = b + t ḃ and bounds f(t) = f + t ḟ ≥ 0, follow the w(t) with

    c = b(t) − A w,     |c_i| ≤ f_i(t),     c_i = sign(w_i) f_i(t) where w_i ≠ 0.

While the active set I and its signs s hold, w_I = A_II⁻¹(b_I(t) − s f_I(t)) is linear in t, so the next event is
where a c_i reaches its bound (i enters) or a w_i reaches zero (i leaves). LARS-TD lets the bounds fall; LCP-TD keeps
them and moves b from a system that the warm start solves to the given one.

t falls while det A_II has the sign it started with, and rises while it has the other: at a negative pivot the path
turns round. In a P-matrix all pivots are positive and t falls all the way, so the end is reached and is the only
solution. Otherwise the path may turn, and may leave on a ray without reaching the end: both are counted and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparsetd.solvers.active_set import ActiveSet
from sparsetd.system import Array

RATE_TOLERANCE = 1e-12  # a gap that closes at less than this share of its terms runs parallel to its bound
EXCESS_TOLERANCE = 1e-7  # |c_i| may exceed its bound by this share of max |b|


@dataclass(frozen=True, eq=False)
class Line:
    """The data b + t ḃ and the bounds f + t ḟ; f = ḟ = 0 leaves a feature unpenalised, hence always active."""

    b: Array
    b_slope: Array
    f: Array
    f_slope: Array

    def at(self, t: float) -> tuple[Array, Array]:
        return self.b + t * self.b_slope, self.f + t * self.f_slope


@dataclass
class Walk:
    """The knots of a path (t, I and w_I at each) and how it ended.

    `status`: "converged" (the end was reached), "step_limit", "ray" (the path left for t = ∞: A is no P-matrix) or
    "singular" (columns that depend on the active ones had to stay out, and their bounds are violated).
    """

    t: list[float] = field(default_factory=list)
    indices: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    status: str = "step_limit"
    n_steps: int = 0
    n_turns: int = 0

    def record(self, t: float, indices: Sequence[int], w: Array, born: Array) -> None:
        """Append a knot. What entered at this very t is still zero; ties leave one knot, not several."""
        if self.t and self.t[-1] == t:
            del self.t[-1], self.indices[-1], self.values[-1]
        old = np.flatnonzero(born[indices] != t)
        self.t.append(t)
        self.indices.append(np.array(indices, dtype=np.intp)[old])
        self.values.append(w[old])


@dataclass(frozen=True, eq=False)
class _Piece:
    """One linear piece of the path: w_I, c and the bounds at t, and their slopes along the direction of travel."""

    w: Array
    c: Array
    bound: Array
    w_slope: Array
    c_slope: Array
    bound_slope: Array


def follow(active: ActiveSet, sign: Array, line: Line, t: float, t_end: float, max_steps: int) -> Walk:
    """Walk from the solution with this active set and these signs (0 for unpenalised features) at t down to t_end.

    Advances `active` and the signs of its features. A step costs one column of A and O(d|I| + |I|²).
    """
    walk, direction, parallel, born = Walk(), 1.0, np.zeros(len(sign), dtype=bool), np.full(len(sign), np.nan)
    for _ in range(max_steps):
        piece = _linear_piece(active, line, sign, t, direction)
        walk.record(t, active.indices, piece.w, born)
        step, index, new_sign = _next_event(active, sign, piece, parallel)
        if direction > 0 and t - t_end <= step:
            return _finish(walk, active, line, sign, t_end, born)
        if not np.isfinite(step):
            walk.status = "ray"
            return walk
        t, walk.n_steps = t - direction * step, walk.n_steps + 1
        if new_sign:
            born[index] = t
        if _pivot(active, sign, parallel, index, new_sign) < 0:
            direction, walk.n_turns = -direction, walk.n_turns + 1
    walk.record(t, active.indices, _linear_piece(active, line, sign, t, direction).w, born)
    return walk


def _linear_piece(active: ActiveSet, line: Line, sign: Array, t: float, direction: float) -> _Piece:
    """The piece at t, computed afresh so that rounding does not add up along the path."""
    idx, (b, bound) = active.indices, line.at(t)
    b_slope, bound_slope, s = direction * line.b_slope, direction * line.f_slope, sign[active.indices]
    rhs = np.column_stack([b[idx] - s * bound[idx], b_slope[idx] - s * bound_slope[idx]])
    w = active.solve(rhs)
    products = active.columns @ w
    return _Piece(w[:, 0], b - products[:, 0], bound, w[:, 1], b_slope - products[:, 1], bound_slope)


def _next_event(active: ActiveSet, sign: Array, piece: _Piece, parallel: Array) -> tuple[float, int, float]:
    """How far t may move and what happens then: index i enters with sign ±1, or slot i of the active set leaves (0)."""
    outside, s = ~parallel, sign[active.indices]
    outside[active.indices] = False
    tolerance = RATE_TOLERANCE * (np.abs(piece.bound_slope) + np.abs(piece.c_slope))
    events = [
        (_steps(piece.bound - sigma * piece.c, piece.bound_slope - sigma * piece.c_slope, outside, tolerance), sigma)
        for sigma in (1.0, -1.0)
    ]
    events.append((_steps(s * piece.w, s * piece.w_slope, s != 0, np.zeros(len(s))), 0.0))
    return min((float(steps[i]), i, sigma) for steps, sigma in events if len(steps) for i in [int(np.argmin(steps))])


def _steps(gap: Array, slope: Array, eligible: Array, tolerance: Array) -> Array:
    """Return how far t can go until gap = 0, for the gaps that close."""
    closing = eligible & (slope > tolerance)
    steps = np.full(len(gap), np.inf)
    steps[closing] = np.maximum(gap[closing], 0.0) / slope[closing]
    return steps


def _pivot(active: ActiveSet, sign: Array, parallel: Array, index: int, new_sign: float) -> float:
    """Let an index enter or leave; returns its pivot, or 0 where it depends on the active ones and stays out."""
    if new_sign == 0.0:
        parallel[:] = False
        return active.drop(index)
    pivot = active.add(index)
    if pivot:
        sign[index] = new_sign
    else:
        parallel[index] = True
    return pivot


def _finish(walk: Walk, active: ActiveSet, line: Line, sign: Array, t: float, born: Array) -> Walk:
    """The last knot, solved afresh in the order of the features: the same bits whichever way the path came."""
    order = np.argsort(active.indices)
    idx, columns, (b, bound) = np.array(active.indices, dtype=np.intp)[order], active.columns[:, order], line.at(t)
    w = np.linalg.solve(columns[idx], b[idx] - sign[idx] * bound[idx]) if len(idx) else np.zeros(0)
    walk.record(t, idx.tolist(), w, born)
    excess = float(np.max(np.abs(b - columns @ w) - bound, initial=0.0))
    walk.status = "singular" if excess > EXCESS_TOLERANCE * float(np.abs(b).max(initial=0.0)) else "converged"
    return walk
