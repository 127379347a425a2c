"""Groups of episodes: by a column when the episode begins, by a function of what is observed then, or by labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsetd.logs import Transitions
from sparsetd.logs.policy import named
from sparsetd.system import Array

SOME = 100
MOST = 8  # values of a column that are groups by themselves; of more, thirds are


def groups_of(log: Transitions, by: Any) -> dict[str, Array]:
    """Label → which rows belong to the episodes that begin with it."""
    first = np.flatnonzero(np.diff(log.episode, prepend=log.episode[:1] - 1))
    name, values = _column(log, by, first)
    label = np.asarray(values)
    if label.shape == (len(log),):
        label = label[first]
    if label.shape != first.shape:
        raise ValueError(
            f"`by` has shape {label.shape}: pass a label for each of the {len(first)} episodes or {len(log)} rows."
        )
    found = thirds(name, label, MOST) if name and label.dtype.kind in "fiu" else _of_labels(name, label)
    length = np.diff(first, append=len(log))
    return {words: np.repeat(members, length) for words, members in found.items()}


def _column(log: Transitions, by: Any, first: Array) -> tuple[str, Any]:
    """What `by` is called, where it has a name, and its values."""
    names = list(log.names or ())
    if isinstance(by, Mapping):
        return next(iter(by.items()))
    if callable(by):
        return "", by(named(log.observation[first], names))
    if not isinstance(by, str):
        return "", by
    if by in names:
        return by, log.observation[:, names.index(by)]
    if by == "group" and log.group is not None:
        return by, log.group
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    raise ValueError(
        f"`by` is {by!r}, but the observed columns are {shown}: name one of them, or pass the labels themselves."
    )


def _of_labels(name: str, label: Array) -> dict[str, Array]:
    return {f"{name} = {value}" if name else str(value): label == value for value in np.unique(label)}


def thirds(name: str, column: Array, most: int = 2) -> dict[str, Array]:
    """Low, middle and high third of a column, from low to high; its values themselves where they are at most `most`."""
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
