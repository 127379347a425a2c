"""What a command is, what it hands back, the list of all (a new one is a file and a line here), and their parser."""

from __future__ import annotations

import argparse
import difflib
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

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
    """Return what the user may have meant: the new name of an old word, or a known word that is spelt nearly so."""
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
            _fill(sub, entry.load())
    return parser


def _fill(parser: argparse.ArgumentParser, command: Command) -> None:
    parser.description = f"{command.summary[:1].upper()}{command.summary[1:]}.\n\n{command.details.strip()}"
    command.arguments(parser)
    # SUPPRESS: an absent option after the command must not undo the same option given before it.
    _common(parser, default=argparse.SUPPRESS)
    parser.set_defaults(command=command)


def _common(parser: argparse.ArgumentParser, default: bool | str) -> None:
    group = parser.add_argument_group("options of every command")
    group.add_argument("--json", action="store_true", default=default, help="print one JSON object instead of text")
    group.add_argument("--quiet", action="store_true", default=default, help="no progress messages on stderr")
    group.add_argument("--debug", action="store_true", default=default, help="show the traceback of an error")
