"""Groups of episodes: by an observed column when the episode begins, or by labels that the caller has."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.evaluation.episodes import Episodes
from sparsetd.system import Array
from sparsetd.transitions import Transitions

MOST = 8  # values of a column that are groups by themselves; of more, thirds are


def groups_of(log: Transitions, episodes: Episodes, by: Any) -> dict[str, Array]:
    """Label → which episodes belong to it."""
    found = _of_column(log, episodes, by) if isinstance(by, str) else _of_labels(log, episodes, by)
    for label, members in found.items():
        if members.sum() < 2:
            raise ValueError(f"`by` makes a group {label!r} of one episode, which has no interval: join it to another.")
    return found


def _of_column(log: Transitions, episodes: Episodes, by: str) -> dict[str, Array]:
    names = list(log.names or ())
    if by not in names:
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise ValueError(f"`by` is {by!r}, but the observed columns are {shown}: name one of them, or pass labels.")
    return thirds(by, log.observation[episodes.first, names.index(by)], MOST)


def thirds(name: str, column: Array, most: int = 2) -> dict[str, Array]:
    """Low, middle and high third of a column, from low to high; its values themselves where they are at most `most`."""
    kinds = np.unique(column)
    if len(kinds) <= most:
        return {f"{name} = {v:g}": column == v for v in kinds}
    low, high = np.quantile(column, (1 / 3, 2 / 3))
    cut = {
        f"{name} below {low:.3g}": column < low,
        f"{name} {low:.3g} to {high:.3g}": (column >= low) & (column <= high),
        f"{name} above {high:.3g}": column > high,
    }
    return {words: members for words, members in cut.items() if members.any()}


def _of_labels(log: Transitions, episodes: Episodes, by: Any) -> dict[str, Array]:
    labels = np.asarray(by)
    if labels.shape == (len(log),):
        labels = labels[episodes.first]
    if labels.shape != (len(episodes),):
        raise ValueError(
            f"`by` has shape {labels.shape}: pass a label for each of the {len(episodes)} episodes or {len(log)} rows."
        )
    return {str(label): labels == label for label in np.unique(labels)}
