"""Which features matter? Those that predict the reward, then those that the TD errors point to, if they are needed.

**Reward.** In the regression of the reward, E[φφᵀ]θ = E[ρφr], look-alikes are told apart better than in the TD system,
whose differences φ − γφ' are small where features are slow. So backward elimination is done there. θ = A⁻¹b has the
covariance V = A⁻¹ΩA⁻ᵀ/N, with Ω the covariance of the scores. While the least θ_j²/V_jj is at most κ, that feature
goes, and the others move as if θ_j had been 0 from the start:

    θ ← θ − V_{·j} θ_j / V_jj            V ← V − V_{·j} V_{j·} / V_jj

(for the efficient GMM criterion, in closed form: no row is read again). κ is chosen so that .3 of d noise features are
expected to exceed it. The order in which correlated features go depends on the start, so elimination begins from all
features and from four supports of the path in the metric of C, and once more from all survivors of these, this time
with Ω clustered by episode.

**Errors.** A feature that does not predict the reward may lead to one that does. LSTD is fitted on the features so far,
and the score s_j = Σ ρδφ_j of every other feature is tested, clustered by episode and without the part that comes from
estimating θ. The feature that stands out most enters, until none does (Parr et al. 2008; Painter-Wakefield & Parr
2012).

**Need.** The last step is an elimination in the TD system itself. Nothing is drawn at random and nothing depends on the
order of the episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from sparsetd.penalties import L1
from sparsetd.selection.path import SparsePath
from sparsetd.solvers.mean import Matrix
from sparsetd.solvers.path_following import lars_path, sparse_rows
from sparsetd.solvers.saddle import Family, FitNorm, rho_grid, whitened
from sparsetd.system import Array

FALSE = 0.3  # expected number of noises among d that exceed κ
ROWS_EACH = 20  # rows for each feature of a support of the path
SHARE = 4  # a support has at most a quarter of the features: a larger one ends as the start from all does
HALVINGS = 3  # the path also gives supports of a half, a quarter and an eighth of that size
N_RHOS, LEAST_RHO = 60, 1e-3  # penalties of the path, and the least as a share of the largest
N_DRAWN, LEAST_DRAWN = 30, 1e-2  # the same for the path that a picture shows
DRAWN_MARGIN = 30  # features that may enter this path beyond twice the number of those kept
TOLERANCE = 1e-8  # relative duality gap along that path
EMPTY = 1e-15  # a variance below this share of the largest is rounding
SINGULAR = 1e13  # a system with a larger condition number counts as singular: hardly a digit is left
COPY = 1e-12  # two columns are copies if 1 − |correlation| is no larger than this

# Ω of the scores at θ on some columns: row by row for the first n of them, and summed over episodes first for all.
Scores = Callable[[Array, Array, int], tuple[Array, Array]]
N_TESTED = 100  # features outside that are tested, those with the largest scores: Ω of all would be too large


@dataclass(frozen=True, eq=False)
class MeanSystem:
    """The system A θ = b, with C; all are means over rows, and `free` columns are never dropped.

    `n_candidates` is the number of features that these columns come from. `earned` is the mean of ρrφ if that is not b
    (with traces).
    """

    A: Array
    b: Array
    C: Array
    free: Array
    n_rows: int
    n_clusters: int
    n_candidates: int
    earned: Array | None = None

    @property
    def threshold(self) -> float:
        """κ: as many as `FALSE` of the candidates are expected to exceed it by chance."""
        return float(ndtri(0.5 * FALSE / max(self.n_candidates, 2)) ** 2)

    @property
    def clustered_threshold(self) -> float:
        """κ for Student's law with this number of clusters: as improbable as κ is under the normal law."""
        return float(stdtrit(max(self.n_clusters - 1, 1), ndtr(-np.sqrt(self.threshold))) ** 2)

    def on(self, columns: Array) -> MeanSystem:
        square, earned = np.ix_(columns, columns), None if self.earned is None else self.earned[columns]
        A, b, C, free = self.A[square], self.b[columns], self.C[square], self.free[columns]
        return replace(self, A=A, b=b, C=C, free=free, earned=earned)


def select(system: MeanSystem, scores: Scores, reward_scores: Scores) -> Array:
    """The columns that matter, with the free ones: those that predict the reward or explain errors, if needed.

    `scores` are those of the TD error, ρδφ, and `reward_scores` those of the reward regression, φ(ρr − φᵀθ).
    """
    every = distinct(system.C)
    of_reward = replace(system, A=system.C, b=system.b if system.earned is None else system.earned, earned=None)
    kept = np.union1d(eliminate(of_reward, reward_scores), np.flatnonzero(system.free))
    while True:  # one at a time: what enters often explains the scores of its neighbours as well
        entering, omegas = _asked_for(system, scores, kept, every)
        if entering is None:
            break
        kept = np.union1d(kept, entering)
    # Row by row first, because that Ω is known better; clustered last, because that is what the errors really are.
    left = kept[survivors(system.on(kept), omegas[0], np.arange(len(kept)), system.threshold)]
    few = system.on(left)
    clustered = omegas[1] if len(left) == len(kept) else scores(solved(few.A, few.b), left, 0)[1]
    return left[survivors(few, clustered, np.arange(len(left)), system.clustered_threshold)]


def _asked_for(system: MeanSystem, scores: Scores, kept: Array, every: Array) -> tuple[int | None, tuple[Array, Array]]:
    """The column outside `kept` whose score stands out most, None if no score does; and Ω of those that are kept.

    t_j = N s_j / √ω_j with ω_j that of s_j − A_{jS}A_SS⁻¹s_S, S the columns that are kept.
    """
    outside = np.setdiff1d(every, kept)
    theta = solved(system.A[np.ix_(kept, kept)], system.b[kept])
    score = system.b - system.A[:, kept] @ theta
    size = np.abs(score[outside]) / np.sqrt(np.maximum(np.diag(system.C)[outside], np.finfo(float).tiny))
    tested = np.sort(outside[np.argsort(-size, kind="stable")[:N_TESTED]])
    k, some = len(kept), np.concatenate([kept, tested])
    by_row, omega = scores(np.append(theta, np.zeros(len(tested))), some, k)
    if not len(tested):
        return None, (by_row, omega)
    W = solved(system.A[np.ix_(kept, kept)].T, system.A[np.ix_(tested, kept)].T).T
    own = np.diag(omega)[k:]
    spread = own - 2 * (W * omega[k:, :k]).sum(axis=1) + ((W @ omega[:k, :k]) * W).sum(axis=1)
    sure = spread > EMPTY * own.max(initial=0.0)
    statistic = np.where(sure, system.n_rows * score[tested] ** 2 / np.where(sure, spread, 1.0), 0.0)
    best = int(np.argmax(statistic))
    entering = int(tested[best]) if statistic[best] > system.clustered_threshold else None
    return entering, (by_row, omega[:k, :k])


def eliminate(system: MeanSystem, scores: Scores) -> Array:
    """The columns that are kept, with the free ones. Among multiples of one column only the first can stay."""
    every = distinct(system.C)
    if len(every) < len(system.b):
        return every[eliminate(system.on(every), lambda theta, some, n: scores(theta, every[some], n))]
    theta = solved(system.A, system.b)
    omega, _ = scores(theta, every, len(every))
    kept = [survivors(system, omega, S, system.threshold) for S in (every, *supports(system))]
    union = np.unique(np.concatenate(kept))
    few = system.on(union)
    _, clustered = scores(solved(few.A, few.b), union, 0)
    return union[survivors(few, clustered, np.arange(len(union)), system.clustered_threshold)]


def distinct(C: Array) -> Array:
    """The columns that are no multiple of an earlier one. Rounding must not decide which of two copies is kept."""
    length = np.sqrt(np.maximum(np.diag(C), np.finfo(float).tiny))
    alike = np.abs(C) / length / length[:, None] > 1 - COPY
    return np.flatnonzero(~np.tril(alike, -1).any(axis=1))


def supports(system: MeanSystem) -> list[Array]:
    """The last supports of a path of the reward regression with at most m, m/2, m/4, m/8 features, m = min(N/20, d/4).

    The path is that of ‖C^{-1/2}(b − Cθ)‖₂ + ρ‖θ‖₁ at 60 values of ρ. It runs through the solutions of the Lasso: where
    the bound on the scores b − Cθ is t, ρ is t divided by the first term.
    """
    most = min(system.n_rows // ROWS_EACH, len(system.b) // SHARE)
    limits = [most // 2**k for k in range(HALVINGS + 1) if most // 2**k]
    if not limits:
        return []
    n_steps = most + most // 2 + 1  # until more than `most` features are in, though some leave on the way
    walk = lars_path(lambda i: system.C[:, i], system.b, 0.0, np.where(system.free, 0.0, 1.0), n_steps)
    if walk.t[0] == 0:
        return []
    thetas = sparse_rows(walk.indices, walk.values, len(system.b)).toarray()
    left = system.b - thetas @ system.C
    size = np.einsum("ij,ji->i", left, solved(system.C, left.T))
    rhos = np.minimum.accumulate(walk.t / np.sqrt(np.maximum(size, np.finfo(float).tiny)))
    known = (thetas != 0) | system.free
    until = np.vstack([known[:1], known[:-1] | known[1:]])  # what is not zero between the knot before and each
    passed = np.searchsorted(-rhos, -rho_grid(rhos[0], N_RHOS, LEAST_RHO))
    found: dict[int, Array] = {}
    for knot in np.unique(passed[passed < len(until)]):
        support = np.flatnonzero(until[knot])
        found |= {limit: support for limit in limits if len(support) <= limit + system.free.sum()}
    return list(found.values())


def drawn_path(system: MeanSystem, support: Array) -> SparsePath | None:
    """The path of ‖C^{-1/2}(Aθ − b)‖₂ + ρ‖θ‖₁ without the constant, the last column; None where nothing can enter.

    It ends at a third of the ρ at which it contains `support`, or where more than twice as many features and
    `DRAWN_MARGIN` others have entered.
    """
    even, factor = Matrix(*whitened(system.A, system.b, system.C)), np.where(system.free, 0.0, 1.0)
    family = Family(even, FitNorm.of(2), L1(1.0), 1, factor)
    if system.free.all() or (rho_max := family.rho_max()) == 0:
        return None
    points, third, rhos = [], 0.0, rho_grid(rho_max, N_DRAWN, LEAST_DRAWN)
    for rho, point in zip(rhos, family.solutions(rhos, TOLERANCE), strict=True):
        points.append(point)
        if not third and (point.x[support] != 0).all():
            third = rho / 3.0
        if rho <= third or np.count_nonzero(point.x) > 2 * len(support) + DRAWN_MARGIN:
            break
    coefs, gaps = np.column_stack([point.x[:-1] for point in points]), np.array([point.gap for point in points])
    return SparsePath(rhos[: len(points)], coefs, gaps, rho_max)


def survivors(system: MeanSystem, omega: Array, start: Array, threshold: float) -> Array:
    """The columns of `start` that survive the elimination; they are numbered as in `system` and Ω."""
    few = system.on(start)
    inverse = inverse_of(few.A)
    if inverse is None:
        inverse = np.linalg.pinv(few.A)
    theta, left = inverse @ few.b, np.arange(len(start))
    V = inverse @ omega[np.ix_(start, start)] @ inverse.T / few.n_rows
    least = EMPTY * np.diag(V).max(initial=np.finfo(float).tiny)
    gone = np.zeros(len(start), dtype=bool)
    while not gone.all():
        with np.errstate(over="ignore"):
            size = np.where(gone | few.free[left], np.inf, theta**2 / np.maximum(np.diag(V), least))
        j = int(np.argmin(size))
        if size[j] > threshold:
            break
        if V[j, j] > least:  # without variance there is nothing to move the others by
            theta = theta - V[:, j] * (theta[j] / V[j, j])
            V -= np.outer(V[:, j], V[j] / V[j, j])
        gone[j], theta[j] = True, 0.0
        if 4 * gone.sum() > len(gone):  # shrink the matrices now and then: each step costs their whole size
            theta, left, V = theta[~gone], left[~gone], V[np.ix_(~gone, ~gone)].copy()
            gone = np.zeros(len(left), dtype=bool)
    return start[left[~gone]]


def solved(A: Array, b: Array) -> Array:
    """A⁻¹b, the shortest solution where A is singular."""
    inverse = inverse_of(A)
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0] if inverse is None else inverse @ b)


def inverse_of(A: Array) -> Array | None:
    """A⁻¹; None where A is singular."""
    try:
        inverse = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        return None
    condition = np.linalg.norm(A, 1) * np.linalg.norm(inverse, 1) if A.size else 1.0
    return inverse if condition <= SINGULAR else None
