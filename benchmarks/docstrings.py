"""Which public names lack a docstring worth reading: `python -m benchmarks.docstrings`.

A public name is one in the `__all__` of the library or of a package directly inside it. Its docstring must begin with
one sentence in words, on one line and without a formula, and a function or class must show an example that runs. The
command prints every name that falls short, with the reason, and fails if there is one.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import sys
from types import ModuleType
from typing import Any

import sparsetd

FORMULA = re.compile(r"[=<>≤≥←→‖√∑Σ∈·ᵀ²₁₂∞|∂∇]")
SENTENCE = re.compile(r"[A-ZΑ-Ω`«\"(]?.*\w.*[.:]$")


def public_modules() -> list[ModuleType]:
    """The library and its direct children with an `__all__`, without private ones and the command line."""
    found = [info.name for info in pkgutil.iter_modules(sparsetd.__path__)]
    public = [name for name in found if not name.startswith("_") and name != "cli"]
    modules = [importlib.import_module(f"sparsetd.{name}") for name in public]
    return [sparsetd, *(module for module in modules if hasattr(module, "__all__"))]


def public_values() -> dict[str, Any]:
    """What the public names stand for: functions, classes and modules, each once, under its shortest path."""
    paths = [
        (f"{module.__name__}.{name}", getattr(module, name)) for module in public_modules() for name in module.__all__
    ]
    found = {}
    for path, value in sorted(paths, key=lambda pair: (pair[0].count("."), pair[0])):
        if _has_docstring_of_its_own(value):
            found.setdefault(id(value), (path, value))
    return dict(sorted(found.values(), key=lambda pair: pair[0]))


def _has_docstring_of_its_own(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)


def complaints(path: str, value: Any) -> list[str]:
    """What the docstring of one public name lacks."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    if not text or text.startswith(f"{path.rsplit('.')[-1]}("):  # a dataclass without one gets its signature
        return ["has no docstring"]
    first = text.strip().splitlines()[0].strip()
    found = []
    if not SENTENCE.fullmatch(first) or len(first.split()) < 3:
        found.append(f"does not begin with a sentence on one line: {first!r}")
    if FORMULA.search(re.sub(r"`[^`]*`", "", first)):
        found.append(f"begins with a formula: {first!r}")
    if not inspect.ismodule(value):
        found += _about_the_example(path, value)
    return found


def _about_the_example(path: str, value: Any) -> list[str]:
    module = importlib.import_module(value.__module__)
    tests = doctest.DocTestFinder(recurse=inspect.isclass(value)).find(value, path, module)
    shown = [test for test in tests if test.examples]
    if not shown:
        return ["has no example"]
    printed, runner = io.StringIO(), doctest.DocTestRunner(verbose=False)
    with contextlib.redirect_stdout(printed):
        failed = sum(runner.run(test).failed for test in shown)
    return [f"has an example that prints something else:\n{printed.getvalue()}"] if failed else []


def main() -> int:
    """Print the names that fall short; return how many there are, at most 1."""
    values = public_values()
    bad = {path: found for path, value in values.items() if (found := complaints(path, value))}
    for path, found in bad.items():
        for complaint in found:
            print(f"{path} {complaint}")
    print(f"{len(values) - len(bad)} of {len(values)} public names have a sentence and an example that runs")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
