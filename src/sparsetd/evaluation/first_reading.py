"""The first reading of a log: the columns that values are computed from, and the sums of all policies on them.

    log → features → sums by policy and group of episodes → a basis, with the ridge that held-out episodes choose

`Basis.on(columns)` is a smaller basis, a slice of the same sums and a view of the same rows, so that choosing among
nested bases costs no reading.

How far an automatic basis is used for each policy follows from `selection.shrinkage` and these sums. **Which columns
matter** is then a question about columns, not about functions: all functions that use the column are left out, the rest
is fitted again from the same sums, and the held-out error rises or does not. As a share of what the whole basis
explains,

    importance of j = (loss without j − loss) / (loss of a constant − loss)

with the standard error of its mean over the folds. **How** a column matters is its shape: the value against the column,
averaged over the other columns. Its band comes from leaving out groups of episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from sparsetd.evaluation import choice, support
from sparsetd.evaluation.cautions import MOST_COMPARED, suspected_in
from sparsetd.evaluation.choice import Choice
from sparsetd.evaluation.episodes import Facts, Groups, Weighed
from sparsetd.evaluation.estimate import Value
from sparsetd.evaluation.linear import Span, policy_sums
from sparsetd.evaluation.reading import Ask, Opened, Part, Parts, answer, seen
from sparsetd.features.basis import Basis as RankBasis
from sparsetd.logs import suspicions
from sparsetd.selection import SparseTDSelect, shrinkage
from sparsetd.selection.moments import Moments, in_other_units, in_units
from sparsetd.selection.shrinkage import LAMBDAS, ROUNDING, losses, ridged, ridged_without, shrunk, widening
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

BOUNDED = 20_000  # rows that bounds under unrecorded causes are computed from
MAX_COLUMNS = 30  # columns that are left out in turn: those whose part of the value varies most
MAX_POINTS = 25  # points at which a shape is drawn
CENTRAL = float(ndtri(0.99))  # greatest score at which a shape is drawn: 1 % of the rows lie beyond, on either side
FALSE = 0.3  # expected number of unimportant columns that count as important by chance
NEVER = 100.0  # ridge in place of an infinite one, if another policy uses the functions
PLAUSIBLE = 1 / 40  # a ridge might have been chosen instead if this share of the resampled logs chooses it
OPEN = 2.0  # a ridge leaves the value open if a stronger one has an interval shorter than it by more than this factor
MATTERS = 2.0  # a column matters if its importance is at least this many standard errors above 0

WithError = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Column:
    """A column of the log: how much it matters and how.

    `importance` says how much of what the value function explains on held-out episodes is lost without the column, as a
    share, with its `standard_error`; `shape` has the value against the column, less its mean, with the ends of its
    band. `weight` is the change of the value per standard deviation, with its interval: half of that between the
    column's 16th and 84th percentile where it is curved. `linear` says that the column enters as it came, and `matters`
    that its importance is beyond chance, for as many columns as there are.
    """

    name: str
    importance: float
    standard_error: float
    matters: bool
    linear: bool
    weight: float
    interval: tuple[float, float]
    shape: dict[str, list[float]]
    number: int


@dataclass(frozen=True, eq=False)
class Built:
    """The ridge λ of every policy, and how far off its value may be because λ was chosen (`moves`).

    `groups` are the sums of the first policy, by which its λ was chosen.
    """

    lams: tuple[float, ...]
    moves: tuple[float, ...]
    n_raw: int
    groups: shrinkage.Groups

    @classmethod
    def of(cls, every: list[Moments], n_raw: int, each: int) -> Built:
        """Choose λ for every policy from its sums by group; `each` consecutive groups make one fold."""
        penalised = np.arange(every[0].b.shape[1]) >= n_raw
        penalised[-1] = False  # the constant
        root = shrinkage.critic(every[0])
        found = [shrinkage.Groups(moments, each, penalised, root) for moments in every]
        lams, moves = zip(*map(_settled, found), strict=True)
        return cls(lams, moves, n_raw, found[0])

    def ridge(self, lam: float) -> Array | None:
        """The ridge of every column at this λ; None if the raw columns alone are used."""
        return None if np.isinf(min(self.lams)) else np.where(self.groups.penalised, min(lam, NEVER), 0.0)


def _settled(groups: shrinkage.Groups) -> tuple[float, float]:
    """The λ with the least loss, or a stronger one if this leaves the value open; and how far off the value may be.

    That is the largest |v_λ − v| over the λ that might as well have been chosen. On unseen episodes a weak ridge may do
    as well as a strong one and yet leave the value open: one episode then moves it without bound. An interval that is
    only somewhat shorter is no reason for the stronger one, because its bias is known no better than the weak one's
    value.
    """
    least, shares = shrunk(groups)
    near = [other for other, share in zip(LAMBDAS, shares, strict=True) if share >= PLAUSIBLE or other == least]
    found = [_fitted(groups, lam) for lam in near]
    moves = [max(abs(value - other) for other, _ in found) for value, _ in found]
    lengths = [move + 2 * error for move, (_, error) in zip(moves, found, strict=True)]
    at = near.index(least)
    shortest = int(np.argmin(lengths[: at + 1]))
    settled = shortest if lengths[at] > OPEN * lengths[shortest] else at
    return near[settled], moves[settled]


def _fitted(groups: shrinkage.Groups, lam: float) -> tuple[float, float]:
    """The value at this λ, and its standard error over groups of episodes."""
    (A, b, n), m, penalised = groups.without(), groups.moments, groups.penalised
    start, episodes = m.start.sum(axis=0), m.n_episodes.sum()
    theta = ridged(A, b, n, penalised, lam)
    value, dual = float(start @ theta / episodes), ridged(A.T, start, n, penalised, lam) / episodes
    held = 0.0 if np.isinf(lam) else lam * (dual * penalised) @ theta
    first = (m.start @ theta - m.n_episodes * value) / episodes
    return value, float(np.linalg.norm(first + (m.b - m.A @ theta) @ dual - m.n_rows * held))


@dataclass(frozen=True, eq=False)
class Basis:
    """The columns that values are computed from, with the sums of the log on them.

    `moments` are those of every policy by fold and `groups` those of the first by smaller groups (None: not formed);
    `behavior` are the sums with the logged behaviour as the target, and `tail` Σγᴸφ(s_L) over the episodes cut after L
    rows. `columns` are numbered as the log's features are, `views` make the rows of this basis out of a part, and
    `sample` are rows at hand, in their own units.
    """

    rows: Part | Parts
    sample: Part
    columns: Array
    units: Units
    moments: tuple[Moments, ...]
    behavior: Moments
    tail: Array
    groups: Moments | None
    choice: Choice | None
    views: tuple[Any, ...] = ()
    built: Built | None = None

    def ridge(self, k: int) -> Array | None:
        """The ridge of every column, with the constant, for the k-th policy; None without an automatic basis."""
        return None if self.built is None else self.built.ridge(self.built.lams[k])

    @property
    def share(self) -> float:
        """The share of an interval's misses that sampling may cause; the rest is spent on what the ridge may cost."""
        return 1.0 if self.built is None else shrinkage.OF_SAMPLING

    def widened(self, k: int, value: float, moved: Array) -> Value:
        """The value of the k-th policy, with influences that also cover the choices made in building the basis."""
        if self.built is None:
            return Value(value, moved)
        error = Value(value, moved).estimate().standard_error
        return Value(value, moved * widening(self.built.moves[k], error), self.share)

    def raw(self) -> Basis:
        """The columns as they came, without the functions that were built of them."""
        return self if self.built is None else replace(self.first(self.built.n_raw), built=None)

    def first(self, n: int) -> Basis:
        """The first n columns. These are the raw ones, so the functions built from them are no longer computed."""
        if n == len(self.columns):
            return self
        few = self.on(np.arange(n))
        return replace(few, rows=self.rows.first_columns(n), sample=self.sample.first_columns(n), views=self.views)

    def on(self, some: Array) -> Basis:
        """A smaller basis: these columns (numbers within this one), without another reading."""
        inside = np.append(some, len(self.columns))
        return replace(
            self,
            columns=self.columns[some],
            moments=tuple(m.on(inside) for m in self.moments),
            behavior=self.behavior.on(inside),
            tail=self.tail[inside],
            groups=None if self.groups is None else self.groups.on(inside),
            views=(*self.views, (Part.on, (some,))),
        )

    @property
    def at_hand(self) -> Part:
        """The rows of a log in memory, or the sample of one in shards."""
        return self.rows if isinstance(self.rows, Part) else self.sample.in_units(self.rows.units)

    @property
    def first_clusters(self) -> Part:
        """The first clusters at hand, about `BOUNDED` rows of them; their features are not formed yet."""
        rows = self.at_hand
        ends = np.append(rows.episodes.clusters[1:], len(rows.episodes))
        last = np.searchsorted(ends, np.searchsorted(rows.episodes.last, BOUNDED) + 1)
        return rows.some(slice(0, int(ends[min(int(last), len(ends) - 1)])))

    @cached_property
    def first_rows(self) -> Part:
        """The first clusters at hand on this basis."""
        return seen(self.first_clusters.whole(), self.views, {})

    def ask(self, ask: Ask, policy: int | None = None) -> Ask:
        """The ask of the rows on this basis, under a policy or as logged."""
        own = ask._replace(views=(*self.views, *ask.views))
        return own if policy is None else own.under(policy)


@dataclass(frozen=True, eq=False)
class First:
    """The log and the results of its first reading: the basis, the sums that need no features, and the digests."""

    log: Opened
    groups: Groups
    basis: Basis
    facts: tuple[Facts, ...]
    ages: tuple[Weighed | None, ...]
    digests: Array | None

    @cached_property
    def suspected(self) -> dict[str, str]:
        """What `inspect` suspects of the log."""
        return suspected_in(self.log.log, self.log.behavior is not None)


def first_reading(log: Opened, details: bool) -> First:
    """The sums of all columns for every policy, by groups of clusters where halves are to be drawn, else by fold."""
    settings = log.settings
    groups = Groups.of(log.hashes, len(log.log), settings.n_folds, settings.cluster is not None)
    settings.tell(f"reading {len(log.names)} features of {len(log.hashes):,} episodes")
    rows, columns, chosen, units = _columns(log)
    every, formed = range(len(log.targets)), units is None
    resampled = bool(details and settings.n_resamples) and len(columns) <= choice.MAX_RIVALS
    split = formed and (resampled or log.built is not None)
    group, n = (groups.group, groups.n) if split else (groups.fold, groups.n // groups.each)
    policies = (None, *every)
    span = Span.of(rows.ratios) if isinstance(rows, Part) and rows.ratios is not None else Span.none(len(every))
    asked = {"sums": policy_sums(group, n, [policies[k] for k in span.formed]), "tail": Ask(_tail)}
    # Copies of episodes have equal digests. A share of the digests is kept, so that they are never too many.
    asked["digests"] = Ask(_digests, (min(1.0, MOST_COMPARED / len(groups.group)),), whole=True)
    asked |= {f"facts {k}": Ask(Facts.of, whole=True).under(k) for k in every}
    asked |= {f"ages {k}": Ask(support.by_age, whole=True).under(k) for k in every if details}
    found = vars(answer(rows, **asked))
    behavior, *own = (found["sums"].mixed(shares) for shares in span.shares)
    behavior, tail = behavior.total(), found["tail"]
    if units is None:
        own, behavior, tail, units = _in_final_units(log, own, behavior, tail)
        rows = rows if units is log.units else rows.in_units(units)
    folds = tuple(moments.merged(groups.each) if split else moments for moments in own)
    smaller = own[0] if split else None
    basis = Basis(rows, log.sample, columns, units, folds, behavior, tail, smaller, chosen)
    if log.built is not None and formed:
        basis = _shrunk(basis, log.n_candidates, own, groups.each)
    digests = np.hstack(found["digests"]) if found["digests"] else None
    facts, ages = (tuple(found.get(f"{name} {k}") for k in every) for name in ("facts", "ages"))
    return First(log, groups, basis, facts, ages, digests)  # type: ignore[arg-type]


def _in_final_units(
    log: Opened, own: list[Moments], behavior: Moments, tail: Array
) -> tuple[list[Moments], Moments, Array, Units]:
    """The sums in units of the mean and the spread of all rows; often they were formed in these already."""
    old, new = log.units, own[0].units(log.units)
    if old.agree(new):
        return own, behavior, tail, old
    return in_units(own, old, new), behavior.in_units(old, new), in_other_units(tail, old, new), new


def _shrunk(basis: Basis, n_raw: int, every: list[Moments], each: int) -> Basis:
    """The basis with the ridge that held-out episodes choose for each policy; only raw columns if all choose these."""
    built = Built.of(every, n_raw, each)
    if np.isinf(min(built.lams)):  # no policy uses the functions
        return replace(basis.first(n_raw), built=built)
    return replace(
        basis,
        moments=tuple(m.ridged(built.ridge(lam)) for m, lam in zip(basis.moments, built.lams, strict=True)),
        behavior=basis.behavior.ridged(built.ridge(min(built.lams))),  # the least of all policies
        built=built,
    )


def _columns(log: Opened) -> tuple[Part | Parts, Array, Choice | None, Units | None]:
    """The rows on the columns that the value is computed from.

    If the rows do not afford all columns, double selection chooses among those of a log in memory; the units that are
    returned are then those in which it chose.
    """
    rows, every, estimator = log.rows, np.arange(len(log.names)), log.settings.estimator
    formed = len(every) <= choice.affordable(len(log.log)) and not rows.is_sparse
    if isinstance(rows, Parts) and (estimator is not None or not formed):
        raise ValueError(
            f"A log in shards is evaluated on the sums of its features; an `estimator`, or {len(every):,} features "
            f"(more than {choice.FORMED:,}, or than a tenth of its first 50,000 rows), need it in memory: pass "
            "`read(path)`."
        )
    if isinstance(rows, Parts) or formed:
        return rows, every, None, None
    sparse = rows.is_sparse
    if rows.beside is not None:
        rows = rows.in_units(Units.none(rows.n_features, False)).whole()
    units = Units.of(rows.batch.phi, centre=not sparse)
    whole = rows.in_units(units).whole()
    default = SparseTDSelect(gamma=rows.episodes.gamma, fit_intercept=not sparse).set_params(standardize=sparse)
    seen = [whole.under(k).batch for k in range(len(log.targets))]
    choices = [choice.choose(batch, default if estimator is None else estimator) for batch in seen]
    wanted = [choice.value_columns(batch, chosen.support) for batch, chosen in zip(seen, choices, strict=True)]
    columns = np.unique(np.concatenate(wanted))
    return whole.on(columns), columns, choices[0], units


def _tail(part: Part) -> Array:
    """Σ γᴸ[φ(s_L) 1] over the episodes that were cut after L rows."""
    e = part.episodes
    cut = e.last[~e.complete]
    after = (part.states[cut] - part.changes[cut]) * e.gamma ** e.age[cut][:, None]  # changes hold γφ(s_L)
    return np.asarray(after.sum(axis=0))


def _digests(part: Part, share: float) -> list[Array]:
    """Digests of the episodes. In a large log only the small ones are kept, so an episode stays with its copies."""
    if part.is_sparse:
        return []
    bounds = np.append(part.episodes.first, len(part.batch))
    found = suspicions.episode_digests(part.batch.phi, part.batch.reward, bounds)
    return [found[:, found[0] <= share * 2.0**64]]


def columns_of(log: Opened, basis: Basis, level: float) -> tuple[Column, ...]:
    """The columns of the log by importance for the first policy; empty if the basis was not built here."""
    built, made = basis.built, log.built
    if built is None or made is None:
        return ()
    lam, groups, penalised = built.lams[0], built.groups, built.groups.penalised
    whole, C = groups.without(), groups.moments.mean_square()
    theta = ridged(*whole, penalised, lam)
    parts = [np.append(made.owners_[:, j], False) for j in range(built.n_raw)]
    spread = [theta[own] @ C[np.ix_(own, own)] @ theta[own] for own in parts]
    shown = np.argsort(-np.array(spread), kind="stable")[:MAX_COLUMNS]
    not_constant = np.arange(len(penalised)) < len(penalised) - 1
    out = [np.zeros_like(not_constant), not_constant, *(parts[j] for j in shown)]

    def fits(A: Array, b: Array, n_rows: float) -> Array:
        return np.stack(ridged_without(A, b, n_rows, penalised, lam, out), axis=1)

    found = losses(groups, fits)[..., 0]
    rise, explained = found[2:] - found[0], float((found[1] - found[0]).mean())
    size = explained if explained > 0 else float(found[1].mean()) or 1.0
    mean, error = rise.mean(axis=1) / abs(size), rise.std(axis=1, ddof=1) / np.sqrt(rise.shape[1]) / abs(size)
    bound = max(MATTERS, float(student.isf(FALSE / max(built.n_raw, 2), rise.shape[1] - 1)))
    sure = mean > np.maximum(bound * error, ROUNDING)  # a copy of another column rises by rounding alone
    with_error = _with_error(theta, groups, lam, np.append(basis.units.scale, 1.0), level)
    columns = [
        Column(
            str(log.names[j]), float(mean[i]), float(error[i]), bool(sure[i]), bool(np.isinf(lam)),
            *_weight(made, j, with_error), _shape(made, j, with_error), int(j),
        )
        for i, j in enumerate(shown)
    ]  # fmt: skip
    return tuple(sorted(columns, key=lambda column: (-round(column.importance, 6), column.number)))


def _with_error(theta: Array, groups: shrinkage.Groups, lam: float, scale: Array, level: float) -> WithError:
    """θᵀψ of rows and half of their intervals, by leaving out groups of episodes."""
    (A, b, n), m = groups.without(), groups.moments
    sums = zip(m.A, m.b, m.n_rows, strict=True)
    fits = [ridged(A - own, b - earned, n - rows, groups.penalised, lam) for own, earned, rows in sums]
    others, k = (np.stack(fits) / scale).T, len(fits)
    reach = student.ppf(0.5 + level / 2, k - 1) * np.sqrt((k - 1) / k)

    def with_error(rows: Array) -> tuple[Array, Array]:
        wider = np.column_stack([rows, np.zeros(len(rows))])
        each = wider @ others
        wide = np.sqrt(((each - each.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
        return wider @ (theta / scale), reach * wide

    return with_error


def _shape(made: RankBasis, j: int, with_error: WithError) -> dict[str, list[float]]:
    """The value against column j, less its mean over the points shown, with the ends of its band.

    The ends of the column are left out: few rows lie there, and the band does not know that the curve may turn.
    """
    at = made.values_[j]
    within = np.abs(made.scores_[j]) <= CENTRAL
    if len(at) > 2 and within.sum() > 1:
        at = at[within]
    if len(at) > MAX_POINTS:
        at = np.unique(at[np.linspace(0, len(at) - 1, MAX_POINTS).astype(int)])
    rows = made.profile(j, at)
    curve, wide = with_error(rows - rows.mean(axis=0))
    found = {"at": at, "value": curve, "low": curve - wide, "high": curve + wide}
    return {name: [float(v) for v in y] for name, y in found.items()}


def _weight(made: RankBasis, j: int, with_error: WithError) -> tuple[float, tuple[float, float]]:
    """The change of the value per standard deviation of column j, with its interval."""
    values, share = made.values_[j], float(made.centre_[j])
    two, size = values[[0, -1]], np.sqrt(max(share * (1 - share), 0.0))
    if len(values) > 2:
        two, size = np.interp([-1.0, 1.0], made.scores_[j], values), 0.5
    low, high = made.profile(j, two)
    change, wide = (float(v[0]) for v in with_error(size * (high - low)[None]))
    return change, (change - wide, change + wide)
