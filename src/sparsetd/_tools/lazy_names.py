"""Public names of a package that are loaded when they are first used, so that a process starts with what it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    `homes` gives the public names in each of its modules; those under "" are the modules themselves. A name must differ
    from its module's, or importing the module overwrites it.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    refuse = refusing(package)

    def load(name: str) -> Any:
        if name not in home_of:
            refuse(name)
        module = import_module(f"{package}.{home_of[name] or name}")
        value = getattr(module, name) if home_of[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(home_of), sorted(home_of)


def homes_in(init: str) -> dict[str, str]:
    """The modules of a package with the names that its stub, beside `__init__.py`, takes from them."""
    stub = Path(init).with_suffix(".pyi").read_text("utf-8")
    homes: dict[str, str] = {}
    for module, name in re.findall(r"^from sparsetd\.?(\S*) import (\w+) as \w+$", stub, re.MULTILINE):
        homes[module] = f"{homes.get(module, '')} {name}"
    return homes


def refusing(package: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a package that has no such names: a sentence gives the new one of an old name."""

    def refuse(name: str) -> NoReturn:
        new = old_names(package).get(name)
        if new is not None:
            raise AttributeError(f"{package}.{name} is now {new}.")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse


def old_names(of: str) -> dict[str, str]:
    """What earlier versions called otherwise in a package, or among "options" or "commands", with what it is now."""
    import tomllib  # only an error needs it
    from importlib.resources import files

    names: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("old_names.toml").read_text("utf-8"))
    return names.get(of, {})
