"""The identity behind every linear TD method.

For one transition, with ψ = γ φ' and the eligibility trace e,

    A_t = B_t M B_tᵀ + diag(damping)      b_t = r_t B_t m      B_t = blockdiag([φ ψ e], …)

acts on x = [w; θ] (or on x = θ alone). The small constant table (M, m) *is* the method; the residual A_t x − b_t, the
adjoint A_tᵀ y and the mean system (E[A_t], E[b_t]) all follow from it, so they cannot disagree.

The discount sits in ψ and the importance ratio in the trace, so M and m hold neither:

    state values    e_t = ρ_t (i_t φ_t + γ_t λ e_{t−1})        ratio on the δ terms, never on φφᵀ
    action values   e_t = i_t φ_t + ρ_t γ_t λ e_{t−1}          the action is given: no correction for it
    emphatic        e_t = ρ_t (m_t φ_t + γ_t λ e_{t−1})        m_t = λ i_t + (1 − λ) F_t,
                                                               F_t = ρ_{t−1} γ_t F_{t−1} + i_t

Without traces (λ = 0) these reduce to e_t = ρ_t φ_t, φ_t and ρ_t F_t φ_t.

Everything here is plain NumPy, written to be read; the compiled solvers are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dtbtrs

Array = NDArray[Any]
Trace = Literal["state", "action", "emphatic"]
COLUMNS = ("ratio", "discount", "start", "interest")  # of a `Batch`, beside φ, φ' and the reward

# The three directions of a transition, in the order of the columns of B_t.
PHI, PSI, E = np.eye(3)


@dataclass(frozen=True, eq=False)
class Table:
    """The constants (M, m) of a method, with k blocks of unknowns: x = θ (k = 1) or x = [w; θ] (k = 2).

    `M` is 3k × 3k and `m` has 3k entries, in the order φ ψ e of each block. `damping` adds a multiple of the identity
    to each block's diagonal (GTD and TDRC need it). `lam` and `trace` say how e is formed.
    """

    name: str
    M: Array
    m: Array
    damping: Array
    lam: float = 0.0
    trace: Trace = "state"

    def __post_init__(self) -> None:
        """Check the shapes here, because compiled code does not."""
        k = np.size(self.damping)
        shapes = np.shape(self.M), np.shape(self.m), np.shape(self.damping)
        if k not in (1, 2) or shapes != ((3 * k, 3 * k), (3 * k,), (k,)):
            raise ValueError("A table has k = 1 or 2 blocks: `M` is 3k × 3k, `m` has 3k entries and `damping` has k.")

    @property
    def n_blocks(self) -> int:
        return len(self.damping)

    @classmethod
    def one_block(cls, name: str, tt: Array, bt: Array, *, lam: float = 0.0, trace: Trace = "state") -> Table:
        """Return the table of a method in θ alone: A_t = B tt Bᵀ, b_t = r_t B bt."""
        return cls(name, tt, bt, np.zeros(1), lam, trace)

    @classmethod
    def two_blocks(
        cls,
        name: str,
        *,
        ww: Array,
        wt: Array,
        tw: Array,
        tt: Array,
        bw: Array,
        bt: Array,
        damping_w: float = 0.0,
        lam: float = 0.0,
        trace: Trace = "state",
    ) -> Table:
        """Return the table of a method in [w; θ], from the blocks of A_t and b_t as the paper prints them."""
        M = np.vstack([np.hstack([ww, wt]), np.hstack([tw, tt])])
        return cls(name, M, np.concatenate([bw, bt]), np.array([damping_w, 0.0]), lam, trace)


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one stream of transitions, ready for a solver: φ, φ' (dense or CSR) and five columns of numbers.

    `discount` is γ_{t+1} (0 where the episode terminated), `ratio` is π/μ, `start` marks the first row of an episode
    and `interest` is i_t. Rows are in time order.
    """

    phi: Array | sp.csr_array
    phi_next: Array | sp.csr_array
    reward: Array
    discount: Array
    ratio: Array
    start: Array
    interest: Array

    def __len__(self) -> int:
        return len(self.reward)

    def __getitem__(self, rows: slice | Array) -> Batch:
        return Batch(*(rows_of(getattr(self, f.name), rows) for f in fields(self)))

    @property
    def columns(self) -> dict[str, Array]:
        """The columns that an estimator's `fit` takes beside φ, φ' and the reward."""
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def n_features(self) -> int:
        return int(self.phi.shape[1])

    @property
    def n_entries(self) -> int:
        """How many numbers of φ are stored."""
        return int(self.phi.nnz if self.is_sparse else self.phi.size)  # type: ignore[union-attr]

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.phi)


@dataclass
class TraceCarry:
    """The discount, the ratio and the follow-on F of the last row: they are needed for the trace of the next one."""

    discount: float = 0.0
    ratio: float = 1.0
    follow_on: float = 0.0


def trace_weights(table: Table, batch: Batch, carry: TraceCarry) -> tuple[Array, Array]:
    """Return the scalars (c, d) of every row in e_t = c_t φ_t + d_t e_{t−1}, and advance `carry` past the batch."""
    n = len(batch)
    into = np.empty(n)  # γ_t: the discount of the transition that led here, 0 at the start of an episode
    if n:
        into[0] = carry.discount
        into[1:] = batch.discount[:-1]
        into[batch.start] = 0.0
    old = batch.ratio * into * table.lam
    if table.trace == "action":
        fresh = batch.interest.astype(np.float64)
    elif table.trace == "state":
        fresh = batch.ratio * batch.interest
    else:
        fresh = batch.ratio * _emphasis(table.lam, batch, into, carry)
    if n:
        carry.discount, carry.ratio = float(batch.discount[-1]), float(batch.ratio[-1])
    return np.asarray(fresh, dtype=np.float64), np.asarray(old, dtype=np.float64)


def _emphasis(lam: float, batch: Batch, into: Array, carry: TraceCarry) -> Array:
    """m_t = λ i_t + (1 − λ) F_t with the follow-on F_t = ρ_{t−1} γ_t F_{t−1} + i_t."""
    emphasis = np.empty(len(batch))
    follow_on, ratio = carry.follow_on, carry.ratio
    for t in range(len(batch)):
        follow_on = ratio * into[t] * follow_on + batch.interest[t]
        emphasis[t] = lam * batch.interest[t] + (1.0 - lam) * follow_on
        ratio = batch.ratio[t]
    carry.follow_on = float(follow_on)
    return emphasis


def directions(table: Table, batch: Batch) -> Array:
    """Return the vectors φ_t, ψ_t, e_t of every row as one array (n, 3, d), starting from a zero trace."""
    phi, phi_next = dense(batch.phi), dense(batch.phi_next)
    fresh, old = trace_weights(table, batch, TraceCarry())
    out = np.stack([phi, batch.discount[:, None] * phi_next, np.zeros_like(phi)], axis=1)
    e = np.zeros(batch.n_features)
    for t in range(len(batch)):
        e = fresh[t] * phi[t] + old[t] * e
        out[t, 2] = e
    return out


def residual(table: Table, x: Array, rows: Array, reward: float) -> Array:
    """Return the residual A_t x − b_t for x of shape (k, d) and `rows` = (φ, ψ, e) of shape (3, d)."""
    products = (x @ rows.T).ravel()
    weights = (table.M @ products - reward * table.m).reshape(-1, 3)
    return np.asarray(weights @ rows + table.damping[:, None] * x)


def adjoint(table: Table, y: Array, rows: Array) -> Array:
    """Return the adjoint product A_tᵀ y for y of shape (k, d) and `rows` = (φ, ψ, e) of shape (3, d)."""
    products = (y @ rows.T).ravel()
    weights = (table.M.T @ products).reshape(-1, 3)
    return np.asarray(weights @ rows + table.damping[:, None] * y)


def mean_system(table: Table, batch: Batch) -> tuple[Array, Array]:
    """Return the mean system of a batch as a (kd, kd) matrix and a vector, at a cost of O(N d²): for small problems.

    (A, b) = (1/N) Σ_t (A_t, b_t)
    """
    rows, n, k, d = directions(table, batch), len(batch), table.n_blocks, batch.n_features
    moments = np.einsum("tid,tje->idje", rows, rows, optimize=True) / n
    M = table.M.reshape(k, 3, k, 3)
    A = np.einsum("aibj,idje->adbe", M, moments, optimize=True).reshape(k * d, k * d)
    A += np.kron(np.diag(table.damping), np.eye(d))
    b = table.m.reshape(k, 3) @ np.einsum("t,tid->id", batch.reward, rows) / n
    return A, b.ravel()


def rows_of(values: Any, rows: slice | Array) -> Any:
    """Return some rows of a column, an array or a CSR matrix; a slice of CSR rows shares its memory."""
    if not (sp.issparse(values) and values.format == "csr" and isinstance(rows, slice) and rows.step in (None, 1)):
        return values[rows]
    first, stop, _ = rows.indices(values.shape[0])
    lo, hi = values.indptr[first], values.indptr[max(stop, first)]
    out = sp.csr_array((max(stop - first, 0), values.shape[1]), dtype=values.dtype)
    # They are set one by one, because the constructor would copy a short slice.
    out.data, out.indices = values.data[lo:hi], values.indices[lo:hi]
    out.indptr = values.indptr[first : max(stop, first) + 1] - lo
    return out


def scaled(weight: Array, rows: Any) -> Any:
    """Return rows times their weights, or the rows themselves where every weight is one; CSR rows store no zeros."""
    if np.all(weight == 1.0):
        return rows
    if not sp.issparse(rows):
        return weight[:, None] * rows
    out = sp.csr_array(rows, copy=True)
    out.data = out.data * np.repeat(weight, np.diff(out.indptr))
    out.eliminate_zeros()
    return out


def dense(rows: Any, dtype: Any = np.float64) -> Array:
    """Return rows of φ, dense or sparse, as a contiguous array."""
    return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, dtype=dtype)


@dataclass
class Solution:
    """What a solver hands back: the estimate, how it was reached and why it stopped.

    `coef` is θ as reported (averaged where the solver averages) and `coef_last` the last iterate; `aux` is w, `dual`
    is y. `status` is one word ("converged", "finished", "diverged", …) and `history` a dict of columns. Each entry of
    `extras` becomes a fitted attribute of the estimator, with an underscore after its name.
    """

    coef: Array
    coef_last: Array
    n_iter: int
    status: str = "finished"
    aux: Array | None = None
    dual: Array | None = None
    history: dict[str, list[float]] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)


def recurrence(old: Array, rows: Array, transpose: bool = False) -> Array:
    """Return v = T u, where v_t = u_t + d_t v_{t−1}; with `transpose` return Tᵀ u, by the same recurrence backwards."""
    if not old.any():
        return rows
    bands = np.ones((2, len(rows)))
    if transpose:
        bands[0, 1:] = -old[1:]
    else:
        bands[1, :-1] = -old[1:]
    found, _ = dtbtrs(bands, rows.reshape(len(rows), -1), uplo="U" if transpose else "L", diag="U")
    return np.asarray(found.reshape(rows.shape))
