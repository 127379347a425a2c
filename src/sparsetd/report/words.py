"""Figures and what they mean for the reader, and tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparsetd._tools.numbers import Numbers, count, number, percent


def answers(p: Mapping[str, Any]) -> Numbers:
    """How the values of policies are written: to what the interval of the answer leaves open."""
    ends = [v for v in p["interval"] if v is not None and math.isfinite(v)]
    return Numbers.of([p["value"], *ends, p["behavior_value"]["value"]], ends[-1] - ends[0] if ends else None)


@dataclass(frozen=True)
class Verdict:
    """One figure with its meaning; `level` is good, warn or bad, and `word` says so without colour."""

    name: str
    figure: str
    level: str
    word: str
    meaning: str


def verdicts(p: Mapping[str, Any]) -> list[Verdict]:
    """The four questions a careful reader asks of a log; three where no fold has episodes enough for the last."""
    found = p["bellman_error"]
    cards = [_coverage(p), _sample(p), _ratio(p), *([_bellman(**found)] if found and found["noise"] > 0 else [])]
    if p["severity"] != "red":
        return cards
    return [replace(v, level="plain") if v.level == "good" else v for v in cards]  # no green on a page not to be used


def _coverage(p: Mapping[str, Any]) -> Verdict:
    share = p["coverage"]
    level, word = _grade(share, 0.95, 0.8, "covered", "partly covered", "poorly covered")
    meaning = "of the target policy's choices also occur in the log. It says nothing about the others."
    return Verdict("Support coverage", percent(share), level, word, meaning)


def _sample(p: Mapping[str, Any]) -> Verdict:
    carried, n = p["effective_episodes"], p["n_episodes"]
    level, word = _grade(min(carried / 100, 4 * carried / n), 1, 0.5, "plenty", "modest", "too few")
    meaning = (
        f"of {count(n)} episodes: the weight of the answer is spread as over so many that count alike "
        f"(rows: {count(p['effective_rows'])} of {count(p['n_rows'])})."
    )
    return Verdict("Effective episodes", count(carried), level, word, meaning)


def _ratio(p: Mapping[str, Any]) -> Verdict:
    top = p["max_ratio"]
    level, word = _grade(-top, -20, -100, "even", "uneven", "dominated by few rows")
    return Verdict(
        "Largest weight",
        f"{number(top)}×",
        level,
        word,
        "is the most that a single row counts. A large weight lets one unusual episode move the answer.",
    )


def _bellman(value: float, noise: float, constant: float) -> Verdict:
    level, word = _grade(-value / noise, -2, -5, "near chance", "some model error", "the features miss something")
    flat = f"{constant / noise:.2g}×"
    meaning = f"the error that chance alone leaves on held-out episodes. A model without any feature has {flat}."
    return Verdict("Bellman error", f"{value / noise:.2g}×", level, word, meaning)


def _grade(value: float, good: float, fair: float, *words: str) -> tuple[str, str]:
    place = 0 if value >= good else 1 if value >= fair else 2
    return ("good", "warn", "bad")[place], words[place]


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """Which entry of a row, under which title, and how it is written (`format` is a format spec such as ".3g")."""

    key: str
    title: str
    format: str = ""

    def cell(self, row: Row) -> str:
        return formatted(row.get(self.key), self.format)


def formatted(value: Any, spec: str = "") -> str:
    """`value` under the format spec; a dash where there is nothing to say, "inf" and "nan" spelt out."""
    if value is None:
        return "–"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return format(value, "" if isinstance(value, str) else spec)


def text_table(rows: Sequence[Row], columns: Sequence[Column], bold: Callable[[str], str] = str) -> str:
    """Aligned columns for a terminal: the first to the left, the others to the right; `bold` dresses the header."""
    cells = [[column.title for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    widths = [max(map(len, entries)) for entries in zip(*cells, strict=True)]
    header, *body = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
    return "\n".join([bold(header), *body])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = [(text.ljust, text.rjust) for text in line]
    return [first[0](widths[0]), *(right(width) for (_, right), width in zip(others, widths[1:], strict=True))]
