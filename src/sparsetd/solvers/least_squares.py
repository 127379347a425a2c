"""LSTD(λ): accumulate the mean system of θ and solve it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from sparsetd.system import Array, Batch, Solution, Table, TraceCarry, dense, trace_weights

# Rows are summed in blocks that begin at multiples of this row number, so that every split of a stream gives the same
# bits.
BLOCK = 256


@dataclass
class MomentState:
    """A = Σ e(φ − ψ)ᵀ and b = Σ r e over the complete blocks, with the rows of the block that is still open."""

    A: Array
    b: Array
    trace: Array
    open_rows: list[tuple[Array, Array, Array]] = field(default_factory=list)
    carry: TraceCarry = field(default_factory=TraceCarry)
    t: int = 0

    def moments(self) -> tuple[Array, Array]:
        """(A, b) as means over the rows seen so far."""
        A, b = self.A, self.b
        if self.open_rows:
            dA, db = _block_sum(self.open_rows)
            A, b = A + dA, b + db
        return A / max(self.t, 1), b / max(self.t, 1)


@dataclass(frozen=True)
class LeastSquares:
    """Solves (E[e(φ − γφ')ᵀ] + ridge) θ = E[r e]; by the pseudo-inverse where that matrix is singular.

    Streams in O(d²) per row and O(d²) memory. The rank that was found is reported as `rank_`.
    """

    def init(
        self, table: Table, n_features: int, dtype: Any = np.float64, coef_init: Array | None = None
    ) -> MomentState:
        del dtype, coef_init  # sums of squares need float64, and there is nothing to start from
        if table.n_blocks != 1:
            raise ValueError(
                f"least squares solves a system in θ alone; use operator 'td' or 'etd', not {table.name!r}"
            )
        return MomentState(np.zeros((n_features, n_features)), np.zeros(n_features), np.zeros(n_features))

    def update(
        self, state: MomentState, batch: Batch, table: Table, penalty: Any = None, factor: Array | None = None
    ) -> MomentState:
        del penalty, factor
        fresh, old = trace_weights(table, batch, state.carry)
        done = 0
        while done < len(batch):
            stop = min(len(batch), done + BLOCK - state.t % BLOCK)
            rows = slice(done, stop)
            self._append(state, batch[rows], fresh[rows], old[rows])
            done = stop
        return state

    def result(self, state: MomentState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        del table
        shrinkage = penalty.shrinkage(1)
        if shrinkage is None or shrinkage[0].any():
            raise ValueError("least squares takes no penalty or a ridge; for sparsity use LARSTD, SparseTD or ROTD")
        A, b = state.moments()
        ridge = shrinkage[1][0] * (np.ones(len(b)) if factor is None else factor)
        theta, rank = solve(A + np.diag(ridge), b)
        extras = {"rank": rank}
        status = "converged" if rank == len(b) else "singular"
        return Solution(coef=theta, coef_last=theta.copy(), n_iter=state.t, status=status, extras=extras)

    @staticmethod
    def _append(state: MomentState, batch: Batch, fresh: Array, old: Array) -> None:
        phi, phi_next = dense(batch.phi), dense(batch.phi_next)
        e = fresh[:, None] * phi
        for t in np.flatnonzero(old):
            e[t] += old[t] * (e[t - 1] if t else state.trace)
        state.trace = e[-1]
        state.open_rows.append((e, phi - batch.discount[:, None] * phi_next, batch.reward))
        state.t += len(batch)
        if state.t % BLOCK == 0:
            dA, db = _block_sum(state.open_rows)
            state.A, state.b, state.open_rows = state.A + dA, state.b + db, []


def _block_sum(rows: list[tuple[Array, Array, Array]]) -> tuple[Array, Array]:
    e, change, reward = (np.concatenate(column) for column in zip(*rows, strict=True))
    return e.T @ change, e.T @ reward


def solve(A: Array, b: Array) -> tuple[Array, int]:
    """θ of least norm that minimises ‖Aθ − b‖₂, with the numerical rank of A."""
    theta, _, rank, _ = scipy.linalg.lstsq(A, b, cond=len(b) * np.finfo(np.float64).eps, lapack_driver="gelsd")
    return np.asarray(theta), int(rank)
