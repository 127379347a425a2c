"""Figures with their meaning for the reader, and tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparsetd._tools.numbers import Numbers, count, number, percent
from sparsetd.report.document import aligned
from sparsetd.report.shell import TEXTS

LEVELS = ("good", "warn", "bad")


def answers(p: Mapping[str, Any]) -> Numbers:
    """The format of the values of policies: as many digits as the interval of the answer supports."""
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
    """The four questions that a careful reader asks about a log; the last needs folds with enough episodes.

    A grade is good or fair if it reaches the limits in `texts.toml`.
    """
    carried, n, top, found = p["effective_episodes"], p["n_episodes"], p["max_ratio"], p["bellman_error"]
    grades = {
        "coverage": (p["coverage"], percent(round(p["coverage"], 3))),
        "episodes": (min(carried / 100, 4 * carried / n), count(carried)),
        "ratio": (-top, f"{number(top)}×"),
    }
    named = {"n_episodes": count(n), "rows": count(p["effective_rows"]), "n_rows": count(p["n_rows"])}
    if found and found["noise"] > 0:
        times, named["flat"] = found["value"] / found["noise"], f"{found['constant'] / found['noise']:.2g}×"
        grades["bellman"] = (-times, f"{times:.2g}×")
    cards = []
    for kind, (grade, figure) in grades.items():
        told = TEXTS["cards"][kind]
        place = sum(grade < limit for limit in told["limits"])
        # An answer that must not be used has no green card beside it.
        level = "plain" if place == 0 and p["severity"] == "red" else LEVELS[place]
        cards.append(Verdict(told["name"], figure, level, told["words"][place], told["meaning"].format(**named)))
    return cards


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its entries, its title, and a format spec such as ".3g"."""

    key: str
    title: str
    format: str = ""


def formatted(value: Any, spec: str = "") -> str:
    """`value` under the format spec; a dash where there is nothing to say, "inf" and "nan" spelt out."""
    if value is None:
        return "–"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return format(value, "" if isinstance(value, str) else spec)


def text_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], bold: Callable[[str], str] = str) -> str:
    """Aligned columns for a terminal; `bold` dresses the header."""
    cells = [[formatted(row.get(column.key), column.format) for column in columns] for row in rows]
    return "\n".join(aligned([[column.title for column in columns], *cells], bold))
