"""What all pages share: one style sheet, one short script, no outside resource, and tables that scroll on a phone.

The policy in `CSP` makes a browser refuse any request the page might make: it can be opened in a hospital. The table
of features can be sorted by every column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from sparsetd._tools.numbers import Numbers, percent

CSP = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def shell(title: str, body: str) -> str:
    """A page of this look around a body whose header has the id `answer`."""
    style, script = (files("sparsetd.report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CSP}">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>"
        f'<body><a class="skip" href="#answer">Skip to the answer</a><main>{body}</main>'
        f'<div id="tip" aria-hidden="true" hidden></div><script>\n{script}</script></body></html>\n'
    )


def prose(text: str) -> str:
    """Return a sentence as HTML: code in backquotes is set as code, minus signs are real, a % stays with its number."""
    joined = re.sub(r"(?<=\d) %", "\u00a0%", re.sub(r"(?<=[\s(])-(?=\d)", "\u2212", escape(text)))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", joined)


def table(label: str, heads: Iterable[str], rows: Iterable[str], *, caption: str = "", css: str = "") -> str:
    """A table of ready headings and rows; `label` names the region that scrolls."""
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    kind = f' class="{css}"' if css else ""
    inner = f"<table{kind}>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inner}</div>'


def row(name: str, cells: Iterable[str], css: str = "") -> str:
    """A row: its name, and cells that are ready HTML."""
    return f'<tr{css}><th scope="row"><bdi>{escape(name)}</bdi></th>{"".join(cells)}</tr>'


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
