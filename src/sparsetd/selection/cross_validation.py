"""How good is the support that ρ_θ selects, on episodes it has not seen?

For each fold: the path on the other folds; LSTD on each support S(ρ), on the other folds; then on the held-out rows

    MSPBE = vᵀC⁺v,    v = mean of e_U δ,   C = mean of φ_U φ_Uᵀ

where U is the union of the supports, the same for every ρ, so that the figures can be compared. It needs no second
sample of the successor, and at the truth it is only noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sparsetd._tools.progress import track
from sparsetd.selection.moments import FoldMoments
from sparsetd.solvers.saddle import Family
from sparsetd.system import Array

# A fold follows its path until this many features beyond twice the best support have entered: the error is projected on
# the union of the supports, so what has not entered yet cannot be missed.
MARGIN = 20
SHARE = 0.9
TOLERANCE = 1e-4  # relative duality gap of the paths in the folds: a support is wanted, not digits


@dataclass(frozen=True, eq=False)
class Curve:
    """Held-out error of each ρ_θ and fold, shape (n_rhos, n_folds); where a fold stopped, its last error goes on."""

    rhos: Array
    errors: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.errors.mean(axis=1))

    def choose(self, one_standard_error: bool = True) -> int:
        """The index of the best ρ_θ, or of the largest one within a standard error of it.

        The standard error is that of the difference to the best, fold by fold: what all values of ρ_θ share cancels.
        With few or unequal folds it may be so large that θ = 0 qualifies, so SHARE of the way down is asked for too.
        """
        mean = self.mean
        best = int(np.argmin(mean))
        if not one_standard_error or best == 0:
            return best
        excess = self.errors[: best + 1] - self.errors[best]
        error = excess.std(axis=1, ddof=1) / np.sqrt(excess.shape[1])
        near = excess.mean(axis=1) <= np.minimum(error, (1.0 - SHARE) * (mean[0] - mean[best]))
        return int(np.argmax(near))


def held_out_curve(
    family: Callable[[int], Family], moments: FoldMoments, rhos: Array, rho_max: float | None = None
) -> Curve:
    """The held-out error of the refitted support for every ρ_θ and fold; `family(k)` poses the problems without fold k.

    With `rho_max` of all rows, a fold takes the same shares of its own: the first value then selects nothing in any.
    """
    columns = []
    for k in track(range(len(moments.n_rows)), "folds"):
        posed = family(k)
        share = 1.0 if rho_max is None else (posed.rho_max() / rho_max or 1.0)
        columns.append(_Fold(moments, k).errors(posed, share * rhos))
    return Curve(rhos, np.column_stack(columns))


@dataclass
class _Fold:
    """The supports along the path without fold k, refitted there."""

    moments: FoldMoments
    k: int
    supports: list[Array] = field(default_factory=list)
    thetas: list[Array] = field(default_factory=list)

    def errors(self, family: Family, rhos: Array) -> Array:
        """Errors on fold k, as far down the path as they may still improve."""
        errors, d = np.empty(0), self.moments.batch.n_features
        for outcome in family.solutions(rhos, TOLERANCE, polish=False):
            support = np.flatnonzero(outcome.point.x[-d:])
            if not self.supports or not np.array_equal(support, self.supports[-1]):
                errors = self._judge(support)
            else:
                self._repeat()
                errors = np.append(errors, errors[-1])
            if self._enough(errors):
                break
        return np.append(errors, np.full(len(rhos) - len(errors), errors[-1]))

    def _enough(self, errors: Array) -> bool:
        best, entered = len(self.supports[int(np.argmin(errors))]), len(np.unique(np.concatenate(self.supports)))
        n_kept = len(self.moments.batch) - self.moments.n_rows[self.k]
        return bool(entered >= 2 * best + MARGIN or 4 * entered > n_kept)

    def _repeat(self) -> None:
        self.supports.append(self.supports[-1])
        self.thetas.append(self.thetas[-1])

    def _judge(self, support: Array) -> Array:
        """Adds a support and returns the errors of all so far, over the union of them."""
        self.supports.append(support)
        self.thetas.append(self.moments.without(self.k, self.moments.slots(support)) if len(support) else np.empty(0))
        union = np.unique(np.concatenate(self.supports))
        thetas = np.zeros((len(self.thetas), len(union)))
        for row, chosen, theta in zip(thetas, self.supports, self.thetas, strict=True):
            row[np.searchsorted(union, chosen)] = theta
        return self.moments.mspbe(self.k, self.moments.slots(union), thetas)
