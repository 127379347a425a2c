"""The command line: `sparsetd COMMAND …`.

A command is one function of this package, decorated with its options and listed once in `command.py`. It computes and
returns an `Outcome`; printing, `--json`, `--quiet`, colours, errors and exit codes are handled here, once for all.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext

from sparsetd._tools.progress import shown
from sparsetd.cli.command import Console, Outcome, WrongInput, WrongUsage, build_parser, open_streams, tell

__all__ = ["main"]

NO_READER = 141  # as the shell reports a program that wrote to a closed pipe
WRONG_PATHS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
WRONG = (WrongUsage, WrongInput, ValueError, TypeError, ImportError, *WRONG_PATHS)
NO_ROOM = ("failed to map segment", "Could not find/load shared object")  # what a library says for which there is none


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 only if its result was written (see `sparsetd --help`)."""
    if not open_streams():
        Console().error("standard output is closed, so there is nowhere to print the result: redirect it to a file")
        return 2
    words = sys.argv[1:] if argv is None else argv
    try:
        console, outcome = _run(words)
    except KeyboardInterrupt:
        Console().error("interrupted")
        return 130
    return _written(console, outcome)


def _run(words: Sequence[str]) -> tuple[Console, Outcome]:
    """The outcome of a command, and where to write it; an error is an outcome too."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next, and argcomplete answers and exits
        import argcomplete

        argcomplete.autocomplete(build_parser(os.environ.get("COMP_LINE", "").split()))
    console, debug = Console(json="--json" in words), "--debug" in words
    try:
        args = build_parser(words).parse_args(words)
        args.words = list(words)
        console, debug = Console.of_terminal(json=args.json, quiet=args.quiet), args.debug
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: console.warning(message)  # without the line of code
            with nullcontext() if args.quiet else shown():
                outcome: Outcome = args.command.run(args, console)
    except SystemExit as stop:  # argparse ends --help with 0
        return Console(), Outcome("", code=int(stop.code or 0))
    except Exception as problem:
        if debug and not isinstance(problem, WrongUsage):
            tell(traceback.format_exc())
        console.error(_sentence(problem))
        code = 2 if isinstance(problem, WRONG) and not _finds_no_room(problem) else 1
        return console, Outcome("", {"error": _sentence(problem), "exit_code": code}, code)
    return console, outcome


def _written(console: Console, outcome: Outcome) -> int:
    """Print the outcome; its exit code, or that of a result that could not be printed."""
    try:
        console.result(outcome.data, outcome.text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) went away, and nobody is left to tell
        _abandon_stdout()
        return NO_READER
    except OSError as problem:
        _abandon_stdout()
        console.error(f"the result could not be written to standard output ({problem.strerror})")
        return 1
    return outcome.code


def _abandon_stdout() -> None:
    """Write nothing more to stdout, not even the rest of its buffer when Python ends."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def _finds_no_room(problem: Exception) -> bool:
    return any(words in str(problem) for words in NO_ROOM)


def _sentence(problem: Exception) -> str:
    """The first line of the message, or the name of the exception where it has none."""
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, MemoryError) or getattr(problem, "errno", None) == errno.ENOMEM:
        return f"there is not enough memory ({str(problem) or 'an allocation failed'})"
    lines = str(problem).strip().splitlines()
    if _finds_no_room(problem):
        return (
            f"a library could not be loaded, most likely because memory is short ({lines[0][:160]}): free some memory"
        )
    return lines[0] if lines else f"unexpected {type(problem).__name__}; run again with --debug to see where"
