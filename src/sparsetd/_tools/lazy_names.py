"""Load the public names of a package when they are first used, so that a process imports only what it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn


def lazily(package: str, init: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`.

    The stub imports every public name for type checkers: a name from its module, or a module itself. A name must differ
    from its module's, or importing the module overwrites it.
    """
    stub = Path(init).with_suffix(".pyi").read_text("utf-8")
    found = re.findall(rf"^from {package}\.?(\S*) import (\w+) as \w+$", stub, re.MULTILINE)
    home_of, refuse = {name: home for home, name in found}, refusing(package)

    def load(name: str) -> Any:
        if name not in home_of:
            refuse(name)
        module = import_module(f"{package}.{home_of[name] or name}")
        value = getattr(module, name) if home_of[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(home_of), sorted(home_of)


def refusing(package: str) -> Callable[[str], NoReturn]:
    """Return a `__getattr__` that refuses every name; for an old name, its sentence gives the new one."""

    def refuse(name: str) -> NoReturn:
        new = old_names(package).get(name)
        if new is not None:
            raise AttributeError(f"{package}.{name} is now {new}.")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse


def old_names(of: str) -> dict[str, str]:
    """Map the old names in a package, or among "options" or "commands", to the present ones."""
    import tomllib  # only an error needs it
    from importlib.resources import files

    names: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("old_names.toml").read_text("utf-8"))
    return names.get(of, {})
