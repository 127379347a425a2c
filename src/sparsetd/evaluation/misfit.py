"""Can these features represent the value? Three tests that need only the log, not the truth.

At the true value function ρ_t δ_t has mean 0 given everything before it, so it is uncorrelated with

    shape     products of features: what a linear function leaves out
    memory    features, rewards and TD errors of earlier rows: what a state that was not recorded leaves behind
    choices   how much likelier the policy was to make the choices of the last rows before t

Let z be one of these columns, and s_i = Σ_{t∈i} ρδz its sum over cluster i. Without the part of s_i that comes from
estimating θ, the statistic

    t_z = Σ_i s̃_i / √Σ_i s̃_i²        s̃_i = s_i − (Σρ z(φ − γφ')ᵀ) A⁻¹ Σ_{t∈i} ρδφ

nearly follows Student's law, and the largest |t| of m columns is compared with Bonferroni's bound. Products that stand
out are added to the features: `change` says what that does to the value, and memory is tested beside them. Memory alone
does no harm: features of the wrong shape leave it behind too, and patients may differ in something unrecorded that the
actions do not follow. So `drift` says what adding it to the features does to the value.

Only one column of the choices matters, z_t = γʰω_{t−h} ρ_{t−h} ⋯ ρ_{t−1}, with the implied weight ω that a row has in
the value (`linear`) and h = 4, or γᵗ/n · ρ_0 ⋯ ρ_{t−1} in the first rows. If the features are a state, z and ω weigh
the TD errors alike. If not, the value with its errors corrected by z is right where the last four choices show what the
features miss (Jiang and Li, 2016, have all choices). `follow` is this correction.

The third test uses the logged behaviour: the same features, fitted to it, must give the mean return that was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.stats import t as student

from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue, influence, policy_sums, weighted_by_cluster
from sparsetd.evaluation.reading import Ask, Part, View, Walk
from sparsetd.system import Array, recurrence

Columns = Callable[..., Iterator[Array]]  # columns of s, then of s', from (part, fit, columns that matter)

TOP = 8  # features that enter products and memory
MAX_ADDED = 8  # products that are added where the test fires
SURE = 0.005  # below this p-value the features count as insufficient
CERTAIN = 0.01  # below this p-value the state counts as not fully observed
MATTERS = 0.5  # a change of the value counts if it is larger than this many of its standard errors
WIDER = 1.0  # the same where the basis was chosen on the same log, so that the interval is wider
UNSTABLE = 2.0  # a change is unknown if its standard error is this many times that of the value
BEFORE = 4  # choices before a row that say how often the policy would have come there
FADING = 0.8  # the running mean of earlier rows keeps this share of itself at every step
ROUNDING = 1e-12  # a TD error or a spread smaller than this share of its terms counts as 0
REDUNDANT = 1e-8  # the features explain a column if no more than this share of its squares is left


@dataclass(frozen=True)
class Misfit:
    """The results of the tests: Bonferroni's p-values, the columns that stood out, and what adding them does.

    `memory` is the p-value of earlier features, `outcomes` that of earlier rewards and errors. Adding the products
    (`columns`) moves the value by `change`; adding the memory (`remembered`) then moves it by `drift`. `choices` is the
    p-value of the choices before, which correct the value by `follow`.
    """

    shape: float = 1.0
    memory: float = 1.0
    outcomes: float = 1.0
    choices: float = 1.0
    columns: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    change: Estimate | None = None
    drift: Estimate | None = None
    follow: Estimate | None = None


def bar(own: Estimate) -> float:
    """How large a change of the value must be to count."""
    return own.standard_error * (MATTERS if own.share == 1.0 else WIDER)


def matters(change: Estimate, own: Estimate) -> bool:
    """Return whether a change of the value counts: it is large beside the value's standard error, and not chance.

    An undetermined wider fit has so large an error that any change would pass for chance. That is no comfort, so a
    change also counts if its standard error is more than twice that of the value.
    """
    beyond = abs(change.value) > max(bar(own), 2 * change.standard_error)
    return beyond or change.standard_error > UNSTABLE * own.standard_error


def extra_sums(model: LinearValue, order: Array) -> Ask:
    """Asks for the sums of the extra columns: products and memory of the first of `order`, and the choices before."""
    return Ask(ExtraSums.of, (model, _every, order[:TOP]))


@dataclass(frozen=True, eq=False)
class Fit:
    """A linear value of the k-th policy: Σφφᵀ, its views of the log, its ridge, and the influence of clusters."""

    k: int
    model: LinearValue
    C: Array
    views: tuple[View, ...]
    ridge: Array | None
    moved: Array

    def ask(self, ask: Ask) -> Ask:
        return ask._replace(views=self.views).under(self.k)

    def less(self, other: Fit, name: str) -> Estimate:
        """The change from another fit to this one."""
        return Estimate.of_influence(name, self.model.value - other.model.value, self.moved - other.moved)


def misfit(fit: Fit, extra: ExtraSums, names: Array, order: Array) -> Walk[Misfit]:
    """Test products and the memory of the columns that matter most (`order`, the heaviest first).

    `extra` are the sums of `extra_sums`.
    """
    top = order[:TOP]
    if not len(top) or fit.model.n_clusters < 3:
        return Misfit()
    labels = [f"{names[top[a]]} × {names[top[b]]}" for a, b in zip(*np.triu_indices(len(top)), strict=True)]
    said, change, drift = _memory_names(names[top]), None, None
    past, shape = extra.on(slice(len(labels), -1)), extra.on(slice(len(labels))).p_values(fit)
    before = extra.on(slice(-1, None))
    unlike, follow = before.p_values(fit), before.correction(fit.model)
    added = _standing_out(shape, SURE)
    if len(added):
        wider, past = yield from _with_columns(fit, products, top, added)
        fit, change = wider, wider.less(fit, "change")
    remembered = past.p_values(fit)
    # The memory comes in two halves (the last row, all rows before); in each the features stand before the reward.
    of_feature = np.arange(len(said)) % (len(said) // 2) < len(top)
    if len(others := _standing_out(remembered, CERTAIN)):
        wider, _ = yield from _with_columns(fit, memory, top, others)
        drift = wider.less(fit, "drift")
    return Misfit(
        float(shape.min()),
        float(remembered[of_feature].min()),
        float(np.where(of_feature, 1.0, remembered).min()),
        float(unlike[0]),
        tuple(labels[j] for j in added),
        tuple(said[j] for j in np.argsort(remembered, kind="stable")[:3]),
        change,
        drift,
        follow,
    )


def _with_columns(fit: Fit, columns: Columns, top: Array, added: Array) -> Walk[tuple[Fit, Any]]:
    """Fit again with some of the products, or of the memory, added. With products, also return the sums of memory."""
    ridge = None if fit.ridge is None else np.append(np.zeros(len(added)), fit.ridge)
    wider = replace(fit, views=(*fit.views, (_widened, (columns, top, added, fit.model))), ridge=ridge)
    found = yield {"sums": wider.ask(policy_sums(policies=[None]))}
    sums = found.sums.of_policy(0)
    wider = replace(wider, model=LinearValue.solve(sums.ridged(ridge)), C=sums.C[0])
    asked = {"moved": wider.ask(Ask(influence, (wider.model,)))}
    if columns is products:
        asked["past"] = wider.ask(Ask(ExtraSums.of, (wider.model, memory, top)))
    found = yield asked
    return replace(wider, moved=np.concatenate(found.moved)), getattr(found, "past", None)


def _standing_out(p: Array, sure: float) -> Array:
    """The columns to add, the most striking first; none if even the first is in doubt."""
    first = np.argsort(p, kind="stable")[:MAX_ADDED]
    return first[p[first] < 10 * SURE] if p.min() < sure else first[:0]


def _memory_names(names: Array) -> list[str]:
    every = [*names, "the reward", "the error of the prediction"]
    return [f"{name} one step before" for name in every] + [f"{name} in the steps before" for name in every]


def products(part: Part, _: LinearValue, top: Array) -> Iterator[Array]:
    """Products of the columns, for s and for s'."""
    left, right = (top[each] for each in np.triu_indices(len(top)))
    for rows in (part.batch.phi, part.batch.phi_next):
        yield rows[:, left] * rows[:, right]


def memory(part: Part, model: LinearValue, top: Array) -> Iterator[Array]:
    """The columns, the reward and the TD error in the row before, and their fading mean over all rows before.

    The first result is for s, where it is 0 in the first row of an episode; the second is for s'.
    """
    now = np.column_stack([part.batch.phi[:, top], part.batch.reward, _errors(model, part)])
    before = np.vstack([np.zeros((1, now.shape[1])), now[:-1]])
    before[part.episodes.first] = 0.0
    old = np.full(len(before), FADING)
    old[part.episodes.first] = 0.0
    fading = recurrence(old, (1 - FADING) * before)
    yield np.hstack([before, fading])
    yield np.hstack([now, FADING * fading + (1 - FADING) * now])


def choices(part: Part, model: LinearValue) -> Array:
    """How often the policy would have come to every row, from the choices before it: z of the module's docstring."""
    e, ratio, rows = part.episodes, part.batch.ratio, np.arange(len(part.batch))
    back = np.minimum(e.age, BEFORE)
    often = np.where(e.age > BEFORE, model.weights(part)[rows - back], 1.0 / model.n_episodes) * e.gamma**back
    for k in range(1, BEFORE + 1):
        often *= np.where(k <= back, ratio[rows - np.minimum(k, back)], 1.0)
    return np.asarray(often)


def _every(part: Part, model: LinearValue, top: Array) -> Iterator[Array]:
    """The extra columns for s. The choices are never added to the features, so they need no column for s'."""
    often = choices(part, model)[:, None]
    yield np.hstack([next(products(part, model, top)), next(memory(part, model, top)), often])


def _widened(part: Part, columns: Columns, top: Array, added: Array, model: LinearValue) -> Part:
    """A view: some of the products, or of the memory, before the other columns of [φ 1] and [φ 1] − γ[φ' 1]."""
    here, after = (rows[:, added] for rows in columns(part, model, top))
    change = here - part.batch.discount[:, None] * after
    return replace(part, made=(np.hstack([here, part.states]), np.hstack([change, part.changes])))


@dataclass(frozen=True, eq=False)
class ExtraSums:
    """The sums behind the statistics of extra columns z, with o_i = Σ_{t∈i} ρδφ and z_i = Σ_{t∈i} ρδz of cluster i."""

    Q: Array  # Σ ρ z(φ − γφ')ᵀ
    R: Array  # Σ z φᵀ
    squares: Array  # Σ z²
    own: Array  # Σ o
    own_own: Array  # Σ o oᵀ
    each: Array  # Σ z_i
    each_own: Array  # Σ z_i oᵀ
    each_squares: Array  # Σ z_i²

    @classmethod
    def of(cls, part: Part, model: LinearValue, columns: Columns, top: Array) -> ExtraSums:
        ratio, states, Z = part.batch.ratio, part.states, next(columns(part, model, top))
        weighted = ratio * _errors(model, part)
        own, each = (weighted_by_cluster(part.episodes, weighted, rows) for rows in (states, Z))
        Q = (ratio[:, None] * Z).T @ part.changes
        clustered = (own.sum(axis=0), own.T @ own, each.sum(axis=0), each.T @ own, (each**2).sum(axis=0))
        return cls(Q, Z.T @ states, np.einsum("ij,ij->j", Z, Z), *clustered)

    def on(self, some: slice) -> ExtraSums:
        """The sums of some of the extra columns."""
        named = vars(self).items()
        return ExtraSums(**{name: value if name.startswith("own") else value[some] for name, value in named})

    def __add__(self, other: ExtraSums) -> ExtraSums:
        return ExtraSums(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def p_values(self, fit: Fit) -> Array:
        """Bonferroni's p-value of every column; 1 for one that the features explain."""
        t = self.statistics(fit.model, fit.C)
        return np.minimum(2.0 * student.sf(np.abs(t), fit.model.n_clusters - 1) * max(int((t != 0).sum()), 1), 1.0)

    def statistics(self, model: LinearValue, C: Array) -> Array:
        """t_z of every column; 0 for one that the features explain, C being Σφφᵀ."""
        total, spread = self._totals(model)
        explained = np.einsum("ij,ji->i", self.R, lstsq(C, self.R.T, cond=1e-12, lapack_driver="gelsy")[0])
        sure = (self.squares - explained > REDUNDANT * self.squares) & (spread > ROUNDING * self.each_squares)
        return np.where(sure, total / np.sqrt(np.where(sure, spread, 1.0)), 0.0)

    def correction(self, model: LinearValue) -> Estimate:
        """Σ s̃ of the only column, with its standard error: what it adds to the value if it weighs the rows."""
        total, spread = (float(sums[0]) for sums in self._totals(model))
        return Estimate("correction", total, np.sqrt(max(spread, 0.0)), model.n_clusters, model.n_clusters - 1)

    def _totals(self, model: LinearValue) -> tuple[Array, Array]:
        """Σ s̃ and Σ s̃² of every column."""
        W = self.Q @ model.inverse
        spread = self.each_squares - 2 * (W * self.each_own).sum(axis=1) + ((W @ self.own_own) * W).sum(axis=1)
        return self.each - W @ self.own, spread


def _errors(model: LinearValue, part: Part) -> Array:
    """The TD errors, set to 0 where they are rounding.

    Without this a log in which nothing is random would fail the test: its rounding is the same in every episode.
    """
    value, change = part.states @ model.theta, part.changes @ model.theta
    error, size = part.batch.reward - change, np.abs(part.batch.reward) + np.abs(value) + np.abs(value - change)
    return np.where(np.abs(error) > ROUNDING * (size + size.mean()), error, 0.0)
