"""A document of headings, paragraphs, tables and figures, written as one self-contained HTML page or as Markdown."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STYLE = """
:root{color-scheme:light dark;--ink:#16202b;--soft:#54626f;--rule:#d5dce3;--paper:#fff;--tint:#f2f5f8;
--good:#1c7345;--warn:#8f5c00;--bad:#a8201a}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8edf2;--soft:#a7b3bf;--rule:#3a4652;--paper:#12181f;
--tint:#1b242d;--good:#6fcf97;--warn:#e7b850;--bad:#ff8a80}img{background:#fff;border-radius:6px}}
body{font:16px/1.55 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}
p{max-width:48rem}table{border-collapse:collapse;margin:1rem 0;font-size:.9rem;display:block;overflow-x:auto}
th,td{border-bottom:1px solid var(--rule);padding:.35rem .7rem .35rem 0;text-align:left;vertical-align:top}
th{border-bottom:2px solid var(--soft)}td{min-width:5rem}td:first-child{font-weight:500}
caption,summary{text-align:left;font-weight:600;padding:.3rem 0}summary{cursor:pointer}
details{border:1px solid var(--rule);border-radius:6px;padding:.2rem .8rem;margin:.8rem 0}
figure{margin:1.5rem 0}img{max-width:100%;height:auto}
figcaption,.note{font-size:.9rem;color:var(--soft)}
h2{border-top:1px solid var(--rule);padding-top:1rem;margin-top:2.5rem}
code{background:var(--tint);padding:.1rem .3rem;border-radius:3px}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}
.tally{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.tally span{border:1px solid currentColor;border-left-width:5px;border-radius:6px;padding:.4rem .9rem;font-weight:600}
.tally b{font-size:1.5rem;padding-right:.4rem}
@media print{html{font-size:10px}body{font-size:1rem;max-width:none;margin:0;padding:0}th,td{padding:.15rem .35rem}
table{overflow-wrap:anywhere;overflow:visible}tr,figure{break-inside:avoid}h2,caption{break-after:avoid}
details>*{display:revert}}
"""
LEVELS = {"not reproduced": "bad", "reproduced under": "warn", "reproduced": "good"}


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
    """A table of strings with a title and, where something needs to be said, a note; folded in HTML if asked."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False

    def markdown(self, _base: Path) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join(part for part in (f"**{self.title}**" if self.title else "", table, self.note) if part)

    def html(self, _base: Path) -> str:
        head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in self.rows)
        title = html.escape(self.title)
        caption = f"<caption>{title}</caption>" if self.title and not self.folded else ""
        note = f"<p class='note'>{html.escape(self.note)}</p>" if self.note else ""
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
        return f"<details><summary>{title}</summary>{table}</details>" if self.folded else table


def _cell(text: str) -> str:
    css = level(text)
    return f"<td class='{css}'>{html.escape(text)}</td>" if css else f"<td>{html.escape(text)}</td>"


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


Block = Heading | Paragraph | Grid | Tally | Picture


def markdown_page(blocks: Sequence[Block], base: Path) -> str:
    return "\n\n".join(block.markdown(base) for block in blocks) + "\n"


def html_page(title: str, blocks: Sequence[Block], base: Path) -> str:
    """A page without scripts or outside resources: it can be mailed as it is."""
    head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width,initial-scale=1'>"
    head += f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(block.html(base) for block in blocks)
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body><main>\n{body}\n</main></body></html>\n"
