"""A log is opened once, in memory or in shards, for any number of policies, and then asked for sums over episodes.

    Σ f(piece, *along, *args)        over pieces of whole clusters that fit into the processor's cache

All sums that are asked for together come from one reading, as a record with a name for each. A log in memory is one
`Part`: whole episodes with φ and φ' of their rows. `Parts` reads the shards again for every question, and has the same
interface. Policies differ in the ratios ρ = π/μ and in nothing else, so `under(k)` is the same part with the ratios of
the k-th policy; without it the ratios are those of the logged behaviour, 1. `together` runs the walks of several
policies in step: what all of them ask next comes from one reading.

The sums need the rows in common units, as [φ 1], [φ' 1] and [φ 1] − γ[φ' 1]. These are made piece by piece, so that a
piece stays near the processor. The functions of an automatic basis are made with the piece too, so that memory does not
follow the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from sparsetd.evaluation.behavior import BehaviorPolicy, Calibrated
from sparsetd.evaluation.episodes import Episodes, arranged, in_blocks
from sparsetd.evaluation.target import Target, pose, taken
from sparsetd.evaluation.target import reading as column_roles
from sparsetd.features.basis import Basis, automatic
from sparsetd.features.featurize import feature_names, featurize, fit_features
from sparsetd.logs import Shard, Transitions, concatenate, shards
from sparsetd.logs.engines import Engine, reduced
from sparsetd.logs.partition import hashed, refuse_own
from sparsetd.logs.reading import read_with_notes
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000
BLOCK = 2**18  # numbers of φ in a piece: the piece, 2 MB, and its products stay in the processor's cache
MANY = 8  # the pieces of a log with fewer than this are made once and kept, not anew for every reading
LEAST = 2_048  # rows of a piece, however many columns: adding up sums must stay cheaper than forming them
TINY = 1e-100  # below this spread the squares of a column are lost
NEARLY_FLAT = 1e-6  # a column counts as constant if its spread is below this share of its mean
LEAST_SPREAD = 1e-290  # below this spread, 1 / spread is not a number
MOST_REWARD = 1e70  # the largest reward, and 1 / the smallest: their fourth powers are still numbers
MOST_RATIO = 1e50
SAMPLE = 50_000  # first rows of a sharded log: features are fitted to them, and everything except sums uses them

T = TypeVar("T")
View = tuple[Callable[..., "Part"], tuple[Any, ...]]
Walk = Generator[dict[str, "Ask"], SimpleNamespace, T]  # asks by name, gets a record of sums, ends with a result


Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How a log is opened and policies are judged; see `evaluate` for what each of them means."""

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
class Part:
    """Whole episodes with columns φ, φ' (the constant is not among them); `units` are those of its pieces.

    `ratios` has a row for every policy. `beside` are functions of the columns, which only pieces have: for all rows at
    once they would take more memory than the log. `made` are [φ 1] and [φ 1] − γ[φ' 1], once they exist.
    """

    batch: Batch
    episodes: Episodes
    units: Units | None = None
    ratios: Array | None = None
    beside: Basis | None = None
    made: tuple[Array, Array] | None = None

    @cached_property
    def states(self) -> Array:
        """[φ 1] of every row."""
        return with_ones(self.batch.phi) if self.made is None else self.made[0]

    @cached_property
    def changes(self) -> Array:
        """[φ 1] − γ[φ' 1] of every row."""
        if self.made is not None:
            return self.made[1]
        change = with_ones(self.batch.phi_next) * -self.batch.discount[:, None]
        change += self.states
        return np.asarray(change)

    def under(self, k: int) -> Part:
        """The same rows for the k-th policy."""
        assert self.ratios is not None
        batch, episodes = replace(self.batch, ratio=self.ratios[k]), self.episodes.with_ratio(self.ratios[k])
        return replace(self, batch=batch, episodes=episodes)

    def on(self, columns: Array) -> Part:
        """The same rows on some of the columns of φ, dense."""
        phi, phi_next = (chosen(rows, columns) for rows in (self.batch.phi, self.batch.phi_next))
        with_constant = np.append(columns, self.batch.n_features)
        made = None if self.made is None else (self.states[:, with_constant], self.changes[:, with_constant])
        return replace(self, batch=replace(self.batch, phi=phi, phi_next=phi_next), units=None, made=made)

    @property
    def is_sparse(self) -> bool:
        return self.batch.is_sparse

    def in_units(self, units: Units) -> Part:
        return replace(self, units=units)

    @property
    def n_features(self) -> int:
        """The columns of a piece, without the constant."""
        return self.batch.n_features if self.beside is None else len(self.beside.functions_)

    def first_columns(self, n: int) -> Part:
        """The same rows with the first n columns of φ, not copied; these are columns of the log."""
        batch = replace(self.batch, phi=self.batch.phi[:, :n], phi_next=self.batch.phi_next[:, :n])
        units = None if self.units is None else first_units(self.units, n)
        return replace(self, batch=batch, units=units, beside=None)

    def whole(self, room: Array | None = None) -> Part:
        """All rows in the units of the pieces; they lie in `room` if it is given."""
        if self.units is None:
            return self if self.is_sparse else replace(self, made=(self.states, self.changes))
        if self.is_sparse:
            return replace(self, batch=self.units.applied(self.batch), units=None)
        batch, d = self.batch, self.batch.n_features
        own = np.empty((3, len(batch), self.n_features + 1)) if room is None else room[:, : len(batch)]
        own[0, :, :d], own[1, :, :d] = batch.phi, batch.phi_next
        if self.beside is not None:
            self.beside.extend(own[0], own[1], batch.discount == 0)
        states, after, changes = own
        for rows in (states, after):
            rows[:, -1] = 1.0
            rows -= np.append(self.units.shift, 0.0)
            rows *= np.append(1.0 / self.units.scale, 1.0)
        np.multiply(after, -batch.discount[:, None], out=changes)
        changes += states
        batch = replace(batch, phi=states[:, :-1], phi_next=after[:, :-1])
        return replace(self, batch=batch, units=None, beside=None, made=(states, changes))

    @cached_property
    def _kept(self) -> list[tuple[Part, slice]]:
        """The pieces of a small log. It is read a dozen times, and making it anew would take half of that time."""
        return [(self.some(members).whole(), members) for members in self._cut()]

    def _cut(self) -> list[slice]:
        """The episodes of each piece: whole clusters."""
        episodes = self.episodes
        ends = np.append(episodes.clusters[1:], len(episodes))  # the episode after each cluster
        size = max(BLOCK // (self.n_features + 1), LEAST)
        cuts = ends[:-1][np.diff(episodes.last[ends - 1] // size) > 0]
        return [slice(*pair) for pair in pairwise([0, *cuts.tolist(), len(episodes)])]

    def pieces(self) -> Iterator[tuple[Part, slice]]:
        """Blocks of whole clusters, and which episodes they are. A block is gone when the next one is asked for."""
        if self.made is not None:
            yield self, slice(0, len(self.episodes))
        elif len(self.batch) * (self.n_features + 1) < MANY * BLOCK:
            yield from self._kept
        else:
            room, cut = None, self._cut()
            if not self.is_sparse:  # fresh memory for every piece would cost more than what is written to it
                first, last = self.episodes.first, self.episodes.last
                longest = max(last[some][-1] - first[some][0] for some in cut) + 1
                room = np.empty((3, longest, self.n_features + 1))
            for some in cut:
                yield self.some(some).whole(room), some

    def some(self, members: slice | Array) -> Part:
        """Some of the episodes: a run of them, or those of a mask."""
        rows, episodes = self.episodes.rows(members), self.episodes.some(members)
        ratios = None if self.ratios is None else self.ratios[:, rows]
        made = None if self.made is None else (self.states[rows], self.changes[rows])
        return replace(self, batch=self.batch[rows], episodes=episodes, ratios=ratios, made=made)


def chosen(phi: Array | sp.csr_array, columns: Array) -> Array:
    """The chosen columns as a dense array; φ itself, not a copy, if it is dense and all are chosen."""
    if len(columns) > MAX_COLUMNS:
        raise ValueError(
            f"`features` leaves {len(columns)} columns, above the limit of {MAX_COLUMNS}: use a stronger penalty."
        )
    every = not sp.issparse(phi) and np.array_equal(columns, np.arange(phi.shape[1]))
    some: Any = phi if every else phi[:, columns]
    return some.toarray() if sp.issparse(some) else np.asarray(some, dtype=np.float64)


def with_ones(phi: Array) -> Array:
    """[φ 1]."""
    out = np.ones((phi.shape[0], phi.shape[1] + 1))
    out[:, :-1] = phi
    return out


def first_units(units: Units, n: int) -> Units:
    return replace(units, scale=units.scale[:n], shift=units.shift[:n])


def pilot_units(features: Any, phi: Array) -> Units:
    """Units from some rows: a constant column is centred at its very value, so that it stays constant."""
    phi = features.transform(phi) if isinstance(features, Basis) else phi
    mean, scale = (np.asarray(f(axis=0, dtype=np.float64)) for f in (phi.mean, phi.std))
    shift = np.where(scale > NEARLY_FLAT * np.abs(mean), mean, phi[0])
    tiny = np.flatnonzero(scale < TINY)  # the squares of such numbers are 0
    reach = np.abs(phi[:, tiny] - shift[tiny]).max(axis=0, initial=0.0)
    scale[tiny] = reach * ((phi[:, tiny] - shift[tiny]) / np.where(reach > 0, reach, 1.0)).std(axis=0)
    return Units(np.where(scale > LEAST_SPREAD, scale, 1.0), shift, False)


class Ask(NamedTuple):
    """The question Σ f(piece, *along, *args). Results only need a `+`; arrays in a list are joined.

    The arrays of `along` have an entry for every episode of the log, and a piece gets the entries of its own episodes.
    `views` are applied to the piece first. A function that adds to a sum in place gets it as `into`; one that needs no
    features may get the `whole` part at once.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...] = ()
    along: tuple[Array, ...] = ()
    views: tuple[View, ...] = ()
    into: bool = False
    whole: bool = False

    def on(self, view: Callable[..., Part], *args: Any) -> Ask:
        """This ask of view(part, *args) instead of the part."""
        return self._replace(views=(*self.views, (view, args)))

    def under(self, k: int) -> Ask:
        """This ask for the k-th policy; the policy's view comes before any other."""
        return self._replace(views=((Part.under, (k,)), *self.views))


@dataclass(frozen=True, eq=False)
class Several:
    """A list of results; two lists are added entry by entry."""

    values: list[Any]

    def __add__(self, other: Several) -> Several:
        return Several([a + b for a, b in zip(self.values, other.values, strict=True)])


def answers(part: Part, along: Sequence[Sequence[Array]], asks: Sequence[Ask]) -> Several:
    """The answers of one part to several asks, `along` being the arrays of each of them for these episodes."""
    made: dict[Any, Part] = {}
    totals = [ask.f(seen(part, ask.views, made), *ask.args) if ask.whole else None for ask in asks]
    rest = [(i, ask) for i, ask in enumerate(asks) if not ask.whole]
    for piece, members in part.pieces() if rest else ():
        made = {}
        for i, ask in rest:
            given = (seen(piece, ask.views, made), *(array[members] for array in along[i]), *ask.args)
            more = ask.f(*given, into=totals[i]) if ask.into else ask.f(*given)
            totals[i] = more if ask.into or totals[i] is None else totals[i] + more
    return Several(totals)


def seen(part: Part, views: Sequence[View], made: dict[Any, Part]) -> Part:
    """The part after all views, one after the other; `made` keeps the results for asks that share views."""
    for i, (view, args) in enumerate(views):
        key = tuple((f, *map(id, given)) for f, given in views[: i + 1])  # arrays are told apart by identity
        if key not in made:
            made[key] = view(part, *args)
        part = made[key]
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

    def __call__(self, log: Transitions, cluster: Array | None = None, ratios: Array | None = None) -> Part:
        """The part of a log; if its clusters follow one another already, `cluster` has that of every episode.

        `ratios` are those of the targets, where they are known.
        """
        if self.cluster is not None and cluster is None:
            log, cluster, _ = arranged(log, self.cluster)
        if ratios is None:
            known = log if self.behavior is None else self.behavior.apply(log)
            ratios = np.stack([_ratio(pose(log if _has_own(t, log) else known, t).log) for t in self.targets])
        episodes = Episodes.of_log(log, self.gamma, np.ones(len(log)), cluster)
        beside = self.features if isinstance(self.features, Basis) else None
        features = self.features if beside is None else None
        batch = featurize(replace(log, ratio=np.ones(len(log))), features, self.gamma, clear=False)
        return Part(batch, episodes, self.units, ratios, beside=beside)


def _has_own(target: Target, log: Transitions) -> bool:
    """Whether the log has the ratios of this target itself, so that they are not computed again."""
    return target.form is None and target.of_logged and log.ratio is not None


def _ratio(log: Transitions) -> Array:
    """π/μ of a log that was posed a question."""
    ratio = np.asarray(log.importance_ratio(), dtype=np.float64)
    if not np.all(np.isfinite(ratio) & (ratio >= 0)):
        raise ValueError(f"`ratio` must hold {len(log)} finite non-negative numbers, one per row.")
    if ratio.max(initial=0.0) > MOST_RATIO:
        row = int(np.argmax(ratio))
        raise ValueError(
            f"The policy is {ratio[row]:.0e} times as likely to take the logged action in row {row} as the behaviour "
            "was, too much to compute with: correct `behavior_prob` there, or drop the row."
        )
    return ratio


@dataclass(frozen=True, eq=False)
class Parts:
    """The shards of a log, how and by whom they are read, and the number of episodes of each."""

    shards: Sequence[Shard]
    reading: Reading
    engine: Engine | None
    folder: str | None
    sizes: Array
    is_sparse = False

    @property
    def units(self) -> Units:
        assert self.reading.units is not None
        return self.reading.units

    def in_units(self, units: Units) -> Parts:
        return replace(self, reading=replace(self.reading, units=units))

    def first_columns(self, n: int) -> Parts:
        """The first n columns, which must be those of the log itself: no feature is computed."""
        return replace(self, reading=replace(self.reading, features=None, units=first_units(self.units, n)))


def answer(rows: Part | Parts, **asked: Ask) -> SimpleNamespace:
    """Read the log once and return the sums, by the names of the asks."""
    asks = tuple(asked.values())
    if isinstance(rows, Part):
        found = answers(rows, [ask.along for ask in asks], asks)
    else:
        ends = np.cumsum(rows.sizes)[:-1]
        cut = [[np.split(array, ends) for array in ask.along] for ask in asks]
        own = [(tuple(tuple(array[k] for array in arrays) for arrays in cut),) for k in range(len(rows.shards))]
        plans = tuple(ask._replace(along=()) for ask in asks)
        how: dict[str, Any] = {"engine": rows.engine, "folder": rows.folder, "opened": rows.reading}
        found = reduced(answers, rows.shards, (plans,), along=own, **how)
    return SimpleNamespace(**dict(zip(asked, found.values, strict=True)))


def together(rows: Part | Parts, *walks: Walk[Any]) -> list[Any]:
    """Run walks in step, each step with one reading of the log; returns their results."""
    results: list[Any] = [None] * len(walks)
    told: dict[int, SimpleNamespace | None] = dict.fromkeys(range(len(walks)))
    while told:
        asked: dict[int, dict[str, Ask]] = {}
        for i, record in told.items():
            try:
                asked[i] = walks[i].send(record)  # type: ignore[arg-type]
            except StopIteration as end:
                results[i] = end.value
        posed = {f"{name} {i}": ask for i, own in asked.items() for name, ask in own.items()}
        found = vars(answer(rows, **posed)) if posed else {}  # the last walks may end together: nothing is read then
        told = {i: SimpleNamespace(**{name: found[f"{name} {i}"] for name in own}) for i, own in asked.items()}
    return results


@dataclass(frozen=True, eq=False)
class Opened:
    """The rows with φ in preliminary units, the columns' names, and a hash of every episode's cluster.

    `log` is a sample (the first shards if there are several, otherwise everything) with behaviour probabilities, and
    `sample` its rows. `order` holds the place of its rows in the source, where clusters had to be brought together.
    `blocks` says how one long record was cut. `spans` numbers the cluster of every run of episodes,
    if a cluster lies in several shards. `built` is the automatic basis, if there is one.
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
    settings: Settings
    behavior: BehaviorPolicy | None
    order: Array | None = None
    blocks: str = ""
    spans: Array | None = None
    built: Basis | None = None

    @property
    def n_candidates(self) -> int:
        """The number of columns to choose from: the log's own, without the functions built from them."""
        return len(self.names) if self.built is None else self.built.n_features_in_

    def joined(self, found: list[Array]) -> Array:
        """Join arrays over the clusters of all parts, along the last axis; a cluster in two shards is added up."""
        every = np.concatenate(found, axis=-1)
        if self.spans is None:
            return every
        added = np.apply_along_axis(partial(np.bincount, self.spans), -1, every)
        return np.asarray(added * (added.shape[-1] / every.shape[-1]))


def open_log(source: Any, targets: Mapping[str, Any], settings: Settings) -> Opened:
    """Bring log, targets and features together. Features with something to fit are fitted on the first shards."""
    cluster, gamma, features = settings.cluster, settings.gamma, settings.features
    parts, forms = read_for(targets, source, partial(shards, source))
    if len(parts) > 1 and not (cluster is None or isinstance(cluster, str)):
        raise ValueError("`cluster` must name a column where the log is in shards: pass the name of a column.")
    first, codes, order, blocks = sample(parts), None, None, ""
    size = float(np.abs(first.reward).max(initial=0.0))
    if size > MOST_REWARD or 0 < size < 1 / MOST_REWARD:  # an interval cannot be computed from their squares
        which = "large" if size > 1 else "small"
        raise ValueError(f"`reward` is too {which} to compute with ({size:.0e} at most): give it in another unit.")
    if cluster is not None:
        whole = first
        first, codes, order = arranged(first, cluster)
        if order is not None:
            forms = {name: Target.of(form, whole)[order] for name, form in forms.items()}
    elif len(parts) == 1:
        first, blocks = in_blocks(first)
    asked, ratios, behavior = _posed(first, forms, settings.classifier)
    phi = _fitted(first, features, gamma)
    model = None if behavior is None else behavior.model
    reading = Reading(asked, gamma, phi, None, model, cluster if isinstance(cluster, str) else None)
    part = reading(first, codes, ratios)
    units = Units.of(part.batch.phi, centre=False) if part.is_sparse else pilot_units(phi, part.batch.phi[:SAMPLE])
    rows: Part | Parts = part.in_units(units)
    hashes, spans = hashed(first.ids() if codes is None else codes), None
    if len(parts) > 1:
        found = [hashed(shard.ids() if cluster is None else arranged(shard.read(), cluster)[1]) for shard in parts]
        hashes, sizes = np.concatenate(found), np.array([len(h) for h in found])
        rows = Parts(parts, replace(reading, units=units), settings.engine, settings.checkpoint, sizes)
        if cluster is not None:  # the cluster of every run of episodes within a shard
            runs = np.concatenate([h[np.append(True, h[1:] != h[:-1])] for h in found])
            clusters, number = np.unique(runs, return_inverse=True)
            spans = None if len(clusters) == len(runs) else number
    return Opened(
        rows=rows,
        names=feature_names(phi, first),
        hashes=hashes,
        units=units,
        log=first if behavior is None else behavior.apply(first),
        sample=part,
        features=phi,
        targets=asked,
        target_names=tuple(targets),
        settings=settings,
        behavior=behavior,
        order=order,
        blocks=blocks,
        spans=spans,
        built=phi if isinstance(features, str) else None,
    )


def _fitted(log: Transitions, features: Any, gamma: float) -> Any:
    """The features, fitted to the log; "auto" is the basis that is built from its columns."""
    if not isinstance(features, str):
        return fit_features(log, features)
    if features != "auto":
        raise ValueError(
            f'`features` is {features!r}: pass "auto", a transformer, or None for the columns as they are.'
        )
    starts = np.flatnonzero(log.start)
    after = starts[starts >= SAMPLE]  # the basis has the same rows for a log in memory and in shards
    return automatic(log[: after[0]] if len(after) else log, gamma)


def read_for(
    targets: Mapping[str, Any], source: Any, read: Callable[..., tuple[Shard, ...]]
) -> tuple[tuple[Shard, ...], dict[str, Any]]:
    """The shards of a source, and the targets; those that name a column of it are read from there.

    `read` takes the columns by role that the targets need, and returns the shards.
    """
    forms, roles = {}, [column_roles(target, source) for target in targets.values()]
    of_rows = any(isinstance(form, (np.ndarray, list)) or hasattr(form, "iloc") for form, _ in roles)
    unread = not isinstance(source, (Transitions, tuple, list))
    if of_rows and unread and read_with_notes(source, **roles[0][1]).was_sorted:
        raise ValueError(
            "`target` is an array, and the rows of the log had to be sorted by episode and step, so that it no longer "
            "fits them: sort the log first, or put the probabilities into a column `target_prob`."
        )
    named = [columns["target_prob"] for _, columns in roles if columns.get("target_prob") is not None]
    columns: dict[str, Any] = {"target_prob": named[0], "ratio": None} if named else roles[0][1]
    parts = read(**columns)
    for (name, target), (form, own) in zip(targets.items(), roles, strict=True):
        column = own.get("target_prob")
        if column is not None and column != named[0] and len(parts) > 1:
            raise ValueError(f"policy {name!r}: a log in shards has one column of probabilities: ask one by one.")
        one = column is not None and len(targets) > 1 and len(parts) == 1
        forms[name] = taken(np.asarray(read(**own)[0].read().target_prob), target) if one else form
    return parts, forms


def _posed(
    log: Transitions, targets: Mapping[str, Any], classifier: Any
) -> tuple[tuple[Target, ...], Array, BehaviorPolicy | None]:
    """The targets, their ratios, and the behaviour if it had to be estimated; that is done once for all targets."""
    asked: list[Target] = []
    ratios: list[Array] = []
    behavior: BehaviorPolicy | None = None
    for name, form in targets.items():
        try:
            target = Target.of(form, log)
            known = log if behavior is None or _has_own(target, log) else behavior.apply(log)
            question = pose(known, target, classifier=None if behavior else classifier)
            refuse_own(target.form, log)
            ratios.append(_ratio(question.log))
        except ValueError as error:
            raise ValueError(f"policy {name!r}: {error}" if len(targets) > 1 else str(error)) from None
        asked.append(target)
        behavior = behavior or question.behavior
    return tuple(asked), np.stack(ratios), behavior


def sample(parts: Sequence[Shard], sparse: bool = False) -> Transitions:
    """The log, if it is one part; otherwise the first parts, until there are enough rows."""
    read, n = [], 0
    for part in parts:
        read.append(part.read(sparse))
        n += len(read[-1])
        if n >= SAMPLE:
            break
    return read[0] if len(parts) == 1 else concatenate(read)
