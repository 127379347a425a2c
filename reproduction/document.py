"""A document of headings, paragraphs, tables and figures, written as one self-contained HTML page or as Markdown."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsetd.report.shell import shell

LEVELS = {"not reproduced": "bad", "reproduced under": "warn", "reproduced in": "warn", "reproduced": "good"}


def level(text: str) -> str:
    """The colour of a verdict; nothing for any other text."""
    return next((css for words, css in LEVELS.items() if text.startswith(words)), "")


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2

    def markdown(self, _base: Path) -> str:
        return f"{'#' * self.level} {self.text}"

    def html(self, _base: Path) -> str:
        return f"<h{self.level}>{html.escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    text: str

    def markdown(self, _base: Path) -> str:
        return self.text

    def html(self, _base: Path) -> str:
        return "<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(self.text)) + "</p>"


@dataclass(frozen=True)
class Grid:
    """A table of strings with a title and, if needed, a note."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self, _base: Path) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join(part for part in (f"**{self.title}**" if self.title else "", table, self.note) if part)

    def html(self, _base: Path) -> str:
        head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{''.join(map(_cell, row, self.header))}</tr>" for row in self.rows)
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        note = f"<p class='soft'>{html.escape(self.note)}</p>" if self.note else ""
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div class='scroll' tabindex='0'>{table}</div>{note}"


def _cell(text: str, head: str) -> str:
    """A cell that knows its heading, because on a phone a row becomes a list of them."""
    return (
        f"<td class='{level(text)}' data-head='{html.escape(head, quote=True)}'><span>{html.escape(text)}</span></td>"
    )


@dataclass(frozen=True)
class Tally:
    """How many claims got which verdict."""

    counts: Sequence[tuple[str, int]]

    def markdown(self, _base: Path) -> str:
        total = sum(n for _, n in self.counts)
        return f"**{total} claims: {', '.join(f'{n} {words}' for words, n in self.counts)}.**"

    def html(self, _base: Path) -> str:
        cards = (f"<span class='{level(words)}'><b>{n}</b>{html.escape(words)}</span>" for words, n in self.counts)
        return f"<div class='tally'>{''.join(cards)}</div>"


@dataclass(frozen=True)
class Picture:
    """A PNG file: embedded in HTML, linked relative to the page in Markdown."""

    file: Path
    title: str
    caption: str

    def markdown(self, base: Path) -> str:
        link = Path(os.path.relpath(self.file, base)).as_posix()
        return f"![{self.title}]({link})\n\n*{self.title}.* {self.caption}"

    def html(self, _base: Path) -> str:
        data = base64.b64encode(self.file.read_bytes()).decode()
        image = f"<img src='data:image/png;base64,{data}' alt='{html.escape(self.title, quote=True)}'>"
        words = f"<b>{html.escape(self.title)}.</b> {html.escape(self.caption)}"
        return f"<figure>{image}<figcaption>{words}</figcaption></figure>"


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away until somebody opens them, in HTML and, by the same tags, in Markdown."""

    title: str
    blocks: Sequence[Block]

    def markdown(self, base: Path) -> str:
        inside = "\n\n".join(block.markdown(base) for block in self.blocks)
        return f"<details>\n<summary>{html.escape(self.title)}</summary>\n\n{inside}\n\n</details>"

    def html(self, base: Path) -> str:
        inside = "\n".join(block.html(base) for block in self.blocks)
        return f"<details><summary>{html.escape(self.title)}</summary>{inside}</details>"


Block = Heading | Paragraph | Grid | Tally | Picture | Details


def as_markdown(blocks: Sequence[Block], base: Path) -> str:
    return "\n\n".join(block.markdown(base) for block in blocks) + "\n"


def as_html(title: str, blocks: Sequence[Block], base: Path) -> str:
    """A page without outside resources: it can be mailed as it is."""
    body = "\n".join(block.html(base) for block in blocks)
    return shell(title, f'<article id="answer" class="document">\n{body}\n</article>')
