"""The command line: `sparsetd COMMAND …`.

A command is one function of this package, decorated with its options and listed once in `command.py`. It computes and
returns a text and its data; printing, `--json`, `--quiet`, errors and exit codes are handled here, once for all.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext

from sparsetd._tools.frames import plain
from sparsetd._tools.progress import shown
from sparsetd.cli.command import build_parser, open_streams, tell

__all__ = ["main"]

SCHEMA_VERSION = 1  # of the `--json` output: raise it when a key changes its meaning or goes away
NO_READER = 141  # the code that a shell reports for a program that wrote to a closed pipe
WRONG_PATHS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)
WRONG = (ValueError, TypeError, ImportError, *WRONG_PATHS)
NO_ROOM = ("failed to map segment", "Could not find/load shared object")  # the loader's words for missing memory


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 only if its result was written (see `sparsetd --help`)."""
    if not open_streams():
        _tell_error("standard output is closed, so there is nowhere to print the result: redirect it to a file")
        return 2
    try:
        text, code = _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        _tell_error("interrupted")
        return 130
    try:
        print(text, end="\n" if text else "", flush=True)
    except BrokenPipeError:  # the reader (head, less) went away, and nobody is left to tell
        _abandon_stdout()
        return NO_READER
    except OSError as problem:
        _abandon_stdout()
        _tell_error(f"the result could not be written to standard output ({problem.strerror})")
        return 1
    return code


def _run(words: list[str]) -> tuple[str, int]:
    """Run a command: the text that it prints and its exit code. Errors go to stderr."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next, and argcomplete answers and exits
        import argcomplete

        argcomplete.autocomplete(build_parser(os.environ.get("COMP_LINE", "").split()))
    args = Namespace(words=words, quiet=False, json="--json" in words, debug="--debug" in words)
    try:
        build_parser(words).parse_args(words, args)
        with warnings.catch_warnings(), nullcontext() if args.quiet else shown():
            # Python's own format would also print the line of code.
            warnings.showwarning = lambda message, *_, **__: tell(f"sparsetd: warning: {message}")
            text, data = args.run(args)
        code = 0
    except SystemExit as stop:  # argparse ends --help with 0
        return "", int(stop.code or 0)
    except Exception as problem:
        if args.debug:
            tell(traceback.format_exc())
        several = getattr(problem, "problems", None)  # a raw table may have many
        said = several or [_sentence(problem)]
        for sentence in said:
            _tell_error(sentence)
        code = 2 if isinstance(problem, WRONG) and not _finds_no_room(problem) else 1
        text, data = "", {"error": said[0], "exit_code": code} | ({"problems": several} if several else {})
    if args.json and data:
        text = json.dumps(plain({"schema_version": SCHEMA_VERSION, **data}), allow_nan=False, indent=2)
    return text, code


def _tell_error(sentence: str) -> None:
    tell(f"sparsetd: error: {sentence}")


def _abandon_stdout() -> None:
    """Write nothing more to stdout, not even the rest of its buffer when Python ends."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def _finds_no_room(problem: Exception) -> bool:
    return any(words in str(problem) for words in NO_ROOM)


def _sentence(problem: Exception) -> str:
    """The first line of the message, or the name of the exception if the message is empty."""
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
