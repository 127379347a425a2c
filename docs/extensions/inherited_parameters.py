"""A class page lists every parameter and attribute, also those that a base class documents."""

from __future__ import annotations

import inspect
from typing import Any

from numpydoc.docscrape import NumpyDocString
from sphinx.application import Sphinx

SECTIONS = ("Parameters", "Attributes")


def bases(cls: type) -> list[type]:
    """The library's own base classes that have a docstring of their own, nearest first."""
    return [base for base in cls.__mro__[1:] if base.__module__.startswith("sparsetd.") and base.__doc__]


def add_inherited(lines: list[str], cls: type) -> list[str]:
    doc = NumpyDocString("\n".join(lines))
    for section in SECTIONS:
        for base in bases(cls):
            known = {name.strip() for entry in doc[section] for name in entry.name.split(",")}
            inherited = NumpyDocString(inspect.getdoc(base) or "")[section]
            doc[section] = doc[section] + [entry for entry in inherited if entry.name not in known]
    return str(doc).splitlines()


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    if what == "class" and lines and bases(obj):
        lines[:] = add_inherited(lines, obj)


def setup(app: Sphinx) -> dict[str, bool]:
    # Before plain_mathematics (400), which then reads the whole.
    app.connect("autodoc-process-docstring", process, priority=300)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
