"""From raw columns to `Transitions`: order the rows, find the successors, drop what has none, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs import checks
from sparsetd.logs.checks import Array
from sparsetd.logs.columns import next_rows, probability, ratios, refuse_infinite_ratio
from sparsetd.logs.schema import Schema
from sparsetd.logs.sparse_lists import joined
from sparsetd.logs.transitions import Transitions

Columns = Mapping[str, Array]


@dataclass(frozen=True)
class Rows:
    """Checked columns of a log by role, in the order of the source; errors found here name the source's own columns."""

    observation: Array
    reward: Array
    terminated: Array
    truncated: Array
    next_observation: Array | None
    action: Array | None
    episode: Array | None
    step: Array | None
    behavior_prob: Array | None
    target_prob: Array | None
    ratio: Array | None
    group: Array | None

    def __len__(self) -> int:
        return len(self.reward)

    def __getitem__(self, index: Any) -> Rows:
        taken: dict[str, Any] = {name: None if value is None else value[index] for name, value in vars(self).items()}
        return Rows(**taken)

    def nbytes(self) -> int:
        known = [value for value in vars(self).values() if value is not None]
        return sum(2 * value.data.nbytes if sp.issparse(value) else value.nbytes for value in known)


def stack(parts: Sequence[Rows]) -> Rows:
    """The parts of a log below one another; whole numbers among continuous actions are continuous too."""
    if len(parts) == 1:
        return parts[0]
    names = [name for name, value in vars(parts[0]).items() if value is not None]
    joined: dict[str, Any] = {name: _join([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], **joined)


def _join(parts: list[Array]) -> Array:
    if len({part.ndim for part in parts}) > 1:
        parts = [part.reshape(len(part), -1) for part in parts]
    return joined(parts)


def check_rows(columns: Columns, schema: Schema) -> Rows:
    """Read every column the schema names, refusing the first bad row under the source's own name for it."""
    n = columns[schema.observation[0]].shape[0]
    if n == 0:
        raise ValueError(f"`{schema.observation[0]}` has no rows: the source is empty.")
    terminated = _flags(columns, schema.terminated, n)
    action = _matrix(columns, schema.action, n) if schema.action else None
    if action is not None and action.dtype.kind == "i" and action.shape[1] == 1:
        action = action[:, 0]
    mu = _probability(columns, schema.behavior_prob, n, action, positive=True)
    pi = _probability(columns, schema.target_prob, n, action, positive=False)
    refuse_infinite_ratio(str(schema.behavior_prob), mu, pi)
    return Rows(
        observation=_matrix(columns, schema.observation, n),
        reward=np.zeros(n) if schema.reward is None else checks.column(schema.reward, columns[schema.reward], n),
        terminated=terminated,
        truncated=_flags(columns, schema.truncated, n),
        next_observation=_matrix(columns, schema.next_observation, n, where=~terminated)
        if schema.next_observation
        else None,
        action=action,
        episode=None if schema.episode is None else identifiers(schema.episode, columns[schema.episode], n),
        step=None if schema.step is None else checks.column(schema.step, columns[schema.step], n),
        behavior_prob=mu,
        target_prob=pi,
        ratio=None if schema.ratio is None else ratios(columns[schema.ratio], n, mu, pi, schema.ratio),
        group=None if schema.group is None else identifiers(schema.group, columns[schema.group], n),
    )


def _flags(columns: Columns, name: str | None, n: int) -> Array:
    return checks.flags("" if name is None else name, None if name is None else columns[name], n)


def _probability(columns: Columns, name: str | None, n: int, action: Array | None, *, positive: bool) -> Array | None:
    return None if name is None else probability(name, columns[name], n, action, positive=positive)


def _matrix(columns: Columns, names: tuple[str, ...], n: int, where: Array | None = None) -> Array:
    """Several columns of numbers, or one list column, side by side; finite in the rows `where`."""
    if sp.issparse(columns[names[0]]):
        checks.finite(names[0], columns[names[0]])
        return columns[names[0]]
    parts = []
    for name in names:
        part = checks.rows(name, unpack(columns[name]))
        checks.length(name, part, n)
        checks.finite(name, part, where)
        parts.append(part)
    return np.hstack(parts)


def unpack(values: Any) -> Any:
    """A list column (an array of lists) as a list of rows, which NumPy makes rectangular; missing lists are NaN."""
    array = np.asarray(values) if not hasattr(values, "dtype") else values
    if array.dtype == object and array.ndim == 1 and len(array):
        first = next((entry for entry in array if not checks.is_missing(entry)), None)
        if isinstance(first, (list, tuple, np.ndarray)):
            absent = np.full(checks.shape(first) or (), np.nan)
            return [absent if checks.is_missing(entry) else entry for entry in array]
    return array


def identifiers(name: str, values: Array, n: int) -> Array:
    """Integers, or Python objects that compare as such: an identifier is the same whatever stands around it."""
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise ValueError(f"`{name}` must have one identifier per row, but its shape is {ids.shape}: pass a vector.")
    checks.length(name, ids, n)
    checks.identifiers(name, ids)
    if np.can_cast(ids.dtype, np.int64):
        return ids.astype(np.int64, copy=False)
    plain = ids.dtype.kind == "O" and set(map(type, ids.tolist())) <= {str, bytes}
    return ids if plain else checks.objects(map(_hashable, ids.tolist()))


def _hashable(entry: Any) -> Any:
    """Long numbers can be made to have the same hash, which a table of them is slow with; their texts cannot."""
    if isinstance(entry, int) and not -(2**63) <= entry < 2**63:
        return hex(entry)
    return str(entry) if isinstance(entry, Decimal) else entry


def in_order(rows: Rows, schema: Schema) -> tuple[Rows, bool]:
    """Rows sorted by episode (in order of appearance) and step, and whether they had to be.

    Without identifiers of the episodes, steps that begin again after a row that ended an episode are in order.
    """
    if rows.episode is None and (rows.step is None or _advances(rows.step, starts(rows))):
        return rows, False
    number = np.zeros(len(rows), np.int64) if rows.episode is None else _appearance(rows.episode)
    step = np.arange(len(rows)) if rows.step is None else rows.step
    if (np.diff(number) >= 0).all() and _advances(step, np.diff(number, prepend=-1) > 0):
        return rows, False
    order = np.lexsort((step, number))
    if rows.step is not None:
        same = (step[order][1:] == step[order][:-1]) & (np.diff(number[order]) == 0)
        if same.any():
            row = int(order[1:][np.argmax(same)])
            where = "" if rows.episode is None else f" of episode {checks.show(rows.episode[row])}"
            raise ValueError(
                f"`{schema.step}` must differ within an episode, but row {row} repeats step {step[row]}{where}: "
                "remove the duplicate, correct its step, or add a column `episode`."
            )
    moved = bool((np.diff(order) != 1).any())
    return (rows[order] if moved else rows), moved


def _advances(step: Array, start: Array) -> bool:
    return bool(((step[1:] > step[:-1]) | start[1:]).all())


def _appearance(ids: Array) -> Array:
    """0, 1, … in order of first appearance, looked up once per run of equal identifiers."""
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    numbers: dict[Any, int] = {}
    of_run = np.array([numbers.setdefault(entry, len(numbers)) for entry in ids[first].tolist()])
    return np.repeat(of_run, np.diff(first, append=len(ids)))


def starts(rows: Rows) -> Array:
    """First rows of episodes: where the identifier changes, else after a row that ended one."""
    if rows.episode is None:
        return np.concatenate([[True], (rows.terminated | rows.truncated)[:-1]])
    return np.concatenate([[True], rows.episode[1:] != rows.episode[:-1]])


def with_successors(rows: Rows, start: Array) -> tuple[Rows, Array]:
    """Rows with their successors, and which rows have one (in a part that others follow, leave out the last two).

    Where the log has no successors the next row of the same episode is it. The last row of an episode that did not
    terminate then has none: it only serves as the successor of the row before, which becomes the truncated one.
    """
    if rows.next_observation is not None:
        return rows, np.ones(len(rows), dtype=bool)
    last = np.append(start[1:], True)
    drop = last & ~rows.terminated
    successor = next_rows(rows.observation, last)
    cut = rows.truncated | (np.append(drop[1:], False) & ~last)
    return replace(rows, next_observation=successor, truncated=cut), ~drop


def build(rows: Rows, start: Array, schema: Schema) -> Transitions:
    """`Transitions` out of ordered rows with successors."""
    if schema.reward is None:
        raise ValueError("`reward` is missing: transitions need a column of rewards; states alone do not.")
    columns = {name: value for name, value in vars(rows).items() if name not in ("episode", "step", "group")}
    names = schema.names(rows.observation.shape[1])
    checked = Transitions.from_arrays(**columns, start=start, names=names)
    return replace(checked, episode_id=rows.episode, group=rows.group)
