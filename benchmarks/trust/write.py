"""Put a table where the documentation keeps it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.trust.ask import Row

PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


def write(which: str, rows: list[Row], text: str, found: list[tuple[str, bool]], page: Path = PAGE) -> None:
    """Replace what stands between the two markers of a set; the rows say what they were made with."""
    begin, end = f"<!-- {which}: written by benchmarks.trust -->", f"<!-- end of {which} -->"
    old = page.read_text()
    if begin not in old or end not in old:
        raise SystemExit(f"{page.name} has no lines {begin!r} and {end!r}: add them where the table belongs")
    before, after = old.split(begin)[0], old.split(end)[1]
    verdicts = [f"- {'reached' if reached else '**not reached**'}: {sentence}" for sentence, reached in found]
    body = "\n".join([begin, "", _made_with(rows), "", *verdicts, "", text, "", end])
    page.write_text(before + body + after)


def _made_with(rows: list[Row]) -> str:
    """When, with which versions and with which seeds the rows were made: a sentence for each kind of rows."""
    kinds = Counter((_versions(row), _seeds(row)) for row in rows)
    return " ".join(f"{n:,} logs: {versions}; {seeds}." for (versions, seeds), n in kinds.items())


def _versions(row: Row) -> str:
    if "made_with" not in row:
        return "date and versions not recorded"
    date, *versions = row["made_with"].items()
    return f"run on {date[1]} with " + ", ".join(f"{name} {value}" for name, value in versions)


def _seeds(row: Row) -> str:
    entropy = row.get("entropy")
    return "the seeds 0, 1, …" if entropy is None else f"seeds from `SeedSequence([{entropy}, crc32(cell), log])`"
