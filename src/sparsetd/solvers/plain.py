"""The streaming iterations in plain NumPy, for penalties that only Python can apply."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.solvers.compiled.balls import project
from sparsetd.solvers.compiled.rules import WEIGHT, in_range
from sparsetd.system import Array, Table, adjoint, residual

within_scale = getattr(in_range, "py_func", in_range)  # as Python has it


def stream(solver: Any, state: Any, columns: tuple[Array, ...], table: Table, penalty: Any, factor: Any) -> int:
    """The same steps as the kernels, one Python call to `penalty.prox` per step; returns the rows taken."""
    if solver.boxed or solver.exponent != 2 or np.isfinite(solver.radius):
        raise ValueError(
            "a penalty given by its prox goes with the Euclidean stochastic, primal_dual and mirror_prox solvers only"
        )
    phi, phi_next, reward, discount, fresh, old, alpha = columns
    e = np.zeros(phi.shape[1], phi.dtype) if state.trace is None else state.trace[0]
    for t in range(len(reward)):
        e = fresh[t] * phi[t] + old[t] * e
        rows = np.stack([phi[t], discount[t] * phi_next[t], e])
        x, y = state.x, state.y
        value = float(np.abs(rows[:2] @ x[-1]).sum())
        if not within_scale(state.record, reward[t], value, float(np.abs(x).sum()), solver.limit(state)):
            return t

        def move(
            at_x: Array, at_y: Array | None, t: int = t, rows: Array = rows, x: Array = x, y: Array | None = y
        ) -> Any:
            r = residual(table, at_x, rows, reward[t])
            if y is None or at_y is None:
                return penalty.prox(x - alpha[t] * r, alpha[t], factor), None
            x_new = penalty.prox(x - alpha[t] * adjoint(table, at_y, rows), alpha[t], factor)
            y_new = y + alpha[t] * r
            project(y_new, solver.ball)
            return x_new, y_new

        reported = x, y
        if solver.extragradient:
            reported = move(x, y)
        state.totals.x += alpha[t] * reported[0]
        if y is not None:
            state.totals.y += alpha[t] * reported[1]
        new_x, new_y = move(*reported)
        state.x[:] = new_x
        if new_y is not None:
            state.y[:] = new_y
        state.record[WEIGHT] += alpha[t]
        if state.trace is not None:
            state.trace[0] = e
    return len(reward)
