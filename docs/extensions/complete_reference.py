"""The build fails where a public name has no page of its own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import sparsetd


def public_names() -> set[str]:
    """`package.name` of every function and class in the `__all__` of a module that the reference should know."""
    found = set()
    for module in modules():
        exported = importlib.import_module(module).__all__
        found |= {f"{module}.{name}" for name in exported if _has_page(module, name)}
    return found


def modules() -> list[str]:
    """The package's direct children with an `__all__`, without the command line, which has a page of its own."""
    children = [f"sparsetd.{entry.name}" for entry in pkgutil.iter_modules(sparsetd.__path__)]
    return [name for name in children if name not in ("sparsetd.cli", "sparsetd.__main__") and _exports(name)]


def _exports(module: str) -> bool:
    return bool(getattr(importlib.import_module(module), "__all__", ()))


def _has_page(module: str, name: str) -> bool:
    value = getattr(importlib.import_module(module), name)
    return inspect.isclass(value) or inspect.isfunction(value)


def check(app: Any, exception: Exception | None) -> None:
    from sphinx.util import logging  # the tests import this file where Sphinx is not installed

    if exception is None and app.builder.format == "html":
        documented = set(app.env.domains["py"].objects)
        for name in sorted(public_names() - documented):
            logging.getLogger(__name__).warning("%s is public but has no page: list its module in docs/api.md", name)


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
