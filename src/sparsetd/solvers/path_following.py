"""Methods that follow a path of active sets: LARS-TD, LCP-TD, LSTD with an ℓ1 penalty, and the greedy OMP-TD.

**The path.** For data that move with one number t, b(t) = b + t ḃ and bounds f(t) = f + t ḟ ≥ 0, follow the w(t) with

    c = b(t) − A w,     |c_i| ≤ f_i(t),     c_i = sign(w_i) f_i(t) where w_i ≠ 0.

While the active set I and its signs s hold, w_I = A_II⁻¹(b_I(t) − s f_I(t)) is linear in t, so the next event is
where a c_i reaches its bound (i enters) or a w_i reaches zero (i leaves). LARS-TD lets the bounds fall; LCP-TD keeps
them and moves b from a system that the warm start solves to the given one. LSTD with an ℓ1 penalty is a Lasso, so it is
the same path on its normal equations.

t falls while det A_II has the sign it started with, and rises while it has the other: at a negative pivot the path
turns round. In a P-matrix all pivots are positive and t falls all the way, so the end is reached and is the only
solution. Otherwise the path may turn, and may leave on a ray without reaching the end: both are counted and reported.

**Greedy.** OMP-TD uses the same active set, but nothing is shrunk and nothing leaves.

References
----------
Kolter & Ng (2009), LARS-TD. Johns, Painter-Wakefield & Parr (2010), LCP-TD. Painter-Wakefield & Parr (2012), OMP-TD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr_delete, qr_insert, solve_triangular

from sparsetd.solvers.mean import Linear, MeanOperator, gathered, second_moments
from sparsetd.solvers.rows import Posed, RowSolver
from sparsetd.solvers.saddle.scaling import inverse_root
from sparsetd.system import Array, Solution, dense

Column = Callable[[int], Array]  # i ↦ A[:, i]

PIVOT_TOLERANCE = 1e-11  # a pivot below this share of its own terms is rounding: the column depends on the active ones


class ActiveSet:
    """A_II = QR for the indices I in order of entry, with the columns A[:, I] kept.

    Adding or dropping an index is two Givens sweeps, O(|I|²), instead of a new factorisation, O(|I|³). Orthogonal
    updates are backward stable, unlike updates of an inverse or of an LU without pivoting, and A_II is not symmetric,
    so there is no Cholesky factor to update. The columns are computed once, when an index enters: with A given by rows
    that is O(Nd), and A itself is never formed.
    """

    def __init__(self, column: Column, n_features: int, indices: Iterable[int] = ()) -> None:
        self._column = column
        self._columns = np.empty((n_features, 8), order="F")
        self._Q, self._R = np.ones((0, 0)), np.ones((0, 0))
        self.indices: list[int] = []
        for i in indices:
            self.add(int(i))

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def columns(self) -> Array:
        """A[:, I]."""
        return self._columns[:, : len(self.indices)]

    def solve(self, rhs: Array) -> Array:
        """A_II⁻¹ rhs."""
        if not self.indices:
            return np.zeros_like(rhs)
        return np.asarray(solve_triangular(self._R, self._Q.T @ rhs, check_finite=False))

    def add(self, i: int) -> float:
        """I ← I ∪ {i}; returns the pivot A_ii − A_iI A_II⁻¹ A_Ii, or 0 if it is rounding and i therefore stays out.

        det A_{I∪i} = pivot · det A_II, so in a P-matrix every pivot is positive.
        """
        column, row, p = self._column(i), self.columns[i].copy(), len(self)
        correction = self.solve(column[self.indices])
        pivot = float(column[i] - row @ correction)
        if abs(pivot) <= PIVOT_TOLERANCE * (abs(column[i]) + float(np.abs(row) @ np.abs(correction))):
            return 0.0
        if p == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)], axis=1)
        self._columns[:, p] = column
        if p == 0:
            self._Q, self._R = np.ones((1, 1)), column[[i]][:, None]
        else:
            Q, R = qr_insert(self._Q, self._R, column[self.indices], p, "col", check_finite=False)
            self._Q, self._R = qr_insert(Q, R, np.append(row, column[i]), p, "row", check_finite=False)
        self.indices.append(i)
        return pivot

    def drop(self, slot: int) -> float:
        """I ← I without its entry number `slot`; returns the pivot that this entry had."""
        unit = np.zeros(len(self))
        unit[slot] = 1.0
        pivot = 1.0 / float(self.solve(unit)[slot])
        if len(self) > 1:
            Q, R = qr_delete(self._Q, self._R, slot, 1, "row", check_finite=False)
            self._Q, self._R = qr_delete(Q, R, slot, 1, "col", check_finite=False)
        self._columns[:, slot : len(self) - 1] = self._columns[:, slot + 1 : len(self)].copy()
        del self.indices[slot]
        return pivot


RATE_TOLERANCE = 1e-12  # a gap that closes at less than this share of its terms runs parallel to its bound
EXCESS_TOLERANCE = 1e-7  # |c_i| may exceed its bound by this share of max |b|


@dataclass
class Walk:
    """The knots of a path (t, I and w_I at each) and how it ended.

    `status`: "converged" (the end was reached), "step_limit", "ray" (the path left for t = ∞: A is no P-matrix) or
    "singular" (columns that depend on the active ones had to stay out, and their bounds are violated). A greedy path
    always ends with its last knot; "feature_limit" says that it was cut short.
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


def follow(active: ActiveSet, sign: Array, data: Array, slope: Array, t: float, t_end: float, max_steps: int) -> Walk:
    """Walk from the solution with this active set and these signs (0 for unpenalised features) at t down to t_end.

    `data` are b and f and `slope` are ḃ and ḟ; f = ḟ = 0 leaves a feature unpenalised, hence always active. Advances
    `active` and the signs of its features. A step costs one column of A and O(d|I| + |I|²).
    """
    walk, direction, parallel, born = Walk(), 1.0, np.zeros(len(sign), dtype=bool), np.full(len(sign), np.nan)
    while True:
        # Everything is computed afresh at t, so that rounding does not add up along the path.
        idx, s = active.indices, sign[active.indices]
        (b, bound), (b_slope, bound_slope) = data + t * slope, direction * slope
        both = active.solve(np.column_stack([b[idx] - s * bound[idx], b_slope[idx] - s * bound_slope[idx]]))
        products, (w, w_slope) = active.columns @ both, both.T
        c, c_slope = b - products[:, 0], b_slope - products[:, 1]
        walk.record(t, idx, w, born)
        if walk.n_steps == max_steps:
            return walk
        outside, tolerance = ~parallel, RATE_TOLERANCE * (np.abs(bound_slope) + np.abs(c_slope))
        outside[idx] = False
        events = [  # an index enters with sign 1 or −1, or a slot of the active set leaves (0)
            (_steps(bound - c, bound_slope - c_slope, outside, tolerance), 1.0),
            (_steps(bound + c, bound_slope + c_slope, outside, tolerance), -1.0),
            (_steps(s * w, s * w_slope, s != 0, np.zeros(len(s))), 0.0),
        ]
        nearest = [(float(steps.min()), int(np.argmin(steps)), sigma) for steps, sigma in events if len(steps)]
        step, index, new_sign = min(nearest)
        if direction > 0 and t - t_end <= step:
            return _finish(walk, active, data + t_end * slope, sign, t_end, born)
        if not np.isfinite(step):
            walk.status = "ray"
            return walk
        t, walk.n_steps = t - direction * step, walk.n_steps + 1
        if new_sign:
            born[index] = t
            pivot = active.add(index)
            if pivot:
                sign[index] = new_sign
            parallel[index] = not pivot  # it depends on the active ones and stays out
        else:
            pivot = active.drop(index)
            parallel[:] = False  # without this column, those that depended on it may enter again
        if pivot < 0:
            direction, walk.n_turns = -direction, walk.n_turns + 1


def _steps(gap: Array, slope: Array, eligible: Array, tolerance: Array) -> Array:
    """The distance in t until each gap is 0; infinite for gaps that do not close."""
    closing = eligible & (slope > tolerance)
    return np.divide(np.maximum(gap, 0.0), slope, where=closing, out=np.full(len(gap), np.inf))


def _finish(walk: Walk, active: ActiveSet, end: Array, sign: Array, t: float, born: Array) -> Walk:
    """The last knot, solved afresh in the order of the features: the same bits whichever way the path came."""
    order, (b, bound) = np.argsort(active.indices), end
    idx, columns = np.array(active.indices, dtype=np.intp)[order], active.columns[:, order]
    w = np.linalg.solve(columns[idx], b[idx] - sign[idx] * bound[idx]) if len(idx) else np.zeros(0)
    walk.record(t, idx.tolist(), w, born)
    excess = float(np.max(np.abs(b - columns @ w) - bound, initial=0.0))
    walk.status = "singular" if excess > EXCESS_TOLERANCE * float(np.abs(b).max(initial=0.0)) else "converged"
    return walk


@dataclass(frozen=True)
class Lars(RowSolver):
    """Follows the whole path of the Lasso-TD fixed point, from no feature down to the penalty that is asked for.

    θ with θ = argmin_u (1/2N)‖Φu − (R + ΨΘ)‖² + ρ‖u‖₁ at u = θ, for every ρ from ρ_max down to the one asked for.

    That is |b − Aθ|_i ≤ ρ, with b_i − (Aθ)_i = ρ sign(θ_i) where θ_i ≠ 0, for the means A = (1/N) Σ e(φ − ψ)ᵀ and
    b = (1/N) Σ r e. Not the minimum of anything: A is not symmetric. If A is a P-matrix (all principal minors positive)
    the path exists, is unique and ρ falls along it. If not, ρ may rise on the way (`n_turns` counts the turning points,
    each of them a proof that A is no P-matrix) and the path may end on a ray: then `status` is "ray" and θ is the point
    of the path with the smallest ρ (`rho_reached`). A quadratic term in the penalty, A + κI, is the usual remedy.

    At γ = 0 this is the Lasso, ρ being scikit-learn's `alpha`. `max_steps` bounds the events on the path. A `share` is
    the ρ to be reached as a share of ρ_max, in place of the penalty's.

    See also `sparsetd.LARSTD`: the estimator that takes this solver; `Lcp`: the same fixed point, with warm starts.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Lars())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000
    share: float | None = None

    def solve(self, given: Posed) -> Solution:
        column = ridged_columns(given.system, given.ridge)
        walk = lars_path(column, given.system.b, given.rho, given.factor, self.max_steps, self.share)
        return path_solution(walk, given)


def lars_path(column: Column, b: Array, rho: float, factor: Array, max_steps: int, share: float | None = None) -> Walk:
    """From ρ_max = max_i |b_i|/factor_i, where only features without penalty (factor 0) are active, down to ρ."""
    active, zero = ActiveSet(column, len(b), np.flatnonzero(factor == 0)), np.zeros(len(b))
    c = b - active.columns @ active.solve(b[active.indices])
    penalised = factor > 0
    rho_max = float(np.max(np.abs(c[penalised]) / factor[penalised], initial=0.0))
    rho = rho if share is None else share * rho_max
    data, slope = np.stack([b, zero]), np.stack([zero, factor])
    return follow(active, zero.copy(), data, slope, max(rho, rho_max), rho, max_steps)


def ridged_columns(system: Linear, ridge: Array, through: Callable[[Array], Array] = np.asarray) -> Column:
    """The columns of A + diag(ridge), those of A first taken `through` something."""

    def column(i: int) -> Array:
        out = through(gathered(system, np.array([i]))[:, 0])
        out[i] += ridge[i]
        return out

    return column


def path_solution(walk: Walk, given: Posed, **more: Any) -> Solution:
    """The path as fitted attributes: `knots` (ρ), `path` (one sparse row per knot), `n_active`, and `more` of them."""
    best = int(np.argmin(walk.t)) if walk.status in ("step_limit", "ray") else len(walk.t) - 1
    path = sparse_rows(walk.indices, walk.values, given.state.n_features)
    n_active = np.array([len(i) for i in walk.indices])
    told = {"knots": np.array(walk.t), "path": path, "n_active": n_active, "rho_reached": walk.t[best]}
    told |= {"n_turns": walk.n_turns, **more}
    solution = given.solution(path[[best]].toarray()[0], walk.n_steps, walk.status, **told)
    solution.history = {"rho": list(walk.t), "nonzeros": n_active.astype(float).tolist()}
    return solution


def sparse_rows(indices: list[Array], values: list[Array], n_features: int) -> sp.csr_array:
    """One row per list entry."""
    indptr = np.concatenate([[0], np.cumsum([len(i) for i in indices])])
    return sp.csr_array((np.concatenate(values), np.concatenate(indices), indptr), shape=(len(indices), n_features))


@dataclass(frozen=True)
class Lcp(RowSolver):
    """Solves the Lasso-TD fixed point from a warm start: take it where a nearby solution is known, as in control.

    θ and c = b − Aθ with −ρ ≤ c ≤ ρ, θ_i > 0 ⇒ c_i = ρ, θ_i < 0 ⇒ c_i = −ρ: a complementarity problem with bounds.

    It is solved by a parametric (Lemke-type) path: the system (A, b') that `coef_init` solves exactly is moved along a
    line to the system (A, b), and the solution follows by pivots. So a start whose signs are right costs no pivot at
    all, and a start from the previous policy about as many as there are changes in the active set. From θ = 0 the path
    is LARS-TD's if A is a P-matrix; if not, it often goes on to a solution where that one ends on a ray. If the path
    from the warm start fails, the one from zero is tried.

    See also `Lars`: the same fixed point, with its whole path.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Lcp())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000

    def solve(self, given: Posed) -> Solution:
        column, b, bound = ridged_columns(given.system, given.ridge), given.system.b, given.rho * given.factor
        start = given.state.coef_init
        warm = start is not None and bool(np.any(start))
        walk = lcp_path(column, b, bound, self.max_steps, start if warm else None)
        pivots = walk.n_steps
        if warm and walk.status != "converged":
            walk, warm = lcp_path(column, b, bound, self.max_steps), False
            pivots += walk.n_steps
        theta = np.zeros(len(b))
        theta[walk.indices[-1]] = walk.values[-1]
        return given.solution(theta, pivots, walk.status, n_pivots=pivots, n_turns=walk.n_turns, warm=warm)


def lcp_path(column: Column, b: Array, bound: Array, max_steps: int, start: Array | None = None) -> Walk:
    """From the system that `start` (default: only features without bound are non-zero) solves, at t = 1, to t = 0."""
    begin = np.zeros(len(b)) if start is None else np.array(start, dtype=np.float64)
    active, sign = ActiveSet(column, len(b), np.flatnonzero((bound == 0) | (begin != 0))), np.zeros(len(b))
    sign[active.indices] = np.sign(begin[active.indices])
    sign[bound == 0] = 0.0
    values = begin[active.indices] if start is not None else active.solve(b[active.indices])
    product = active.columns @ values
    c = b - product
    if start is None:  # shrink c until it is inside its bounds: one index enters first, as in LARS-TD
        inside = c * min(1.0, 1.0 / float(np.max(np.abs(c)[bound > 0] / bound[bound > 0], initial=1.0)))
    else:  # c must be at its bound where θ is not zero; elsewhere violated entries start from 0, the worst enters first
        inside = np.where(np.abs(c) <= bound, c, 0.0)
        inside[active.indices] = sign[active.indices] * bound[active.indices]
    data, slope = np.stack([b, bound]), np.stack([inside + product - b, np.zeros(len(b))])
    return follow(active, sign, data, slope, 1.0, 0.0, max_steps)


@dataclass(frozen=True)
class LstdL1(RowSolver):
    """Minimises the squared residual of the LSTD equation plus an l1 penalty, which is convex for every policy.

    min_θ ½‖Aθ − b‖² + ρ‖θ‖₁, a Lasso whose rows are the LSTD equations.

    With `projected` the residual is measured in C⁻¹, C = E[φφᵀ]: ‖Aθ − b‖²_{C⁻¹} is the projected Bellman error, and
    the method is ℓ1-PBR. C⁻¹ is the pseudo-inverse where C is singular, as it always is with more features than rows.

    Convex, unlike Lasso-TD, so it exists for every A and every policy. The whole path is followed on the normal
    equations; their matrix is positive semidefinite, so the path never turns.

    See also `Lars`: the Lasso-TD fixed point, which need not exist off-policy.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.LstdL1())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_steps: int = 1000
    projected: bool = False

    def solve(self, given: Posed) -> Solution:
        system = given.system
        root = _metric(system) if self.projected else None

        def pulled_back(v: Array) -> Array:
            """AᵀC⁻¹v, or Aᵀv."""
            return system.adjoint(v if root is None else root.T @ (root @ v))

        column = ridged_columns(system, given.ridge, pulled_back)
        walk = lars_path(column, pulled_back(system.b), given.rho, given.factor, self.max_steps)
        return path_solution(walk, given)


def _metric(system: Linear) -> Array:
    """W with WᵀW = C⁺, from the eigenvalues of C, or from the singular values of Φ where that has fewer rows."""
    eps = np.finfo(np.float64).eps
    if not isinstance(system, MeanOperator) or len(system.batch) >= system.size:
        C: Any = second_moments(system.batch) if isinstance(system, MeanOperator) else system.C
        return inverse_root(C, len(C) * eps)
    _, sigma, V = np.linalg.svd(dense(system.batch.phi) / np.sqrt(len(system.batch)), full_matrices=False)
    kept = sigma**2 > len(sigma) * eps * sigma[0] ** 2
    return np.asarray(V[kept] / sigma[kept, None])


@dataclass(frozen=True)
class Omp(RowSolver):
    """Chooses features greedily, the most correlated with the residual first, and solves LSTD on the chosen ones.

    Repeat: I ← I ∪ {argmax_i |c_i|/factor_i}, θ_I = A_II⁻¹ b_I, c = b − Aθ, until |c_i| ≤ ρ factor_i for all i.

    Unlike LARS-TD nothing is shrunk and nothing leaves. A column that depends on the chosen ones is passed over.
    `status`: "converged" (all |c_i| are below ρ), "feature_limit" (`max_features` chosen) or "singular" (only dependent
    columns remain above ρ).

    See also `Lars`: features may leave again, and coefficients are shrunk.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LinearTD, penalties, solvers
    >>> from sparsetd.problems import random_mdp
    >>> mdp = random_mdp(np.random.default_rng(0), n_features=10, n_relevant=2)
    >>> rows = mdp.sample(2000, np.random.default_rng(1))
    >>> model = LinearTD(gamma=0.9, penalty=penalties.L1(0.05), solver=solvers.Omp())
    >>> model = model.fit(rows.phi, rows.reward, rows.phi_next)
    >>> np.flatnonzero(model.coef_), np.flatnonzero(mdp.theta_star)
    (array([4, 5]), array([4, 5]))
    """

    max_features: int | None = None

    def solve(self, given: Posed) -> Solution:
        """Knots are at max|c|/factor after each entry, and I is in the order of entry, unpenalised features first."""
        b, factor, limit = given.system.b, given.factor, np.inf if self.max_features is None else self.max_features
        active = ActiveSet(ridged_columns(given.system, given.ridge), len(b), np.flatnonzero(factor == 0))
        walk, eligible, free = Walk(status=""), factor > 0, len(active)
        while not walk.status:
            theta = active.solve(b[active.indices])
            c = np.abs(b - active.columns @ theta) / np.where(factor > 0, factor, np.inf)
            walk.t.append(float(np.max(c, initial=0.0)))
            walk.indices.append(np.array(active.indices, dtype=np.intp))
            walk.values.append(theta)
            if walk.t[-1] <= given.rho:
                walk.status = "converged"
            elif len(active) - free >= limit:
                walk.status = "feature_limit"
            elif not _enter(active, c, eligible, given.rho):
                walk.status = "singular"
        walk.n_steps = len(walk.t) - 1
        return path_solution(walk, given, order=walk.indices[-1])


def _enter(active: ActiveSet, c: Array, eligible: Array, rho: float) -> bool:
    """Let the largest |c_i| above ρ enter that does not depend on the active columns; False if there is none."""
    for i in np.argsort(-np.where(eligible, c, -1.0), kind="stable"):
        if not eligible[i] or c[i] <= rho:
            return False
        eligible[i] = False
        if active.add(int(i)):
            return True
    return False
