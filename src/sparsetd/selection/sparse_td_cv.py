"""SparseTDCV: SparseTD with ρ_θ chosen on held-out episodes. The estimator to begin with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sparsetd.estimators.base import Parts
from sparsetd.estimators.sparse_td import ExactTD
from sparsetd.selection.cross_validation import Curve, held_out_curve
from sparsetd.selection.fold_moments import FoldMoments
from sparsetd.selection.folds import episode_folds
from sparsetd.selection.path import SparsePath, posed_on, solved
from sparsetd.solvers.saddle import ByFold, Family, Matrix, Saddle, mean_operator, rho_grid
from sparsetd.solvers.saddle.solver import SaddleState
from sparsetd.system import Array, Batch, Solution, Table


@dataclass(kw_only=True, eq=False, repr=False)
class SparseTDCV(ExactTD):
    """SparseTD with ρ_θ chosen by cross-validation over episodes, then LSTD on the features it selected.

    Along a path from ρ_max downwards each fold selects features on the other episodes, refits them by LSTD there, and
    is judged by the projected Bellman error on its own. The largest ρ_θ within one standard error of the best is taken.
    Good without arguments but `gamma`.

    Parameters
    ----------
    cv : int
        Number of folds. Whole episodes (see `start` in `fit`) go to a fold; a log with fewer episodes is cut into
        blocks of consecutive rows.
    n_rhos, eps : int, float
        The path has n_rhos values, log-spaced from ρ_max to eps·ρ_max. A fold stops early where nothing improves.
    rhos : sequence of float or None
        The values of ρ_θ themselves.
    one_standard_error : bool
        False takes the best ρ_θ itself: more features.
    refit : bool
        False reports the penalised coefficients.

    Attributes
    ----------
    rho_theta_, rho_max_ : float
        The weight that was chosen, and the one at which θ = 0.
    rhos_, cv_errors_ : array of shape (n_rhos,) and (n_rhos, cv)
        The path and the held-out errors; where a fold stopped, its last one goes on.
    dual_gap_, objective_, n_applications_, absorbed_
        As in `SparseTD`, of the problem with the chosen ρ_θ on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import SparseTDCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 40))
    >>> y = 2.0 * X[:, 3] + 0.1 * rng.normal(size=500)
    >>> model = SparseTDCV(gamma=0.0).fit(X, y)
    >>> np.flatnonzero(model.support_), model.coef_[3].round(1)
    (array([3]), np.float64(2.0))
    """

    rho_w: float | None = None
    cv: int = 5
    n_rhos: int = 30
    eps: float = 1e-2
    rhos: Sequence[float] | None = None
    one_standard_error: bool = True
    refit: bool = True

    def _parts(self) -> Parts:
        table, penalty, solver = self._posed(1.0, self.rho_w)
        rhos = None if self.rhos is None else tuple(self.rhos)
        return table, penalty, Chosen(solver, self.cv, self.n_rhos, self.eps, rhos, self.one_standard_error)

    def path(self, rhos: Sequence[float], tol: float = 1e-4) -> SparsePath:
        """The solutions on all rows of the fit at other values of ρ_θ, to a relative duality gap of `tol`."""
        check_is_fitted(self, "_state", msg="%(name)s.path needs the rows it was fitted on: call fit first")
        table, penalty, chosen = self._parts()
        A = self._state.formed or mean_operator(table, self._state.batch())
        family = posed_on(A, table, penalty, chosen.solver, self._factor(self._state.n_features))
        return solved(family, np.asarray(rhos), tol, self.n_features_in_)

    def _warn(self, penalty: Any) -> None:  # noqa: ARG002 (the weight in it is not the one that was chosen)
        if not self.support_.any():
            warnings.warn(
                "SparseTDCV selected no feature: none lowers the Bellman error of the held-out rows; try features that "
                "say more about the reward, or more rows",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class Chosen:
    """The exact solver with ρ_θ chosen when the result is asked for; the given penalty's own ρ_θ is not used."""

    solver: Saddle
    cv: int
    n_rhos: int
    eps: float
    rhos: tuple[float, ...] | None
    one_standard_error: bool

    def init(self, table: Table, n_features: int, dtype: Any, coef_init: Array | None = None) -> SaddleState:
        return self.solver.init(table, n_features, dtype, coef_init)

    def update(
        self, state: SaddleState, batch: Batch, table: Table, penalty: Any, factor: Array | None = None
    ) -> SaddleState:
        return self.solver.update(state, batch, table, penalty, factor)

    def result(self, state: SaddleState, table: Table, penalty: Any, factor: Array | None = None) -> Solution:
        batch = state.batch()
        folds = episode_folds(batch.start, min(self.cv, len(batch))) if len(batch) > 1 else np.zeros(1, dtype=np.intp)
        systems = ByFold(table, batch, folds)

        def family(k: int) -> Family:
            return posed_on(systems.without(k), table, penalty, self.solver, factor)

        whole = posed_on(systems.whole(), table, penalty, self.solver, factor)
        state.formed = whole.A if isinstance(whole.A, Matrix) else None
        rho_max = whole.rho_max()
        curve = self._curve(family, FoldMoments(table, batch, folds), rho_max)
        rho = float(curve.rhos[curve.choose(self.one_standard_error)])
        solution = self.solver.solution(whole.problem(rho), state, table)
        solution.extras |= {"rho_theta": rho, "rho_max": rho_max, "rhos": curve.rhos, "cv_errors": curve.errors}
        return solution

    def _curve(self, family: Callable[[int], Family], moments: FoldMoments, rho_max: float) -> Curve:
        if rho_max == 0.0 or len(moments.n_rows) < 2:  # θ = 0 for every ρ_θ, or nothing to hold out
            return Curve(np.array([0.1 * rho_max or 1.0]), np.zeros((1, self.cv)))
        if self.rhos is not None:
            return held_out_curve(family, moments, np.sort(np.array(self.rhos, dtype=np.float64))[::-1])
        return held_out_curve(family, moments, rho_grid(rho_max, self.n_rhos, self.eps), rho_max)
