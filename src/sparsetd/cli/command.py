"""What a command is and what it hands back."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from sparsetd.cli.console import Console


class WrongInput(Exception):
    """The user asked for something impossible: one sentence, exit code 2."""


@dataclass(frozen=True)
class Outcome:
    """The answer of a command: `text` for people, `data` for `--json`, `code` for the shell."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    code: int = 0


@dataclass(frozen=True)
class Command:
    """One verb of the command line.

    `arguments` adds the command's own options to its parser; `run` computes and returns an `Outcome` without printing.
    `details` is the part of `sparsetd NAME --help` that teaches.
    """

    name: str
    summary: str
    details: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Console], Outcome]

    def load(self) -> Command:
        return self


@dataclass(frozen=True)
class Deferred:
    """A command by name and summary, imported when called: help must not wait for Numba."""

    name: str
    summary: str

    def load(self) -> Command:
        command: Command = getattr(import_module(f"sparsetd.cli.{self.name}"), self.name.upper())
        return command
