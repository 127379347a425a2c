"""CSV and JSON-lines files as chunks of columns, with nothing but the standard library."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, objects, show
from sparsetd.logs.schema import check_names

MAX_LINE = 16 * 2**20
MAX_CELLS = 2**27  # of a chunk of JSON lines: a row of three characters can lack a hundred thousand columns
_LONGEST_NUMBER = 64
_INDEX = "Unnamed: 0"  # pandas writes its index first and without a name; this is what it calls the column itself
_MISSING = {"", "na", "n/a", "nan", "null", "none"}
_WORDS = {"true": 1, "false": 0}


def csv_chunks(
    path: Path, batch_rows: int, parsed: Callable[[list[str]], Array] | None = None
) -> Iterator[dict[str, Array]]:
    """Chunks of a CSV file with a header line, which shows whether commas, semicolons or tabs separate its columns."""
    parsed = parsed or parse
    with path.open(encoding="utf-8-sig", newline="") as file:
        header_line = file.readline(MAX_LINE)
        file.seek(0)
        reader = csv.reader(file, delimiter=max(",;\t", key=header_line.count), strict=True)
        header = next(reader, None)
        if header is None:
            raise ValueError(f"{path.name} is empty: it needs a header line with the names of the columns.")
        names, row = [name.strip() for name in header], 0
        if names[:1] == [""]:
            names[0] = _INDEX
        check_names(names)
        while lines := list(islice(reader, batch_rows)):
            lines = [line for line in lines if line]  # blank lines, such as the last one
            _refuse_wrong_width(lines, len(names), row)
            if lines:
                yield {name: parsed(list(texts)) for name, texts in zip(names, zip(*lines, strict=True), strict=True)}
            row += len(lines)
        if row == 0:
            raise ValueError(f"{path.name} has a header but no rows: add at least one transition.")


def _refuse_wrong_width(lines: list[list[str]], width: int, row: int) -> None:
    for i, line in enumerate(lines):
        if len(line) != width:
            raise ValueError(
                f"Row {row + i} has {len(line)} fields but the header names {width} columns: correct the row."
            )


def parse(texts: list[str]) -> Array:
    """A column of text as integers or floats if it holds numbers; what is no number stays text, for the error.

    Missing entries (empty, NA, null, …) are NaN, true and false are 1 and 0, and "[1, 2]" is a list.
    """
    if max(map(len, texts)) <= _LONGEST_NUMBER and _plain("".join(texts)):
        for number, kind in ((int, np.int64), (float, np.float64)):
            try:
                return np.array(list(map(number, texts)), dtype=kind)
            except (ValueError, OverflowError):
                continue
    entries = [_entry(text) for text in texts]
    kinds = {type(entry) for entry in entries}
    if kinds <= {int, float}:
        return np.array(entries, dtype=np.int64 if kinds == {int} else np.float64)
    return objects(entries)


def _entry(text: str) -> Any:
    word = text.strip().lower()
    if word in _MISSING:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    try:
        return float(word) if len(word) <= _LONGEST_NUMBER and _plain(word) else _list(word, text)
    except ValueError:
        return _list(word, text)


def _plain(text: str) -> bool:
    """Python reads 1_0 and digits of every script as numbers; a log that has them means something else."""
    return text.isascii() and "_" not in text


def is_number(text: str) -> bool:
    """Whether `text` is a number as anybody would write it."""
    try:
        return _plain(text) and float(text) == float(text)
    except ValueError:
        return False


def _list(word: str, text: str) -> Any:
    if not word.startswith("["):
        return text
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return text


def jsonl_chunks(path: Path, batch_rows: int) -> Iterator[dict[str, Array]]:
    """Chunks of a file with one JSON object per line; the first line's keys are the columns."""
    with path.open(encoding="utf-8-sig") as file:
        lines = enumerate(_lines(file))
        records = _records(lines, 1)
        if not records:
            raise ValueError(f"{path.name} is empty: it needs one JSON object per line.")
        names = list(records[0])
        check_names(names)
        rows = min(batch_rows, max(3, MAX_CELLS // len(names)))
        records, row = records + _records(lines, rows - 1), 0
        while records:
            _refuse_new_keys(records, names, row)
            yield {name: _column([record.get(name) for record in records]) for name in names}
            row += len(records)
            records = _records(lines, rows)


def _lines(file: Any) -> Iterator[str]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ValueError(f"A line is longer than {MAX_LINE:,} characters: write one object per line.")
        if line.strip():
            yield line


def _records(lines: Iterator[tuple[int, str]], n: int) -> list[dict[str, Any]]:
    return [_record(line, row) for row, line in islice(lines, n)]


def _record(line: str, row: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error).split(":")[0][:80]
        raise ValueError(f"Row {row} is not valid JSON ({reason}): write one JSON object per line.") from None
    if not isinstance(record, dict):
        raise ValueError(f"Row {row} is a JSON {type(record).__name__}, not an object: write one JSON object per line.")
    return record


def _refuse_new_keys(records: list[dict[str, Any]], names: list[str], row: int) -> None:
    known = set(names)
    for i, record in enumerate(records):
        if not record.keys() <= known:
            name = next(name for name in record if name not in known)
            raise ValueError(
                f"`{show(name)[1:-1]}` first appears in row {row + i}: give every row the columns of row 0."
            )


def _column(values: list[Any]) -> Array:
    kinds = {type(value) for value in values}
    if kinds <= {float, int, bool, type(None)} and kinds != {type(None)}:
        floats = bool(kinds & {float, type(None)})
        try:
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64 if floats else np.int64)
        except OverflowError:
            pass
    return objects(values)
