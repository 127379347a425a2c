"""What a batch method remembers of a stream: the rows of A = (1/N) Σ l_t r_tᵀ while they are few, then A itself.

A one-block method has A_t = l_t r_tᵀ and b_t = reward · l_t with the directions l_t = B_t m (the trace e for TD) and
r_t = B_t v (φ − ψ). While N ≤ d the rows take less room than A, and a column A[:, i] = (1/N) Lᵀ R[:, i] costs O(Nd);
for more rows A is formed and a column is free. Sparse rows are kept throughout, unless the method needs A anyway.

Rows are collected in blocks that start at multiples of BLOCK in the whole stream, and every sum runs over whole blocks
in order. So the bits of the result do not depend on how the stream was cut into updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from sparsetd.system import Array, Batch, Solution, Table, TraceCarry, dense, trace_weights

BLOCK = 256

Rows = Any  # ndarray or csr_array of shape (n, d)
Block = tuple[Rows, Rows, Array, Array, Rows]  # l_t, r_t, the reward, the weight of φ_t in e_t, φ_t (or 0 columns)
Fold = Literal["never", "dense", "always"]  # which rows become A once there are more of them than features


@dataclass(eq=False)
class MatrixSystem:
    """A and b as they are, and C = (1/N) Σ φφᵀ where it was asked for."""

    A: Array
    b: Array
    C: Array

    def column(self, i: int) -> Array:
        """A[:, i]."""
        return np.asarray(self.A[:, i])

    def adjoint(self, y: Array) -> Array:
        """Aᵀ y."""
        return np.asarray(self.A.T @ y)


@dataclass(eq=False)
class RowSystem:
    """A = (1/N) Lᵀ R and b = (1/N) Lᵀ reward, by the rows l_t and r_t; `weight` is the share of φ_t in e_t."""

    left: Rows
    right: Rows
    reward: Array
    weight: Array
    phi: Rows

    @property
    def A(self) -> Array:
        """The d × d matrix."""
        return dense(self.left.T @ self.right) / len(self.reward)

    @cached_property
    def b(self) -> Array:
        return np.asarray(self.left.T @ self.reward) / len(self.reward)

    @cached_property
    def _right_columns(self) -> Rows:
        return self.right.tocsc() if sp.issparse(self.right) else np.asfortranarray(self.right)

    def column(self, i: int) -> Array:
        """A[:, i], O(Nd)."""
        r = self._right_columns[:, [i]].toarray()[:, 0] if sp.issparse(self.right) else self._right_columns[:, i]
        return np.asarray(self.left.T @ r) / len(self.reward)

    def adjoint(self, y: Array) -> Array:
        """Aᵀ y, O(Nd)."""
        return np.asarray(self.right.T @ (self.left @ y)) / len(self.reward)


System = MatrixSystem | RowSystem


@dataclass
class RowState:
    """The blocks of rows (or N·(A, b, C) once folded), the rows of the block under way, and the trace's memory."""

    n_features: int
    dtype: str
    coef_init: Array | None
    fold: Fold
    n_samples: int = 0
    blocks: list[Block] = field(default_factory=list)
    pending: list[Block] = field(default_factory=list)
    sums: tuple[Array, Array, Array] | None = None
    carry: TraceCarry = field(default_factory=TraceCarry)
    e: Array | None = None

    def append(self, left: Rows, right: Rows, reward: Array, weight: Array, phi: Rows) -> None:
        """Take rows in; whenever a block of the stream is complete, close it."""
        first = 0
        while first < len(reward):
            take = min(BLOCK - self.n_samples % BLOCK, len(reward) - first)
            rows = slice(first, first + take)
            self.pending.append((left[rows], right[rows], reward[rows], weight[rows], phi[rows]))
            self.n_samples, first = self.n_samples + take, first + take
            if self.n_samples % BLOCK == 0:
                self._close()

    def _close(self) -> None:
        self.blocks.append(_join(self.pending))
        self.pending = []
        many = self.sums is not None or self.n_samples > self.n_features
        if many and (self.fold == "always" or (self.fold == "dense" and not sp.issparse(self.blocks[0][1]))):
            self.sums, self.blocks = self._added(self.blocks), []

    def _added(self, blocks: list[Block]) -> tuple[Array, Array, Array]:
        """Σ l rᵀ, Σ reward · l and Σ φφᵀ, block by block on top of what was folded before."""
        d, k = self.n_features, blocks[0][4].shape[1] if blocks else 0
        A, b, C = self.sums or (np.zeros((d, d), order="F"), np.zeros(d), np.zeros((k, k)))
        for left, right, reward, _, phi in blocks:
            A, b, C = A + (right.T @ left).T, b + left.T @ reward, C + phi.T @ phi
        return A, b, C

    def system(self) -> System:
        """The mean system of all rows so far; the state is left as it is."""
        rest = [*self.blocks, *([_join(self.pending)] if self.pending else [])]
        if self.sums is None:
            return RowSystem(*_join(rest))
        return MatrixSystem(*(total / self.n_samples for total in self._added(rest)))


def _join(parts: list[Block]) -> Block:
    """One block out of several; always contiguous, so equal rows give equal bits."""
    if len(parts) == 1 and sp.issparse(parts[0][1]):
        return parts[0]
    left, right, reward, weight, phi = zip(*parts, strict=True)
    stack = sp.vstack if sp.issparse(right[0]) else np.vstack
    form: dict[str, Any] = {"format": "csr"} if sp.issparse(right[0]) else {}
    vectors = np.concatenate(reward), np.concatenate(weight)
    return stack(left, **form), stack(right, **form), *vectors, stack(phi, **form)


@dataclass(frozen=True)
class RowSolver:
    """`init` and `update` of the methods that collect (A, b) and solve in `result`, for tables A_t = l_t r_tᵀ."""

    fold: ClassVar[Fold] = "dense"

    @property
    def needs_phi(self) -> bool:
        """Whether φ is collected beside e and φ − ψ."""
        return False

    def init(self, table: Table, n_features: int, dtype: Any, coef_init: Array | None = None) -> RowState:
        _factors(table)
        return RowState(n_features, np.dtype(dtype).name, coef_init, self.fold)

    def update(
        self,
        state: RowState,
        batch: Batch,
        table: Table,
        penalty: Any = None,  # noqa: ARG002 (the protocol's signature: collecting needs no penalty)
        factor: Any = None,  # noqa: ARG002
    ) -> RowState:
        left, right = _factors(table)
        phi, psi = _double(batch.phi), _scale(batch.discount, _double(batch.phi_next))
        fresh, old = trace_weights(table, batch, state.carry)
        e = _traces(state, phi, fresh, old) if table.lam else _scale(fresh, phi)
        rows = (phi, psi, e)
        kept = phi if self.needs_phi else phi[:, :0]
        state.append(_combine(left, rows), _combine(right, rows), batch.reward.astype(np.float64), fresh, kept)
        return state

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        raise NotImplementedError


def weights(penalty: Any, factor: Array | None, n_features: int) -> tuple[float, float, Array]:
    """ρ and κ of h(θ) = Σ_i factor_i (ρ|θ_i| + ½κθ_i²), and the factors."""
    shrinkage = penalty.shrinkage(1)
    if shrinkage is None:
        raise ValueError(f"penalty {type(penalty).__name__} does not separate into features: use L1 or ElasticNet")
    ones = np.ones(n_features)
    return float(shrinkage[0][0]), float(shrinkage[1][0]), ones if factor is None else np.asarray(factor) * ones


def _factors(table: Table) -> tuple[Array, Array]:
    """m and v with M = m vᵀ, in the order φ ψ e."""
    m = table.m
    v = m @ table.M / (m @ m) if m.any() else m
    if table.n_blocks != 1 or table.damping.any() or not np.allclose(np.outer(m, v), table.M):
        raise ValueError(f"operator {table.name!r} is not A_t = l_t r_tᵀ in θ alone: use operator 'td' or 'etd'")
    return m, v


def _traces(state: RowState, phi: Rows, fresh: Array, old: Array) -> Rows:
    """e_t = fresh_t φ_t + old_t e_{t−1}, row by row."""
    rows = dense(phi)
    out, e = np.empty_like(rows), np.zeros(state.n_features) if state.e is None else state.e
    for t in range(len(out)):
        e = fresh[t] * rows[t] + old[t] * e
        out[t] = e
    state.e = e
    return sp.csr_array(out) if sp.issparse(phi) else out


def _double(rows: Rows) -> Rows:
    return rows.astype(np.float64)


def _scale(weight: Array, rows: Rows) -> Rows:
    return sp.diags_array(weight) @ rows if sp.issparse(rows) else weight[:, None] * rows


def _combine(weights: Array, rows: tuple[Rows, Rows, Rows]) -> Rows:
    """Σ_k weights_k rows_k over the non-zero weights, as CSR or as an array of its own."""
    terms = [w * r for w, r in zip(weights, rows, strict=True) if w]
    total = sum(terms[1:], start=terms[0])
    return total.tocsr() if sp.issparse(total) else total
