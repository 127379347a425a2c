"""The table of features: name, weight, a bar, an interval, a frequency; every column can be sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sparsetd.report.words import Numbers, percent

Payload = Mapping[str, Any]
HEADS = ("Feature", "Weight", "Size", "Interval", "Kept in resamples")


def feature_table(features: Sequence[Payload], level: float) -> str:
    """The table as HTML. A cell sorts by its `data-sort` number, or by its text where it has none."""
    top = max((abs(f["weight"]) for f in features), default=1.0) or 1.0
    written = Numbers.of(v for f in features for v in (f["weight"], *(f["interval"] or ())))
    head = "".join(f'<th scope="col"><button type="button">{name}</button></th>' for name in HEADS)
    body = "".join(_row(f, top, written) for f in features)
    hint = '<span class="hint">Select a heading to sort.</span>'
    caption = f"<caption>Weights of the features with {percent(level)} intervals. {hint}</caption>"
    table = f'<table class="sortable">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Features">{table}</div>'


def _row(f: Payload, top: float, written: Numbers) -> str:
    low, high = f["interval"] or (None, None)
    cells = (
        (f["weight"], written.signed(f["weight"])),
        (abs(f["weight"]), _meter(f["weight"], top)),
        (low, "–" if low is None else f"{written.signed(low)} to {written.signed(high)}"),
        (f["frequency"], percent(f["frequency"])),
    )
    body = "".join(f'<td data-sort="{"NaN" if key is None else key}">{text}</td>' for key, text in cells)
    return f'<tr><th scope="row"><bdi>{escape(f["name"])}</bdi></th>{body}</tr>'


def _meter(weight: float, top: float) -> str:
    """A bar to the right for a positive weight, to the left for a negative one."""
    share = 50 * abs(weight) / top
    left, css = (50.0, "") if weight >= 0 else (50 - share, ' class="neg"')
    return f'<span class="meter" aria-hidden="true"><i{css} style="left:{left:.1f}%;width:{share:.1f}%"></i></span>'
