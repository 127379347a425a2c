"""The command line: `sparsetd COMMAND …`.

A command is one file of this package with a `Command` in it, listed once in `commands.py`. It computes and returns an
`Outcome`; printing, `--json`, `--quiet`, colours, errors and exit codes are handled here, once for all.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence

from sparsetd.cli.command import Outcome, WrongInput
from sparsetd.cli.console import Console
from sparsetd.cli.parser import build_parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 the command failed, 2 the input was wrong."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        Console().error("interrupted")
        return 130


def _run(words: Sequence[str]) -> int:
    try:
        args = build_parser(words).parse_args(words)
    except SystemExit as stop:  # argparse ends --help with 0 and a wrong option with 2
        return int(stop.code or 0)
    console = Console.of_terminal(json=args.json, quiet=args.quiet)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: console.warning(message)  # without the line of code
            return _show(args.command.run(args, console), console)
    except BrokenPipeError:  # the reader (head, less) went away: not our failure, and nobody is left to tell
        sys.stdout = None
        return 0
    except Exception as problem:
        if args.debug:
            traceback.print_exc()
        console.error(_sentence(problem))
        return 2 if isinstance(problem, (WrongInput, ValueError, TypeError, OSError, ImportError)) else 1


def _show(outcome: Outcome, console: Console) -> int:
    console.result(outcome.data, outcome.text)
    sys.stdout.flush()
    return outcome.code


def _sentence(problem: Exception) -> str:
    """The first line of the message, or the name of the exception where it has none."""
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else f"unexpected {type(problem).__name__}; run again with --debug to see where"
