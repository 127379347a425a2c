"""The table of features: name, weight, a bar, an interval, a frequency; every column can be sorted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from sparsetd.report.words import percent, signed

Payload = Mapping[str, Any]
Column = tuple[str, Callable[[Payload, float], str], Callable[[Payload], float | None]]


def feature_table(features: Sequence[Payload]) -> str:
    """The table as HTML. A cell sorts by its `data-sort` number, or by its text where it has none."""
    top = max((abs(f["weight"]) for f in features), default=1.0) or 1.0
    head = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name, _, _ in COLUMNS)
    body = "".join(f"<tr>{''.join(_cell(column, row, top) for column in COLUMNS)}</tr>" for row in features)
    caption = '<caption class="soft">Features and their weights: select a heading to sort.</caption>'
    table = f'<table class="sortable">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Features">{table}</div>'


def _cell(column: Column, row: Payload, top: float) -> str:
    _, show, key = column
    sort = key(row)
    return f"<td>{show(row, top)}</td>" if sort is None else f'<td data-sort="{sort}">{show(row, top)}</td>'


def _meter(weight: float, top: float) -> str:
    """A bar to the right for a positive weight, to the left for a negative one."""
    share = 50 * abs(weight) / top
    left, css = (50.0, "") if weight >= 0 else (50 - share, ' class="neg"')
    return f'<span class="meter" aria-hidden="true"><i{css} style="left:{left:.1f}%;width:{share:.1f}%"></i></span>'


def _interval(row: Payload) -> str:
    return "–" if row["interval"] is None else " to ".join(map(signed, row["interval"]))


COLUMNS: tuple[Column, ...] = (
    ("Feature", lambda f, _: escape(f["name"]), lambda _: None),
    ("Weight", lambda f, _: signed(f["weight"]), lambda f: f["weight"]),
    ("Size", lambda f, top: _meter(f["weight"], top), lambda f: abs(f["weight"])),
    ("Interval", lambda f, _: _interval(f), lambda f: f["interval"][0] if f["interval"] else math.nan),
    ("Kept in resamples", lambda f, _: percent(f["frequency"]), lambda f: _or_nan(f["frequency"])),
)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
