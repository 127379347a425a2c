"""Load the public names of a package when they are first used, so that a process imports only what it needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

ROOT = "sparsetd"
Function = TypeVar("Function", bound=Callable[..., Any])


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


def listed(package: str, names: Sequence[str]) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its public names at once."""
    return refusing(package), lambda: sorted(names)


def refusing(package: str) -> Callable[[str], NoReturn]:
    """Return a `__getattr__` that refuses every name; for an old name, its sentence gives the new one."""

    def refuse(name: str) -> NoReturn:
        raise AttributeError(_moved(package, name) or f"module {package!r} has no attribute {name!r}")

    return refuse


class OldModules:
    """Python asks this finder last, for modules that no other knows and for names that `from … import` did not find."""

    @staticmethod
    def find_spec(module: str, *more: Any) -> None:  # noqa: ARG004 (Python also passes a path and a target)
        """Refuse an old name. The error does not name its module, because `from … import` would swallow it then."""
        package, _, name = module.rpartition(".")
        if package.partition(".")[0] == ROOT and (sentence := _moved(package, name)):
            raise ModuleNotFoundError(sentence)


sys.meta_path.append(OldModules)


def renamed(function: Function) -> Function:
    """Let a function refuse arguments of earlier versions with a sentence that says what to write."""
    known = signature(function).parameters.keys()

    @wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        refuse_old_arguments(function.__name__, known, named)
        return function(*args, **named)

    return cast(Function, checked)


def refuse_old_arguments(owner: str, known: Collection[str], given: Mapping[str, Any]) -> None:
    """Refuse arguments that a function or an estimator had in an earlier version; `known` are those that it has."""
    unknown = given.keys() - known
    if not unknown:
        return
    present = {old: f"write {new}" for old, new in old_names("arguments").items() if new in known}
    present |= old_names(f"{owner}()")
    for name in sorted(unknown & present.keys()):
        raise TypeError(f"{owner} has no parameter {name} since version 0.3: {present[name]}.")


def _moved(package: str, name: str) -> str:
    """Say where an old name is now; "" for a name that never was."""
    new = old_names(package).get(name)
    return f"{package}.{name} is now {new}." if new else ""


def old_names(of: str) -> dict[str, str]:
    """Map the old names in a package, of a function's arguments, or among "options" or "commands", to present ones."""
    import tomllib  # only an error needs it
    from importlib.resources import files

    names: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("old_names.toml").read_text("utf-8"))
    return names.get(of, {})
