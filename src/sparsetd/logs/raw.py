"""A raw table, as it was exported: every column as its distinct cells, and which of them stands in every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.cells import cell
from sparsetd.logs.checks import Array, reason
from sparsetd.logs.door import raw_columns
from sparsetd.logs.schema import check_names

ENDINGS = (".csv", ".tsv", ".txt")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
UTF16 = (b"\xff\xfe", b"\xfe\xff")
INDEX = "Unnamed: 0"  # pandas writes its index first and without a name


@dataclass(frozen=True, eq=False)
class Column:
    """The distinct cells of a column (None for a gap) and the code of each row's."""

    name: str
    cells: list[Any]
    codes: Array

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> Column:
        try:
            place = {value: i for i, value in enumerate(dict.fromkeys(values))}
        except TypeError:  # a cell that holds a list
            return cls.of(name, list(map(str, values)))
        cells = list(map(cell, place))
        known = {one: i for i, one in enumerate(dict.fromkeys(cells))}
        joined = np.array([known[one] for one in cells], dtype=np.int64)
        return cls(name, list(known), joined[[place[value] for value in values]])

    def take(self, rows: Array) -> Column:
        return replace(self, codes=self.codes[rows])

    def spread(self, values: Iterable[Any]) -> Array:
        """A value for every row, from one for each distinct cell."""
        return np.asarray(values)[self.codes]

    @property
    def weight(self) -> Array:
        """How many rows hold each distinct cell."""
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

    def take(self, rows: Array) -> Raw:
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, rows=self.rows[rows])


def raw_table(source: Any) -> Raw:
    """All rows of a table; the text of a CSV file as it stands, because "none" may be a treatment."""
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() in ENDINGS and Path(source).is_file():
        return _text_file(Path(source))
    lists: dict[str, list[Any]] = {}
    for part in raw_columns(source):
        for name in part:
            values = part[name].astype("datetime64[us]") if part[name].dtype.kind == "M" else part[name]
            lists.setdefault(name, []).extend(values.tolist())
    check_names(list(lists))
    columns = {name: Column.of(name, values) for name, values in lists.items()}
    return Raw(columns, np.arange(len(next(iter(lists.values())))))


def _text_file(path: Path) -> Raw:
    """A CSV file in any of the usual encodings, whose rows are counted as a spreadsheet does: the header is row 1."""
    text, encoding = _decoded(path.read_bytes())
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise ValueError(f"{path.name} is empty: it needs a header line with the names of the columns.")
    separator = max(SEPARATORS, key=first.count)
    records = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=separator, strict=True)
    try:
        return _records(path, records, separator, encoding)
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a valid CSV file ({reason(error)}): write it again.") from None


def _records(path: Path, records: Iterable[list[str]], separator: str, encoding: str) -> Raw:
    header: list[str] = []
    table, numbers, odd = [], [], []
    for number, record in enumerate(records, start=1):
        if not any(field.strip() for field in record):
            continue
        if not header:
            header = [field.strip() or (INDEX if not i else "") for i, field in enumerate(_without_end(record, 1))]
            check_names(header)
            continue
        fields = _without_end(record, len(header))
        if len(fields) != len(header):
            odd.append(number)
        else:
            table.append(fields)
            numbers.append(number)
    if not table and not odd:
        raise ValueError(f"{path.name} has a header but no rows: add at least one decision.")
    first = f"first row {min(odd, default=0)}"
    wrong = f"Not all rows have the {len(header)} fields of the header, {len(odd):,} do not ({first})"
    remedy = f"correct them, or put text that holds {SEPARATORS[separator]} in quotes."
    if not table:
        raise ValueError(f"{wrong}: {remedy}")
    return Raw(
        {name: Column.of(name, values) for name, values in zip(header, zip(*table, strict=True), strict=True)},
        np.array(numbers, dtype=np.int64),
        (f"{path.name} was read as {encoding}, its columns separated by {SEPARATORS[separator]}.",),
        (f"{wrong}: {remedy}",) if odd else (),
        comma_likely=separator == ";",
    )


def _without_end(record: list[str], least: int) -> list[str]:
    """A record without the empty fields that a separator at the end of a line makes."""
    filled = [i + 1 for i, field in enumerate(record) if field.strip()]
    return record[: max([least, *filled])]


def _decoded(data: bytes) -> tuple[str, str]:
    """The text of a file and the name of its encoding: UTF-8, UTF-16, and cp1252 where it is neither."""
    zeros = np.frombuffer(data[:4096], dtype=np.uint8) == 0
    if data.startswith(UTF16):
        return data.decode("utf-16", errors="replace"), "UTF-16"
    if zeros.sum() > 0.2 * len(zeros):  # without a mark at its beginning, every other byte of Western text is 0
        little = zeros[1::2].sum() > zeros[::2].sum()
        return data.decode("utf-16-le" if little else "utf-16-be", errors="replace"), "UTF-16"
    try:
        return data.decode("utf-8-sig"), "UTF-8"
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"
