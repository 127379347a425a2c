"""Sums over a log, the linear value function that follows from them, and what each episode does to it.

    A = Σ_t ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = Σ_t ρ_t r_t φ_t      C = Σ_t φ_t φ_tᵀ      c = Σ_i φ(s_{i,0})

    θ = A⁻¹ b        v = cᵀθ / n        (c the sum of the n first states)

φ ends with a constant 1. Sums of two parts add up to the sums of both. Every group of episodes (a fold) has its sums,
so that a fit without a group needs only a subtraction. Policies share C and c, so these are summed once (`PolicySums`),
and A and b for each policy.

**Leaving a cluster out** (an episode, unless `cluster` says more). With E, F, δ the rows ρφ, φ − γφ' and r − Fθ of
cluster i, which has mᵢ of the n episodes, Woodbury's identity gives

    θ₋ᵢ = θ − A⁻¹Eᵀ (I − F A⁻¹Eᵀ)⁻¹ δ        v₋ᵢ = (c − cᵢ)ᵀ θ₋ᵢ / (n − mᵢ)

exactly, from small matrices. (N − 1)(v − v₋ᵢ) is the influence of cluster i of N: its spread is the jackknife's
standard error. Unlike the sandwich it notices an episode without which the fit would fail.

**Implied weights.** v = Σ_t ω_t ρ_t r_t with ω_t = cᵀA⁻¹φ_t / n: the value is a weighted sum of the logged rewards
(linear marginalised importance sampling). The weights tell how many rows and episodes the value rests on. A negative
weight is extrapolation: no policy visits a state −0.1 times.

Systems are solved for columns of unit length, so that the answer does not depend on the units of the features. With
SPARSETD_VERIFY=1 (and always in the tests) every answer is computed a second way, from the implied weights and from
Σ_t ρ_t δ_t φ_t = 0, and a mismatch is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dgecon, dgetrf, dgetri, dpstrf

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.reading import Ask, Part, Parts, answer
from sparsetd.selection.elimination import distinct
from sparsetd.selection.episodes import powers
from sparsetd.selection.moments import Moments, lengths_of, runs_of, weighted_products
from sparsetd.system import Array

LOST = 1e-4  # cᵀθ counts as undetermined if more than this share of c lies outside the row space of A
DEPENDENT = 1e-10  # a column is redundant if the columns before it explain all except this share
TOLERANCE = 1e-6  # relative difference between two ways to an answer that may be rounding
MIXED = 1e-13  # a ratio is a mixture of others if it differs from the mixture by at most this share of its largest
MOST_MIXED = 10.0  # sizes of the shares of a mixture: with larger ones their sum would be rounding
FEW_LENGTHS = 6  # with more different lengths than this, clusters are filled up to a few lengths
TOGETHER = 2**23  # numbers in the matrices of the clusters that are left out in one step: 64 MB


@dataclass(frozen=True, eq=False)
class PolicySums:
    """[A b] of every policy and group of episodes, and what all policies share: C, c and the counts."""

    systems: Array  # (n_policies, n_groups, d, d + 1)
    C: Array
    start: Array
    counts: Array  # rows, episodes, clusters

    @classmethod
    def of(
        cls,
        part: Part,
        group: Array | None,
        n_groups: int,
        policies: tuple[int | None, ...],
        into: PolicySums | None = None,
    ) -> PolicySums:
        """The sums of a piece, added to `into`; for the policy None the ratios are those that the piece has."""
        e, first, d = part.episodes, part.states[part.episodes.first], part.states.shape[1]
        group = np.zeros(len(e), dtype=np.intp) if group is None else group
        total = into or cls(
            np.zeros((len(policies), n_groups, d, d + 1)),
            np.zeros((n_groups, d, d)),
            np.zeros((n_groups, d)),
            np.zeros((3, n_groups), dtype=np.intp),
        )
        of_row = group[e.of]
        for count, groups in zip(total.counts, (of_row, group, group[e.clusters]), strict=True):
            count += np.bincount(groups, minlength=n_groups)
        states, changes, reward = part.states, part.changes, part.batch.reward
        ratios = [(part if policy is None else part.under(policy)).batch.ratio for policy in policies]
        if n_groups > 1:  # rows of one group together: every product then takes them where they are
            order = np.argsort(of_row, kind="stable")
            states, changes, reward, of_row = states[order], changes[order], reward[order], of_row[order]
            ratios = [ratio[order] for ratio in ratios]
        for k, rows in runs_of(of_row, n_groups):
            total.C[k] += states[rows].T @ states[rows]  # one array: BLAS forms half of it
            total.start[k] += first[group == k].sum(axis=0)
        for system, ratio in zip(total.systems, ratios, strict=True):
            plain = bool((ratio == 1.0).all())
            weighted_products(states, changes, reward, None if plain else ratio, of_row, system)
        return total

    def __add__(self, other: PolicySums) -> PolicySums:
        return PolicySums(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def of_policy(self, k: int) -> Moments:
        """The sums of one of the policies that were asked about."""
        return self._moments(self.systems[k])

    def mixed(self, shares: Array) -> Moments:
        """The sums for a ratio that is a mixture of those of these policies."""
        used = np.flatnonzero(shares)
        alone = len(used) == 1 and shares[used[0]] == 1.0
        return self._moments(self.systems[used[0]] if alone else np.tensordot(shares[used], self.systems[used], 1))

    def _moments(self, system: Array) -> Moments:
        return Moments(system[:, :, :-1], system[:, :, -1], self.C, self.start, *self.counts)


@dataclass(frozen=True, eq=False)
class Span:
    """The ratios that sums are formed for (`formed`; 0 is the logged behaviour), and how all ratios mix these.

    A and b are linear in ρ, and policies that are compared are often mixtures: a quarter and half of the way from what
    was done to something else.
    """

    formed: list[int]
    shares: Array

    @classmethod
    def none(cls, n_policies: int) -> Span:
        """No ratio is known to be a mixture of others."""
        return cls(list(range(n_policies + 1)), np.eye(n_policies + 1))

    @classmethod
    def of(cls, ratios: Array) -> Span:
        """The mixtures among the ratios of some policies and that of the behaviour, which is 1."""
        every, formed = np.vstack([np.ones(ratios.shape[1]), ratios]), [0]
        shares = np.zeros((len(every), len(every)))
        shares[0, 0] = 1.0
        for k, ratio in enumerate(every[1:], start=1):
            found = _mixture(every[formed], ratio)
            if found is None:
                formed.append(k)
                shares[k, k] = 1.0
            else:
                shares[k, formed] = found
        return cls(formed, shares[:, formed])


def _mixture(known: Array, ratio: Array) -> Array | None:
    """The shares of known ratios that make up this one, up to rounding; None if there are none."""
    gram, shares, left = known @ known.T, np.zeros(len(known)), ratio
    for _ in range(2):  # the second round takes off what rounding left
        shares = shares + np.linalg.lstsq(gram, known @ left, rcond=None)[0]
        left = ratio - shares @ known
    exact = np.abs(left).max() <= MIXED * ratio.max()
    return shares if exact and np.abs(shares).sum() <= MOST_MIXED else None


def policy_sums(group: Array | None = None, n: int = 1, policies: Iterable[int | None] = (0,)) -> Ask:
    """Asks for the sums of policies by group of episodes (by default, of all); None is the logged behaviour."""
    if group is None:
        return Ask(PolicySums.of, (None, n, tuple(policies)), into=True)
    return Ask(PolicySums.of, (n, tuple(policies)), (group,), into=True)


def sums_of(rows: Part | Parts, group: Array | None = None, n: int = 1, policy: int | None = None) -> Moments:
    """The sums of one policy by group of episodes; without a policy, for the ratios that the rows have."""
    found: PolicySums = answer(rows, sums=policy_sums(group, n, (policy,))).sums
    return found.of_policy(0)


@dataclass(frozen=True, eq=False)
class LinearValue:
    """θ on the columns of a part (the constant last), with A⁻¹; both are 0 for redundant columns (not `kept`)."""

    theta: Array
    A: Array
    inverse: Array
    start: Array
    n_episodes: int
    n_clusters: int
    n_rows: int
    scale: Array
    kept: Array

    @classmethod
    def solve(cls, moments: Moments) -> LinearValue:
        """Solve the system of all groups of `moments` together."""
        total = moments.total()
        n_rows, counts = int(total.n_rows[0]), (int(total.n_episodes[0]), int(total.n_clusters[0]))
        scale = lengths_of(np.diag(total.C[0]) / max(n_rows, 1))
        kept = _independent(total.C[0] / (np.outer(scale, scale) * max(n_rows, 1)))
        inverse = _inverse(total.A[0], kept, scale, n_rows)
        return cls(inverse @ total.b[0], total.A[0], inverse, total.start[0], *counts, n_rows, scale, kept)

    def again(self, A: Array, b: Array) -> LinearValue:
        """The fit of another system of the same rows, whose redundant columns are known."""
        inverse = _inverse(A, self.kept, self.scale, self.n_rows)
        return replace(self, theta=inverse @ b, A=A, inverse=inverse)

    @property
    def value(self) -> float:
        """v: the mean of V over the first states."""
        return float(self.start @ self.theta / self.n_episodes)

    def determined(self) -> bool:
        """Return whether the log fixes the start value: cᵀA⁻A = cᵀ, though A itself may be singular.

        Two equal columns leave V alone. A state that is reached but never left does not: any value of it fits the rows.
        """
        lost = (self.start @ self.inverse @ self.A - self.start) / self.scale
        return bool(np.linalg.norm(lost) <= LOST * np.linalg.norm(self.start / self.scale))

    def errors(self, part: Part) -> Array:
        """The TD errors δ of the rows."""
        return np.asarray(part.batch.reward - part.changes @ self.theta)

    def weights(self, part: Part) -> Array:
        """ω_t of every row, summing with ρ_t r_t to the value."""
        direction = self.start @ self.inverse / self.n_episodes
        return np.asarray(part.states @ direction)

    def influence(self, part: Part) -> Array:
        """(N − 1)(v − v₋ᵢ) of every cluster of the part."""
        e = part.episodes
        first, size = e.by_cluster(part.states[e.first]), np.diff(e.clusters, append=len(e))
        lean = (self.start - first) / np.maximum(self.n_episodes - size, 1)[:, None]  # c without the cluster, as a mean
        return (self.n_clusters - 1) * (self.value - lean @ self.theta + self._correction(part, lean))

    def scores(self, part: Part, error: Array) -> Array:
        """The linear part of the influence of every cluster, from δ of every row: the sandwich is made of these."""
        e, n = part.episodes, self.n_clusters
        first = e.by_cluster(part.states[e.first] @ self.theta - self.value) / self.n_episodes
        return n * (first + e.rows_by_cluster(part.batch.ratio * error * self.weights(part)))

    def _correction(self, part: Part, lean: Array) -> Array:
        """leanᵢᵀ A⁻¹Eᵀ (I − F A⁻¹Eᵀ)⁻¹ δ of every cluster, clusters of one length at a time.

        Rows with ρ = 0 are zeros of E and of the fit: they are left out. Where lengths are many, clusters are filled up
        with rows of zeros to a few lengths, which changes nothing.
        """
        begins, ratio, error = part.episodes.first[part.episodes.clusters], part.batch.ratio, self.errors(part)
        length, states, changes = part.episodes.cluster_lengths, part.states, part.changes
        used = np.flatnonzero(ratio)
        if len(used) < len(ratio):
            length = np.add.reduceat((ratio != 0).astype(np.intp), begins)
            begins = np.cumsum(length) - length
            states, changes, ratio, error = states[used], changes[used], ratio[used], error[used]
        out, weighted = np.zeros(len(length)), ratio[:, None] * states
        filled = _filled_up(length)
        moved = weighted @ self.inverse.T if filled.min() <= len(self.theta) else weighted
        for size in np.unique(filled[filled > 0]):
            alike = np.flatnonzero(filled == size)
            own = moved if size <= len(self.theta) else weighted
            step = max(TOGETHER // (size * (size + len(self.theta))), 1)
            for some in np.split(alike, range(step, len(alike), step)):
                place = begins[some], length[some], size
                E, F, delta = (_by_cluster(array, *place) for array in (own, changes, error))
                out[some] = self._left_out(E, F, delta, lean[some])
        return out

    def _left_out(self, E: Array, F: Array, error: Array, lean: Array) -> Array:
        """The correction of clusters of one length; if that is no longer than θ, E holds E A⁻ᵀ."""
        if E.shape[1] > len(self.theta):  # fewer columns than rows: solve for θ − θ₋ᵢ itself
            rest = (self.A - np.swapaxes(E, 1, 2) @ F) / np.outer(self.scale, self.scale)
            moved = np.einsum("il,ilp->ip", error, E) / self.scale
            return np.asarray(np.einsum("ip,ip->i", lean / self.scale, _solved(rest, moved)))
        rest = np.eye(E.shape[1]) - F @ np.swapaxes(E, 1, 2)
        return np.asarray(np.einsum("il,il->i", (E @ lean[..., None])[..., 0], _solved(rest, error)))


def influence(part: Part, model: LinearValue) -> list[Array]:
    """The influence of every cluster of a part, to be joined with that of the others."""
    return [model.influence(part)]


def weighted_by_cluster(episodes: Episodes, weight: Array, rows: Array) -> Array:
    """Σ w_t x_t over the rows x_t of every cluster: a sparse product, which needs no array of w_t x_t."""
    bounds = np.append(episodes.first[episodes.clusters], len(rows))
    shape = (len(bounds) - 1, len(rows))
    return np.asarray(sp.csr_array((weight, np.arange(len(rows)), bounds), shape=shape) @ rows)


def _by_cluster(rows: Array, first: Array, length: Array, size: int) -> Array:
    """The rows of clusters, filled up to one size with zeros; a view where they follow one another and need none."""
    if first[-1] - first[0] == size * (len(first) - 1) and length.min() == size:
        return rows[first[0] : first[-1] + size].reshape(len(first), size, *rows.shape[1:])
    row = np.arange(size)
    found = rows[np.minimum(first[:, None] + row, len(rows) - 1)]
    found[row >= length[:, None]] = 0.0
    return np.asarray(found)


def _filled_up(length: Array) -> Array:
    """The lengths themselves if they are few; otherwise each is raised to the next of 1, 2, 3, 4, 6, 8, 12, 16, …"""
    if len(np.unique(length)) <= FEW_LENGTHS:
        return length
    powers = 2 ** np.arange(int(length.max()).bit_length() + 1)
    sizes = np.unique(np.concatenate([[0], powers, 3 * powers // 2]))
    return sizes[np.searchsorted(sizes, length)]


def coefficients(model: LinearValue, power: Array) -> list[Estimate]:
    """θ of every column (not the constant), with the standard error of the sandwich by cluster."""
    p, n = len(model.theta) - 1, model.n_clusters
    return [
        Estimate.of_powers("", value, n, column, n_fitted=p)
        for value, column in zip(model.theta[:-1], power, strict=True)
    ]


def score_powers(part: Part, model: LinearValue, states: Array | None = None) -> Array:
    """Σ_i x_i^k, k = 1, …, 4, of the influence x_i of every cluster on V at states [φ 1]; by default on the value."""
    errors = model.errors(part)
    if states is None:
        return powers(model.scores(part, errors)[None])
    each = weighted_by_cluster(part.episodes, part.batch.ratio * errors, part.states)
    return powers(model.n_clusters * states @ model.inverse @ each.T)


def _inverse(A: Array, kept: Array, scale: Array, n_rows: int) -> Array:
    """D(DAD)⁻¹D with D = 1/scale on the columns that are kept, or the pseudo-inverse if DAD is singular.

    A singular value as small as the rounding of a sum over the rows counts as zero.
    """
    units = np.outer(scale, scale)
    even, smallest = (A / units)[np.ix_(kept, kept)], max(n_rows, len(A)) * np.finfo(float).eps
    factors, pivots, zero = dgetrf(even)
    if zero == 0 and dgecon(factors, np.abs(even).sum(axis=0).max())[0] > smallest:
        found = dgetri(factors, pivots)[0]
    else:
        found = scipy.linalg.pinv(even, rtol=smallest)
    out = np.zeros_like(A)
    out[np.ix_(kept, kept)] = found
    return np.asarray(out / units)


def _independent(C: Array) -> Array:
    """Columns that are no linear combination of the others, by Cholesky with pivoting; the constant (last) among them.

    Equal columns would make the system singular for no good reason, and rounding must not decide which of them goes.
    So the constant comes first, then the first of each set of copies, and pivoting orders the rest.
    """
    last = C[-1] / np.sqrt(C[-1, -1])
    rest = (C - np.outer(last, last))[:-1, :-1]
    spread = np.sqrt(np.maximum(np.diag(rest), np.finfo(float).tiny))
    varies = np.diag(rest) > DEPENDENT * np.diag(C)[:-1]
    correlation, some = rest / np.outer(spread, spread), np.flatnonzero(varies)
    if not len(some):
        return np.array([len(C) - 1])
    some = some[distinct(correlation[np.ix_(some, some)])]
    correlation = correlation[np.ix_(some, some)]
    np.fill_diagonal(correlation, 1.0)  # exactly, so that of equal pivots the first leads and not the one rounded up
    _, pivots, rank, _ = dpstrf(correlation, tol=DEPENDENT)
    return np.append(np.sort(some[pivots[:rank] - 1]), len(C) - 1)


def _solved(matrices: Array, right: Array) -> Array:
    """The solutions of many small systems, and the shortest one of a system that is singular.

    A system is singular if only the episode that was left out saw something: the others do not determine it.
    """
    with np.errstate(all="ignore"):
        try:
            out = np.linalg.solve(matrices, right[..., None])[..., 0]
        except np.linalg.LinAlgError:
            out = np.full(right.shape, np.nan)
        wild = ~(np.abs(out).max(axis=1) < 1e8 * (1e-300 + np.abs(right).max(axis=1)))
    if wild.any():
        out[wild] = (np.linalg.pinv(matrices[wild], rcond=1e-8) @ right[wild][..., None])[..., 0]
    return np.asarray(out)


def wanted() -> bool:
    """Return whether answers are to be verified."""
    return os.environ.get("SPARSETD_VERIFY", "") not in ("", "0")


def verify(model: LinearValue, sums: Array, ridge: Array | None = None) -> None:
    """Check the value against the implied weights, and the equations that θ solves against the rows."""
    if not wanted() or not model.determined():
        return
    value, value_size, errors, errors_size = map(float, sums)
    held = 0.0
    if ridge is not None:  # Σρδφ = NΛθ
        held = float(model.start @ model.inverse @ (ridge * model.theta)) * model.n_rows / model.n_episodes
    weights = ("the value from implied weights", value, model.value, value_size)
    for what, found, expected, size in (weights, ("the weighted TD errors", errors, held, errors_size)):
        # Two ways to one number may differ by the rounding of terms of this size.
        if abs(found - expected) > TOLERANCE * max(size, abs(expected), np.finfo(float).tiny):
            raise RuntimeError(
                f"Verification failed: {what} is {found!r}, but {expected!r} was computed another way. Please report "
                "this."
            )


def second_way(part: Part, model: LinearValue) -> Array:
    """Σωρr and Σωρδ, each with the sum of the sizes of its terms."""
    direction, rewards = model.weights(part), part.batch.ratio * part.batch.reward
    scores = part.batch.ratio * model.errors(part)
    size = np.abs(direction)
    return np.array(
        [direction @ rewards, size @ np.abs(rewards), direction @ scores, size @ (np.abs(rewards) + np.abs(scores))]
    )
