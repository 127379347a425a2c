"""The lazy state behind a solver on sparse rows: begin, advance, materialise.

A solver that receives CSR rows keeps its iterates here instead of in dense arrays. Values and α-weighted sums are exact (to
rounding) at every step, but only the coordinates that a transition touches are visited: O(nnz) per step, independent of d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsetd.solvers import sparse_kernels as kernels
from sparsetd.system import Table

Array = NDArray[Any]
Method = Literal["stochastic", "primal_dual", "mirror_prox"]
METHODS: dict[str, int] = {
    "stochastic": kernels.STOCHASTIC,
    "primal_dual": kernels.PRIMAL_DUAL,
    "mirror_prox": kernels.MIRROR_PROX,
}
BALLS: dict[float, int] = {2: kernels.L2_BALL, np.inf: kernels.LINF_BALL}
GENERATIONS = 4096


@dataclass(frozen=True)
class Setting:
    """What a lazy run holds fixed: the step rule, the penalty and what is averaged.

    Parameters
    ----------
    method : "stochastic", "primal_dual" or "mirror_prox"
    dual_norm : 2 or inf, the norm of the unit ball of y; None for the stochastic method
    l1, l2 : elastic net of every block, h(x) = Σ_b l1_b ‖x_b‖₁ + l2_b ‖x_b‖²/2
    factor : per-feature multiplier of the penalty; features with a factor other than 1 cost O(1) each in every step
    constant : the step where it is constant and is also the weight of the average: zero crossings then have a closed form
    average, average_dual : whether the weighted sums of x and of y are kept
    trace_tol : entries of the trace of at most this size are dropped; e is then wrong by at most trace_tol/(1 − γλ)
    """

    method: Method
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
        return int(self.lines.count[kernels.STEPS])

    def materialise(self) -> tuple[Array, Array, Array, Array]:
        """(x, y, Σ ω x, Σ ω y), each of shape (k, d); y has no rows for the stochastic method, a sum that is not kept none."""
        k, d = self.rule.n_blocks, len(self.lines.line)
        values, sums = np.empty((len(self.rule.l1), d)), np.empty((self.rule.n_sums, d))
        kernels.materialise(self.lines, self.rule, values, sums)
        return values[:k], values[k:], sums[:k], sums[k:]

    def update(self, phi: kernels.Rows, phi_next: kernels.Rows, columns: dict[str, Array]) -> None:
        """Advance by rows: `columns` holds reward, discount, fresh, fading (of the trace), alpha and weight (of the sums)."""
        self.lines = _with_room(self.lines, self.rule, phi, phi_next)
        work = _scratch(self.lines.along.shape[1], len(self.rule.l1))
        names = ("reward", "discount", "fresh", "fading", "alpha", "weight")
        numbers = (np.ascontiguousarray(columns[name], dtype=np.float64) for name in names)
        kernels.run(self.lines, self.rule, work, phi, phi_next, *numbers)


def begin(
    setting: Setting, table: Table, x: Array, y: Array, x_sum: Array, y_sum: Array, factor: Array | None = None
) -> SparseState:
    """A lazy state that holds the given values; all of them have shape (k, d), those of y no rows where there is none."""
    k, d = x.shape
    n_vectors = k + len(y)
    n_sums = (k + len(y) if setting.average_dual else k) if setting.average else 0
    rule = _rule(setting, table, k, n_vectors, n_sums, d, factor)
    lines = _lines(rule, d, rule.slot_x, rule.slot_y, setting)
    lines.line[:, :k], lines.line[:, k:n_vectors] = x.T, y.T
    if n_sums:
        lines.line[:, n_vectors : n_vectors + k] = x_sum.T
        lines.line[:, n_vectors + k : n_vectors + n_sums] = y_sum.T[:, : n_sums - k]
    lines.norm[0] = float(np.sum(np.square(y)))
    kernels.begin_afresh(lines)
    return SparseState(lines, rule)


def _rule(
    setting: Setting, table: Table, k: int, n_vectors: int, n_sums: int, d: int, factor: Array | None
) -> kernels.Rule:
    l1 = np.zeros(n_vectors)
    l1[:k] = setting.l1
    l2 = np.array(setting.l2, dtype=np.float64)
    damping = table.damping if setting.method == "stochastic" else np.zeros(k)
    scales = bool(np.any(l2) or np.any(damping))
    slot_x = n_vectors + n_sums if scales else -1
    slot_y = n_vectors + n_sums + int(scales) if setting.dual_norm == 2 and n_vectors > k else -1
    factor = np.ones(d) if factor is None else np.asarray(factor, dtype=np.float64)
    special = np.flatnonzero(factor != 1.0) if l1.any() or l2.any() else np.empty(0, dtype=np.intp)
    ball = kernels.NO_BALL if setting.dual_norm is None else BALLS[setting.dual_norm]
    constant = 0.0 if setting.constant is None or scales else float(setting.constant)
    return kernels.Rule(
        METHODS[setting.method], ball, k, n_sums, slot_x, slot_y, constant, table.lam > 0, setting.trace_tol,
        np.ascontiguousarray(table.M, dtype=np.float64), np.asarray(table.m, dtype=np.float64),
        np.asarray(damping, dtype=np.float64), l1, l2, special.astype(np.int64), factor[special],
    )  # fmt: skip


def _lines(rule: kernels.Rule, d: int, slot_x: int, slot_y: int, setting: Setting) -> kernels.Lines:
    k, n_vectors = rule.n_blocks, len(rule.l1)
    used = n_vectors + rule.n_sums + (slot_x >= 0) + (slot_y >= 0) + 1
    searched = bool(rule.n_sums and np.any(rule.l1) and rule.constant == 0.0)
    length = min(kernels.flush_interval(d), 1 << 20) + 1 if searched else 1
    generations = GENERATIONS if max(slot_x, slot_y) >= 0 else 2
    return kernels.Lines(
        line=aligned_zeros(d, 8 if used <= 8 else 16),
        scalar=np.zeros((n_vectors, 7)),
        count=np.zeros(8, dtype=np.int64),
        norm=np.zeros(1),
        chain=np.zeros((2, generations, k, 4)),
        ends=np.zeros((2, generations, k, 4)),
        begins=np.zeros((2, generations), dtype=np.int64),
        history=np.zeros((length, k if slot_x >= 0 else 1, 3)),
        touched=np.zeros(1, dtype=np.int64),
        along=np.zeros((3, 1)),
    )


def _with_room(lines: kernels.Lines, rule: kernels.Rule, phi: kernels.Rows, phi_next: kernels.Rows) -> kernels.Lines:
    """The same state with room for every coordinate that a step of these rows may touch."""
    entries = [np.diff(rows.indptr) for rows in (phi, phi_next)]
    most = sum(int(number.max(initial=0)) for number in entries) + len(rule.special)
    if rule.traces:
        most += int(lines.count[kernels.N_TRACE]) + int(entries[0].sum())
    most = min(most, len(lines.line))
    if most <= lines.along.shape[1]:
        return lines
    capacity = 512 * (most // 512 + 1) + 72  # rows of the scratch space must not fall on the same cache sets
    touched, along = np.zeros(capacity, dtype=np.int64), np.zeros((3, capacity))
    kept = min(capacity, len(lines.touched))
    touched[:kept], along[:, :kept] = lines.touched[:kept], lines.along[:, :kept]
    return lines._replace(touched=touched, along=along)


def _scratch(capacity: int, n_vectors: int) -> kernels.Scratch:
    old, mid, new, total = (np.empty((n_vectors, capacity)) for _ in range(4))
    return kernels.Scratch(np.empty((16, capacity)), old, mid, new, total, np.empty(capacity))


def aligned_zeros(d: int, stride: int) -> Array:
    """Zeros (d, stride) that begin on a cache line, so that one coordinate is one line of 64 bytes (or two)."""
    memory = np.zeros(d * stride + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip : skip + d * stride].reshape(d, stride)


def rows_of(matrix: sp.csr_array | sp.csr_matrix) -> kernels.Rows:
    """The arrays of a CSR matrix; entries that are all 1 need no values."""
    return kernels.Rows(matrix.data, matrix.indices, matrix.indptr)
