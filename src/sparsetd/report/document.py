"""One answer, presented twice: as a page for everybody, and as text for a terminal.

A document has a question, a number, cautions, the answer in words, and sections. A section is a list of blocks: a
paragraph, a table, or HTML, which a terminal leaves out. A table may have a drawing, which a page shows instead of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sparsetd._tools.numbers import Numbers, between, percent
from sparsetd.plots import pictures
from sparsetd.report.shell import TEXTS, shell

Payload = Mapping[str, Any]
ALERTS = {"red": "Do not use this answer.", "amber": "Caution.", "note": "Note."}
MOST = 20  # rows of a table in a terminal
AGAIN, NOTES = "Cautions that repeat for other policies", "Notes"
SIGNS = {"red": "DO NOT USE", "amber": "caution", "note": "note"}


class Html(str):
    """Text that is HTML already."""


def prose(text: str) -> str:
    """A sentence as HTML: code in backquotes is set as code, minus signs are real, a % stays with its number."""
    if isinstance(text, Html):
        return text
    joined = re.sub(r"(?<=\d) ?%", "\u00a0%", re.sub(r"(?<![^\s(])-(?=\d)", "\u2212", escape(text)))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", joined)


@dataclass(frozen=True)
class Table:
    """Rows that begin with their names. `kinds` are classes of the rows; with a `caption` the columns can be sorted."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Sequence[str] = ()
    caption: str = ""
    drawing: str = ""

    def html(self) -> str:
        """The drawing, or a table. A cell knows its heading: on a phone the two stand side by side."""
        if self.drawing:
            return self.drawing
        heads = [f'<button type="button">{prose(h)}</button>' if self.caption else prose(h) for h in self.heads]
        body = ""
        for i, (name, *cells) in enumerate(self.rows):
            named = zip(self.heads[1:], cells, strict=True)
            told = "".join(f'<td data-head="{escape(h)}"><span>{prose(c)}</span></td>' for h, c in named)
            kind = f' class="{self.kinds[i]}"' if self.kinds and self.kinds[i] else ""
            body += f'<tr{kind}><th scope="row"><bdi>{prose(name)}</bdi></th>{told}</tr>'
        start = f'<table class="sortable"><caption>{self.caption}</caption>' if self.caption else "<table>"
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        frame = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.heads[0] or "Table")}">'
        return f"{frame}{start}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"

    def text(self) -> str:
        """Aligned columns; those of HTML are left out."""
        rows = [self.heads, *self.rows[:MOST]] if any(self.heads[1:]) else self.rows
        shown = [column for column in zip(*rows, strict=True) if not any(isinstance(c, Html) for c in column)]
        more = [f"… and {len(self.rows) - MOST} more"] if len(self.rows) > MOST else []
        return "\n".join(f"  {line}" for line in [*aligned(zip(*shown, strict=True)), *more])


def aligned(rows: Iterable[Iterable[Any]], bold: Callable[[str], str] = str) -> list[str]:
    """Lines of columns: the first to the left, the others to the right; `bold` marks the first line."""
    cells = [list(map(cell, row)) for row in rows]
    first, *others = (max(map(len, entries)) for entries in zip(*cells, strict=True))
    lines = []
    for name, *rest in cells:
        padded = [name.ljust(first), *(text.rjust(width) for text, width in zip(rest, others, strict=True))]
        lines.append("  ".join(padded).rstrip())
    return [bold(lines[0]), *lines[1:]]


def cell(value: Any) -> str:
    """A cell of a table in a terminal: three digits of a number, a dash where there is nothing to say."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


Block = str | Table


def html(block: Block) -> str:
    """A block as HTML: a plain text is a paragraph."""
    if isinstance(block, Table):
        return block.html()
    return block if isinstance(block, Html) else f"<p>{prose(block)}</p>"


def text_of(blocks: Sequence[Block]) -> str:
    """Blocks for a terminal, without those of HTML."""
    plain = (block for block in blocks if not isinstance(block, Html))
    return "\n".join(block.text() if isinstance(block, Table) else block for block in plain)


@dataclass(frozen=True)
class Document:
    """Everything that is said about an answer, in the order of the reader.

    `number` is the answer in large type and the words beside it; it is empty if no number may be shown. A `doubtful`
    answer must not be used, so its cautions come first. `kind` names the page in `texts.toml`; `red` is the first
    sentence of a red box.
    """

    question: str
    kind: str
    cautions: Sequence[Payload]
    words: Mapping[str, str]
    sections: Mapping[str, tuple[str, Sequence[Block]]]
    settings: Payload = field(default_factory=dict)
    number: tuple[str, str] = ("", "")
    lead: str = ""
    doubtful: bool = False
    red: str = ALERTS["red"]

    def html(self) -> str:
        """The page; equal documents give equal bytes."""
        number, beside = map(prose, self.number)
        shown = f'<p class="answer{" doubtful" * self.doubtful}">{number} <small>{beside}</small></p>' if number else ""
        shown += f'<p class="lead">{prose(self.lead)}</p>' if self.lead else ""
        shown = self._alerts() + shown if self.doubtful else shown + self._alerts()
        words = {
            k: v.replace("docs/assumptions.md", "see Assumptions at the end of this page") for k, v in self._words()
        }
        sections = {key: (title, "".join(map(html, blocks))) for key, (title, blocks) in self.sections.items()}
        top = f"<h1>{prose(self.question)}</h1>{shown}{entries(words, 'words')}"
        told = "".join([top, *(inner for _, inner in sections.values())])
        sections["method"] = ("Words and settings", self._method(told.lower()))
        links = "".join(f'<a href="#{key}">{prose(title)}</a>' for key, (title, _) in sections.items())
        body = f'<header id="answer" tabindex="-1">{top}</header>'
        body += f'<nav aria-label="Sections">{links}</nav>'
        for key, (title, inner) in sections.items():
            heading = f'<h2 id="h-{key}">{prose(title)}</h2>'
            body += f'<section id="{key}" aria-labelledby="h-{key}">{heading}{inner}</section>'
        return shell(self.question, body)

    def _words(self) -> list[tuple[str, str]]:
        return [(name, text) for name, text in self.words.items() if text]

    def _alerts(self) -> str:
        """Each caution as a box that says in words how bad it is; notes and repeated cautions are folded away."""
        words, known = {**ALERTS, "red": self.red}, set()
        boxes: dict[str, list[str]] = {"": [], AGAIN: [], NOTES: []}
        for c in self.cautions:
            place = NOTES if c["severity"] == "note" else ""
            if c["severity"] == "amber" and c["code"] in known:
                place = AGAIN
            known.add(c["code"])
            box = f'<p class="alert {c["severity"]}"><strong>{words[c["severity"]]}</strong> {prose(c["text"])}</p>'
            boxes[place].append(box)
        shown = "".join(boxes.pop(""))
        return shown + "".join(folded(f"{place}: {len(some)}", "".join(some)) for place, some in boxes.items() if some)

    def _method(self, told: str) -> str:
        """The words that the page uses, the command that made it, if there was one, and the settings."""
        words = {name: TEXTS["glossary"][name] for name in TEXTS["pages"][self.kind] if name.lower() in told}
        command = self.settings.get("command")
        unbroken = re.sub(r"(?<!\S)--[\w-]+", r"<span>\g<0></span>", escape(str(command)))
        line = f'<p class="command"><code>{unbroken}</code></p>' if command else ""
        others = {name: str(value).strip("'") for name, value in self.settings.items() if name != "command"}
        return f"{entries(words)}<h3>To repeat this</h3>{line}{entries(others)}"

    def text(self) -> str:
        """The same words and tables for a terminal."""
        cautions = [f"{SIGNS[c['severity']]}: {c['text']}" for c in self.cautions]
        n_first = sum(c["severity"] == "red" for c in self.cautions) if self.doubtful else 0  # they come first
        number = f"{self.question} {self.number[0]} ({self.number[1]})" if self.number[0] else self.question
        lines = [*cautions[:n_first], number, *([self.lead] if self.lead else [])]
        lines += [f"{name}: {text}" for name, text in self._words()]
        for title, blocks in self.sections.values():
            told = text_of(blocks)
            lines += ["", title, told] if told else []
        rest = cautions[n_first:]
        return "\n".join([*lines, *([""] if rest else []), *rest])


def entries(found: Mapping[str, Any], css: str = "") -> str:
    """A list of names with their words."""
    kind = f' class="{css}"' if css else ""
    return f"<dl{kind}>{''.join(f'<dt>{prose(k)}</dt><dd>{prose(str(v))}</dd>' for k, v in found.items())}</dl>"


def folded(summary: str, body: str) -> Html:
    return Html(f"<details><summary>{escape(summary)}</summary>{body}</details>")


def figure(drawing: str, caption: str) -> Html:
    """A chart above its caption, which is a text or a name in `texts.toml`; empty without a chart."""
    words = prose(TEXTS["captions"].get(caption, caption))
    return Html(f"<figure>{drawing}<figcaption>{words}</figcaption></figure>" if drawing else "")


def pair(*figures: str) -> Html:
    return Html(f'<div class="pair">{"".join(figures)}</div>')


def estimates(
    rows: Sequence[pictures.Row],
    level: float,
    label: str,
    seen: Sequence[pictures.Row],
    caption: str,
    guide: float,
    named: str = "",
) -> Table:
    """Values with their intervals, as a table and a picture with a dashed line at `guide`.

    The rows `seen` set the scale of the picture. It is drawn twice, the second time for phones.
    """
    ends = [v for _, value, interval, _ in seen for v in (value, *pictures.finite(interval))]
    numbers = Numbers.of([*ends, guide], max(ends) - min(ends) if ends else None)
    written = numbers if guide else numbers.signed
    told = [(name, written(v), between(pictures.finite(ends), written)) for name, v, ends, _ in rows]
    wide, narrow = (pictures.intervals(rows, label, ends, level, guide, named, narrow) for narrow in (False, True))
    drawing = figure(wide.svg("wide") + narrow.svg("narrow"), caption)
    return Table(("", label.capitalize(), f"{percent(level)} interval"), told, drawing=drawing)
