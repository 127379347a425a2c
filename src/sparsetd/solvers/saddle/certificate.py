"""The proof: a feasible dual point bounds the optimum from below, so P(x) − D(y) bounds how far x can be from optimal.

    P(x) = F(Ax − b) + h(x)   ≥   D(y) = −bᵀy − h*(−Aᵀy)       for every y in the dual ball of F

Any y becomes feasible: first made orthogonal to the columns of the free (unpenalised) coordinates, then scaled down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np
from scipy.linalg import qr

from sparsetd.solvers.saddle.linear import Linear, gathered
from sparsetd.solvers.saddle.norms import FitNorm
from sparsetd.solvers.saddle.terms import Terms
from sparsetd.system import Array


@dataclass(frozen=True)
class Point:
    """A primal–dual pair with its products, its two objective values and the dual point made feasible."""

    x: Array
    y: Array
    Ax: Array
    z: Array  # Aᵀ y
    primal: float
    dual: float
    zero: float  # F(b), the objective at x = 0

    def merged(self, other: Point) -> Point:
        """The better primal with the better dual."""
        primal = other if other.primal <= self.primal else self
        dual = other if other.dual >= self.dual else self
        return replace(primal, y=dual.y, z=dual.z, dual=dual.dual)

    @property
    def gap(self) -> float:
        return max(self.primal - self.dual, 0.0)

    @property
    def relative_gap(self) -> float:
        """Gap over the objective, or over F(b)/10⁴ where the fit is so close that rounding would decide."""
        scale = max(self.primal, 1e-4 * self.zero)
        return self.gap / scale if scale > 0 else 0.0


@dataclass
class Problem:
    """min_x F(Ax − b) + h(x)."""

    A: Linear
    norm: FitNorm
    terms: Terms
    n_applied: int = 0
    n_adjoint: int = 0
    n_columns: int = 0
    _free: tuple[Array, Array] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if len(self.terms.free):
            Q = _range(gathered(self.A, self.terms.free))
            self._free = Q, np.column_stack([self.A.adjoint(q) for q in Q.T]) if Q.size else Q

    def primal(self, x: Array, Ax: Array) -> float:
        return self.norm.value(Ax - self.A.b) + self.terms.value(x)

    def point(self, x: Array, y: Array, Ax: Array | None = None, z: Array | None = None) -> Point:
        """The certified pair of (x, y): y is made feasible, the products are computed unless given."""
        Ax = self.apply(x) if Ax is None else Ax
        z = self.adjoint(y) if z is None else z
        if self._free is not None:
            Q, AtQ = self._free
            along = Q.T @ y
            y, z = y - Q @ along, z - AtQ @ along
        scale = min(1.0 / max(1.0, self.norm.dual_norm(y)), self.terms.feasible_scale(z))
        y, z = scale * y, scale * z
        dual = -float(self.A.b @ y) - self.terms.conjugate(-z)
        return Point(x, y, Ax, z, self.primal(x, Ax), dual, self.norm.value(self.A.b))

    def apply(self, x: Array) -> Array:
        self.n_applied += 1
        return self.A.apply(x)

    def adjoint(self, y: Array) -> Array:
        self.n_adjoint += 1
        return self.A.adjoint(y)

    @property
    def n_applications(self) -> int:
        """Products with A: a pair with A and Aᵀ is one, a column of A (half a product with A) a quarter."""
        return max(self.n_applied, self.n_adjoint) + -(-self.n_columns // 4)

    def gather(self, index: Array) -> Array:
        """A[:, index]."""
        self.n_columns += len(index)
        return gathered(self.A, index)

    def residual_dual(self, Ax: Array) -> Array:
        """The dual point that the residual proposes: c·r/‖r‖₂ for m = 2, its signs for m = 1, its peaks for m = ∞."""
        r = Ax - self.A.b
        if self.norm.m == 2.0:
            length = float(np.linalg.norm(r))
            return np.asarray(self.norm.scale * r / length) if length else r
        if self.norm.m == 1.0:
            return self.norm.scale * np.sign(r)
        peak = np.abs(r) >= np.abs(r).max(initial=0.0)
        return np.asarray(self.norm.scale * np.sign(r) * peak / max(peak.sum(), 1))


@dataclass
class Trail:
    """How a solution was reached: the relative gap and the number of coordinates at work, round by round; and until
    when it may go on."""

    gap: list[float] = field(default_factory=list)
    n_working: list[float] = field(default_factory=list)
    until: float = float("inf")

    @property
    def late(self) -> bool:
        return monotonic() > self.until

    def note(self, point: Point, n_working: int) -> None:
        self.gap.append(point.relative_gap)
        self.n_working.append(float(n_working))

    def columns(self) -> dict[str, list[float]]:
        return {"relative_gap": self.gap, "n_working": self.n_working}


def _range(columns: Array) -> Array:
    """An orthonormal basis of the column space."""
    Q, R, _ = qr(columns, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    return np.asarray(Q[:, diagonal > 1e-12 * max(diagonal.max(initial=0.0), 1e-300)])
