"""Where words go: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1  # of what `--json` prints: raised when a key changes its meaning or goes away


@dataclass(frozen=True)
class Console:
    """The user's wishes about output. `json` prints one JSON object instead of text; `quiet` silences progress."""

    json: bool = False
    quiet: bool = False
    colour: bool = False

    @classmethod
    def of_terminal(cls, *, json: bool, quiet: bool) -> Console:
        """Colours only on a terminal, and never where `NO_COLOR` is set or `TERM` is dumb."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(json, quiet, colour=wanted and not json and sys.stdout.isatty())

    def progress(self, message: str) -> None:
        if not self.quiet:
            tell(message)

    def error(self, sentence: str) -> None:
        tell(f"sparsetd: error: {sentence}")

    def warning(self, sentence: object) -> None:
        tell(f"sparsetd: warning: {sentence}")

    def result(self, data: dict[str, Any], text: str) -> None:
        """Print the text or, where JSON is wanted, the data; nothing where there is none."""
        if self.json and data:
            print(json.dumps(_plain({"schema_version": SCHEMA_VERSION, **data}), allow_nan=False, indent=2))
        elif text:
            print(text)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


def tell(text: str) -> None:
    """Write to stderr if anybody listens; the work goes on if nobody does."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a closed pipe, a full disk, a closed stream
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def open_streams() -> bool:
    """Make stdin, stdout and stderr safe to use; False if there is no stdout.

    Where one of them was closed, the next file to be opened would take its number and its words: the null device does.
    """
    heard = sys.stdout is not None
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (for the rest of the process)
        elif hasattr(stream, "reconfigure"):  # a letter that the terminal's encoding lacks must not cost the answer
            stream.reconfigure(errors="backslashreplace")
    return heard


def _plain(value: Any) -> Any:
    """JSON knows neither NumPy nor infinity: arrays become lists, NaN and ±inf become null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
