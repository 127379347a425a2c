"""Columns are matched by name wherever a model meets data: put in order, or refused, never taken for one another."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsetd.logs.cells import folded
from sparsetd.logs.checks import Array, show


def label(name: str) -> str:
    """Return what a column is called: its name without the prefix of an observation, where a word follows it."""
    return re.sub(r"^(obs|observation|state)_(?=\D)", "", name)


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a sentence about a name that is not there: the nearest one that is, or all of them."""
    known = {folded(one): one for one in names[:1000]}
    close = difflib.get_close_matches(folded(name), known, n=1)
    return f"; did you mean {known[close[0]]!r}?" if close else f": there are {listed(names)}."


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(repr(name[:40]) for name in names[:8]) or "no others"
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def names_in(observation: Any, *, one_row: bool = False) -> list[str] | None:
    """Column names of a frame, or of one row taken out of it, if they are text."""
    row = one_row and hasattr(observation, "to_frame")
    columns = getattr(observation, "index" if row else "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return list(columns)


def in_order(rows: Array, names: Sequence[str] | None, wanted: Sequence[str] | None) -> Array:
    """The columns `wanted` of rows whose columns are called `names`; rows without names are taken as they stand."""
    if names is None or wanted is None or list(names) == list(wanted):
        return rows
    place = {label(name): j for j, name in enumerate(names)} | {name: j for j, name in enumerate(names)}
    absent = [name for name in wanted if name not in place]
    if absent:
        raise ValueError(
            f"the model was fitted to a column {show(absent[0])} that the data does not have: its columns are "
            f"{show(list(names))}; rename or add what is missing."
        )
    return rows[:, [place[name] for name in wanted]]


def joined_names(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The names of the actions that several logs have together; in numerical or alphabetical order if they differ."""
    if all(tuple(some) == tuple(names[0]) for some in names):
        return tuple(names[0])
    union = {name for some in names for name in some}
    try:
        return tuple(sorted(union, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(union))


def codes_in(names: Sequence[str], own: Sequence[str]) -> Array:
    """The code that each of a log's `own` actions has in the numbering of `names`."""
    place = {name: code for code, name in enumerate(names)}
    return np.array([place[name] for name in own], dtype=np.int64)
