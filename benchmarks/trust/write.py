"""Put a table where the documentation keeps it."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path

import numpy as np

import sparsetd

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


def write(which: str, entropy: int | None, text: str, found: list[tuple[str, bool]], page: Path = PAGE) -> None:
    """Replace what stands between the two markers of a set."""
    begin, end = f"<!-- {which}: written by benchmarks.trust -->", f"<!-- end of {which} -->"
    old = page.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"{page.name} has no lines {begin!r} and {end!r}: add them where the table belongs")
    before, after = old.split(begin)[0], old.split(end)[1]
    verdicts = [f"- {'reached' if reached else '**not reached**'}: {sentence}" for sentence, reached in found]
    body = "\n".join([begin, "", _when(entropy), "", *verdicts, "", text, "", end])
    page.write_text(before + body + after)


def _when(entropy: int | None) -> str:
    seeds = "the seeds 0, 1, …" if entropy is None else f"seeds from `SeedSequence([{entropy}, crc32(cell), log])`"
    versions = f"sparsetd {sparsetd.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"
    return f"Run on {datetime.date.today()} with {versions}; {seeds}."
