"""The command line: `sparsetd COMMAND …`.

A command is one file of this package with a `Command` in it, listed once in `commands.py`. It computes and returns an
`Outcome`; printing, `--json`, `--quiet`, colours, errors and exit codes are handled here, once for all.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext

from sparsetd._tools.progress import shown
from sparsetd.cli.command import Outcome, WrongInput
from sparsetd.cli.console import Console, open_streams, tell
from sparsetd.cli.parser import WrongUsage, build_parser

__all__ = ["main"]

NO_READER = 141  # as the shell reports a program that wrote to a closed pipe
WRONG_PATHS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
WRONG = (WrongInput, ValueError, TypeError, ImportError, *WRONG_PATHS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 only if its result was written (see `sparsetd --help`)."""
    if not open_streams():
        Console().error("standard output is closed, so there is nowhere to print the result: redirect it to a file")
        return 2
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        Console().error("interrupted")
        return 130
    except BrokenPipeError:  # the reader (head, less) went away, and nobody is left to tell
        _abandon_stdout()
        return NO_READER
    except OSError as problem:
        _abandon_stdout()
        Console().error(f"the result could not be written to standard output ({problem.strerror})")
        return 1


def _run(words: Sequence[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next, and argcomplete answers and exits
        import argcomplete

        argcomplete.autocomplete(build_parser(os.environ.get("COMP_LINE", "").split()))
    try:
        args = build_parser(words).parse_args(words)
    except WrongUsage as problem:
        return Console(json="--json" in words).failure(str(problem), 2)
    except SystemExit as stop:  # argparse ends --help with 0
        return int(stop.code or 0)
    console = Console.of_terminal(json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: console.warning(message)  # without the line of code
            with nullcontext() if args.quiet else shown():
                outcome: Outcome = args.command.run(args, console)
    except Exception as problem:
        if args.debug:
            tell(traceback.format_exc())
        return console.failure(_sentence(problem), 2 if isinstance(problem, WRONG) else 1)
    console.result(outcome.data, outcome.text)
    return outcome.code


def _abandon_stdout() -> None:
    """Nothing more is written there, not even what is left in the buffer when Python ends."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def _sentence(problem: Exception) -> str:
    """The first line of the message, or the name of the exception where it has none."""
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, MemoryError):
        return f"there is not enough memory ({str(problem) or 'an allocation failed'})"
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else f"unexpected {type(problem).__name__}; run again with --debug to see where"
