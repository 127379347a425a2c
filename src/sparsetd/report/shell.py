"""What all pages share: one style sheet, one short script, no outside resource, and tables that scroll on a phone.

The policy in `CSP` makes a browser refuse any request the page might make: it can be opened in a hospital.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files

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
