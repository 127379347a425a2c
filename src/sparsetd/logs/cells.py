"""The cells of a raw column become numbers, flags or times. Every distinct text is read once.

How a column writes numbers and dates is decided from all of its values: a single "4,5" makes its commas decimal, a
single "25/3/2024" puts its days first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, is_missing

GAPS = {"", "na", "n/a", "nan", "null", "nil", "nat", "#n/a"}  # "none" may well be a treatment
MORE_GAPS = "none - -- . ? unknown missing nd n.d. k.a. n.b. nvt s/d unbekannt inconnu onbekend desconocido"
GAPS_AMONG_NUMBERS = GAPS | set(MORE_GAPS.split())
YES_NO = (
    "yes no, y n, true false, t f, on off, ja nein, j n, wahr falsch, ja nee, waar onwaar, oui non, o n, vrai faux, "
    "sí no, si no, s n, sì no, vero falso, sim não, sim nao, tak nie, да нет, ano ne, igen nem, evet hayır"
)
PAIRS = [dict(zip(pair.split(), (1.0, 0.0), strict=True)) for pair in YES_NO.split(", ")]
FLAGS = {word: value for pair in reversed(PAIRS) for word, value in pair.items()}

MOST_WORDS = 40  # distinct cells in which yes and no are looked for

PLAIN = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
LIMIT = re.compile(r"([<>≤≥])=?\s*(.+)")
BLANKS = re.compile(r"(?<=[0-9])[ '’\u00a0\u202f](?=[0-9]{3}(?![0-9]))")  # between groups of thousands
COMMAS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
DOTS = re.compile(r"(?<=[0-9])\.(?=[0-9]{3}(?![0-9]))")
# A comma is decimal where other than three digits follow it, or no digit but 0 stands before it: 4,5 and 0,125.
DECIMAL_COMMA = re.compile(r"[^,]*(?<![1-9]..)(?<![1-9].)(?<![1-9]),[0-9]+|[^,]*,([0-9]{1,2}|[0-9]{4,})")
NUMERIC_DATE = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(?:[ T,]+([0-9:.]+))?")
YEAR_FIRST = re.compile(r"([0-9]{4})[/.]([0-9]{1,2})[/.]([0-9]{1,2})(?:[ T]+([0-9:.]+))?")


def folded(text: str) -> str:
    """A name without what people write differently: case, blanks around it, and how many blanks are inside."""
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


def cell(value: Any) -> Any:
    """None for a gap, text without the blanks around it, anything else as it is."""
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in GAPS else text
    return None if is_missing(value) else value


@dataclass(frozen=True)
class Reading:
    """What the distinct cells of a column are: a kind, a number for each (NaN for a gap), and how that was read.

    `limit` is −1 or 1 where a number is a limit, "<0.5" or ">1000"; `bad` lists the cells that do not fit the kind.
    """

    kind: str
    values: Array
    limit: Array
    how: Mapping[str, Any] = field(default_factory=dict)
    bad: tuple[int, ...] = ()


def read(cells: Sequence[Any], weight: Array, how: Mapping[str, Any]) -> Reading:
    """Numbers, flags, times or text: the first kind that fits, or that at least half of the rows (`weight`) fit.

    `how` holds what is known beforehand: "kind", "comma" and "day_first" of a column that was read before.
    """
    present = [i for i, one in enumerate(cells) if one is not None]
    candidates = [kind for kind in KINDS if how.get("kind", kind) == kind]
    for kind in candidates:
        found = KINDS[kind](cells, how)
        fitting = weight[present].sum() - weight[list(found.bad)].sum()
        if not found.bad or (kind != "flag" and fitting >= weight[present].sum() / 2) or "kind" in how:
            return found
    return Reading("text", np.full(len(cells), np.nan), np.zeros(len(cells)))


def _flags(cells: Sequence[Any], how: Mapping[str, Any]) -> Reading:
    words = {folded(str(one)) for one in cells[:MOST_WORDS] if _is_word(one)}
    pair = next((pair for pair in PAIRS if words and words <= set(pair)), {})
    values, bad = np.full(len(cells), np.nan), []
    if words and not pair and "kind" not in how:
        return Reading("flag", values, values, {}, (0,))
    for i, one in enumerate(cells):
        if isinstance(one, bool):
            values[i] = float(one)
        elif _is_word(one):
            values[i] = pair.get(folded(str(one)), np.nan)
            bad += [i] if np.isnan(values[i]) else []
    return Reading("flag", values, np.zeros(len(cells)), {}, tuple(bad))


def _is_word(one: Any) -> bool:
    return one is not None and not isinstance(one, bool) and str(one).lower() not in GAPS_AMONG_NUMBERS


def _numbers(cells: Sequence[Any], how: Mapping[str, Any]) -> Reading:
    texts = [one for one in cells if isinstance(one, str)]
    comma = how.get("comma", any(DECIMAL_COMMA.fullmatch(BLANKS.sub("", text)) for text in texts))
    comma = comma or (bool(how.get("comma_likely")) and any("," in text for text in texts))
    grouped = any(re.search(r"[0-9]\.[0-9]{3},[0-9]", text) for text in texts)
    values, limit, bad = np.full(len(cells), np.nan), np.zeros(len(cells)), []
    for i, one in enumerate(cells):
        if one is None or (isinstance(one, str) and one.lower() in GAPS_AMONG_NUMBERS):
            continue
        beyond = LIMIT.fullmatch(one) if isinstance(one, str) else None
        try:
            values[i] = number(beyond[2] if beyond else one, comma, grouped)
            limit[i] = 0 if beyond is None else -1 if beyond[1] in "<≤" else 1
        except (TypeError, ValueError):
            bad.append(i)
    return Reading("number", values, limit, {"comma": bool(comma)}, tuple(bad))


def number(entry: Any, comma: bool = False, grouped: bool = False) -> float:
    """One number as anybody would write it; 1_0, 1e400, digits of other scripts and dates are none."""
    if isinstance(entry, date):
        raise TypeError("a date")
    text = BLANKS.sub("", entry).replace("−", "-") if isinstance(entry, str) else ""
    if comma:
        if not grouped and re.fullmatch(r"[1-9][0-9]{0,2}\.[0-9]{3}", text):
            raise ValueError("1.234 beside 4,5 may be 1.234 or 1234")
        text = (DOTS.sub("", text) if grouped else text).replace(",", ".")
    else:
        text = COMMAS.sub("", text)
    value = float(text if PLAIN.fullmatch(text) else "nan") if isinstance(entry, str) else float(entry)
    if not np.isfinite(value):
        raise ValueError(f"{entry!r} is no number")
    return value


def _times(cells: Sequence[Any], how: Mapping[str, Any]) -> Reading:
    """Seconds since 1970; times with an offset are brought to UTC, so that they keep their order."""
    parts = [NUMERIC_DATE.fullmatch(one) for one in cells if isinstance(one, str)]
    found = [match for match in parts if match]
    first_large = any(int(match[1]) > 12 for match in found)
    second_large = any(int(match[3]) > 12 for match in found)
    day_first = how.get("day_first", first_large or not second_large)
    values, aware, bad = np.full(len(cells), np.nan), [], []
    for i, one in enumerate(cells):
        if one is None:
            continue
        try:
            when = moment(one, day_first)
            aware.append(when.tzinfo is not None)
            values[i] = when.replace(tzinfo=when.tzinfo or UTC).timestamp()
        except (TypeError, ValueError):
            bad.append(i)
    unsure = bool(found) and not first_large and not second_large and any(match[2] != "." for match in found)
    told = {"day_first": day_first, "numeric": bool(found), "unsure": unsure, "mixed": len(set(aware)) > 1}
    return Reading("time", values, np.zeros(len(cells)), told, tuple(bad))


def moment(entry: Any, day_first: bool) -> datetime:
    """One date with or without a time, in any of the usual spellings."""
    if isinstance(entry, datetime):
        return entry
    if isinstance(entry, date):
        return datetime(entry.year, entry.month, entry.day)
    if not isinstance(entry, str) or entry.isdecimal():
        raise TypeError("no date")
    if match := NUMERIC_DATE.fullmatch(entry):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        day, month = (first, second) if day_first else (second, first)
        clock, year = match[5], year if year > 99 else year + (1900 if year > 68 else 2000)
    elif match := YEAR_FIRST.fullmatch(entry):
        year, month, day, clock = int(match[1]), int(match[2]), int(match[3]), match[4]
    else:
        return datetime.fromisoformat(entry)
    return datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{_clock(clock)}")


def _clock(text: str | None) -> str:
    """Hours, minutes and seconds with two digits each, as ISO wants them."""
    if text is None:
        return "00:00"
    hour, _, rest = text.partition(":")
    return f"{int(hour):02}:{rest}" if rest else f"{int(hour):02}:00"


KINDS = {"flag": _flags, "number": _numbers, "time": _times}
