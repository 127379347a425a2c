"""Kinds of option values that several commands share."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def at_least(smallest: int) -> Callable[[str], int]:
    """An integer option with a lower bound."""

    def convert(text: str) -> int:
        if not text.lstrip("+-").isdigit() or int(text) < smallest:
            raise ArgumentTypeError(f"must be an integer of at least {smallest}, not '{text}'")
        return int(text)

    return convert
