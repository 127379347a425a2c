"""How a command is declared, the list of all commands, and the parser that is built from them.

A new command is a function with the decorator `command`, and a line here. Results go to stdout, progress and errors to
stderr.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

from sparsetd._tools.lazy_names import old_names

Outcome = tuple[str, dict[str, Any]]  # the answer of a command: a text for people, data for `--json`
Run = Callable[[argparse.Namespace], Outcome]
Option = tuple[str, dict[str, Any]]  # its name, and what argparse is told; "group" is the title above it in the help
OPTIONS: dict[str, tuple[Option, ...]] = {}  # of the commands that are loaded


def command(*options: Option) -> Callable[[Run], Run]:
    """Make a command of a function that computes without printing: its name is the verb, and its docstring the help."""

    def made(run: Run) -> Run:
        OPTIONS[run.__name__] = options
        return run

    return made


def option(words: str, help: str, kind: Any = str, default: Any = None, **how: Any) -> Option:
    """Declare an option: its name with a placeholder ("--level P"), its help, and a reader of its value.

    `kind` is a function from text, a tuple of the words that may be chosen, `bool` for a flag or `list` for an option
    that may be repeated. The help ends with the default.
    """
    name, _, shown = words.partition(" ")
    told: dict[str, Any] = {"help": help if default in (None, {}) else f"{help} (default: %(default)s)"}
    if kind is bool:
        told["action"] = "store_true"
    elif kind is list:
        told |= {"action": "append", "default": [], "help": f"{help} (repeatable)"}
    else:
        told |= {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
        told["default"] = default
    return name, told | ({"metavar": shown} if shown else {}) | how


def tell(text: str) -> None:
    """Write to stderr if anybody listens; the work goes on if nobody does."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a closed pipe, a full disk, a closed stream
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def bold(text: str) -> str:
    """Bold on a terminal, and never where `NO_COLOR` is set or `TERM` is dumb."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()
    return f"\x1b[1m{text}\x1b[0m" if wanted else text


def open_streams() -> bool:
    """Make stdin, stdout and stderr safe to use; False if there is no stdout.

    If one of them is closed, the next file that is opened would take its number and receive its text. The null device
    takes the place instead.
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


# Each command with its module and its summary, in the order of `sparsetd --help`. The module is imported when the
# command is called, because help must not wait for Numba.
COMMANDS = {
    "demo": ("demo", "try the library on problems with known answers"),
    "example": ("logs", "write an example log to try the other commands on"),
    "prepare": ("logs", "turn a raw table with text, dates and gaps into a log"),
    "shard": ("logs", "split a log of any size into files of whole, sorted episodes"),
    "inspect": ("logs", "show how a log was understood, what is missing and what looks wrong"),
    "evaluate": ("answers", "estimate what a policy would have been worth, from a log, with an interval and reasons"),
    "compare": ("answers", "compare several policies on one log: values, all differences, which may be best"),
    "improve": ("answers", "learn a better policy on one part of a log and test it once on the other"),
    "sensitivity": ("answers", "ask how strong an unrecorded cause would have to be to change the answer"),
    "select": ("models", "choose the features that carry the value, and show the path of penalties"),
    "fit": ("models", "learn a value function from a log and save it to a file"),
    "predict": ("models", "values of the states of a log from a model file, or actions from a policy file"),
    "sweep": ("sweep", "compare methods over grids of settings and seeds, with sensitivity curves"),
}

DESCRIPTION = """\
Sparse, off-policy-convergent linear value learning.

From transitions logged under one policy, estimate the value of another policy as a linear
function of named features in which few weights matter."""

EPILOG = """\
start here:
  sparsetd demo                            see what the library does, on problems with known answers
  sparsetd prepare raw.csv --out log.parquet
  sparsetd evaluate log.parquet --target 'B if lactate > 2' --report report.html
  sparsetd COMMAND --help                  what a command does, its options and examples

exit codes:
  0    success: the result was printed, and all files are written
  1    the command failed: a file is either whole or as it was before
  2    the input was wrong: one sentence on stderr says what, and nothing was written
  130  interrupted
  141  nobody read the result to its end ('sparsetd … | head'); files are written

Results go to stdout, progress and errors to stderr. NO_COLOR switches colours off."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one sentence and name the nearest known word."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: COMMAND"):
            message = "name a command, for a start 'sparsetd demo'"
        raise ValueError(f"{message}{_nearest(message)} (see '{self.prog} --help')")


def _layout(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=20)


def _nearest(message: str) -> str:
    """A guess at the word that the user meant: the new name of an old one, or a known word of nearly that spelling."""
    unknown = [word.partition("=")[0] for word in message.partition("unrecognized arguments: ")[2].split()]
    known = old_names("options")
    renamed = [f"'{word}' is now '{known[word]}'" for word in unknown if word in known]
    if renamed:
        return "; " + ", ".join(renamed)
    found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    gone = old_names("commands").get(found[1]) if found else None
    if gone is not None:
        return f"; {gone}"
    close = difflib.get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1) if found else []
    return f"; did you mean '{close[0]}'?" if close else ""


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these words of the command line: only the commands they name are loaded."""
    # Options must be written in full: nobody could say whether a shortened "--check" means "--checkpoint".
    how: dict[str, Any] = {"formatter_class": _layout, "allow_abbrev": False}
    parser = Parser(prog="sparsetd", description=DESCRIPTION, epilog=EPILOG, **how)
    parser.add_argument("--version", action="version", version=f"sparsetd {version('sparsetd')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    _add(parser, COMMON)
    for verb, (module, summary) in COMMANDS.items():
        sub = commands.add_parser(verb, help=summary, **how)
        if verb in words:
            run = load(module, verb)
            sub.description = inspect.getdoc(run)
            _add(sub, (*OPTIONS[verb], *COMMON))
            sub.set_defaults(run=run)
    return parser


def load(module: str, verb: str) -> Run:
    """Import the module of a command and return the command's function."""
    run: Run = getattr(import_module(f"sparsetd.cli.{module}"), verb)
    return run


def _add(parser: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Give a parser its words and options, group by group."""
    groups: dict[str, Any] = {"": parser}
    for name, how in options:
        title = how.get("group", "")
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        groups[title].add_argument(name, **{key: value for key, value in how.items() if key != "group"})


COMMON = tuple(
    # SUPPRESS: an absent option after the command must not undo the same option given before it.
    (name, {"help": help, "action": "store_true", "group": "options of every command", "default": argparse.SUPPRESS})
    for name, help in {
        "--json": "print one JSON object instead of text",
        "--quiet": "no progress messages on stderr",
        "--debug": "show the traceback of an error",
    }.items()
)
