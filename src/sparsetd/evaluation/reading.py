"""A log is opened once, in memory or in shards, for any number of policies; sums over its episodes are asked of it.

    Σ f(piece, *along, *args)        over pieces of whole clusters that fit into the processor's cache

All that is asked together comes from one reading, as a record with a name for each sum. A log in memory is one `Part`;
`Parts` reads the shards again for every question, and has the same interface. `together` runs the walks of several
policies in step: what all of them ask next comes from one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from sparsetd.evaluation.behavior import BehaviorPolicy, Calibrated
from sparsetd.evaluation.clusters import arranged, in_blocks
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.parts import Part, pilot_units, under
from sparsetd.evaluation.target import Target, pose, taken
from sparsetd.evaluation.target import reading as column_roles
from sparsetd.features.basis import Basis, automatic
from sparsetd.features.featurize import feature_names, featurize, fit_features
from sparsetd.logs import Shard, Transitions, concatenate, shards
from sparsetd.logs.engines import Engine, reduced
from sparsetd.logs.partition import hashed, refuse_own
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

SAMPLE = 50_000  # rows of a log in shards on which features are fitted and everything but sums is looked at

T = TypeVar("T")
View = tuple[Callable[..., Part], tuple[Any, ...]]
Walk = Generator[dict[str, "Ask"], SimpleNamespace, T]  # asks by name, gets a record of sums, ends with a result


@dataclass(frozen=True, eq=False)
class Ask:
    """Σ f(piece, *along, *args), results needing only `+`; arrays in a list are joined.

    `along` are arrays with an entry for every episode of the log, of which a piece gets its own; `views` say what is
    first made of the piece. A function that adds to a sum in place gets it as `into`; one that needs no features may
    have the `whole` part at once.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...] = ()
    along: tuple[Array, ...] = ()
    views: tuple[View, ...] = ()
    into: bool = False
    whole: bool = False

    def on(self, view: Callable[..., Part], *args: Any) -> Ask:
        """The same of the log whose parts are view(part, *args)."""
        return replace(self, views=(*self.views, (view, args)))

    def under(self, k: int) -> Ask:
        """The same for the k-th policy, before any other view."""
        return replace(self, views=((under, (k,)), *self.views))

    def plan(self) -> tuple[Any, ...]:
        """The ask without its arrays, for `answers`."""
        return self.f, self.args, len(self.along), self.views, self.into, self.whole


@dataclass(frozen=True, eq=False)
class Several:
    """Results that are added one by one."""

    values: list[Any]

    def __add__(self, other: Several) -> Several:
        return Several([a + b for a, b in zip(self.values, other.values, strict=True)])


def answers(part: Part, *along_and_plans: Any) -> Several:
    """The answers of one part to the plans of several asks, with the arrays of all of them before these."""
    *along, plans = along_and_plans
    totals = [f(seen(part, views), *args) if whole else None for f, args, _, views, _, whole in plans]
    for piece, members in part.pieces() if not all(plan[-1] for plan in plans) else ():
        own = iter([array[members] for array in along])
        for i, (f, args, n_along, views, into, whole) in enumerate(plans):
            if not whole:
                given = (seen(piece, views), *(next(own) for _ in range(n_along)), *args)
                totals[i] = f(*given, into=totals[i]) if into else _added(totals[i], f(*given))
    return Several(totals)


def _added(total: Any, more: Any) -> Any:
    if total is None:
        return more
    total += more
    return total


def seen(part: Part, views: Sequence[View]) -> Part:
    """Return what the views make of a part, one after the other."""
    for view, args in views:
        part = view(part, *args)
    return part


@dataclass(frozen=True, eq=False)
class Reading:
    """How transitions become a part: target policies, discount, fitted features, their units, and the clusters.

    `behavior` fills in the probabilities of the logged actions where they were estimated.
    """

    targets: tuple[Target, ...]
    gamma: float
    features: Any = None
    units: Units | None = None
    behavior: Calibrated | None = None
    cluster: str | None = None

    def __call__(self, log: Transitions) -> Part:
        cluster = None
        if self.cluster is not None:
            log, cluster, _ = arranged(log, self.cluster)
        return self.of(log, cluster)

    def of(self, log: Transitions, cluster: Array | None = None) -> Part:
        """The part of a log whose clusters, numbered episode by episode, follow one another."""
        known = log if self.behavior is None else self.behavior.apply(log)
        ratios = np.stack([_ratio(log, known, target) for target in self.targets])
        episodes = Episodes.of_log(log, self.gamma, np.ones(len(log)), cluster)
        batch = featurize(replace(log, ratio=np.ones(len(log))), self.features, self.gamma, clear=False)
        return Part(batch, episodes, log.ids(), self.units, ratios)


def _ratio(log: Transitions, known: Transitions, target: Target) -> Array:
    """π/μ of a target; ratios that the log itself has are taken as they are."""
    as_logged = target.form is None and target.of_logged and log.ratio is not None
    ratio = np.asarray(pose(log if as_logged else known, target).log.importance_ratio(), dtype=np.float64)
    if not np.all(np.isfinite(ratio) & (ratio >= 0)):
        raise ValueError(f"`ratio` must hold {len(log)} finite non-negative numbers, one per row.")
    return ratio


@dataclass(frozen=True, eq=False)
class Parts:
    """The shards of a log, how and by whom they are read, and the number of episodes of each."""

    shards: Sequence[Shard]
    reading: Reading
    engine: Engine | None
    folder: str | None
    sizes: Array

    def in_units(self, units: Units) -> Parts:
        return replace(self, reading=replace(self.reading, units=units))


def answer(rows: Part | Parts, **asked: Ask) -> SimpleNamespace:
    """Return what is asked, by its names, from one reading."""
    along, plans = [array for ask in asked.values() for array in ask.along], tuple(a.plan() for a in asked.values())
    if isinstance(rows, Part):
        found = answers(rows, *along, plans)
    else:
        cut = [np.split(array, np.cumsum(rows.sizes)[:-1]) for array in along]
        own = list(zip(*cut, strict=True)) if cut else None
        how: dict[str, Any] = {"engine": rows.engine, "folder": rows.folder, "opened": rows.reading}
        found = reduced(answers, rows.shards, (plans,), along=own, **how)
    return SimpleNamespace(**dict(zip(asked, found.values, strict=True)))


def together(rows: Part | Parts, *walks: Walk[Any]) -> list[Any]:
    """Run walks in step, each step with one reading of the log; returns their results."""
    results: dict[int, Any] = {}
    told: dict[int, SimpleNamespace | None] = dict.fromkeys(range(len(walks)))
    while told:
        asked: dict[int, dict[str, Ask]] = {}
        for i, record in told.items():
            try:
                asked[i] = walks[i].send(record)  # type: ignore[arg-type]
            except StopIteration as end:
                results[i] = end.value
        found = answer(rows, **{f"{name} {i}": ask for i, own in asked.items() for name, ask in own.items()})
        told = {i: SimpleNamespace(**{name: getattr(found, f"{name} {i}") for name in own}) for i, own in asked.items()}
    return [results[i] for i in range(len(walks))]


@dataclass(frozen=True, eq=False)
class Opened:
    """The rows with φ in preliminary units, the columns' names, and a hash of every episode's cluster.

    `log` is a sample (the first shards, where there are several; otherwise everything) with behaviour probabilities,
    and `sample` its rows. `blocks` says how one long record was cut, and `spans` which runs
    of episodes are one cluster where one lies in several shards. `built` is the automatic basis, where there is one.
    """

    rows: Part | Parts
    names: Array
    hashes: Array
    units: Units
    log: Transitions
    sample: Part
    features: Any
    targets: tuple[Target, ...]
    target_names: tuple[str, ...]
    behavior: BehaviorPolicy | None
    blocks: str = ""
    spans: Array | None = None
    built: Basis | None = None

    def joined(self, found: list[Array]) -> Array:
        """What the clusters of all parts have, along the last axis; pieces of one cluster in two shards are added."""
        every = np.concatenate(found, axis=-1)
        if self.spans is None:
            return every
        n = int(self.spans.max()) + 1
        rows = np.atleast_2d(every)
        added = np.stack([np.bincount(self.spans, row, n) for row in rows]) * (n / rows.shape[1])
        return added[0] if every.ndim == 1 else added


def open_log(
    source: Any,
    targets: Mapping[str, Any],
    gamma: float,
    *,
    features: Any = None,
    classifier: Any = None,
    cluster: Any = None,
    engine: Engine | None = None,
    folder: str | None = None,
) -> Opened:
    """Bring log, targets and features together. Features with something to fit are fitted on the first shards."""
    parts, forms = _read(source, targets)
    if len(parts) > 1 and not (cluster is None or isinstance(cluster, str)):
        raise ValueError("`cluster` must name a column where the log is in shards: pass the name of a column.")
    first, codes, order, blocks = sample(parts), None, None, ""
    if cluster is not None:
        whole = first
        first, codes, order = arranged(first, cluster)
        forms = {name: form if order is None else Target.of(form, whole)[order] for name, form in forms.items()}
    elif len(parts) == 1:
        first, blocks = in_blocks(first)
    asked, behavior = _posed(first, forms, classifier)
    auto = isinstance(features, str)
    if auto and features != "auto":
        raise ValueError(
            f'`features` is {features!r}: pass "auto", a transformer, or None for the columns as they are.'
        )
    phi = automatic(_beginning(first), gamma) if auto else fit_features(first, features)
    model = None if behavior is None else behavior.model
    reading = Reading(asked, gamma, phi, None, model, cluster if isinstance(cluster, str) else None)
    part = reading.of(first, codes)
    units = Units.of(part.batch.phi, centre=False) if part.batch.is_sparse else pilot_units(part.batch.phi[:SAMPLE])
    rows: Part | Parts = part.in_units(units)
    hashes, spans = hashed(part.ids if codes is None else codes), None
    if len(parts) > 1:
        found = [hashed(_named(shard, cluster)) for shard in parts]
        hashes, sizes = np.concatenate(found), np.array([len(h) for h in found])
        rows = Parts(parts, replace(reading, units=units), engine, folder, sizes)
        spans = None if cluster is None else _spans(found)
    log = first if behavior is None else behavior.apply(first)
    named = (feature_names(phi, first), hashes, units, log, part, phi, asked, tuple(targets))
    built = phi if auto else None
    return Opened(rows, *named, behavior, blocks, spans, built)


def _beginning(log: Transitions) -> Transitions:
    """The first episodes that have `SAMPLE` rows together: the same ones, whether the log is in memory or in shards."""
    starts = np.flatnonzero(log.start)
    after = starts[starts >= SAMPLE]
    return log[: after[0]] if len(after) else log


def _read(source: Any, targets: Mapping[str, Any]) -> tuple[tuple[Shard, ...], dict[str, Any]]:
    """The shards of a source, and the targets; those that name a column of it are read from there."""
    forms, roles = {}, [column_roles(target, source) for target in targets.values()]
    named = [columns["target_prob"] for _, columns in roles if columns.get("target_prob") is not None]
    columns: dict[str, Any] = {"target_prob": named[0], "ratio": None} if named else roles[0][1]
    parts = shards(source, **columns)
    for (name, target), (form, own) in zip(targets.items(), roles, strict=True):
        column = own.get("target_prob")
        if column is not None and column != named[0] and len(parts) > 1:
            raise ValueError(f"policy {name!r}: a log in shards has one column of probabilities: ask in two goes.")
        one = column is not None and len(targets) > 1 and len(parts) == 1
        forms[name] = taken(np.asarray(shards(source, **own)[0].read().target_prob), target) if one else form
    return parts, forms


def _posed(
    log: Transitions, targets: Mapping[str, Any], classifier: Any
) -> tuple[tuple[Target, ...], BehaviorPolicy | None]:
    """The targets, and the behaviour if it had to be estimated, which is done once."""
    asked: list[Target] = []
    behavior: BehaviorPolicy | None = None
    for name, form in targets.items():
        try:
            target = Target.of(form, log)
            own = target.form is None and log.ratio is not None
            known = log if behavior is None or own else behavior.apply(log)
            question = pose(known, target, classifier=None if behavior else classifier)
            refuse_own(target.form, log)
        except ValueError as error:
            raise ValueError(f"policy {name!r}: {error}" if len(targets) > 1 else str(error)) from None
        asked.append(target)
        behavior = behavior or question.behavior
    return tuple(asked), behavior


def _spans(found: Sequence[Array]) -> Array | None:
    """The cluster of every run of episodes within a shard; None where no cluster lies in two shards."""
    runs = np.concatenate([h[np.append(True, h[1:] != h[:-1])] for h in found])
    clusters, which = np.unique(runs, return_inverse=True)
    return None if len(clusters) == len(runs) else which


def _named(shard: Shard, cluster: str | None) -> Array:
    """Return what the clusters of a shard's episodes are called: the episodes' own ids without `cluster`."""
    return shard.ids() if cluster is None else arranged(shard.read(), cluster)[1]


def sample(parts: Sequence[Shard], sparse: bool = False) -> Transitions:
    """The log, if it is one part; otherwise the first parts, until there are rows enough."""
    if len(parts) == 1:
        return parts[0].read(sparse)
    read, n = [], 0
    for part in parts:
        read.append(part.read(sparse))
        n += len(read[-1])
        if n >= SAMPLE:
            break
    return concatenate(read)
