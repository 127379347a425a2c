"""What a command is, what it hands back, and the list of all: a new one is one file and one line here."""

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


def words(doc: str | None) -> tuple[str, str]:
    """The summary and the details of a command from the docstring of its file, which is its help."""
    first, _, rest = (doc or "").partition("\n")
    return first[:1].lower() + first[1:].rstrip("."), rest


@dataclass(frozen=True)
class Deferred:
    """A command by name and summary, imported when called: help must not wait for Numba."""

    name: str
    summary: str

    def load(self) -> Command:
        command: Command = getattr(import_module(f"sparsetd.cli.{self.name}"), self.name.upper())
        return command


# In the order of `sparsetd --help`.
SUMMARIES = (
    ("demo", "try the library on problems with known answers"),
    ("example", "write an example log to try the other commands on"),
    ("prepare", "turn a raw table with text, dates and gaps into a log"),
    ("shard", "split a log of any size into files of whole, sorted episodes"),
    ("inspect", "say what a log was understood to be, what is missing, what looks wrong"),
    ("evaluate", "estimate the value of a target policy from a log, with an interval and reasons"),
    ("compare", "compare several policies on one log: values, all differences, which may be best"),
    ("improve", "learn a better policy on one part of a log and test it once on the other"),
    ("sensitivity", "bound the value of a policy if an unrecorded cause drove the logged actions"),
    ("select", "which features carry the value: the path of penalties and the choice"),
    ("fit", "learn a value function from a log and save it to a file"),
    ("predict", "values of the states of a log from a model file, or actions from a policy file"),
    ("sweep", "compare methods over grids of settings and seeds, with sensitivity curves"),
)
COMMANDS: tuple[Command | Deferred, ...] = tuple(Deferred(name, summary) for name, summary in SUMMARIES)
