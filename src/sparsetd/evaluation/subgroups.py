"""For whom, and where? Groups of episodes, and where two policies differ and what that is worth.

    v_π − v_κ = Σ_t ω_t ρ_t (r_t + γV_κ(s'_t) − V_κ(s_t))      ω the implied weights of π (see `linear`)

is exact for two linear fits to the same rows (the performance difference). So every row has a share in the difference,
and shares add up over any groups of rows. How much the policies differ in a group is the mean of (ρ_κ − ρ_π)₊, the
total variation between them, seen from the logged actions. Beside the logged behaviour, ρ_κ = 1, it is at most 1 on any
log; |ρ_π − ρ_κ|/2 has the same mean, but a single large ratio takes it far beyond. In a log of several shards only the
first rows are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sparsetd.evaluation.episodes import arranged
from sparsetd.evaluation.estimate import Estimate, Together, Value
from sparsetd.evaluation.evaluator import Judged, Judgement
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


def groups_of(log: Opened, by: Any, cluster: Any = None) -> dict[str, Array]:
    """For each label, a mask of the episodes that begin with it."""
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
    return {f"{name} = {value}" if name else str(value): label == value for value in np.unique(label)}


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


def by_group(found: Judgement, groups: Mapping[str, Array]) -> Together:
    """Differences to the first policy within every group of episodes, each fitted to the episodes of the group.

    A single policy is compared with what was done.
    """
    basis, n, within, values = found.first.basis, len(groups), {}, {}
    code = np.argmax(np.stack(list(groups.values())), axis=0)
    compared: list[tuple[int | None, str, bool]] = [
        (k, p.name, p.facts.as_logged) for k, p in enumerate(found.policies)
    ]
    compared = compared if len(compared) > 1 else [(None, DONE, found.logged.complete), *compared]
    sums = answer(basis.rows, sums=basis.ask(policy_sums(code, n, (k for k, *_ in compared)))).sums
    models, asks = [], {}
    for i, (k, _, mean) in enumerate(compared):
        moments = sums.of_policy(i).ridged(basis.ridge(k or 0))
        models.append([LinearValue.solve(moments.total(np.arange(n) == g)) for g in range(n)])
        asks[f"{i}"] = basis.ask(Ask(_group_influence, (models[i], mean), (code,)), k)
    moved = [np.concatenate(each, axis=1) for each in vars(answer(basis.rows, **asks)).values()]
    for g, label in enumerate(groups):
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
    return Together.of(values, found.settings.level, within)


def _group_influence(part: Part, code: Array, models: Sequence[LinearValue], mean: bool) -> list[Array]:
    """The influence of every cluster on the value (or the returns) of every group; NaN if it has no episode there."""
    episodes, out = part.episodes, np.full((len(models), part.episodes.n_clusters), np.nan)
    for g, model in enumerate(models):
        members = code == g
        if members.any():
            own = part.only(members)
            inside = episodes.by_cluster(members.astype(np.float64)) > 0
            out[g, inside] = own.episodes.by_cluster(own.episodes.returns) if mean else model.influence(own)
    return [out]


def thirds(name: str, column: Array, most: int = 2) -> dict[str, Array]:
    """The low, middle and high third of a column; or its values, if there are no more than `most`."""
    kinds = np.unique(column[:SOME])
    kinds = kinds if len(kinds) > most else np.unique(column)  # most columns have many values at first sight
    if len(kinds) <= most:
        return {f"{name} = {v:g}": column == v for v in kinds}
    low, high = np.quantile(column, (1 / 3, 2 / 3))
    cut = {
        f"{name} below {low:.3g}": column < low,
        f"{name} {low:.3g} to {high:.3g}": (column >= low) & (column <= high),
        f"{name} above {high:.3g}": column > high,
    }
    return {words: members for words, members in cut.items() if members.any()}


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


def thirds_of(log: Transitions) -> list[dict[str, Array]]:
    """The rows by thirds of every observed column that varies."""
    columns = zip(log.labels(), log.observation.T, strict=True)
    return [groups for groups in (thirds(name, column) for name, column in columns) if len(groups) > 1]


def places(found: Judgement, other: Judged | None, columns: Sequence[dict[str, Array]]) -> dict[str, tuple[Place, ...]]:
    """The difference of every policy to the `other` one, or to the logged behaviour, from one reading.

    The groups are the logged actions, and thirds of those `columns` (see `thirds_of`) over which acts differ most.
    """
    basis, sample = found.first.basis, found.first.basis.at_hand
    against = LinearValue.solve(basis.behavior) if other is None else other.model
    rest = {str(k): own for k, own in enumerate(found.policies) if own is not other}
    asked = {k: basis.ask(Ask(_shares, (own.model, against)), int(k)) for k, own in rest.items()}
    shares, ratios, action = vars(answer(sample, **asked)), sample.ratios, found.log.log.action
    assert ratios is not None
    episodes, names, out = sample.episodes, found.log.log.action_names, {}
    less = 1.0 if other is None else ratios[found.policies.index(other)]
    for k, own in rest.items():
        weight, gain = np.concatenate(shares[k], axis=1)
        gain, differs = gain * len(episodes), np.maximum(less - ratios[int(k)], 0.0)
        groups: dict[str, Array] = {}
        if action is not None and action.ndim == 1:
            size, logged = np.abs(np.bincount(action, gain)), np.unique(action)
            order = logged[np.argsort(-size[logged], kind="stable")]
            groups = {f"action {a if names is None else names[a]}": action == a for a in order[:ACTIONS]}
            groups |= {"other actions": np.isin(action, order[ACTIONS:])} if len(order) > ACTIONS else {}
        n_actions, each_place = len(groups), []
        apart = [-np.ptp([differs @ rows / rows.sum() for rows in cut.values()]) for cut in columns]
        for i in np.argsort(apart, kind="stable")[:SHOWN]:
            groups |= columns[i]
        for i, (name, members) in enumerate(groups.items()):
            each = episodes.total(gain * members)
            clusters = episodes.by_cluster(each - each.mean())
            total = Estimate.of_influence(name, float(each.mean()), clusters * (len(clusters) / len(each)))
            visited = float(weight[members].sum() / weight.sum()) if weight.sum() > 0 else float("nan")
            otherwise = float(differs[members].mean()) if i >= n_actions else float("nan")
            each_place.append(Place(name, float(members.mean()), visited, otherwise, total))
        out[own.name] = tuple(each_place)
    return out


def _shares(part: Part, own: LinearValue, other: LinearValue) -> list[Array]:
    """ωρ of every row, and its share in the difference."""
    weight = own.weights(part) * part.batch.ratio
    return [np.stack([weight, weight * other.errors(part)])]
