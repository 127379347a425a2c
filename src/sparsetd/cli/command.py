"""The classes of a command, its outcome and the console, the list of all commands, and their parser.

A new command is a function with the decorator `command`, and a line here. Results go to stdout, progress and errors to
stderr.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

from sparsetd._tools.frames import plain

SCHEMA_VERSION = 1  # of what `--json` prints: raised when a key changes its meaning or goes away


@dataclass(frozen=True)
class Console:
    """The user's wishes about output. `json` prints one JSON object instead of text; `quiet` silences progress."""

    json: bool = False
    quiet: bool = False
    colour: bool = False

    @classmethod
    def of_terminal(cls, *, json: bool, quiet: bool) -> Console:
        """Colours only on a terminal, and never where `NO_COLOR` is set or `TERM` is dumb."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(json, quiet, colour=wanted and not json and sys.stdout.isatty())

    def progress(self, message: str) -> None:
        if not self.quiet:
            tell(message)

    def error(self, sentence: str) -> None:
        tell(f"sparsetd: error: {sentence}")

    def warning(self, sentence: object) -> None:
        tell(f"sparsetd: warning: {sentence}")

    def result(self, data: dict[str, Any], text: str) -> None:
        """Print the text or, if JSON is wanted, the data."""
        if self.json and data:
            print(json.dumps(plain({"schema_version": SCHEMA_VERSION, **data}), allow_nan=False, indent=2))
        elif text:
            print(text)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


def tell(text: str) -> None:
    """Write to stderr if anybody listens; the work goes on if nobody does."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a closed pipe, a full disk, a closed stream
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def open_streams() -> bool:
    """Make stdin, stdout and stderr safe to use; False if there is no stdout.

    Where one of them was closed, the next file to be opened would take its number and its words: the null device does.
    """
    heard = sys.stdout is not None
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (for the rest of the process)
        elif hasattr(stream, "reconfigure"):  # a letter that the terminal's encoding lacks must not cost the answer
            stream.reconfigure(errors="backslashreplace")
    return heard


class WrongInput(Exception):
    """The user asked for something impossible: one sentence, exit code 2."""


@dataclass(frozen=True)
class Outcome:
    """The answer of a command: `text` for people, `data` for `--json`, `code` for the shell."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    code: int = 0


@dataclass(frozen=True)
class Option:
    """One word that a command takes: its name, what argparse is told, and the title above it in the help."""

    name: str
    how: Mapping[str, Any]
    group: str = ""

    def but(self, group: str = "", **how: Any) -> Option:
        """This option with some of its settings changed."""
        return replace(self, how={**self.how, **how}, group=group or self.group)


def option(words: str, help: str, kind: Any = str, default: Any = None, **how: Any) -> Option:
    """An option from its name with what stands for its value ("--level P"), its help, and what reads the value.

    `kind` is a function from text, a tuple of the words that may be chosen, `bool` for a flag or `list` for an option
    that may be repeated. A default is told at the end of the help.
    """
    name, _, shown = words.partition(" ")
    told: dict[str, Any] = {"help": help if default in (None, []) else f"{help} (default: %(default)s)"}
    if kind is bool:
        told["action"] = "store_true"
    elif kind is list:
        told |= {"action": "append", "default": [], "help": f"{help} (repeatable)"}
    else:
        told |= {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
        told["default"] = default
    return Option(name, told | ({"metavar": shown} if shown else {}) | how)


Run = Callable[[Namespace, Console], Outcome]


@dataclass(frozen=True)
class Command:
    """One verb of the command line.

    `run` computes and returns an `Outcome` without printing. `details` is the part of `sparsetd NAME --help` that
    teaches.
    """

    name: str
    summary: str
    details: str
    options: Sequence[Option]
    run: Run

    def load(self) -> Command:
        return self

    def fill(self, parser: ArgumentParser) -> None:
        """Give the parser of this command its words and options."""
        parser.description = f"{self.summary[:1].upper()}{self.summary[1:]}.\n\n{self.details.strip()}"
        groups: dict[str, Any] = {"": parser}
        for one in self.options:
            if one.group not in groups:
                groups[one.group] = parser.add_argument_group(one.group)
            groups[one.group].add_argument(one.name, **one.how)
        # SUPPRESS: an absent option after the command must not undo the same option given before it.
        _common(parser, default=argparse.SUPPRESS)
        parser.set_defaults(command=self)


def command(*options: Option) -> Callable[[Run], Command]:
    """Make a command of a function: its name is the verb, and its docstring the help."""

    def made(run: Run) -> Command:
        summary, _, details = inspect.cleandoc(run.__doc__ or "").partition("\n")
        return Command(run.__name__, summary[:1].lower() + summary[1:].rstrip("."), details, options, run)

    return made


@dataclass(frozen=True)
class Deferred:
    """A command by name, module and summary, imported when called: help must not wait for Numba."""

    name: str
    module: str
    summary: str

    def load(self) -> Command:
        found: Command = getattr(import_module(f"sparsetd.cli.{self.module}"), self.name)
        return found


# In the order of `sparsetd --help`.
COMMANDS: tuple[Command | Deferred, ...] = (
    Deferred("demo", "demo", "try the library on problems with known answers"),
    Deferred("example", "logs", "write an example log to try the other commands on"),
    Deferred("prepare", "logs", "turn a raw table with text, dates and gaps into a log"),
    Deferred("shard", "logs", "split a log of any size into files of whole, sorted episodes"),
    Deferred("inspect", "logs", "say what a log was understood to be, what is missing, what looks wrong"),
    Deferred(
        "evaluate", "answers", "estimate what a policy would have been worth, from a log, with an interval and reasons"
    ),
    Deferred("compare", "answers", "compare several policies on one log: values, all differences, which may be best"),
    Deferred("improve", "answers", "learn a better policy on one part of a log and test it once on the other"),
    Deferred("sensitivity", "answers", "ask how strong an unrecorded cause would have to be to change the answer"),
    Deferred("select", "models", "which features carry the value: the path of penalties and the choice"),
    Deferred("fit", "models", "learn a value function from a log and save it to a file"),
    Deferred("predict", "models", "values of the states of a log from a model file, or actions from a policy file"),
    Deferred("sweep", "sweep", "compare methods over grids of settings and seeds, with sensitivity curves"),
)

DESCRIPTION = """\
Sparse, off-policy-convergent linear value learning.

From transitions logged under one policy, estimate the value of another policy as a linear
function of named features in which few weights matter."""

EPILOG = """\
start here:
  sparsetd demo                            see what the library does, on problems with known answers
  sparsetd prepare raw.csv --out log.parquet
  sparsetd evaluate log.parquet --target policies:mine --report report.html
  sparsetd COMMAND --help                  what a command does, its options and examples

exit codes:
  0    success: the result was printed, and all files are written
  1    the command failed: a file is either whole or as it was before
  2    the input was wrong: one sentence on stderr says what, and nothing was written
  130  interrupted
  141  nobody read the result to its end ('sparsetd … | head'); files are written

Results go to stdout, progress and errors to stderr. NO_COLOR switches colours off."""


RENAMED = {
    "--seed": "--random-state",
    "--seeds": "--n-runs",
    "--folds": "--n-folds",
    "--resamples": "--n-resamples",
    "--jobs": "--n-jobs",
    "--policy": "--target",
    "--confounding": "the command sparsetd sensitivity",
}
GONE = {
    "reproduce": "run 'python -m reproduction' in a clone of the repository",
    "benchmark": "run 'python -m benchmarks' in a clone of the repository",
}


class WrongUsage(Exception):
    """Words that no command understands: one sentence, exit code 2."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one sentence and name the nearest known word."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: COMMAND"):
            message = "name a command, for a start 'sparsetd demo'"
        raise WrongUsage(f"{message}{_nearest(message)} (see '{self.prog} --help')")


def _layout(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=20)


def _nearest(message: str) -> str:
    """A guess at the word that the user meant: the new name of an old one, or a known word of nearly that spelling."""
    unknown = [word.partition("=")[0] for word in message.partition("unrecognized arguments: ")[2].split()]
    renamed = [f"'{word}' is now '{RENAMED[word]}'" for word in unknown if word in RENAMED]
    if renamed:
        return "; " + ", ".join(renamed)
    found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    if found and found[1] in GONE:
        return f"; {GONE[found[1]]}"
    close = difflib.get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1) if found else []
    return f"; did you mean '{close[0]}'?" if close else ""


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these words of the command line: only the commands they name are loaded."""
    parser = Parser(prog="sparsetd", description=DESCRIPTION, epilog=EPILOG, formatter_class=_layout)
    parser.add_argument("--version", action="version", version=f"sparsetd {version('sparsetd')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    _common(parser, default=False)
    for entry in COMMANDS:
        sub = commands.add_parser(entry.name, help=entry.summary, formatter_class=_layout)
        if entry.name in words:
            entry.load().fill(sub)
    return parser


def _common(parser: argparse.ArgumentParser, default: bool | str) -> None:
    group = parser.add_argument_group("options of every command")
    group.add_argument("--json", action="store_true", default=default, help="print one JSON object instead of text")
    group.add_argument("--quiet", action="store_true", default=default, help="no progress messages on stderr")
    group.add_argument("--debug", action="store_true", default=default, help="show the traceback of an error")
