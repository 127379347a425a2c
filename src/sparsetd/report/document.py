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
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-size:.9rem}
th,td{border:1px solid #ccc;padding:.35rem .6rem;text-align:left;vertical-align:top}
th{background:#f3f3f3}
caption{text-align:left;font-weight:600;padding-bottom:.3rem}
figure{margin:1.5rem 0}
img{max-width:100%;height:auto}
figcaption,.note{font-size:.9rem;color:#444}
h2{border-top:2px solid #ddd;padding-top:1rem;margin-top:2.5rem}
code{background:#f3f3f3;padding:.1rem .3rem}
@media screen and (max-width:40rem){table{display:block;overflow-x:auto}}
@media print{html{font-size:10px}body{font-size:1rem;max-width:none;margin:0;padding:0}th,td{padding:.15rem .35rem}
table{overflow-wrap:anywhere}tr,figure{break-inside:avoid}h2,caption{break-after:avoid}}
"""


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
    """A table of strings with a title and, where something needs to be said about it, a note."""

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
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        note = f"<p class='note'>{html.escape(self.note)}</p>" if self.note else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


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


Block = Heading | Paragraph | Grid | Picture


def markdown_page(blocks: Sequence[Block], base: Path) -> str:
    return "\n\n".join(block.markdown(base) for block in blocks) + "\n"


def html_page(title: str, blocks: Sequence[Block], base: Path) -> str:
    """A page without scripts or outside resources: it can be mailed as it is."""
    head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width,initial-scale=1'>"
    head += f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(block.html(base) for block in blocks)
    return f"<!doctype html>\n<html lang='en'><head>{head}</head><body><main>\n{body}\n</main></body></html>\n"
