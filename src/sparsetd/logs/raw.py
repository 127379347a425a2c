"""Hold a raw table as it was exported: its columns as distinct cells, and the meaning of these cells.

The cells of a column become numbers, flags or times, and every distinct text is read once. How a column writes numbers
and dates is decided from all of its values: a single "4,5" makes its commas decimal, a single "25/3/2024" puts its days
first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, Begins, array_of, is_missing
from sparsetd.logs.dates import moment, numbered
from sparsetd.logs.door import BATCH, FILES, parts_of
from sparsetd.logs.files import Opened
from sparsetd.logs.schema import check_names, first_of, folded
from sparsetd.logs.text import SEPARATORS, Csv, open_csv
from sparsetd.logs.words import GAPS, GAPS_AMONG_NUMBERS, PAIRS

SHEET_ERROR = re.compile(r"#(n/?[a-z]|\S+[!?])")  # #N/A, #NV, #DIV/0!, #¡VALOR!: a formula could not compute these
MOST_CATEGORIES = 30  # a column of more texts than this would become too many columns, most of them nearly empty
MOST_WORDS = 40  # distinct cells in which yes and no are looked for

# "１２．５", as Japanese and Chinese forms have it.
PLAIN_WIDTH = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
PLAIN = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
LIMIT = re.compile(r"([<>≤≥])=?\s*(.+)")
BLANKS = re.compile(r"(?<=[0-9])[ '’\u00a0\u202f](?=[0-9]{3}(?![0-9]))")  # between groups of thousands
# "37.2 °C", "45 %", "$1,200", "-€3": money may stand before a number, any unit after it. "Type 2" and "B12" are names.
UNIT = re.compile(
    r"(?P<sign>[+−-]?)\s*(?P<money>[$€£¥₹]?)\s*(?P<number>[+−-]?[0-9.,][^a-zA-Z°%]*?)\s*(?P<after>[^0-9.,+−-]*)"
)
MONEY = re.compile("[$€£¥₹]")
COMMAS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
GROUPED = re.compile(r"[<>≤≥=]*\s*[+−-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
DOTS = re.compile(r"(?<=[0-9])\.(?=[0-9]{3}(?![0-9]))")
# A comma is decimal if a number of digits other than three follows it, or only zeros stand before it: 4,5 and 0,125.
DECIMAL_COMMA = re.compile(r"[^,]*(?<![1-9]..)(?<![1-9].)(?<![1-9]),[0-9]+|[^,]*,([0-9]{1,2}|[0-9]{4,})")


@dataclass(frozen=True, eq=False)
class Column:
    """The distinct cells of a column (None for a gap), and for every row the code of its cell.

    `known` says how the column is written, where options or an earlier table tell it.
    """

    name: str
    cells: list[Any]
    codes: Array
    known: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Column:
        try:
            place = {value: i for i, value in enumerate(dict.fromkeys(values))}
        except TypeError:  # a list in a cell cannot be a key
            return cls.of(name, list(map(str, values)))
        return cls.coded(name, list(place), np.array([place[value] for value in values], dtype=np.int64))

    @classmethod
    def coded(cls, name: str, distinct: Sequence[Any], codes: Array) -> Column:
        """Make a column from distinct values and the code of each row's value; values that mean one cell are joined."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(distinct)))  # not those of rows that were left out
        cells = [cell(distinct[i]) for i in used.tolist()]
        known = {one: i for i, one in enumerate(dict.fromkeys(cells))}
        joined = np.zeros(len(distinct), dtype=np.int64)
        joined[used] = [known[one] for one in cells]
        return cls(name, list(known), joined[codes])

    def take(self, rows: Array) -> Column:
        """The column in these rows only; its cells keep their meaning."""
        column = replace(self, codes=self.codes[rows])
        if "reading" in self.__dict__:
            column.__dict__["reading"] = self.reading
        return column

    def spread(self, values: Iterable[Any]) -> Array:
        """Turn one value per distinct cell into one value per row."""
        return np.asarray(values)[self.codes]

    def rows_with(self, some: Sequence[int]) -> Array:
        """A mask of the rows that hold one of some distinct cells."""
        return np.isin(self.codes, some)

    @property
    def weight(self) -> Array:
        """The number of rows that hold each distinct cell."""
        return np.bincount(self.codes, minlength=len(self.cells))

    @property
    def gaps(self) -> Array:
        return self.spread([one is None for one in self.cells])

    @cached_property
    def reading(self) -> Reading:
        """The meaning of the cells, with the help of `known`."""
        return meaning(self.cells, self.weight, self.known)


@dataclass(eq=False)
class Table:
    """A raw table on its way to a log: its columns, their roles, and sentences on what was done and what is wrong.

    `numbers` are the numbers of the source's rows as people count them, and `rows` are the places in it of the rows
    that are left. `asked` are the options, and what an earlier table taught. `group` is the episode of every row,
    `worth` what each word of an outcome is worth, `keep` what must not be changed, and `missing` how gaps are filled.
    """

    columns: dict[str, Column]
    rows: Array
    numbers: Array
    begins: Begins = ()  # the place of the first row of every file, and the name of the file
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)
    worth: dict[str, Mapping[str, float]] = field(default_factory=dict)
    group: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    asked: Mapping[str, Any] = field(default_factory=dict)
    keep: Sequence[str] = ()
    missing: str = "mark"
    shared: str = ""  # the column of an id that several episodes share, such as the patient of several stays
    has_outcome: bool = False  # whether the reward belongs to the whole episode and stands at its end

    @property
    def is_later(self) -> bool:
        """Whether an earlier table says how this one is read."""
        return "columns" in self.asked

    @property
    def free(self) -> list[Column]:
        """The columns that have no role."""
        return [column for name, column in self.columns.items() if name not in self.roles.values()]

    @cached_property
    def has_commas(self) -> bool:
        """Whether a column holds numbers that can only have decimal commas."""
        return any(column.reading.how.get("sure") for column in self.columns.values())

    @property
    def last(self) -> Array:
        """A mask of the last row of every episode; the rows must be in order."""
        return np.append(np.diff(self.group) != 0, True)

    @property
    def begin(self) -> Array:
        """The first row of every row's episode; the rows must be in order."""
        rows = np.arange(len(self.group))
        return np.maximum.accumulate(np.where(np.append(True, self.last[:-1]), rows, 0))

    def key(self, name: str) -> str:
        """The form in which names are compared: without their case and blanks, unless names are to be kept."""
        return name if "names" in self.keep else folded(name)

    def take(self, rows: Array) -> None:
        """Keep only these rows, in this order."""
        self.columns = {name: column.take(rows) for name, column in self.columns.items()}
        self.rows, self.group = self.rows[rows], self.group[rows]

    def nth(self, place: int) -> str:
        """The number of a row as people count it: within its file, if there are several."""
        files = [name for begin, name in self.begins if begin <= place]
        return f"{self.numbers[place]}" + (f" of {files[-1]}" if len(self.begins) > 1 else "")

    def where(self, rows: Array) -> str:
        """The number of rows and the first of them, in words."""
        return f"in {counted(rows.sum())} (first row {self.nth(self.rows[rows].min())})"

    def leave_out(self, rows: Array, why: str) -> None:
        """Drop some rows, and the cells that stand in no other row."""
        numbers = [self.nth(place) for place in self.rows[rows]]
        left_out = "Row {} was left out" if len(numbers) == 1 else "Rows {} were left out"
        self.done.append(f"{left_out.format(first_of(numbers, 5))}{why}.")
        self.take(np.flatnonzero(~rows))
        for name, one in self.columns.items():
            if one.weight.min() == 0:  # a cell without a row: the others may be read differently without it
                self.columns[name] = replace(Column.coded(name, one.cells, one.codes), known=one.known)

    def problem(self, what: str, rows: Array, remedy: str) -> None:
        """Note what is wrong in some rows and what cures it; if no option does, offer to leave the rows out."""
        if "--" not in remedy and not rows.all():
            skips = [f"--skip {shlex.quote(self.nth(place))}" for place in sorted(self.rows[rows])[:3]]
            remedy += f", or leave out {'the row' if rows.sum() == 1 else 'such rows'} with {' '.join(skips)}"
            remedy += " …" if rows.sum() > 3 else ""
        self.problems.append(f"{what} {self.where(rows)}: {remedy}.")


def counted(n: int) -> str:
    return f"{n:,} {'row' if n == 1 else 'rows'}"


def raw_table(source: Any, encoding: str | None = None) -> Table:
    """Read all rows of a table; the text of a CSV file is not interpreted, because "none" may be a treatment."""
    table = Table({}, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    parts: list[Part] = []
    begins: list[tuple[int, str]] = []
    for path, open_part in parts_of([source]):
        begins.append((sum(len(numbers) for _, numbers in parts), "" if path is None else path.name))
        text = path if path is not None and FILES.get(path.suffix.lower()) is open_csv else None
        for found in [_text_file(text, encoding, table)] if text else _arrays(open_part(), table):
            absent = sorted({*parts[0][0]} ^ {*found[0]} if parts else ())
            if absent:
                wrong = f"`{absent[0]}` is not in all parts of the source ({begins[-1][1]} differs)"
                raise ValueError(f"{wrong}: give every part the same columns.")
            parts.append(found)
    names = list(parts[0][0]) if parts else []
    check_names(names)
    table.columns = {name: _joined(name, [columns[name] for columns, _ in parts]) for name in names}
    table.numbers, table.begins = np.concatenate([numbers for _, numbers in parts]), begins
    table.rows = np.arange(len(table.numbers))
    table.group = np.zeros(len(table.rows), dtype=np.int64)
    return table


def _joined(name: str, parts: Sequence[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    begins = np.cumsum([0, *(len(part.cells) for part in parts)])
    codes = [part.codes + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    column = Column.coded(name, [one for part in parts for one in part.cells], np.concatenate(codes))
    return replace(column, known={"comma_likely": any(part.known.get("comma_likely") for part in parts)})


Part = tuple[dict[str, Column], Array]  # some rows, and their numbers in their file


def _arrays(opened: Opened, table: Table) -> Iterator[Part]:
    """Read a source with types: times are kept to the microsecond, and durations become days, whatever their unit."""
    n = 0
    for raw in opened.batches(opened.names, BATCH, ()):
        columns = {}
        for name, column in raw.items():
            values = array_of(name, column)
            kind = values.dtype.kind
            said = f"`{name}` holds durations: taken as days."
            table.done += [said] if kind == "m" and said not in table.done else []
            plain = values / np.timedelta64(1, "D") if kind == "m" else values
            plain = plain.astype("datetime64[us]") if kind == "M" else plain
            columns[name] = Column.of(name, plain.tolist())
        yield columns, n + np.arange(len(values))
        n += len(values)


def _text_file(path: Path, encoding: str | None, table: Table) -> Part:
    """Read a CSV file in any of the usual encodings; as in a spreadsheet, the header counts as row 1."""
    file = Csv(path, encoding, whole=True)
    cells, numbers, odd = file.cells()
    if not len(cells) and not odd:
        raise ValueError(f"{path.name} has a header but no rows: add at least one decision.")
    if odd:
        wrong = f"The table has {counted(len(odd))} with more or fewer fields than the {len(file.names)} of its header"
        remedy = f"correct this, or put text that holds {SEPARATORS[file.separator]} in quotes."
        table.problems.append(f"{wrong} (first row {min(odd)}): {remedy}")
    if not len(cells):
        raise ValueError(table.problems[-1])
    table.done.append(file.said)
    columns = {}
    for name in file.names:
        one = cells.column(name).combine_chunks()
        column = Column.coded(name, one.dictionary.to_pylist(), np.asarray(one.indices))
        columns[name] = replace(column, known={"comma_likely": file.separator == ";"})
    return columns, numbers


def cell(value: Any) -> Any:
    """Clean a cell: a gap becomes None, text loses the blanks around it and full-width letters, anything else stays."""
    if isinstance(value, str):
        text = " ".join(value.translate(PLAIN_WIDTH).strip().splitlines())
        return None if text.lower() in GAPS or SHEET_ERROR.fullmatch(text.lower()) else text
    return None if is_missing(value) else value


@dataclass(frozen=True)
class Reading:
    """The meaning of the distinct cells of a column: a kind, a number for each (NaN for a gap), and how they were read.

    `bad` lists the cells that do not fit the kind.
    """

    kind: str
    values: Array
    bad: Sequence[int] = ()
    how: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shares(self) -> Array:
        """The numbers, with percents turned into shares."""
        return self.values / 100 if self.how.get("unit") == "%" else self.values


def meaning(cells: Sequence[Any], weight: Array, how: Mapping[str, Any]) -> Reading:
    """Read cells as flags, numbers, times or text: the first kind that fits them, or at least half of the rows.

    `weight` counts the rows of each cell. `how` holds what is settled already, such as the "kind", "comma" and
    "day_first" of a column that was read before.
    """
    for kind, read in KINDS.items():
        if how.get("kind", kind) == kind:
            found = read(cells, how)
            fits = weight[np.isfinite(found.values)].sum() >= weight[list(found.bad)].sum()
            # If half of the rows fit, the others are problems to report; but one odd word makes flags a category.
            if not found.bad or (kind != "flag" and fits) or "kind" in how:
                return found
    return Reading("text", np.full(len(cells), np.nan))


def _each(cells: Sequence[Any], read: Callable[[Any], float], gaps: Container[str] = ()) -> tuple[Array, list[int]]:
    """Read each cell as a number (NaN for a gap); also return the places of the cells that cannot be read."""
    values, bad = np.full(len(cells), np.nan), []
    for i, one in enumerate(cells):
        if one is not None and not (isinstance(one, str) and one.lower() in gaps):
            try:
                values[i] = read(one)
            except (KeyError, TypeError, ValueError):
                bad.append(i)
    return values, bad


def _flags(cells: Sequence[Any], how: Mapping[str, Any]) -> Reading:
    some = [folded(str(one)) for one in cells[:MOST_WORDS] if one is not None and not isinstance(one, bool)]
    words = set(some) - GAPS_AMONG_NUMBERS
    pair = next((pair for pair in PAIRS if words <= set(pair)), {})
    if not pair and "kind" not in how:
        return Reading("flag", np.full(len(cells), np.nan), (0,))

    def answer(one: Any) -> float:
        return float(one) if isinstance(one, bool) else pair[folded(str(one))]

    values, bad = _each(cells, answer, GAPS_AMONG_NUMBERS)
    return Reading("flag", values, bad)


def _numbers(cells: Sequence[Any], how: Mapping[str, Any]) -> Reading:
    parts = [unit_and_number(one) if isinstance(one, str) else ("", one) for one in cells]
    units = {own for own, _ in parts if own}
    unit = how.get("unit", min(units) if len(units) == 1 else "")
    has_unit = [bool(unit) and own == unit for own, _ in parts]
    plain = [rest if has_unit[i] else cells[i] for i, (_, rest) in enumerate(parts)]
    texts = {i: one for i, one in enumerate(plain) if isinstance(one, str) and one.lower() not in GAPS_AMONG_NUMBERS}
    sure = how.get("comma", any(DECIMAL_COMMA.fullmatch(BLANKS.sub("", text)) for text in texts.values()))
    likely = how.get("comma_likely") and not any(re.search(r",[0-9]{3}\.[0-9]", text) for text in texts.values())
    comma = bool(sure or (likely and any("," in text for text in texts.values())))
    grouped = any(re.search(r"[0-9]\.[0-9]{3},[0-9]", text) for text in texts.values())
    limits = {i: match for i, text in texts.items() if (match := LIMIT.fullmatch(text))}
    bare = [limits[i][2] if i in limits else one for i, one in enumerate(plain)]
    values, bad = _each(bare, lambda one: number(one, comma, grouped), GAPS_AMONG_NUMBERS)
    limit = np.zeros(len(cells))  # −1 or 1 where a number is a limit, "<0.5" or ">1000"
    limit[list(limits)] = [-1 if match[1] in "<≤" else 1 for match in limits.values()]
    pointed = [i for i, text in texts.items() if "." in text]  # may all stand between thousands, as in 1.234?
    unclear = not comma and "comma" not in how and all(GROUPED.fullmatch(texts[i]) for i in pointed)
    told = {"comma": comma, "sure": sure, "unit": unit, "has_unit": has_unit, "limit": limit}
    return Reading("number", values, bad, {**told, "pointed": pointed if unclear else []})


def unit_and_number(text: str) -> tuple[str, str]:
    """The unit of a cell ("" if it has none, or holds no number), and the cell without it."""
    if text.startswith("(") and text.endswith(")") and MONEY.search(text):  # accountants put what is owed in brackets
        text = f"-{text[1:-1]}"
    beyond = LIMIT.fullmatch(text)
    match = UNIT.fullmatch(beyond[2] if beyond else text)
    if match is None or not any(digit.isdigit() for digit in match["number"]):
        return "", text
    sign = beyond[1] if beyond else ""
    return match["money"] + match["after"], f"{sign}{match['sign']}{match['number']}"


def number(entry: Any, comma: bool = False, grouped: bool = False) -> float:
    """Read a number as people write it; 1_0, 1e400, digits of other scripts and dates do not count as numbers."""
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
    found = [match for one in cells if isinstance(one, str) and (match := numbered(one))]
    first_large = any(int(match["one"]) > 12 for match in found)
    second_large = any(int(match["other"]) > 12 for match in found)
    day_first = how.get("day_first", first_large or not second_large)
    aware = set()

    def seconds(one: Any) -> float:
        when = moment(one, day_first)
        aware.add(when.tzinfo is not None)
        return when.replace(tzinfo=when.tzinfo or UTC).timestamp()

    values, bad = _each(cells, seconds)
    # Dates with dots put the day first everywhere; with slashes or dashes it depends on the country.
    unsure = bool(found) and not first_large and not second_large and any(match["sign"] != "." for match in found)
    told = {"day_first": day_first, "numeric": bool(found), "unsure": unsure, "mixed": len(aware) > 1}
    return Reading("time", values, bad, told)


KINDS = {"flag": _flags, "number": _numbers, "time": _times}
