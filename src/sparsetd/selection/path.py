"""The solutions for a whole range of ρ_θ, and the value of ρ_θ that does best on unseen episodes.

**Held out.** For each fold, the path is followed on the other folds, and LSTD is fitted there on each support S(ρ). Its
error on the held-out rows is

    MSPBE = vᵀC⁺v,    v = mean of e_U δ,   C = mean of φ_U φ_Uᵀ

where U is the union of the supports, the same for every ρ, so that the errors can be compared. This needs no second
sample of the successor, and at the truth it is only noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from sparsetd import plots
from sparsetd._tools.frames import ROWS, Framed, frame
from sparsetd._tools.progress import track
from sparsetd.estimators.sparse_td import ExactTD, SparseTD
from sparsetd.selection.moments import lengths, weighted_products
from sparsetd.solvers.mean import selected_rows
from sparsetd.solvers.saddle import SUPPORT_TOLERANCE, Family, rho_grid
from sparsetd.system import COLUMNS, Array, Batch, Table


@dataclass(frozen=True, eq=False)
class SparsePath(Framed):
    """Hold the solutions of `SparseTD` for falling penalties, one column of `coefs` for each.

    `rhos` are the penalties ρ_θ, `dual_gaps` the duality gaps of the solutions, and θ = 0 from `rho_max` on.

    See also `sparse_td_path`: computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import sparse_td_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 10))
    >>> y = 2.0 * X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=400)
    >>> path = sparse_td_path(X, y, gamma=0.0, n_rhos=5)
    >>> path.coefs.shape, int(path.n_active[0])
    ((10, 5), 0)
    >>> path.to_frame().shape
    (5, 11)
    """

    rhos: Array
    coefs: Array  # (n_features, n_rhos)
    dual_gaps: Array
    rho_max: float

    @property
    def n_active(self) -> Array:
        return np.asarray(np.count_nonzero(self.coefs, axis=0))

    def __repr__(self) -> str:
        span, most = f"{self.rhos[0]:.3g} to {self.rhos[-1]:.3g}", f"{self.n_active.max()} of {len(self.coefs)}"
        return f"SparsePath({len(self.rhos)} penalties from {span}, up to {most} features)"

    def plot(self, names: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Weights against the penalty, one line per feature; returns the axes."""
        return plots.path(self, names, ax)

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """One row per penalty, one column per feature, as a pandas (or polars) frame."""
        known = [f"x{j}" for j in range(len(self.coefs))] if names is None else names
        return frame({"penalty": self.rhos, **dict(zip(known, self.coefs, strict=True))})

    def _first_rows(self) -> Any:
        """Every few penalties: there may be thousands of features, so their number is shown."""
        every = slice(None, None, -(-len(self.rhos) // ROWS))
        return frame({"penalty": self.rhos[every], "features": self.n_active[every]})


def sparse_td_path(
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    rhos: Sequence[float] | None = None,
    n_rhos: int = 50,
    eps: float = 1e-2,
    **parameters: Any,
) -> SparsePath:
    """Solve `SparseTD` for falling penalties, each solution the start of the next; to see which features enter when.

    θ(ρ) = argmin ‖Ax − b‖_m + ρ‖θ‖₁ (+ ρ_w‖w‖₁) for falling ρ.

    Parameters
    ----------
    X, y, X_next
        The rows, as in `SparseTD.fit`.
    rhos : sequence of float or None
        The values of ρ_θ; None: `n_rhos` of them, log-spaced from ρ_max, where θ = 0, to eps·ρ_max.
    **parameters
        `ratio`, `discount`, `start` and `interest` of the rows, and parameters of `SparseTD` except rho_theta and
        refit.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import sparse_td_path
    >>> X, y = np.eye(3), np.array([0.0, 0.0, 1.0])
    >>> sparse_td_path(X, y, gamma=0.5, n_rhos=4, eps=0.1).n_active
    array([0, 2, 3, 3])
    """
    return path_on(*model_and_rows(X, y, X_next, parameters), rhos, n_rhos, eps)


def model_and_rows(X: Any, y: Any, X_next: Any, parameters: dict[str, Any]) -> tuple[SparseTD, Batch]:
    """The model with these parameters, and the rows with the columns of `fit` that are among them."""
    columns = {name: parameters.pop(name, None) for name in COLUMNS}
    model = SparseTD(**parameters)
    return model, model._batch(X, y, X_next, **columns, reset=True)


def path_on(
    model: ExactTD,
    batch: Batch,
    rhos: Sequence[float] | None,
    n_rhos: int = 50,
    eps: float = 1e-2,
    tol: float | None = None,
) -> SparsePath:
    """The path of a model on the rows of a batch, the largest weight first, without the intercept."""
    family, _, units = model._family(batch)
    grid = rho_grid(family.rho_max(), n_rhos, eps) if rhos is None else np.asarray(rhos, dtype=np.float64)
    falling = np.sort(grid)[::-1]
    points = list(family.solutions(falling, model.tol if tol is None else tol))
    thetas = units.back(np.stack([point.x[-batch.n_features :] for point in points]))
    gaps = np.array([point.gap for point in points])
    return SparsePath(falling, thetas[:, : model.n_features_in_].T, gaps, family.rho_max())


def rho_max(X: Any, y: Any, X_next: Any = None, **parameters: Any) -> float:
    """Return the least penalty at which `SparseTD` keeps no penalised feature: where a grid of penalties begins.

    ρ_max = max_i |(Aᵀb)_i| / ‖b‖₂ for m = 2. It takes the log and the parameters as `sparse_td_path` does.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import rho_max, sparse_td_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 10))
    >>> y = 2.0 * X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=400)
    >>> top = rho_max(X, y, gamma=0.0)
    >>> sparse_td_path(X, y, gamma=0.0, rhos=[1.01 * top, 0.99 * top]).n_active
    array([0, 1])
    """
    model, batch = model_and_rows(X, y, X_next, parameters)
    return model._family(batch)[0].rho_max()


# A fold follows its path until this many features beyond twice the best support have entered: the error is projected on
# the union of the supports, so what has not entered yet cannot be missed.
MARGIN = 20
SHARE = 0.9  # of the way from the error of θ = 0 down to the best, see `choose`


def choose(errors: Array, one_standard_error: bool = True) -> int:
    """The index of the best ρ_θ, or of the largest one within a standard error of it, from the errors of every fold.

    The standard error is that of the difference to the best, fold by fold: errors that all ρ_θ share cancel. With few
    or unequal folds it may be so large that θ = 0 qualifies, so a share of the way down (`SHARE`) is required too.
    """
    mean = errors.mean(axis=1)
    best = int(np.argmin(mean))
    if not one_standard_error or best == 0:
        return best
    excess = errors[: best + 1] - errors[best]
    error = excess.std(axis=1, ddof=1) / np.sqrt(excess.shape[1])
    near = excess.mean(axis=1) <= np.minimum(error, (1.0 - SHARE) * (mean[0] - mean[best]))
    return int(np.argmax(near))


def held_out_errors(family: Callable[[int], Family], sums: FoldSums, rhos: Array, rho_max: float | None) -> Array:
    """The held-out error of the refitted support for every ρ_θ and fold; `family(k)` poses the problems without fold k.

    With `rho_max`, that of all rows, each fold takes the same shares of its own ρ_max, so that the first value selects
    nothing in any fold.
    """
    columns = []
    for k in track(range(len(sums.n_rows)), "folds"):
        others = family(k)
        share = 1.0 if rho_max is None else (others.rho_max() / rho_max or 1.0)
        columns.append(fold_errors(others, sums, k, share * rhos))
    return np.column_stack(columns)


def fold_errors(family: Family, sums: FoldSums, k: int, rhos: Array) -> Array:
    """Errors on fold k of the supports along the path without it, refitted there, as long as they may still improve.

    The errors are projected on the union of the supports so far, so each new support changes all of them. Where the
    fold stops, its last error goes on.
    """
    d, n_kept = sums.batch.n_features, len(sums.batch) - sums.n_rows[k]
    supports: list[Array] = []
    thetas: list[Array] = []
    for point in family.solutions(rhos, SUPPORT_TOLERANCE, polish=False):
        support = np.flatnonzero(point.x[-d:])
        sums.cover(support, family.columns.index % d)  # the solver looks at what may enter next
        supports.append(support)
        thetas.append(sums.without(k, support))
        union = np.unique(np.concatenate(supports))
        errors = sums.errors(k, union, supports, thetas)
        best = len(supports[int(np.argmin(errors))])
        if len(union) >= 2 * best + MARGIN or 4 * len(union) > n_kept:
            break
    return np.append(errors, np.full(len(rhos) - len(errors), errors[-1]))


@dataclass(eq=False)
class FoldSums:
    """[A b] and C of every fold, for the features of `index` brought to unit length."""

    table: Table
    batch: Batch
    fold: Array
    index: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def __post_init__(self) -> None:
        self.n_rows = np.bincount(self.fold)
        self.systems, self.C = np.zeros((2, len(self.n_rows), 0, 1))

    def cover(self, features: Array, more: Array) -> None:
        """Form the sums again unless they cover these features; `more` are added then, as they may be next."""
        if np.isin(features, self.index).all():
            return
        self.index = reduce(np.union1d, (self.index, features, more))
        rows = selected_rows(self.table, self.batch, self.index)
        phi, psi, e = (part / lengths(rows[0]) for part in rows)
        p = len(self.index)
        self.systems, self.C = np.zeros((2, len(self.n_rows), p, p + 1))
        for left, right, into in ((e, phi - psi, self.systems), (phi, phi, self.C)):
            weighted_products(left, right, self.batch.reward, None, self.fold, into)

    def without(self, k: int, support: Array) -> Array:
        """LSTD on the support, from the rows that are not in fold k; the shortest solution if singular."""
        at = np.searchsorted(self.index, support)
        rest = self.systems[np.arange(len(self.n_rows)) != k][:, at].sum(axis=0)
        return np.asarray(np.linalg.lstsq(rest[:, at], rest[:, -1], rcond=None)[0])

    def errors(self, k: int, union: Array, supports: list[Array], thetas: list[Array]) -> Array:
        """vᵀC⁺v of each fit on fold k, with v = mean of e δ and C = mean of φφᵀ over the features of `union`."""
        at, n = np.searchsorted(self.index, union), self.n_rows[k]
        v, C = np.tile(self.systems[k, at, -1:], len(thetas)) / n, self.C[k][np.ix_(at, at)] / n
        for column, support, theta in zip(v.T, supports, thetas, strict=True):
            column -= self.systems[k][np.ix_(at, np.searchsorted(self.index, support))] @ theta / n
        return np.asarray(np.einsum("ij,ij->j", v, np.linalg.lstsq(C, v, rcond=1e-10)[0]))
