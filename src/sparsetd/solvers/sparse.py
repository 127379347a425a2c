"""The lazy state behind a solver on sparse rows: begin, advance, materialise.

A solver that receives CSR rows keeps its iterates here instead of in dense arrays. Values and α-weighted sums are
exact to rounding at every step, but a step visits only the coordinates that its transition touches: O(nnz), whatever
d is. The common case has a state of its own (`direct`); this one serves all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetd.solvers import direct, direct_kernels
from sparsetd.solvers import sparse_kernels as kernels
from sparsetd.solvers.direct import DirectState
from sparsetd.system import Table

Array = NDArray[Any]
BALLS: dict[float, int] = {2: kernels.L2_BALL, np.inf: kernels.LINF_BALL}
GENERATIONS = 4096


@dataclass(frozen=True)
class Setting:
    """What a lazy run holds fixed: the step rule, the penalty and what is averaged.

    Parameters
    ----------
    extragradient : whether a step uses the gradient at a trial point (Mirror-Prox), whose trial points are then summed
    dual_norm : 2 or inf, the norm of the unit ball of y; None where there is no y
    l1, l2 : elastic net of every block, h(x) = Σ_b l1_b ‖x_b‖₁ + l2_b ‖x_b‖²/2
    constant : the step where it is constant and also the weight of the average: zero crossings have a closed form then
    average, average_dual : whether the weighted sums of x and of y are kept
    trace_tol : entries of the trace of at most this size are dropped; e is then wrong by at most trace_tol/(1 − γλ)
    """

    extragradient: bool
    dual_norm: float | None
    l1: tuple[float, ...]
    l2: tuple[float, ...]
    constant: float | None = None
    average: bool = True
    average_dual: bool = True
    trace_tol: float = 1e-12


@dataclass
class SparseState:
    """The lines of all coordinates and the rule that advances them."""

    lines: kernels.Lines
    rule: kernels.Rule

    @property
    def n_steps(self) -> int:
        return int(self.lines.counter[kernels.STEPS])

    def materialise(self) -> tuple[Array, Array, Array, Array]:
        """(x, y, Σ ω x, Σ ω y), each of shape (k, d), or without rows where there is no y or no such sum is kept."""
        k, d = self.rule.n_blocks, len(self.lines.line)
        values, sums = np.empty((len(self.rule.l1), d)), np.empty((self.rule.n_sums, d))
        kernels.materialise(tuple(self.lines), tuple(self.rule), values, sums)
        return values[:k], values[k:], sums[:k], sums[k:]

    def trace(self) -> Array:
        """e, as the last step left it."""
        first, last = self.lines.counter[kernels.HOT_FROM], self.lines.counter[kernels.HOT_TO]
        names = self.lines.names[first:last]
        out = np.zeros(len(self.lines.line))
        out[names[names >= 0]] = self.lines.hot[kernels.ALONG + 2, first:last][names >= 0]
        return out

    def update(self, phi: kernels.Rows, phi_next: kernels.Rows, columns: dict[str, Array], limit: float = 1e100) -> int:
        """Advance by rows and return how many were taken before a product left ±`limit`.

        `columns` holds reward, discount, fresh and fading (of the trace), alpha and weight (of the sums).
        """
        self.lines = _with_room(self.lines, self.rule, phi, phi_next)
        numbers = {name: np.ascontiguousarray(column, dtype=np.float64) for name, column in columns.items()}
        state, names = (
            (tuple(self.lines), tuple(self.rule)),
            ("reward", "discount", "fresh", "fading", "alpha", "weight"),
        )
        return int(kernels.run(*state, tuple(phi), tuple(phi_next), *(numbers[name] for name in names), limit))


State = SparseState | DirectState


def begin(
    setting: Setting,
    table: Table,
    x: Array,
    y: Array,
    x_sum: Array,
    y_sum: Array,
    factor: Array | None = None,
    trace: Array | None = None,
) -> State:
    """A lazy state that holds the given values, of shape (k, d); y and its sum have no rows where there is none.

    `factor` multiplies the penalty of each feature; one with a factor other than 1 takes part in every step; `trace` is
    e.
    """
    (k, d), n_vectors = x.shape, len(x) + len(y)
    n_sums = (n_vectors if setting.average_dual else k) if setting.average else 0
    special = np.empty(0, dtype=np.int64) if factor is None else np.flatnonzero(np.asarray(factor) != 1.0)
    multiplier = np.ones(0) if factor is None else np.asarray(factor, dtype=np.float64)[special]
    rule = _rule(setting, table, d, n_vectors, n_sums, multiplier)
    values, totals = np.concatenate([x, y]), np.concatenate([x_sum, y_sum])[:n_sums]
    if _direct(rule):
        given = (table, values, totals, np.asarray(setting.l1))
        return direct.begin(aligned_zeros(d, 8), *given, rule.ball, rule.constant, rule.horizon, GENERATIONS)
    faded = np.zeros(d) if trace is None else trace
    hot = np.concatenate([special, np.setdiff1d(np.flatnonzero(faded), special)])
    lines = _lines(rule, d, len(hot))
    lines.line[:, :n_vectors], lines.line[:, n_vectors : n_vectors + n_sums] = values.T, totals.T
    lines.line[:, -1] = -1.0
    lines.line[hot, -1] = np.arange(len(hot))
    lines.names[:] = hot
    lines.hot[kernels.VALUE : kernels.VALUE + n_vectors] = values[:, hot]
    lines.hot[kernels.TOTAL : kernels.TOTAL + n_sums] = totals[:, hot]
    lines.hot[kernels.ALONG + 2] = faded[hot]
    lines.counter[[kernels.HOT_TO, kernels.LIVE]], lines.counter[kernels.LAST_NEXT] = len(hot), -1
    lines.norm[0] = float(np.sum(np.square(y)))
    kernels.begin_afresh(tuple(lines))
    return SparseState(lines, rule)


def restore(lines: dict[str, Any], rule: dict[str, Any]) -> State:
    """The state that was taken apart into these dicts."""
    if "born" in lines:
        return DirectState(direct_kernels.Lines(**lines), direct_kernels.Rule(**rule))
    return SparseState(kernels.Lines(**lines), kernels.Rule(**rule))


def _rule(setting: Setting, table: Table, d: int, n_vectors: int, n_sums: int, multiplier: Array) -> kernels.Rule:
    k = table.n_blocks
    l1, l2 = np.zeros(n_vectors), np.zeros(n_vectors)
    l1[:k], l2[:k] = setting.l1, setting.l2
    damping = np.asarray(table.damping if n_vectors == k else np.zeros(k), dtype=np.float64)
    scales = bool(np.any(l2) or np.any(damping))
    slot, (places, entries) = n_vectors + n_sums, _entries(table.M)
    constant = 0.0 if setting.constant is None or scales else float(setting.constant)
    return kernels.Rule(
        extragradient=setting.extragradient,
        ball=kernels.NO_BALL if setting.dual_norm is None else BALLS[setting.dual_norm],
        n_blocks=k,
        n_sums=n_sums,
        slot_x=slot if scales else -1,
        slot_y=slot + int(scales) if setting.dual_norm == 2 else -1,
        constant=constant,
        horizon=horizon(d, constant > 0.0),
        traces=table.lam > 0,
        trace_tol=setting.trace_tol,
        places=places,
        entries=entries,
        m=np.ascontiguousarray(table.m, dtype=np.float64).reshape(k, 3),
        damping=damping,
        l1=l1,
        l2=l2,
        multiplier=multiplier,
    )


def _direct(rule: kernels.Rule) -> bool:
    """Whether the steps can be made on the lines themselves."""
    return not (rule.traces or rule.extragradient or rule.slot_x >= 0 or len(rule.multiplier))


def horizon(d: int, closed: bool) -> int:
    """Steps between flushes: 4 d, so that a flush costs little per step, between 2¹⁶ and 2²² (2²⁰ with a history)."""
    return min(max(4 * d, 1 << 16), 1 << (22 if closed else 20))


def _entries(M: Array) -> tuple[Array, Array]:
    """The non-zeros of M and where they are, (block, direction) twice: most tables have six of 36."""
    rows, columns = np.nonzero(M)
    places = np.stack([rows // 3, rows % 3, columns // 3, columns % 3], axis=1).astype(np.int64)
    return places, np.asarray(M[rows, columns], dtype=np.float64)


def _lines(rule: kernels.Rule, d: int, n_hot: int) -> kernels.Lines:
    k, n_vectors = rule.n_blocks, len(rule.l1)
    used = n_vectors + rule.n_sums + (rule.slot_x >= 0) + (rule.slot_y >= 0) + 1
    searched = bool(rule.n_sums and np.any(rule.l1) and rule.constant == 0.0)
    length = rule.horizon + 1 if searched else 1
    generations = GENERATIONS if max(rule.slot_x, rule.slot_y) >= 0 else 4
    return kernels.Lines(
        line=aligned_zeros(d, 8 if used <= 8 else 16),
        hot=np.zeros((kernels.HOT_ROWS, n_hot)),
        names=np.zeros(n_hot, dtype=np.int64),
        scalar=np.zeros((n_vectors, 7)),
        counter=np.zeros(10, dtype=np.int64),
        norm=np.zeros(1),
        chain=np.zeros((2, generations, k, 4)),
        ends=np.zeros((2, generations, k, 4)),
        begins=np.zeros((2, generations), dtype=np.int64),
        history=np.zeros((length, k if rule.slot_x >= 0 else 1, 3)),
        room=np.ones((3, n_vectors, 3)),
    )


def _with_room(lines: kernels.Lines, rule: kernels.Rule, phi: kernels.Rows, phi_next: kernels.Rows) -> kernels.Lines:
    """The same state with room for every coordinate that may be hot in a step of these rows."""
    entries = [np.diff(rows.indptr) for rows in (phi, phi_next)]
    longest = sum(int(number.max(initial=0)) for number in entries)
    hot = int(lines.counter[kernels.HOT_TO] - lines.counter[kernels.HOT_FROM])
    most = hot + 4 * longest + 64  # a step's coordinates, those of the step before, and as many holes
    if rule.traces:
        most += 3 * min(hot + int(entries[0].sum()), len(lines.line))
    if most <= len(lines.names):
        return lines
    capacity = 512 * (most // 512) + 584  # rows of `hot` must not fall on the same cache sets
    rows, names = np.zeros((kernels.HOT_ROWS, capacity)), np.zeros(capacity, dtype=np.int64)
    rows[:, : len(lines.names)], names[: len(lines.names)] = lines.hot, lines.names
    return lines._replace(hot=rows, names=names)


def aligned_zeros(d: int, stride: int) -> Array:
    """Zeros (d, stride) that begin on a cache line, so that one coordinate is one line of 64 bytes (or two)."""
    memory = np.zeros(d * stride + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip : skip + d * stride].reshape(d, stride)
