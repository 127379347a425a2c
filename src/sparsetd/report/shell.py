"""The frame of all pages: one style sheet, one short script, no outside resource, and the elements of a page.

The policy in `CSP` makes a browser refuse any request the page might make: it can be opened in a hospital. The fixed
words of the pages are in `texts.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

Payload = Mapping[str, Any]

CSP = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
ALERTS = {"red": "Do not use this answer.", "amber": "Caution.", "note": "Note."}


def _resource(name: str) -> str:
    return files("sparsetd.report").joinpath(name).read_text("utf-8")


TEXTS: dict[str, Any] = tomllib.loads(_resource("texts.toml"))
SAY: dict[str, str] = TEXTS["sentences"]


def shell(title: str, body: str) -> str:
    """A page of this look around a body whose header has the id `answer`."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{CSP}">'
        f"<title>{escape(title)}</title><style>\n{_resource('page.css')}</style></head>"
        f'<body><a class="skip" href="#answer">Skip to the answer</a><main>{body}</main>'
        f'<div id="tip" aria-hidden="true" hidden></div><script>\n{_resource("page.js")}</script></body></html>\n'
    )


def header(title: str, shown: Sequence[str], words: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """The top of a page: the question, the number and its cautions, the answer in words, and links to the sections."""
    told = entries({name: text for name, text in words.items() if text}, "words")
    found = "".join(f'<a href="#{key}">{prose(name)}</a>' for key, name in links.items())
    top = f'<header id="answer" tabindex="-1"><h1>{prose(title)}</h1>{"".join(shown)}{told}</header>'
    return f'{top}<nav aria-label="Sections">{found}</nav>'


def section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{prose(title)}</h2>{body}</section>'


def method(page: str, settings: Payload) -> str:
    """The last section: a glossary of the page, the command that made it, if there was one, and the settings."""
    words = {name: TEXTS["glossary"][name] for name in TEXTS["pages"][page]}
    command = settings.get("command")
    line = f'<p class="command"><code>{escape(str(command))}</code></p>' if command else ""
    others = {name: str(value).strip("'") for name, value in settings.items() if name != "command"}
    return section("method", "Words and settings", f"{entries(words)}<h3>To repeat this</h3>{line}{entries(others)}")


def entries(found: Mapping[str, Any], css: str = "") -> str:
    """A list of names with their words."""
    kind = f' class="{css}"' if css else ""
    return f"<dl{kind}>{''.join(f'<dt>{prose(k)}</dt><dd>{prose(str(v))}</dd>' for k, v in found.items())}</dl>"


def alerts(cautions: Sequence[Mapping[str, str]], red: str = ALERTS["red"]) -> str:
    """Each caution as a box that says in words how bad it is; notes are folded away together."""
    words, boxes = {**ALERTS, "red": red}, {True: "", False: ""}
    for c in cautions:
        box = f'<p class="alert {c["severity"]}"><strong>{words[c["severity"]]}</strong> {prose(c["text"])}</p>'
        boxes[c["severity"] == "note"] += box
    n = sum(c["severity"] == "note" for c in cautions)
    return boxes[False] + (folded(f"{n} {'note' if n == 1 else 'notes'}", boxes[True]) if n else "")


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def figure(drawing: str, name: str) -> str:
    """A chart with the caption of this name; "" if there is nothing to draw."""
    return captioned(drawing, TEXTS["captions"][name]) if drawing else ""


def captioned(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{prose(caption)}</figcaption></figure>"


def prose(text: str) -> str:
    """Return a sentence as HTML: code in backquotes is set as code, minus signs are real, a % stays with its number."""
    joined = re.sub(r"(?<=\d) ?%", "\u00a0%", re.sub(r"(?<=[\s(])-(?=\d)", "\u2212", escape(text)))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", joined)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose rows begin with their names; headings are text, other cells ready HTML."""
    body = (row(first, map(cell, rest, heads[1:])) for first, *rest in rows)
    return framed(heads[0], map(prose, heads), body)


def cell(text: str, head: str, more: str = "") -> str:
    """A cell that knows its heading: on a phone the two stand side by side, and no table is wider than the page."""
    return f'<td data-head="{escape(head)}"{more}><span>{text}</span></td>'


def framed(label: str, heads: Iterable[str], rows: Iterable[str], *, caption: str = "", css: str = "") -> str:
    """A table of ready headings and rows; `label` names the region that scrolls."""
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    kind = f' class="{css}"' if css else ""
    inner = f"<table{kind}>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inner}</div>'


def row(name: str, cells: Iterable[str], css: str = "") -> str:
    """A row: its name, and cells that are ready HTML."""
    return f'<tr{css}><th scope="row"><bdi>{prose(name)}</bdi></th>{"".join(cells)}</tr>'
