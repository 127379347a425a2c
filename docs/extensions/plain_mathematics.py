"""Docstrings are plain text with Unicode mathematics; this extension lets Sphinx read them as they are meant.

An indented block after a blank line is a formula, shown as written. `|x|`, `Φ*` and `coef_` are mathematics and names,
not reStructuredText's substitutions, emphasis and links. Sections of numpydoc (an underlined title) keep their layout.
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
    text = re.sub(r"^(\s*[A-Za-z])\.(?=\s)", r"\1\\.", text)  # "m. The norm" is no list
    text = re.sub(r"([|*])", r"\\\1", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def read_as_meant(lines: list[str]) -> list[str]:
    """The docstring with formulas as literal blocks and everything else escaped."""
    out: list[str] = []
    in_section = in_formula = False
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        in_section = in_section or is_title(line, after)
        in_formula = in_formula and not (line.strip() and indent(line) == 0)
        if not in_section and not in_formula and not before.strip() and out and is_indented_text(line):
            in_formula = True
            out += ["::", ""]
        verbatim = in_formula or BULLET.match(line) or line.lstrip().startswith("..")
        out.append(line if verbatim else escape(line))
    return out


def is_title(line: str, after: str) -> bool:
    return bool(line.strip()) and len(after.strip()) >= 3 and set(after.strip()) <= set("-=")


def is_indented_text(line: str) -> bool:
    return bool(line.strip()) and indent(line) >= 2 and not BULLET.match(line)


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    lines[:] = read_as_meant(lines)


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:  # noqa: ARG001
    """Leave out what a module merely imports from elsewhere (`Any`, `dataclass`, …)."""
    home = getattr(obj, "__module__", None) or "sparsetd"
    return True if home.split(".")[0] != "sparsetd" else None


def setup(app: Sphinx) -> dict[str, bool]:
    # Before numpydoc (priority 500), which rearranges the sections.
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
