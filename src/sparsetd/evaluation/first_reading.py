"""The first reading of a log: the columns that values are computed from, and the sums of all policies on them.

    log → features → sums by policy and group of episodes → a basis, with the ridge that held-out episodes choose

`Basis.on(columns)` is a smaller basis, a slice of the same sums and a view of the same rows, so that to choose among
nested bases costs no reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparsetd.evaluation import choice, support
from sparsetd.evaluation.built import Built
from sparsetd.evaluation.cautions import MOST_COMPARED
from sparsetd.evaluation.choice import Choice
from sparsetd.evaluation.episodes import Facts, Groups, Weighed
from sparsetd.evaluation.estimate import Value
from sparsetd.evaluation.linear import policy_sums
from sparsetd.evaluation.reading import Ask, Opened, Part, Parts, answer, open_log, seen
from sparsetd.logs import suspicions
from sparsetd.logs.engines import Engine
from sparsetd.selection import SparseTDSelect
from sparsetd.selection.moments import Moments, in_other_units
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

BOUNDED = 20_000  # rows that bounds under unrecorded causes are computed from

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How policies are judged; see `evaluate` for what each of them means."""

    gamma: float = 0.99
    features: Any = "auto"
    estimator: Any = None
    classifier: Any = None
    level: float = 0.95
    n_folds: int = 5
    n_resamples: int = 20
    random_state: int = 0
    cluster: Any = None
    engine: Engine | None = None
    checkpoint: str | None = None
    progress: Progress | None = None

    def tell(self, message: str) -> None:
        if self.progress is not None:
            self.progress(message)

    def shown(self) -> dict[str, Any]:
        """The settings that a page prints so that the answer can be repeated."""
        named = {"model": self.estimator, "classifier": self.classifier, "features": self.features}
        column = self.cluster if isinstance(self.cluster, str) else None if self.cluster is None else "given"
        return {
            "gamma": self.gamma,
            "level": self.level,
            "folds": self.n_folds,
            "resamples": self.n_resamples,
            "random state": self.random_state,
            **({} if column is None else {"cluster": column}),
            **{name: repr(value) for name, value in named.items() if value is not None},
        }


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
        return None if self.built is None else self.built.ridges[k]

    def widened(self, k: int, value: Value) -> Value:
        """The value of the k-th policy, with influences that also cover the choices made in building the basis."""
        return value if self.built is None else self.built.widened(k, value)

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

    @cached_property
    def first_rows(self) -> Part:
        """The first clusters at hand, about `BOUNDED` rows of them, on this basis."""
        rows = self.at_hand
        ends = np.append(rows.episodes.clusters[1:], len(rows.episodes))
        last = np.searchsorted(ends, np.searchsorted(rows.episodes.last, BOUNDED) + 1)
        return seen(rows.some(slice(0, int(ends[min(int(last), len(ends) - 1)]))).whole(), self.views, {})

    def ask(self, ask: Ask, policy: int | None = None) -> Ask:
        """The ask of the rows on this basis, under a policy or as logged."""
        own = ask._replace(views=(*self.views, *ask.views))
        return own if policy is None else own.under(policy)


@dataclass(frozen=True, eq=False)
class First:
    """The log and the results of its first reading: the basis, sums without features by policy, and the digests."""

    log: Opened
    settings: Settings
    groups: Groups
    basis: Basis
    facts: tuple[Facts, ...]
    ages: tuple[Weighed | None, ...]
    digests: Array | None


def first_reading(source: Any, targets: Mapping[str, Any], settings: Settings, details: bool) -> First:
    """The sums of all columns for every policy, by groups of clusters where halves are to be drawn, else by fold."""
    log = open_log(
        source, targets, settings.gamma, features=settings.features, classifier=settings.classifier,
        cluster=settings.cluster, engine=settings.engine, folder=settings.checkpoint,
    )  # fmt: skip
    groups = Groups.of(log.hashes, len(log.log), settings.n_folds, settings.cluster is not None)
    settings.tell(f"reading {len(log.names)} features of {len(log.hashes):,} episodes")
    rows, columns, chosen, units = _columns(log, settings)
    every, formed = range(len(log.targets)), units is None
    resampled = bool(details and settings.n_resamples) and len(columns) <= choice.MAX_RIVALS
    split = formed and (resampled or log.built is not None)
    group, n = (groups.group, groups.n) if split else (groups.fold, groups.n // groups.each)
    asked = {"sums": policy_sums(group, n, (*every, None)), "tail": Ask(_tail)}
    # Copies are told by the digests, and the share of the digests that is kept bounds their number.
    asked["digests"] = Ask(_digests, (min(1.0, MOST_COMPARED / len(groups.group)),), whole=True)
    asked |= {f"facts {k}": Ask(Facts.of, whole=True).under(k) for k in every}
    asked |= {f"ages {k}": Ask(support.by_age, whole=True).under(k) for k in every if details}
    found = vars(answer(rows, **asked))
    *own, behavior = (found["sums"].of_policy(k) for k in (*every, len(every)))
    tail = found["tail"]
    if units is None:
        units = own[0].units(log.units)
        *own, behavior = (moments.in_units(log.units, units) for moments in (*own, behavior))
        tail, rows = in_other_units(tail, log.units, units), rows.in_units(units)
    folds = tuple(moments.merged(groups.each) if split else moments for moments in own)
    smaller = own[0] if split else None
    basis = Basis(rows, log.sample, columns, units, folds, behavior.total(), tail, smaller, chosen)
    if log.built is not None and formed:
        basis = _shrunk(basis, log.n_candidates, own, groups.each)
    digests = np.hstack(found["digests"]) if found["digests"] else None
    facts, ages = (tuple(found.get(f"{name} {k}") for k in every) for name in ("facts", "ages"))
    return First(log, settings, groups, basis, facts, ages, digests)  # type: ignore[arg-type]


def _shrunk(basis: Basis, n_raw: int, every: list[Moments], each: int) -> Basis:
    """The basis with the ridge that held-out episodes choose for each policy; only raw columns if all choose these."""
    built = Built.of(every, n_raw, each, basis.units.scale)
    if built.is_raw:
        return replace(basis.first(n_raw), built=built)
    return replace(
        basis,
        moments=tuple(m.ridged(ridge) for m, ridge in zip(basis.moments, built.ridges, strict=True)),
        behavior=basis.behavior.ridged(built.flexible),
        built=built,
    )


def _columns(log: Opened, settings: Settings) -> tuple[Part | Parts, Array, Choice | None, Units | None]:
    """The rows on the columns that the value is computed from.

    Beyond what the rows afford, double selection chooses among the columns of a log in memory; `units` are then those
    in which it chose.
    """
    rows, every, estimator = log.rows, np.arange(len(log.names)), settings.estimator
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
    return Part.of(whole.batch, whole.episodes, columns, whole.ratios), columns, choices[0], units


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
