"""For whom, and where? Groups of episodes, and where two policies differ and what that is worth.

    v_π − v_κ = Σ_t ω_t ρ_t (r_t + γV_κ(s'_t) − V_κ(s_t))      ω the implied weights of π (see `linear`)

is exact for two linear fits to the same rows (the performance difference). So every row has a share in the difference,
and shares add up over any groups of rows. How much the policies differ in a group is the mean of (ρ_κ − ρ_π)₊, the
total variation between them, seen from the logged actions. Beside the logged behaviour, ρ_κ = 1, it is at most 1 on any
log; |ρ_π − ρ_κ|/2 has the same mean, but a single large ratio takes it far beyond. In a log of several shards only the
first rows are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from sparsetd.evaluation.episodes import Episodes, arranged
from sparsetd.evaluation.estimate import Estimate, Together, Value
from sparsetd.evaluation.evaluator import Judged
from sparsetd.evaluation.linear import LinearValue, policy_sums
from sparsetd.evaluation.reading import Ask, Opened, Part, Parts, answer
from sparsetd.logs import Transitions
from sparsetd.logs.policy import named
from sparsetd.system import Array

SOME = 100  # rows that show at first sight whether a column has many values
MOST = 8  # a column with no more values than this has a group for each; otherwise its thirds are the groups
SHOWN = 4  # columns that are cut into groups
DONE = "what was done"
ACTIONS = 8  # actions that stand alone; the others are one group


@dataclass(frozen=True, eq=False)
class Cut:
    """Groups of rows or of episodes: their names, and the number of the group of each."""

    names: list[str]
    number: Array

    @cached_property
    def counts(self) -> Array:
        return np.bincount(self.number, minlength=len(self.names))

    def means(self, values: Array) -> Array:
        """The mean of a column in every group."""
        return np.bincount(self.number, values, len(self.names)) / self.counts


def groups_of(log: Opened, by: Any, cluster: Any = None) -> Cut:
    """The episodes by the labels that they begin with."""
    known = ("group", *(log.log.names or ()))
    if isinstance(log.rows, Parts):
        column = {"group": by} if isinstance(by, str) and by not in known else {}  # a column that is read only for this
        read = (replace(shard, columns={**shard.columns, **column}).read() for shard in log.rows.shards)
        parts = [part if cluster is None else arranged(part, cluster)[0] for part in read]
        found = [_labels(part, {by: part.group} if column else by) for part in parts]
    else:
        found = [_labels(log.log, by, log.order)]
    name, label = found[0][0], np.concatenate([values for _, values in found])
    if name and label.dtype.kind in "fiu":
        return thirds(name, label, MOST)
    values, number = np.unique(label, return_inverse=True)
    return Cut([f"{name} = {value}" if name else str(value) for value in values], number)


def _labels(log: Transitions, by: Any, order: Array | None = None) -> tuple[str, Array]:
    """The name of `by` ("" if it has none), and its value for every episode.

    Values that the caller gives come in the `order` of the source.
    """
    first, names = log._bounds()[:-1], list(log.names or ())
    name, values = "", by
    if isinstance(by, Mapping):
        name, values = next(iter(by.items()))
    elif callable(by):
        values = by(named(log.observation[first], names))
    elif isinstance(by, str) and by in names:
        name, values = by, log.observation[:, names.index(by)]
    elif isinstance(by, str) and by == "group" and log.group is not None:
        name, values = by, log.group
    elif isinstance(by, str):
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise ValueError(
            f"`by` is {by!r}, but the observed columns are {shown}: name one of them, or pass the labels themselves."
        )
    label = np.asarray(values)
    given = not (isinstance(by, str) or callable(by))
    rows = first if order is None or not given else order[first]
    if label.shape == (len(log),):
        label = label[rows]
    elif label.shape == rows.shape:
        label = label[np.argsort(np.argsort(rows))]
    if label.shape != first.shape:
        raise ValueError(
            f"`by` has shape {label.shape}: pass a label for each of the {len(first)} episodes or {len(log)} rows."
        )
    return name, label


def by_group(found: Sequence[Judged], groups: Cut) -> Together:
    """Differences to the first policy within every group of episodes, each fitted to the episodes of the group.

    A single policy is compared with what was done.
    """
    basis, n, within, values = found[0].first.basis, len(groups.names), {}, {}
    compared: list[tuple[int | None, str, bool]] = [(p.k, p.name, p.sample_mean) for p in found]
    compared = compared if len(compared) > 1 else [(None, DONE, found[0].logged.complete), *compared]
    sums = answer(basis.rows, sums=basis.ask(policy_sums(groups.number, n, (k for k, *_ in compared)))).sums
    models, asks = [], {}
    for i, (k, _, mean) in enumerate(compared):
        moments = sums.of_policy(i).ridged(basis.ridge(k or 0))
        models.append([LinearValue.solve(moments.total(np.arange(n) == g)) for g in range(n)])
        asks[f"{i}"] = basis.ask(Ask(_group_influence, (models[i], mean), (groups.number,)), k)
    moved = [np.concatenate(each, axis=1) for each in vars(answer(basis.rows, **asks)).values()]
    for g, label in enumerate(groups.names):
        if int(sums.counts[2][g]) < 2:
            raise ValueError(f"`by` makes a group {label!r} of one episode, which has no interval: join it to another.")
        inside = np.isfinite(moved[0][g])
        each = []
        for (_, _, mean), fits, all_moved in zip(compared, models, moved, strict=True):
            model, value, influence = fits[g], fits[g].value, all_moved[g][inside]
            if mean:  # both come from the returns
                value, share = float(influence.sum()) / model.n_episodes, model.n_clusters / model.n_episodes
                influence = influence * share - value
            each.append(Value(value, influence, basis.share))
        for (_, name, _), judged in zip(compared[1:], each[1:], strict=True):
            values[label, name], within[label, name] = judged.less(each[0]), inside
    return Together.of(values, found[0].first.log.settings.level, within)


def _group_influence(part: Part, code: Array, models: Sequence[LinearValue], mean: bool) -> list[Array]:
    """The influence of every cluster on the value (or the returns) of every group; NaN if it has no episode there."""
    episodes, out = part.episodes, np.full((len(models), part.episodes.n_clusters), np.nan)
    for g, model in enumerate(models):
        members = code == g
        if members.any():
            own = part.some(members)
            inside = episodes.by_cluster(members.astype(np.float64)) > 0
            out[g, inside] = own.episodes.by_cluster(own.episodes.returns) if mean else model.influence(own)
    return [out]


def thirds(name: str, column: Array, most: int = 2) -> Cut:
    """The low, middle and high third of a column; or its values, if there are no more than `most`."""
    column = np.ascontiguousarray(column)  # a column of many is faster to look through on its own
    kinds = np.unique(column[:SOME])
    kinds = kinds if len(kinds) > most else np.unique(column)  # most columns have many values at first sight
    if len(kinds) <= most:
        return Cut([f"{name} = {v:g}" for v in kinds], np.searchsorted(kinds, column))
    low, high = np.quantile(column, (1 / 3, 2 / 3))
    names = [f"{name} below {low:.3g}", f"{name} {low:.3g} to {high:.3g}", f"{name} above {high:.3g}"]
    number = (column >= low).astype(np.intp) + (column > high)
    there = np.bincount(number, minlength=3) > 0
    return Cut([name for name, some in zip(names, there, strict=True) if some], (np.cumsum(there) - 1)[number])


@dataclass(frozen=True)
class Place:
    """A group of rows: its name, its share of the log and of the policy's steps, and how policies differ there.

    `differs` is the share of decisions that the policy takes otherwise; NaN for the group of one action.
    """

    group: str
    share: float
    visited: float
    differs: float
    gain: Estimate

    def to_dict(self, level: float) -> dict[str, Any]:
        return {**asdict(self), "gain": self.gain.value, "interval": self.gain.interval(level)}


def thirds_of(log: Transitions) -> list[Cut]:
    """The rows by thirds of every observed column that varies."""
    columns = zip(log.labels(), log.observation.T, strict=True)
    return [cut for cut in (thirds(name, column) for name, column in columns) if len(cut.names) > 1]


def places(found: Sequence[Judged], other: Judged | None, columns: Sequence[Cut]) -> dict[str, tuple[Place, ...]]:
    """The difference of every policy to the `other` one, or to the logged behaviour, from one reading.

    The groups are the logged actions, and thirds of those `columns` (see `thirds_of`) over which acts differ most.
    """
    basis, sample, log = found[0].first.basis, found[0].first.basis.at_hand, found[0].log
    against = LinearValue.solve(basis.behavior) if other is None else other.model
    rest = {str(own.k): own for own in found if own is not other}
    asked = {k: basis.ask(Ask(_shares, (own.model, against)), int(k)) for k, own in rest.items()}
    shares, ratios = vars(answer(sample, **asked)), sample.ratios
    assert ratios is not None
    less, out = 1.0 if other is None else ratios[other.k], {}
    for k, own in rest.items():
        weight, gain = np.concatenate(shares[k], axis=1)
        differs = np.maximum(less - ratios[int(k)], 0.0)
        acts = [] if log.action is None or log.action.ndim > 1 else [_acts(log.action, log.action_names, gain)]
        apart = [-np.ptp(cut.means(differs)) for cut in columns]
        cuts = [*acts, *(columns[i] for i in np.argsort(apart, kind="stable")[:SHOWN])]
        each = (_places(cut, sample.episodes, weight, gain, None if cut in acts else differs) for cut in cuts)
        out[own.name] = tuple(chain.from_iterable(each))
    return out


def _acts(action: Array, names: Sequence[str] | None, gain: Array) -> Cut:
    """The logged actions, those that matter most first; beyond `ACTIONS` of them the others are one group."""
    logged, number = np.unique(action, return_inverse=True)
    order = np.argsort(-np.abs(np.bincount(number, gain)), kind="stable")
    shown = [f"action {a if names is None else names[a]}" for a in logged[order[:ACTIONS]]]
    others = ["other actions"] if len(order) > ACTIONS else []
    return Cut([*shown, *others], np.minimum(np.argsort(order)[number], ACTIONS))


def _places(cut: Cut, episodes: Episodes, weight: Array, gain: Array, differs: Array | None) -> Iterator[Place]:
    """The groups of a cut; `differs` says by how much a policy's decision differs in every row."""
    n, k = len(episodes), len(cut.names)
    each = np.bincount(episodes.of * k + cut.number, gain * n, n * k).reshape(n, k)
    visited, total = np.bincount(cut.number, weight, k), float(weight.sum())
    otherwise = np.full(k, np.nan) if differs is None else cut.means(differs)
    for g, (name, gains) in enumerate(zip(cut.names, each.T, strict=True)):
        clusters = episodes.by_cluster(gains - gains.mean()) * (episodes.n_clusters / n)
        worth = Estimate.of_influence(name, float(gains.mean()), clusters)
        share = float(visited[g] / total) if total > 0 else float("nan")
        yield Place(name, float(cut.counts[g] / len(weight)), share, float(otherwise[g]), worth)


def _shares(part: Part, own: LinearValue, other: LinearValue) -> list[Array]:
    """ωρ of every row, and its share in the difference."""
    weight = own.weights(part) * part.batch.ratio
    return [np.stack([weight, weight * other.errors(part)])]
