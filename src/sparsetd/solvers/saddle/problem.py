"""The problem min_x F(Ax − b) + h(x) in numbers: the fit norm F, the penalty h, and the proof of how good an x is.

**The fit norm** F(r) = c‖r‖_m for m = 1, 2, ∞ is defined through its dual ball {‖y‖_n ≤ c}, 1/m + 1/n = 1:

    F(r) = max { yᵀr : ‖y‖_n ≤ c },        prox_{τF}(v) = v − τ Π(v/τ),        Π the *nearest* point of the ball.

Radial scaling is that nearest point only for n = 2; for n = 1 it would lead to another problem's solution.

**The penalty**, coordinate by coordinate. A certificate needs its conjugate beyond value and prox:

    h(x) = Σ_i l1_i|x_i| + ½ l2_i x_i²               h*(z) = Σ_i (|z_i| − l1_i)₊² / (2 l2_i),   l2_i = 0: |z_i| ≤ l1_i
    h(x) = Σ_g l1_g ‖x_g‖₂                           h*(z) = 0 while ‖z_g‖₂ ≤ l1_g

A coordinate with l1 = l2 = 0 is free: its dual constraint is the equation z_i = 0, which scaling cannot repair.

**The proof.** A feasible dual point bounds the optimum from below, so P(x) − D(y) bounds how far x can be from optimal:

    P(x) = F(Ax − b) + h(x)   ≥   D(y) = −bᵀy − h*(−Aᵀy)       for every y in the dual ball of F

Any y becomes feasible: first made orthogonal to the columns of the free (unpenalised) coordinates, then scaled down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
from scipy.linalg import orth

from sparsetd.solvers.mean import Linear, gathered
from sparsetd.system import Array

# "rmspbe" is the Euclidean norm in the metric of C = E[φφᵀ]: the system is whitened (`scaling`), and then m is 2.
RMSPBE = "rmspbe"
DEPENDENT = 1e-12  # a direction of the free columns below this share of their largest one is rounding
_ORDERS: dict[object, float] = {1: 1.0, 2: 2.0, "inf": np.inf, np.inf: np.inf, RMSPBE: 2.0}


@dataclass(frozen=True)
class FitNorm:
    """F(r) = scale · ‖r‖_m."""

    m: float = 2.0
    scale: float = 1.0

    @classmethod
    def of(cls, order: object, scale: float = 1.0) -> FitNorm:
        if order not in _ORDERS:
            raise ValueError(f'fit_norm must be 1, 2, "inf" or "rmspbe", got {order!r}')
        return cls(_ORDERS[order], scale)

    def value(self, r: Array) -> float:
        return self.scale * float(np.linalg.norm(r, self.m))

    def dual_norm(self, y: Array) -> float:
        """‖y‖_n / c: at most 1 inside the dual ball."""
        return float(np.linalg.norm(y, {1.0: np.inf, 2.0: 2, np.inf: 1}[self.m])) / self.scale

    def project(self, y: Array) -> Array:
        """Π(y): the point of the dual ball nearest to y."""
        if self.m == 1.0:
            return np.clip(y, -self.scale, self.scale)
        if self.dual_norm(y) <= 1.0:
            return y
        if self.m == 2.0:
            return np.asarray(y * (self.scale / np.linalg.norm(y)))
        return np.asarray(np.sign(y) * np.maximum(np.abs(y) - _threshold(np.abs(y), self.scale), 0.0))

    def prox(self, v: Array, step: float) -> Array:
        return np.asarray(v - step * self.project(v / step))

    def jacobian(self, v: Array, step: float) -> tuple[Array, Array]:
        """(a, u) with diag(a) + uuᵀ an element of the generalised Jacobian of the prox at v."""
        inside, zero = self.dual_norm(v / step) <= 1.0, np.zeros_like(v)
        if self.m == 1.0:
            return (np.abs(v) > step * self.scale).astype(np.float64), zero
        if inside:
            return zero, zero
        if self.m == 2.0:
            length = float(np.linalg.norm(v))
            share = step * self.scale / length
            return np.full_like(v, 1.0 - share), np.sqrt(share) * v / length
        kept = np.abs(v) > step * _threshold(np.abs(v) / step, self.scale)
        return 1.0 - kept, np.sign(v) * kept / np.sqrt(max(kept.sum(), 1))


def _threshold(magnitude: Array, radius: float) -> float:
    """The t ≥ 0 with Σ max(|y_i| − t, 0) = radius, by sorting."""
    ordered = -np.sort(-magnitude)
    candidates = (np.cumsum(ordered) - radius) / np.arange(1, len(ordered) + 1)
    return float(candidates[np.nonzero(ordered > candidates)[0][-1]])


def without_w(order: object, eta: float) -> float:
    """The c in ‖[ηu; u]‖_m = c‖u‖_m: without w, both halves of the system are the same, one of them times η.

    The projected Bellman error is measured as it is: c = 1.
    """
    return 1.0 if order == RMSPBE else FitNorm.of(order).value(np.array([1.0, eta]))


@dataclass(frozen=True, eq=False)
class Terms:
    """Weights of every coordinate of the flat x; `label` names each coordinate's group, or is None."""

    l1: Array
    l2: Array
    label: Array | None = None

    @classmethod
    def of(cls, penalty: Any, n_blocks: int, n_features: int, factor: Array | None = None) -> Terms:
        """Reads a penalty: the separable ones through `shrinkage`, the group penalty through its groups and weights."""
        shrinkage = penalty.shrinkage(n_blocks)
        if shrinkage is not None:
            weight = np.ones(n_features) if factor is None else np.asarray(factor, dtype=np.float64)
            l1, l2 = (np.outer(part, weight).ravel() for part in shrinkage)
            return cls(l1, l2)
        if not hasattr(penalty, "groups"):
            raise TypeError(
                f"a certificate needs the conjugate of the penalty, which {type(penalty).__name__} does not have: "
                "use L1, Ridge, ElasticNet or GroupL1"
            )
        groups = np.asarray(penalty.groups)
        l1 = penalty.group_weights(n_blocks, factor)[:, groups].ravel()
        label = (np.arange(n_blocks)[:, None] * (groups.max() + 1) + groups).ravel()
        return cls(l1, np.zeros_like(l1), label)

    def __getitem__(self, index: Array) -> Terms:
        label = None if self.label is None else np.unique(self.label[index], return_inverse=True)[1]
        return Terms(self.l1[index], self.l2[index], label)

    @property
    def free(self) -> Array:
        return np.flatnonzero((self.l1 == 0) & (self.l2 == 0))

    def magnitude(self, z: Array) -> Array:
        """|z_i|, or ‖z_g‖₂ for every member of the group g."""
        if self.label is None:
            return np.abs(z)
        return np.asarray(np.sqrt(np.bincount(self.label, z**2))[self.label])

    def value(self, x: Array) -> float:
        if self.label is None:
            return float(self.l1 @ np.abs(x) + 0.5 * self.l2 @ x**2)
        first = np.unique(self.label, return_index=True)[1]
        return float(self.l1[first] @ self.magnitude(x)[first])

    def prox(self, v: Array, step: Array | float) -> Array:
        return np.asarray(self._shrink(v, step) * v)

    def _shrink(self, v: Array, step: Array | float) -> Array:
        """The factor in [0, 1] by which the prox multiplies each coordinate."""
        size = self.magnitude(v)
        excess = np.maximum(size - step * self.l1, 0.0)
        return np.asarray(excess / np.where(size > 0, size, 1.0) / (1.0 + step * self.l2))

    def conjugate(self, z: Array) -> float:
        """h*(z) for a z that satisfies the constraints of the coordinates with l2 = 0."""
        bent = self.l2 > 0
        return float(np.sum(np.maximum(np.abs(z[bent]) - self.l1[bent], 0.0) ** 2 / (2 * self.l2[bent])))

    def root_columns(self, A: Array, v: Array, step: Array) -> Array:
        """Columns R with R Rᵀ = A diag(step) J Aᵀ, where J is a generalised Jacobian of the prox at v."""
        size, shrink = self.magnitude(v), self._shrink(v, step)
        active = np.flatnonzero(size > step * self.l1)
        columns = A[:, active] * np.sqrt(step / (1.0 + step * self.l2))[active]
        if self.label is None:
            return np.asarray(columns)
        # On a group J has eigenvalue 1 along v_g and `shrink` across it.
        root, unit = np.sqrt(shrink[active]), v[active] / size[active]
        label = np.unique(self.label[active], return_inverse=True)[1]
        along = np.zeros((label.max(initial=-1) + 1, len(A)))
        np.add.at(along, label, (columns * unit).T)
        return np.asarray(columns * root + along[label].T * ((1.0 - root) * unit))


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
    """min_x F(Ax − b) + h(x), with the work that was done on it: products, and the gap after every round of a solver.

    `history` has the relative gap and the number of coordinates at work. `until` is when a solver must stop.
    """

    A: Linear
    norm: FitNorm
    terms: Terms
    until: float = np.inf
    n_applied: int = 0
    n_adjoint: int = 0
    n_columns: int = 0
    history: dict[str, list[float]] = field(default_factory=lambda: {"relative_gap": [], "n_working": []})
    _free: tuple[Array, Array] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if len(self.terms.free):
            Q = orth(gathered(self.A, self.terms.free), rcond=DEPENDENT)
            self._free = Q, np.column_stack([self.A.adjoint(q) for q in Q.T]) if Q.size else Q

    def dual(self, y: Array, z: Array) -> float:
        """D(y) of a feasible y with z = Aᵀy."""
        return -float(self.A.b @ y) - self.terms.conjugate(-z)

    def point(self, x: Array, y: Array, Ax: Array | None = None, z: Array | None = None) -> Point:
        """The certified pair of (x, y): y is made feasible, the products are computed unless given."""
        Ax = self.apply(x) if Ax is None else Ax
        z = self.adjoint(y) if z is None else z
        if self._free is not None:
            Q, AtQ = self._free
            along = Q.T @ y
            y, z = y - Q @ along, z - AtQ @ along
        hard = (self.terms.l2 == 0) & (self.terms.l1 > 0)  # these bound |z_i| by l1_i, which scaling achieves
        excess = self.terms.magnitude(z)[hard] / self.terms.l1[hard]
        scale = 1.0 / max(1.0, self.norm.dual_norm(y), float(excess.max(initial=0.0)))
        y, z = scale * y, scale * z
        primal = self.norm.value(Ax - self.A.b) + self.terms.value(x)
        return Point(x, y, Ax, z, primal, self.dual(y, z), self.norm.value(self.A.b))

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

    @property
    def late(self) -> bool:
        return monotonic() > self.until

    def note(self, point: Point, n_working: int) -> None:
        """Add a round to the history."""
        self.history["relative_gap"].append(point.relative_gap)
        self.history["n_working"].append(float(n_working))
