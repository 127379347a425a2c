"""A class lists every parameter and attribute, also those that a base class describes: each is described once.

help(TDC)    its own parameters, then those of GradientTD, StreamingTD and BaseTD
"""

from __future__ import annotations

import inspect
import re

HEADING = re.compile(r"\n\n(?=[A-Z]\w+\n-+\n)")
ENTRY = re.compile(r"\n(?=\S)")
INHERITED = ("Parameters", "Attributes")


def with_inherited(doc: str, base: str) -> str:
    """A docstring whose lists go on with what that of a base class has besides."""
    sections, others = _sections(doc), _sections(base)
    for title in INHERITED:
        own = sections.get(title, [])
        known = {name for entry in own for name in _names(entry)}
        own = own + [entry for entry in others.get(title, []) if not known.issuperset(_names(entry))]
        sections[title] = own
    titles = [title for title in dict.fromkeys(("", *INHERITED, *sections)) if sections[title]]
    return "\n\n".join(_text(title, sections[title]) for title in titles)


def _sections(doc: str) -> dict[str, list[str]]:
    """The entries under every heading; what comes before the first one has no title."""
    first, *others = HEADING.split(inspect.cleandoc(doc))
    parts = [ENTRY.split(part) for part in others]
    return {"": [first]} | {title: entries for title, _, *entries in parts}


def _names(entry: str) -> list[str]:
    return entry.splitlines()[0].partition(" :")[0].split(", ")


def _text(title: str, entries: list[str]) -> str:
    heading = [title, "-" * len(title)] if title else []
    return "\n".join(heading + entries)
