"""SparseTDSelect: SparseTD that chooses its features itself. The estimator to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsetd.estimators.base import Triple
from sparsetd.estimators.sparse_td import ExactTD
from sparsetd.operators import td
from sparsetd.penalties import L1, GroupL1
from sparsetd.selection.elimination import MeanSystem, select
from sparsetd.selection.episodes import clusters, episode_folds
from sparsetd.selection.path import FoldSums, SparsePath, choose, held_out_errors, path_on
from sparsetd.solvers.mean import mean_operator, selected_rows
from sparsetd.solvers.rows import RowState
from sparsetd.solvers.saddle import SUPPORT_TOLERANCE, Family, FitNorm, Saddle, Units, rho_grid
from sparsetd.system import Array, Batch, Solution, Table

ROWS_EACH = 4  # with fewer rows per feature, the path first proposes some features
FORMED = 2_500  # features up to which their sums are formed
PROPOSED_EACH = 20  # rows for each feature that the path proposes


class SparseTDSelect(ExactTD):
    """Choose features without hand-tuning and solve LSTD on them: works off-policy; the batch method to begin with.

    By default there are two stages (see `sparsetd.selection.elimination`). Backward elimination in the regression of
    the reward finds the features that predict it; a score test of the TD error, clustered by episode, then adds those
    that lead to later reward, and a backward pass drops those that are not needed. Nothing is drawn at random, and
    neither units nor the order of the episodes matter. With more features than a quarter of the rows the path in the
    Euclidean norm first proposes as many as a twentieth of the rows. With `choice="best"` or `"one_standard_error"` ρ_θ
    is chosen by cross-validation instead: each fold selects features on the other episodes, refits them by LSTD there,
    and is judged by the projected Bellman error on its own. `gamma` is the only argument that it needs.

    Parameters
    ----------
    choice : {"elimination", "best", "one_standard_error"}
        How the features are chosen; the last two take the ρ_θ with the least held-out error, or the largest one within
        a standard error of it. Groups are never taken apart, so with `groups` the last is used.
    n_folds : int
        Folds of a cross-validation. Whole episodes (see `start` in `fit`) go to a fold; a log with fewer episodes is
        cut into blocks of consecutive rows.
    n_rhos, eps : int, float
        The path has n_rhos values, log-spaced from ρ_max to eps·ρ_max. A fold stops early where nothing improves.
    rhos : sequence of float or None
        The values of ρ_θ themselves.
    refit : bool
        Whether `coef_` is LSTD on the kept features (default), or the penalised solution.

    Attributes
    ----------
    rho_theta_, rho_max_ : float
        The weight that was chosen (after elimination: the largest of the path that lets in every feature that was
        kept), and the one at which θ = 0.
    rhos_ : array of shape (n_rhos,)
        The path.
    cv_errors_ : array of shape (n_rhos, n_folds)
        The held-out errors of a cross-validation; where a fold stopped, its last one goes on.
    dual_gap_, objective_, n_applications_, absorbed_
        As in `SparseTD`, of the problem with the chosen ρ_θ on all rows. They belong to its solution `coef_last_`, not
        to `coef_`, which LSTD computes on the features that were kept.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import SparseTDSelect
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(500, 40))
    >>> y = 2.0 * X[:, 3] + 0.1 * rng.normal(size=500)
    >>> model = SparseTDSelect(gamma=0.0).fit(X, y)
    >>> np.flatnonzero(model.support_), model.coef_[3].round(1)
    (array([3]), np.float64(2.0))
    """

    n_folds: int = 5
    n_rhos: int = 30
    eps: float = 1e-2
    rhos: Sequence[float] | None = None
    choice: Literal["elimination", "best", "one_standard_error"] = "elimination"
    refit: bool = True

    def triple(self) -> Triple:
        table, penalty, solver = self._posed(1.0)
        return table, penalty, Chosen(**vars(solver), by=self)

    def path(self, rhos: Sequence[float], tol: float = 1e-4) -> SparsePath:
        """The solutions on all rows of the fit at other values of ρ_θ, to a relative duality gap of `tol`."""
        check_is_fitted(self, "_state", msg="%(name)s.path needs the rows it was fitted on: call fit first")
        return path_on(self, self._state.batch(), rhos, tol=tol)

    def selected(self, batch: Batch) -> Array:
        """The features that elimination keeps of these rows, without a fit."""
        family, even, _ = self._family(batch)
        return chosen_features(td(self.lam), even, family)

    def _advice(self, penalty: Any) -> str:  # noqa: ARG002 (the weight in it is not the one that was chosen)
        nothing = (
            "selected no feature: none stands out from chance in these rows; try features that say more about the "
            "reward, or more rows"
        )
        return "" if self.support_.any() else nothing


@dataclass(frozen=True)
class Chosen(Saddle):
    """The exact solver with the features chosen when the result is asked for; the penalty's own ρ_θ is not used."""

    by: Any = None  # the estimator, which says how to choose
    kept: Array | None = field(default=None, compare=False)  # chosen elsewhere: the state does not hold all rows

    def result(self, state: RowState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        batch, units = self.even(state.batch())
        family, by = self.family(batch, table, penalty, factor), self.by
        rho_max, kept = family.rho_max(), None
        rhos = rho_grid(rho_max, by.n_rhos, by.eps) if by.rhos is None else np.sort(np.array(by.rhos, float))[::-1]
        found: dict[str, Any] = {"rho_max": rho_max, "rhos": rhos}
        if by.choice == "elimination" and not isinstance(penalty, GroupL1):
            kept = chosen_features(table, batch, family) if self.kept is None else self.kept
            rho = first_with(kept, family, rhos if rho_max > 0 else np.ones(1))
        elif rho_max == 0.0 or len(batch) < 2:  # θ = 0 for every ρ_θ, or nothing to hold out
            rho = 0.1 * rho_max or 1.0
            found |= {"rhos": np.array([rho]), "cv_errors": np.zeros((1, by.n_folds))}
        else:
            fold, top = episode_folds(batch.start, min(by.n_folds, len(batch))), rho_max if by.rhos is None else None
            others = partial(self.family, batch, table, penalty, factor)
            errors = held_out_errors(lambda k: others(fold != k), FoldSums(table, batch, fold), rhos, top)
            rho, found["cv_errors"] = float(rhos[choose(errors, by.choice != "best")]), errors
        solution = self.solution(family.problem(rho), state, table, batch, units, kept)
        solution.extras |= {"rho_theta": rho, **found}
        return solution


def first_with(kept: Array, family: Family, rhos: Array) -> float:
    """The largest of falling ρ_θ whose solution has every kept feature; the last one if there is none."""
    for rho, point in zip(rhos, family.solutions(rhos, SUPPORT_TOLERANCE, polish=False), strict=True):
        if np.all(point.x[-len(family.free) :][kept] != 0):
            return float(rho)
    return float(rhos[-1])


def chosen_features(table: Table, batch: Batch, family: Family) -> Array:
    """The selection of `elimination` among all features, or those that the path proposes where rows are too few."""
    d, n = batch.n_features, len(batch)
    columns = np.arange(d)
    if d > min(n // ROWS_EACH, FORMED):
        columns = np.flatnonzero(family.last_support(max(n // PROPOSED_EACH, 1)))
    phi, psi, e = selected_rows(table, batch, columns)
    cluster, reward = clusters(batch.start), batch.ratio * batch.reward
    square, counts = phi.T @ phi / n, (n, int(cluster[-1]) + 1, d)
    system = MeanSystem(
        e.T @ (phi - psi) / n, e.T @ batch.reward / n, square, family.free[columns], *counts, earned=phi.T @ reward / n
    )
    begins = np.flatnonzero(np.diff(cluster, prepend=-1))

    def omegas(s: Array, n_by_row: int) -> tuple[Array, Array]:
        few, summed = s[:, :n_by_row], np.add.reduceat(s, begins)
        return few.T @ few / n, summed.T @ summed / n

    def scores(theta: Array, some: Array, n_by_row: int) -> tuple[Array, Array]:
        return omegas(e[:, some] * (batch.reward - (phi - psi)[:, some] @ theta)[:, None], n_by_row)

    def reward_scores(theta: Array, some: Array, n_by_row: int) -> tuple[Array, Array]:
        return omegas(phi[:, some] * (reward - phi[:, some] @ theta)[:, None], n_by_row)

    return columns[select(system, scores, reward_scores)]


def dual_support(batch: Batch, start: Array, limit: int) -> Array:
    """At most `limit` features of the sparse dual u in Aᵀu = c, c the mean first state, for columns of one scale.

    Aᵀ is the mean system of the transposed table, so it is the same certified problem.
    """
    units = Units.of(batch.phi, False)
    table = td()
    system = mean_operator(replace(table, M=table.M.T), units.applied(batch))
    system.b = np.asarray(start).ravel() / units.scale
    return np.flatnonzero(Family(system, FitNorm.of(2), L1(1.0), 1).last_support(limit))
