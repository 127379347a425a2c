"""A raw table, as it was exported: its columns as distinct cells, and what these cells mean.

The cells of a column become numbers, flags or times, and every distinct text is read once. How a column writes numbers
and dates is decided from all of its values: a single "4,5" makes its commas decimal, a single "25/3/2024" puts its days
first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, is_missing
from sparsetd.logs.door import raw_columns
from sparsetd.logs.schema import check_names, folded
from sparsetd.logs.text import SEPARATORS, Csv

ENDINGS = (".csv", ".tsv", ".txt")
GAPS = {"", "na", "n/a", "nan", "null", "nil", "nat", "#n/a"}  # "none" may well be a treatment
MORE_GAPS = (
    "none|-|--|.|?|unknown|missing|nd|nd.|n.d.|n/d|b.d.|brak|brak danych|k.a.|n.b.|nvt|s/d|s.d.|unbekannt|fehlt|"
    "inconnu|manquant|onbekend|ontbreekt|desconocido|faltante|ausente|mancante|saknas|puuttuu"
)
GAPS_AMONG_NUMBERS = GAPS | set(MORE_GAPS.split("|"))
YES_NO = (
    "yes no, y n, true false, t f, on off, ja nein, j n, wahr falsch, ja nee, waar onwaar, oui non, o n, vrai faux, "
    "sí no, si no, s n, sì no, vero falso, sim não, sim nao, tak nie, да нет, ano ne, igen nem, evet hayır"
)
PAIRS = [dict(zip(map(folded, pair.split()), (1.0, 0.0), strict=True)) for pair in YES_NO.split(", ")]
FLAGS = {word: value for pair in reversed(PAIRS) for word, value in pair.items()}

MOST_WORDS = 40  # distinct cells in which yes and no are looked for

PLAIN = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
LIMIT = re.compile(r"([<>≤≥])=?\s*(.+)")
BLANKS = re.compile(r"(?<=[0-9])[ '’\u00a0\u202f](?=[0-9]{3}(?![0-9]))")  # what stands between groups of thousands
# "37.2 °C", "45 %", "$1,200", "-€3": money may stand before a number, any unit after it. "Type 2" and "B12" are names.
UNIT = re.compile(
    r"(?P<sign>[+−-]?)\s*(?P<money>[$€£¥₹]?)\s*(?P<number>[+−-]?[0-9.,][^a-zA-Z°%]*?)\s*(?P<after>[^0-9.,+−-]*)"
)
COMMAS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
GROUPED = re.compile(r"[<>≤≥=]*\s*[+−-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
DOTS = re.compile(r"(?<=[0-9])\.(?=[0-9]{3}(?![0-9]))")
# A comma is decimal if a number of digits other than three follows it, or only zeros stand before it: 4,5 and 0,125.
DECIMAL_COMMA = re.compile(r"[^,]*(?<![1-9]..)(?<![1-9].)(?<![1-9]),[0-9]+|[^,]*,([0-9]{1,2}|[0-9]{4,})")
NUMERIC_DATE = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(?:[ T,]+([0-9:.]+))?")
YEAR_FIRST = re.compile(r"([0-9]{4})[/.]([0-9]{1,2})[/.]([0-9]{1,2})(?:[ T]+([0-9:.]+))?")


@dataclass(frozen=True, eq=False)
class Column:
    """The distinct cells of a column (None for a gap), and for every row the code of its cell."""

    name: str
    cells: list[Any]
    codes: Array

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Column:
        try:
            place = {value: i for i, value in enumerate(dict.fromkeys(values))}
        except TypeError:  # a list in a cell cannot be a key
            return cls.of(name, list(map(str, values)))
        return cls.coded(name, list(place), [place[value] for value in values])

    @classmethod
    def coded(cls, name: str, distinct: Sequence[Any], codes: Any) -> Column:
        """A column of distinct values, and for every row the code of its value; equal cells are joined."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(distinct)))  # not those of rows that were left out
        cells = [cell(distinct[i]) for i in used.tolist()]
        known = {one: i for i, one in enumerate(dict.fromkeys(cells))}
        joined = np.zeros(len(distinct), dtype=np.int64)
        joined[used] = [known[one] for one in cells]
        return cls(name, list(known), joined[codes])

    def take(self, rows: Array) -> Column:
        return replace(self, codes=self.codes[rows])

    def spread(self, values: Iterable[Any]) -> Array:
        """A value for every row, from one for each distinct cell."""
        return np.asarray(values)[self.codes]

    @property
    def weight(self) -> Array:
        """The number of rows that hold each distinct cell."""
        return np.bincount(self.codes, minlength=len(self.cells))

    @property
    def gaps(self) -> Array:
        return self.spread([one is None for one in self.cells])


@dataclass(frozen=True, eq=False)
class Raw:
    """The columns of a raw table, the number of every row as people count them, and how the file was read."""

    columns: dict[str, Column]
    rows: Array
    said: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    comma_likely: bool = False

    @property
    def has_decimal_commas(self) -> bool:
        """Whether a column holds numbers that can only have decimal commas."""
        texts = {name: [one for one in column.cells if isinstance(one, str)] for name, column in self.columns.items()}
        some = [self.columns[name] for name in texts if any(map(DECIMAL_COMMA.fullmatch, texts[name]))]
        return any(meaning(column.cells, column.weight, {}).how.get("comma") for column in some)

    def take(self, rows: Array) -> Raw:
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, rows=self.rows[rows])


def raw_table(source: Any, encoding: str | None = None) -> Raw:
    """All rows of a table; the text of a CSV file as it stands, because "none" may be a treatment."""
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() in ENDINGS and Path(source).is_file():
        return _text_file(Path(source), encoding)
    lists: dict[str, list[Any]] = {}
    durations: dict[str, str] = {}
    for part in raw_columns(source):
        for name, values in part.items():
            if values.dtype.kind == "m":
                durations[name] = f"`{name}` holds durations: taken as days."
            lists.setdefault(name, []).extend(_plain(values))
    check_names(list(lists))
    columns = {name: Column.of(name, values) for name, values in lists.items()}
    return Raw(columns, np.arange(len(next(iter(lists.values())))), tuple(durations.values()))


def _plain(values: Array) -> list[Any]:
    """The values as Python's: times to the microsecond, durations in days whatever unit they are stored in."""
    if values.dtype.kind == "m":
        return list((values / np.timedelta64(1, "D")).tolist())
    return list((values.astype("datetime64[us]") if values.dtype.kind == "M" else values).tolist())


def _text_file(path: Path, encoding: str | None) -> Raw:
    """A CSV file in any of the usual encodings, whose rows are counted as a spreadsheet does: the header is row 1."""
    table = Csv(path, encoding, whole=True)
    cells, numbers, odd = table.cells()
    if not len(cells) and not odd:
        raise ValueError(f"{path.name} has a header but no rows: add at least one decision.")
    first = f"first row {min(odd, default=0)}"
    wrong = f"Not all rows have the {len(table.names)} fields of the header, {len(odd):,} do not ({first})"
    remedy = f"correct them, or put text that holds {SEPARATORS[table.separator]} in quotes."
    if not len(cells):
        raise ValueError(f"{wrong}: {remedy}")
    columns = {name: cells.column(name).combine_chunks() for name in table.names}
    return Raw(
        {
            name: Column.coded(name, one.dictionary.to_pylist(), np.asarray(one.indices))
            for name, one in columns.items()
        },
        numbers,
        (table.said,),
        (f"{wrong}: {remedy}",) if odd else (),
        comma_likely=table.separator == ";",
    )


def cell(value: Any) -> Any:
    """None for a gap, text without the blanks around it, anything else as it is."""
    if isinstance(value, str):
        text = value.strip()
        return None if text.lower() in GAPS else text
    return None if is_missing(value) else value


@dataclass(frozen=True)
class Reading:
    """The meaning of the distinct cells of a column: a kind, a number for each (NaN for a gap), and how it was read.

    `limit` is −1 or 1 where a number is a limit, "<0.5" or ">1000"; `bad` lists the cells that do not fit the kind.
    """

    kind: str
    values: Array
    limit: Array
    how: Mapping[str, Any] = field(default_factory=dict)
    bad: tuple[int, ...] = ()


def meaning(cells: Sequence[Any], weight: Array, how: Mapping[str, Any]) -> Reading:
    """Numbers, flags, times or text: the first kind that fits, or that at least half of the rows (`weight`) fit.

    `how` holds what is known beforehand: "kind", "comma" and "day_first" of a column that was read before.
    """
    present = [i for i, one in enumerate(cells) if one is not None]
    candidates = [kind for kind in KINDS if how.get("kind", kind) == kind]
    for kind in candidates:
        found = KINDS[kind](cells, how)
        fitting = weight[present].sum() - weight[list(found.bad)].sum()
        # Half of the rows make a kind, and the others are problems to tell. A single odd word makes flags a category.
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
    unit = how["unit"] if "unit" in how else _common_unit(cells)
    plain = [_without_unit(one, unit) for one in cells]
    texts = [one for one in plain if isinstance(one, str)]
    comma = how.get("comma", any(DECIMAL_COMMA.fullmatch(BLANKS.sub("", text)) for text in texts))
    comma = comma or (bool(how.get("comma_likely")) and any("," in text for text in texts))
    grouped = any(re.search(r"[0-9]\.[0-9]{3},[0-9]", text) for text in texts)
    values, limit, bad = np.full(len(cells), np.nan), np.zeros(len(cells)), []
    for i, one in enumerate(plain):
        if one is None or (isinstance(one, str) and one.lower() in GAPS_AMONG_NUMBERS):
            continue
        beyond = LIMIT.fullmatch(one) if isinstance(one, str) else None
        try:
            values[i] = number(beyond[2] if beyond else one, comma, grouped)
            limit[i] = 0 if beyond is None else -1 if beyond[1] in "<≤" else 1
        except (TypeError, ValueError):
            bad.append(i)
    told = {"comma": bool(comma), "unit": unit, "pointed": [] if comma or "comma" in how else _pointed(plain)}
    return Reading("number", values, limit, told, tuple(bad))


def _pointed(cells: Sequence[Any]) -> list[int]:
    """The cells with points, if these may all stand between thousands: 1.234, 12.000."""
    texts = {i: one for i, one in enumerate(cells) if isinstance(one, str) and "." in one}
    found = [i for i, text in texts.items() if text.lower() not in GAPS_AMONG_NUMBERS]
    return found if all(GROUPED.fullmatch(texts[i]) for i in found) else []


def _common_unit(cells: Sequence[Any]) -> str:
    """The one unit that cells write beside their numbers; "" if they write several units, or none."""
    found = {unit_and_number(one)[0] for one in cells if isinstance(one, str)} - {""}
    return found.pop() if len(found) == 1 else ""


def _without_unit(one: Any, unit: str) -> Any:
    if not unit or not isinstance(one, str):
        return one
    own, rest = unit_and_number(one)
    return rest if own == unit else one


def unit_and_number(text: str) -> tuple[str, str]:
    """The unit of a cell ("" if it has none, or holds no number), and the cell without it."""
    beyond = LIMIT.fullmatch(text)
    match = UNIT.fullmatch(beyond[2] if beyond else text)
    if match is None or not any(digit.isdigit() for digit in match["number"]):
        return "", text
    sign = beyond[1] if beyond else ""
    return match["money"] + match["after"], f"{sign}{match['sign']}{match['number']}"


def number(entry: Any, comma: bool = False, grouped: bool = False) -> float:
    """One number as anybody would write it. 1_0, 1e400, digits of other scripts and dates do not count as numbers."""
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
    # Dates with dots put the day first everywhere; with slashes or dashes it depends on the country.
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
        clock, year = match[5], year if year > 99 else year + (1900 if year > 68 else 2000)  # as POSIX reads 69
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
