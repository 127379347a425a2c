"""Kinds of option values that several commands share."""

from __future__ import annotations

from argparse import Action, ArgumentError, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Any

from sparsetd.logs.text import is_number

MOST = 2**31  # of anything that is counted on a command line: more would only be noticed when memory is gone


class Assignments(Action):
    """NAME=VALUE, again and again, as a list of pairs; the same name twice is an error."""

    def __call__(self, _: ArgumentParser, namespace: Namespace, values: Any, __: str | None = None) -> None:
        pairs = list(getattr(namespace, self.dest) or [])
        for name, value in values if isinstance(values, list) else [values]:
            if name in dict(pairs):
                raise ArgumentError(self, f"'{name}' is given twice; say it once")
            pairs.append((name, value))
        setattr(namespace, self.dest, pairs)


def add_random_state(parser: ArgumentParser, of: str) -> None:
    help = f"seed of {of} (default: %(default)s)"
    parser.add_argument("--random-state", type=at_least(0), default=0, metavar="N", help=help)


def add_n_jobs(parser: Any, default: int = 1) -> None:
    help = "processes; -1 is one for every core (default: %(default)s)"
    parser.add_argument("--n-jobs", type=_jobs, default=default, metavar="N", help=help)


def add_n_folds(parser: ArgumentParser) -> None:
    help = "number of held-out folds (default: %(default)s)"
    parser.add_argument("--n-folds", type=at_least(2), default=5, metavar="N", help=help)


def add_n_resamples(parser: ArgumentParser, what: str, default: int = 20) -> None:
    help = f"{what} (default: %(default)s)"
    parser.add_argument("--n-resamples", type=at_least(0), default=default, metavar="N", help=help)


def at_least(smallest: int, largest: int = MOST) -> Callable[[str], int]:
    """An integer option with bounds."""

    def convert(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()) or int(text) < smallest:
            raise ArgumentTypeError(f"must be an integer of at least {smallest}, not '{text}'")
        if int(text) > largest:
            raise ArgumentTypeError(f"must be at most {largest:,}, not '{text}'")
        return int(text)

    return convert


def fraction(text: str) -> float:
    """A number between 0 and 1."""
    value = float(text) if is_number(text) else -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"must be a number between 0 and 1, not '{text}'")
    return value


def inside(text: str) -> float:
    """A number strictly between 0 and 1."""
    value = fraction(text)
    if value in (0.0, 1.0):
        raise ArgumentTypeError(f"must be a number strictly between 0 and 1, not '{text}'")
    return value


def _jobs(text: str) -> int:
    return -1 if text == "-1" else at_least(1, 2**16)(text)
