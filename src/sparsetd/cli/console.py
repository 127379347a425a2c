"""Where words go: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from typing import Any


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
            print(message, file=sys.stderr, flush=True)

    def error(self, sentence: str) -> None:
        print(f"sparsetd: error: {sentence}", file=sys.stderr, flush=True)

    def warning(self, sentence: object) -> None:
        print(f"sparsetd: warning: {sentence}", file=sys.stderr, flush=True)

    def result(self, data: dict[str, Any], text: str) -> None:
        print(json.dumps(_plain(data), allow_nan=False, indent=2) if self.json else text)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


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
