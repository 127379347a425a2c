"""What the commands that read a log share: where it is, what its columns are called, and where results go."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from sparsetd.cli.command import WrongInput
from sparsetd.transitions import Transitions, read

LOG_HELP = ".parquet, .arrow, .csv, .jsonl or .npz file, a folder or pattern of such parts, or minari:ID"


def add_log(parser: ArgumentParser) -> None:
    parser.add_argument("log", metavar="LOG", help=LOG_HELP)
    add_columns(parser)


def add_columns(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        type=_column,
        metavar="ROLE=NAME",
        help="what a column is called where it is not the usual name: reward=score, observation=age,HR,SOFA "
        "(repeatable; 'sparsetd inspect' shows the roles that were recognised)",
    )


def add_gamma(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--gamma", type=fraction, default=0.99, metavar="G", help="discount of one step, 0 to 1 (default: %(default)s)"
    )


def read_log(args: Namespace, **columns: Any) -> Transitions:
    """The log with the columns as named on the command line; `columns` of the caller come last."""
    return read(args.log, **{**dict(args.column), **columns})


def check_output(path: str | None, *endings: str) -> Path | None:
    """`path` if a file can be written there; otherwise one sentence, before any work is done."""
    if path is None:
        return None
    target = Path(path)
    if endings and target.suffix.lower() not in endings:
        raise WrongInput(f"the output file '{target}' must end in {' or '.join(endings)}")
    if not target.parent.is_dir():
        raise WrongInput(f"the folder '{target.parent}' of the output file does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise WrongInput(f"the folder '{target.parent}' of the output file cannot be written to; choose another")
    if target.is_dir():
        raise WrongInput(f"the output file '{target}' is a folder; name a file")
    return target


def fraction(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"must be a number between 0 and 1, not '{text}'")
    return value


def _column(text: str) -> tuple[str, Any]:
    role, equals, names = text.partition("=")
    if not equals or not role or not names:
        raise ArgumentTypeError(f"must look like ROLE=NAME, not '{text}'")
    several = names.split(",")
    return role, None if names == "none" else several if len(several) > 1 else names
