"""Columns are matched by name wherever a model meets data: put in order, or refused, never taken for one another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sparsetd.logs.checks import Array, show


def label(name: str) -> str:
    """What a column is called: its name without the prefix of an observation, where a word follows it."""
    return re.sub(r"^(obs|observation|state)_(?=\D)", "", name)


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
