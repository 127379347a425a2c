"""Public names of a package that are loaded when they are first used, so that a process starts with what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, homes: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the names in each of its modules ("": the modules).

    No name may be that of a submodule which has it: importing the module would put it in the place of the name.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{home_of[name] or name}")
        value = getattr(module, name) if home_of[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *home_of}), sorted(home_of)
