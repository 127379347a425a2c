"""How far may functions beside the raw columns be used? A ridge chooses between "not at all" and "all of them".

    (A + λNΛ)θ = b        Λ is 1 for functions beside the raw columns, 0 for these and for the constant

λ = ∞ is the value function of the raw columns, λ → 0 that of the whole basis. Which λ does best on episodes that it has
not seen? With θ from the other folds, s_g = Σ ρδψ over a group g of held-out episodes and C = Σψψᵀ/N,

    loss = Σ_{g ≠ h} s_gᵀ C⁻¹ s_h        over pairs of groups of the held-out fold

estimates the projected Bellman error against the whole basis. Leaving out g = h removes the noise of the rewards, so
that losses can be compared. All of them follow from sums over groups of episodes: no row is read again. The raw columns
alone would be too small a critic: they cannot see what they miss.

A choice between "raw" and "all" must be careful, and so it errs on small logs. A ridge changes little where the loss is
nearly flat.

An interval that takes λ as given is too narrow where another λ might as well have been chosen and gives another value.
So the choice is repeated on resampled logs (`shrunk`). The value may be off by the largest |v_λ − v| over the λ that
these choose, and the interval has to cover all the same (`widening`). A stronger one of them is taken if its interval
is less than half as long, because held-out losses do not see how well a value is determined. In some logs the best λ is
not among them: half of the misses that an interval may have are kept for that, and half for sampling (`OF_SAMPLING`;
Berger and Boos, 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from sparsetd.selection.moments import Moments
from sparsetd.solvers.saddle import inverse_root
from sparsetd.system import Array

LAMBDAS = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
SINGULAR = 1e-9  # trace of a ridge on the other columns, in units of their mean squares
NEARLY_SINGULAR = 1e-6  # reciprocal of a condition number
ROUNDING = 1e-9  # two losses are equal if they differ by no more than this share of the largest
EMPTY = 1e-9  # a mean square counts as 0 if it is no more than this share of the largest
DRAWS = 200  # resampled logs, for how sure the choice of λ is
OF_SAMPLING = 0.5  # share of the misses of a 95 % interval: 1 in 40; a λ that is not plausible may cause as many
CRITIC = 1e-3  # ridge of the critic's metric, in units of the mean squares of its functions


@dataclass(frozen=True, eq=False)
class Groups:
    """The sums of a policy by group of episodes, in columns of one scale with the constant last.

    `each` consecutive groups make one fold. `penalised` are the functions beside the raw columns, and `root` is that of
    the `critic`; all policies share these.
    """

    moments: Moments
    each: int
    penalised: Array
    root: Array

    @property
    def n_folds(self) -> int:
        return len(self.moments.n_rows) // self.each

    def held(self, k: int) -> slice:
        """The groups of fold k."""
        return slice(k * self.each, (k + 1) * self.each)

    def without(self, k: int = -1) -> tuple[Array, Array, float]:
        """A, b and the number of rows of all folds except k; of all folds by default."""
        m, others = self.moments, np.arange(len(self.moments.n_rows)) // self.each != k
        return m.A[others].sum(axis=0), m.b[others].sum(axis=0), float(m.n_rows[others].sum())


def critic(moments: Moments) -> Array:
    """R with RRᵀ = C⁻¹, C with a small ridge; 0 in the direction of columns that are 0."""
    C = moments.mean_square()
    return inverse_root(C + np.diag(CRITIC * np.diag(C)), EMPTY).T


def losses(groups: Groups, fits: Callable[[Array, Array, float], Array], drawn: int = 0) -> Array:
    """The held-out loss of candidates by fold, for the log itself and for `drawn` resampled logs.

    From A, b and the number of the other folds' rows, `fits` makes a column of θ for every candidate.
    The shape is (n_candidates, n_folds, 1 + drawn). In a resampled log the groups of every held-out fold are drawn
    again with replacement; the fits to the other folds stay.
    """
    each, n, sums = groups.each, groups.n_folds, groups.moments
    again = np.random.default_rng(0).multinomial(each, np.full(each, 1 / each), (n, drawn))
    counts = np.concatenate([np.ones((n, 1, each), dtype=int), again], axis=1)  # of every group in every log
    n_pairs = each**2 - (counts**2).sum(axis=2)
    by_fold = []
    for k, times in enumerate(counts):
        thetas, held = fits(*groups.without(k)), groups.held(k)
        errors = sums.b[held][..., None] - sums.A[held] @ thetas  # by group, function and candidate
        scores = errors.transpose(2, 0, 1) @ groups.root / sums.n_rows[held].sum()
        products = scores @ np.swapaxes(scores, 1, 2)  # s_gᵀ C⁻¹ s_h of every candidate
        own = np.einsum("dg,igg->id", times**2, products)
        every = np.einsum("dg,igh,dh->id", times, products, times, optimize=True)
        by_fold.append((every - own) * each**2 / np.maximum(n_pairs[k], 1))
    return np.stack(by_fold, axis=1)


def ridged(A: Array, b: Array, n_rows: float, penalised: Array, lam: float) -> Array:
    """Solve for θ; if λ = ∞ it is 0 on the penalised columns.

    A trace of a ridge on every column lets copies share their weight.
    """
    free, system = _system(A, n_rows, penalised, lam)
    right, theta = b[free] / n_rows, np.zeros(len(b))
    found = _solved(system, right)
    # Where columns are nearly copies, rounding would decide their weights; what the rows leave open stays at 0.
    theta[free] = np.linalg.lstsq(system, right, rcond=2 * SINGULAR)[0] if found is None else found
    return theta


def ridged_without(
    A: Array, b: Array, n_rows: float, penalised: Array, lam: float, out: Sequence[Array]
) -> list[Array]:
    """`ridged` on all columns but those of each mask of `out`, from one inverse P where the systems allow it:

    θ₋J = θ − P_J P_JJ⁻¹ θ_J
    """
    free, system = _system(A, n_rows, penalised, lam)
    P, whole = _solved(system, np.eye(len(free))), ridged(A, b, n_rows, penalised, lam)
    found = []
    for mask in out:
        J, theta = np.flatnonzero(mask[free]), whole.copy()
        less = whole[free[J]] if P is None or not len(J) else _solved(P[np.ix_(J, J)], whole[free[J]])
        if P is None or less is None:
            kept = ~mask
            theta[mask] = 0.0
            theta[kept] = ridged(A[np.ix_(kept, kept)], b[kept], n_rows, penalised[kept], lam)
        else:
            theta[free] -= P[:, J] @ less
            theta[free[J]] = 0.0
        found.append(theta)
    return found


def _system(A: Array, n_rows: float, penalised: Array, lam: float) -> tuple[Array, Array]:
    """The columns that are used at this λ, and their system."""
    free = np.flatnonzero(~penalised | (lam < np.inf))
    system = (A if len(free) == len(A) else A[np.ix_(free, free)]) / n_rows
    system.flat[:: len(free) + 1] += SINGULAR if np.isinf(lam) else np.where(penalised[free], lam, SINGULAR)
    return free, system


def _solved(system: Array, right: Array) -> Array | None:
    """The solution; None where the system is nearly singular."""
    factors, pivots, singular = dgetrf(system)
    well = 0.0 if singular else dgecon(factors, np.linalg.norm(system, 1))[0]
    return None if well < NEARLY_SINGULAR else np.asarray(dgetrs(factors, pivots, right)[0])


def shrunk(groups: Groups) -> tuple[float, Array]:
    """The λ with the least held-out loss, and the share of resampled logs that would choose each of `LAMBDAS`."""

    def fits(A: Array, b: Array, n_rows: float) -> Array:
        return np.stack([ridged(A, b, n_rows, groups.penalised, lam) for lam in LAMBDAS], axis=1)

    found = losses(groups, fits, DRAWS).sum(axis=1)
    near = found <= found.min(axis=0) + ROUNDING * np.abs(found).max()
    chosen = np.argmax(near, axis=0)  # the largest λ among equals: argmax takes the first
    return LAMBDAS[chosen[0]], np.bincount(chosen[1:], minlength=len(LAMBDAS)) / DRAWS


def widening(move: float, error: float, level: float = 0.95) -> float:
    """The factor by which an interval must be wider to cover at `level` although its centre may be off by `move`.

    It is the quantile of |N(move/error, 1)| in units of that of |N(0, 1)| (Armstrong and Kolesár, 2020).
    """
    if not (0 < move < np.inf and 0 < error < np.inf):
        return 1.0
    apart, usual = move / error, float(ndtri(0.5 + level / 2))

    def left(reach: float) -> float:
        return float(ndtr(reach - apart) - ndtr(-reach - apart) - level)

    return float(brentq(left, 0.0, usual + apart + 1.0)) / usual
