"""One line of progress for long work: how much is done, how fast, and how long it will take.

    with shown():
        stability_selection(…)

Nothing is shown unless somebody asks for it, as the command line does. On a terminal the line is written in place, and
is gone when the work is done. Anywhere else one is printed at most every ten seconds, so that a log file stays short.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["say", "shown", "track"]

EVERY, REDRAWN = 10.0, 0.5  # seconds between two lines, and between two of them in the same place
Item = TypeVar("Item")
_stream: ContextVar[Any] = ContextVar("progress", default=None)


@contextmanager
def shown(stream: Any = None) -> Iterator[None]:
    """Show the progress of what runs inside on `stream` (stderr by default)."""
    before = _stream.set(stream or sys.stderr)
    try:
        yield
    finally:
        _stream.reset(before)


def say(sentence: str) -> None:
    """Write a sentence where progress is shown."""
    _write(_stream.get(), f"{sentence}\n")


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and count each of them when the next one is asked for."""
    stream, began = _stream.get(), time.monotonic()
    of = len(items) if total is None and hasattr(items, "__len__") else total  # type: ignore[arg-type]
    in_place = getattr(stream, "isatty", lambda: False)()
    told, line, every = began, "", REDRAWN if in_place else EVERY
    try:
        for n, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if now - told >= every:
                told, before, line = now, len(line), _line(label, n, of, now - began)
                _write(stream, f"\r{line:{before}}" if in_place else f"{line}\n")
    finally:  # also where the work failed: an error must not be printed behind an open line
        if in_place and line:
            _write(stream, f"\r{'':{len(line)}}\r")


def _line(label: str, n: int, total: int | None, seconds: float) -> str:
    rate = n / max(seconds, 1e-9)
    of, left = (f" of {total:,}", f", {max(total - n, 0) / rate:,.0f} s left") if total else ("", "")
    return f"{label}: {n:,}{of}, {rate:.3g} per second{left}"


def _write(stream: Any, text: str) -> None:
    if stream is not None:
        with suppress(OSError, ValueError):  # nobody reads it any more: the work goes on
            print(text, end="", file=stream, flush=True)
