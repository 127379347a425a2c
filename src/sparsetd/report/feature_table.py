"""The table of features: name, weight, a bar, an interval, a frequency; every column can be sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparsetd.report.shell import row, table
from sparsetd.report.words import Numbers, percent

Payload = Mapping[str, Any]
HEADS = ("Feature", "Weight", "Size", "Interval", "Kept in resamples")


def feature_table(features: Sequence[Payload], level: float) -> str:
    """The features as HTML; those whose interval holds 0 are greyed, and folded away where others are left."""
    top = max((abs(f["weight"]) for f in features), default=1.0) or 1.0
    written = Numbers.of(v for f in features for v in (f["weight"], *(f["interval"] or ())))
    sure = [f for f in features if not _unsure(f)]
    unsure = [f for f in features if _unsure(f)]
    if not sure or not unsure:
        return _table(features, level, top, written)
    more = "1 more feature was" if len(unsure) == 1 else f"{len(unsure)} more features were"
    words = f"{more} kept, but with an interval that holds 0: the effect may be nothing"
    return (
        _table(sure, level, top, written)
        + f"<details><summary>{words}</summary>{_table(unsure, level, top, written)}</details>"
    )


def _unsure(f: Payload) -> bool:
    return f["interval"] is not None and f["interval"][0] <= 0 <= f["interval"][1]


def _table(features: Sequence[Payload], level: float, top: float, written: Numbers) -> str:
    """A cell sorts by its `data-sort` number, or by its text where it has none."""
    heads = (f'<button type="button">{name}</button>' for name in HEADS)
    hint = '<span class="hint">Select a heading to sort.</span>'
    caption = f"<caption>Weights of the features with {percent(level)} intervals. {hint}</caption>"
    return table("Features", heads, (_row(f, top, written) for f in features), caption=caption, css="sortable")


def _row(f: Payload, top: float, written: Numbers) -> str:
    low, high = f["interval"] or (None, None)
    cells = (
        (f["weight"], written.signed(f["weight"])),
        (abs(f["weight"]), _meter(f["weight"], top)),
        (low, "–" if low is None else f"{written.signed(low)} to {written.signed(high)}"),
        (f["frequency"], percent(f["frequency"])),
    )
    body = (f'<td data-sort="{"NaN" if key is None else key}">{text}</td>' for key, text in cells)
    return row(f["name"], body, ' class="unsure"' if _unsure(f) else "")


def _meter(weight: float, top: float) -> str:
    """A bar to the right for a positive weight, to the left for a negative one."""
    share = 50 * abs(weight) / top
    left, css = (50.0, "") if weight >= 0 else (50 - share, ' class="neg"')
    return f'<span class="meter" aria-hidden="true"><i{css} style="left:{left:.1f}%;width:{share:.1f}%"></i></span>'
