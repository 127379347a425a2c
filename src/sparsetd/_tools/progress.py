"""One line of progress for long work: how much is done, how fast, and how long it will take.

    with shown():
        stability_selection(…)

Nothing is shown unless somebody asks for it, as the command line does. On a terminal tqdm draws the line in place where
it is installed. Anywhere else a line is printed at most every ten seconds, so that a log file stays short.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["say", "shown", "track"]

EVERY = 10.0  # seconds between two lines
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
    stream = _stream.get()
    if stream is not None:
        with suppress(OSError, ValueError):  # nobody reads it any more: the work goes on
            print(sentence, file=stream, flush=True)


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and count each of them when the next one is asked for."""
    bar = _bar(label, len(items) if total is None and hasattr(items, "__len__") else total)  # type: ignore[arg-type]
    try:
        for item in items:
            yield item
            bar.update(1)
    finally:  # also where the work failed: an error must not be printed behind an open line
        bar.close()


def _bar(label: str, total: int | None) -> Any:
    stream = _stream.get()
    if stream is not None and getattr(stream, "isatty", lambda: False)():
        with suppress(ImportError):
            from tqdm import tqdm

            return tqdm(total=total, desc=label, file=stream, leave=False, dynamic_ncols=True, delay=0.5)
    return _Lines(label, total)


class _Lines:
    """Plain lines, with the part of tqdm's interface that is used here."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total, self.n = label, total, 0
        self.began = self.told = time.monotonic()

    def update(self, n: int) -> None:
        self.n += n
        now = time.monotonic()
        if now - self.told >= EVERY:
            self.told, rate = now, self.n / (now - self.began)
            of, left = "", ""
            if self.total:
                of, left = f" of {self.total:,}", f", {max(self.total - self.n, 0) / max(rate, 1e-9):,.0f} s left"
            say(f"{self.label}: {self.n:,}{of}, {rate:.3g} per second{left}")

    def close(self) -> None:
        """Nothing to tidy up."""
