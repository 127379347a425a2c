"""Kinds of option values that several commands share."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

from sparsetd.logs.text import is_number


def at_least(smallest: int) -> Callable[[str], int]:
    """An integer option with a lower bound."""

    def convert(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()) or int(text) < smallest:
            raise ArgumentTypeError(f"must be an integer of at least {smallest}, not '{text}'")
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
