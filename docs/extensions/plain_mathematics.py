"""Docstrings are plain text with Unicode mathematics; this extension lets Sphinx read them as they are meant.

An indented block after a blank line is a formula, shown as written. `|x|`, `Φ*` and `coef_` are mathematics and names, not
reStructuredText substitutions, emphasis and links. Sections of numpydoc (an underlined title) keep their own layout.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

MARKUP = re.compile(r"(``.*?``|`[^`]*`_{0,2}|:\w+:`[^`]*`|\[\w+\]_)")
BULLET = re.compile(r"\s*([-*+]|\d+\.|>>>)\s")


def escape(text: str) -> str:
    """Backslashes before what reStructuredText would take for markup, outside of backticks."""
    parts = MARKUP.split(text)
    return "".join(part if MARKUP.fullmatch(part) else _escape_plain(part) for part in parts)


def _escape_plain(text: str) -> str:
    text = re.sub(r"([|*])", r"\\\1", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def read_as_meant(lines: list[str]) -> list[str]:
    """The docstring with formulas as literal blocks and everything else escaped."""
    out: list[str] = []
    in_section = in_formula = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.strip() and set(following.strip()) <= set("-=") and len(following.strip()) >= 3:
            in_section = True
        after_blank = number > 0 and not lines[number - 1].strip()
        if in_formula and line.strip() and indent(line) == 0:
            in_formula = False
        if not in_section and not in_formula and after_blank and line.strip() and indent(line) >= 2:
            if not BULLET.match(line):
                in_formula = True
                out += ["::", ""]
        plain = in_formula or not line.strip() or BULLET.match(line) or line.lstrip().startswith("..")
        out.append(line if plain else escape(line))
    return out


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = read_as_meant(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    # Before numpydoc (priority 500), which rearranges the sections.
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
