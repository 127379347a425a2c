"""The memory of a batch method: the rows while they are few, then the sums Σ A_t, Σ b_t and Σ φφᵀ.

While N ≤ d the rows take less room than A, and a column of A costs O(Nd); for more rows A is formed and a column is
free. Sparse rows are kept throughout, unless the method needs A anyway.

Rows enter the sums in blocks that start at multiples of BLOCK in the whole stream, one after the other. So the bits of
the result do not depend on how the stream was cut into updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sparsetd.logs.checks import joined
from sparsetd.solvers.mean import Linear, Matrix, MeanOperator, formed, mean_operator
from sparsetd.system import Array, Batch, Solution, Table, TraceCarry, dense, rows_of

BLOCK = 1024  # rows that enter the sums together; see above why their places are fixed

Fold = Literal["never", "dense", "always"]  # which rows become A once there are more of them than features


@dataclass(frozen=True, eq=False)
class Sums:
    """Σ A_t, Σ b_t and, `with_C`, Σ φφᵀ over the first n rows, and what the trace of the next row needs to know."""

    with_C: bool = False
    A: Array = field(default_factory=lambda: np.zeros(()))
    b: Array = field(default_factory=lambda: np.zeros(()))
    C: Array = field(default_factory=lambda: np.zeros(()))
    n: int = 0
    carry: TraceCarry = field(default_factory=TraceCarry)
    e: Array | None = None

    def plus(self, table: Table, batch: Batch) -> Self:
        """The sums with these rows."""
        carry = replace(self.carry)
        A, b, e = formed(MeanOperator(table, batch, np.ones(len(batch)), carry), self.e)
        C = self.C + dense(batch.phi.T @ batch.phi) if self.with_C else self.C
        return replace(self, A=self.A + A, b=self.b + b, C=C, n=self.n + len(batch), carry=carry, e=e.copy())


@dataclass
class RowState:
    """The rows that are kept, oldest first, and the sums over those that came before them."""

    n_features: int
    dtype: str
    coef_init: Array | None = None
    sums: Sums = field(default_factory=Sums)
    rows: list[Batch] = field(default_factory=list)
    n_samples: int = 0

    def batch(self) -> Batch:
        """The rows that are kept as one batch."""
        if len(self.rows) > 1:
            self.rows = [_joined(self.rows)]
        return self.rows[0]

    def fold(self, table: Table) -> None:
        """Add all whole blocks to the sums."""
        batch = self.batch()
        whole = len(batch) // BLOCK * BLOCK
        for low in range(0, whole, BLOCK):
            self.sums = self.sums.plus(table, _doubled(batch[low : low + BLOCK]))
        self.rows = [batch[whole:]]

    def system(self, table: Table) -> Linear:
        """The mean system of all rows so far; the state is left as it is."""
        if not self.sums.n:
            return mean_operator(table, self.batch(), form=False)
        total = self.sums.plus(table, self.batch()) if len(self.batch()) else self.sums
        return Matrix(*(values / total.n for values in (total.A, total.b, total.C)))


def _doubled(batch: Batch, copy: bool = False) -> Batch:
    """The rows with float64 features."""
    columns = {f.name: rows_of(getattr(batch, f.name), slice(None)) for f in fields(batch)}
    doubles = {name: columns.pop(name).astype(np.float64, copy=copy) for name in ("phi", "phi_next")}
    return Batch(**doubles, **{name: column.copy() if copy else column for name, column in columns.items()})


def _joined(batches: list[Batch]) -> Batch:
    whole = [batch[:] for batch in batches]
    return Batch(*(joined([getattr(batch, f.name) for batch in whole]) for f in fields(Batch)))


@dataclass(frozen=True, eq=False)
class Posed:
    """What a batch method solves: the mean system, and ρ, κ·factor and the factors of the penalty (see `weights`)."""

    state: RowState
    table: Table
    system: Linear
    rho: float
    ridge: Array
    factor: Array

    def solution(self, theta: Array, n_iter: int, status: str, **extras: Any) -> Solution:
        """θ in the precision of the rows, with what the method found beside it."""
        coef = theta.astype(self.state.dtype)
        return Solution(coef, coef.copy(), n_iter, status, extras=extras)


@dataclass(frozen=True)
class RowSolver:
    """The methods that collect (A, b) of tables A_t = l_t r_tᵀ; a subclass says how it is solved in `solve`."""

    fold: ClassVar[Fold] = "dense"
    takes_slices: ClassVar[bool] = True  # of rows, so that successors need not be copied
    projected = False  # whether Σ φφᵀ is wanted too

    def init(self, table: Table, n_features: int, dtype: Any, coef_init: Array | None = None) -> RowState:
        factors(table)
        return RowState(n_features, np.dtype(dtype).name, coef_init, Sums(self.projected))

    def update(
        self,
        state: RowState,
        batch: Batch,
        table: Table,
        penalty: Any = None,  # noqa: ARG002 (the protocol's signature: collecting needs no penalty)
        factor: Any = None,  # noqa: ARG002
    ) -> RowState:
        state.rows.append(batch)
        state.n_samples += len(batch)
        complete = state.n_samples // BLOCK * BLOCK
        wanted = self.fold == "always" or (self.fold == "dense" and not batch.is_sparse)
        if wanted and complete > max(state.n_features, state.sums.n):
            state.fold(table)
        # What the caller does to its arrays afterwards is its own affair.
        state.rows[-1] = _doubled(state.rows[-1], copy=True)
        return state

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        rho, kappa, factors = weights(penalty, factor, state.n_features)
        return self.solve(Posed(state, table, state.system(table), rho, kappa * factors, factors))

    def solve(self, given: Posed) -> Solution:
        raise NotImplementedError


def weights(penalty: Any, factor: Array | None, n_features: int) -> tuple[float, float, Array]:
    """ρ and κ of h(θ) = Σ_i factor_i (ρ|θ_i| + ½κθ_i²), and the factors."""
    shrinkage = penalty.shrinkage(1)
    if shrinkage is None:
        raise ValueError(f"penalty {type(penalty).__name__} does not separate into features: use L1 or ElasticNet")
    ones = np.ones(n_features)
    return float(shrinkage[0][0]), float(shrinkage[1][0]), ones if factor is None else np.asarray(factor) * ones


def factors(table: Table) -> tuple[Array, Array]:
    """m and v with M = m vᵀ, in the order φ ψ e."""
    m = table.m
    v = m @ table.M / (m @ m) if m.any() else m
    if table.n_blocks != 1 or table.damping.any() or not np.allclose(np.outer(m, v), table.M):
        raise ValueError(f"operator {table.name!r} is not A_t = l_t r_tᵀ in θ alone: use operator 'td' or 'etd'")
    return m, v
