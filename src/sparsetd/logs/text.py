"""CSV files by pyarrow, in blocks of whole lines, and JSON lines by Python's own reader.

pyarrow guesses the type of a column from a block. A later block that does not fit (4.5 where all were whole) is guessed
again, so that nothing is ever rounded. What it takes for text is parsed here, every distinct text once. Its reader of
JSON ends the process on some files, so it is not used.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparsetd.logs.checks import Array, counted_from, id_text, nth, objects, reason, show
from sparsetd.logs.files import Opened, Raw
from sparsetd.logs.schema import check_names
from sparsetd.storage.container import distinct

BLOCK = 4 * 2**20  # bytes of a CSV file that are parsed at a time
MAX_LINE = 16 * 2**20
MAX_CELLS = 2**27  # cells in a chunk of JSON lines: a row of three characters can lack a hundred thousand columns
_LONGEST_NUMBER = 64
_INDEX = "Unnamed: 0"  # pandas writes its index first and without a name; this is what it calls the column itself
_MISSING = {"", "na", "n/a", "nan", "null", "none"}
_NULLS = [form for word in sorted(_MISSING) for form in {word, word.upper(), word.title(), "NaN"}]
_WORDS = {"true": 1, "false": 0}
_TEXT = pa.dictionary(pa.int32(), pa.string())
_QUOTED = re.compile(rb'(?:(?<=[,;\t\r\n])|\A)"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')


def open_csv(path: Path) -> Opened:
    """A CSV file with a header line, which shows whether commas, semicolons or tabs separate its columns."""
    with path.open("rb") as file:
        data = file.read(MAX_LINE)
    lines = (found.end() for found in re.finditer(rb"\n", data))
    end = next((i for i in lines if data[:i].strip() and _last_end(data[:i]) == i), len(data))
    try:
        header = data[:end].decode().removeprefix("\ufeff").lstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, f"byte {error.start}") from None
    if not header.strip():
        raise ValueError(f"{path.name} is empty: it needs a header line with the names of the columns.")
    separator = max(",;\t", key=header.count)
    try:
        names = [name.strip() for name in next(_lines_of(header, separator))]
    except csv.Error as error:
        raise _invalid(path, error) from None
    if names[:1] == [""]:
        names[0] = _INDEX
    check_names(names)
    return Opened(names, _Csv(path, names, separator, end).batches)


def _lines_of(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)


def _last_end(data: bytes) -> int:
    """The end of the last whole line. A line break inside quotes does not end a line."""
    end = data.rfind(b"\n") + 1
    if data.count(b'"', 0, end) % 2:
        for field in reversed(list(_QUOTED.finditer(data))):
            end = data.rfind(b"\n", 0, field.start()) + 1 if field.start() < end <= field.end() else end
    return end


class _Csv:
    """The rows of a CSV file, and the types that its columns were found to have so far."""

    def __init__(self, path: Path, names: list[str], separator: str, begin: int) -> None:
        self.path, self.names, self.separator, self.begin = path, names, separator, begin
        self.texts: Sequence[str] = ()
        self.kinds: dict[str, Any] = {}

    def batches(self, columns: Sequence[str], rows: int, texts: Sequence[str]) -> Iterator[Raw]:
        """The columns, so many rows at a time; those in `texts` as they stand, all others as numbers or lists."""
        self.texts, self.kinds = texts, dict.fromkeys(texts, _TEXT)
        n = 0
        for block in filter(bytes.strip, self._blocks()):
            with counted_from(nth(n)):
                table = self._parsed(block, columns)
                made = {name: self._column(table.column(name), name in texts) for name in columns}
            n += len(table)
            for i in range(0, len(table), rows):
                yield {name: column[i : i + rows] for name, column in made.items()}
        if n == 0:
            raise ValueError(f"{self.path.name} has a header but no rows: add at least one transition.")

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, a few mebibytes at a time."""
        with self.path.open("rb") as file:
            file.seek(self.begin)
            held, data = b"", file.read(BLOCK)
            while len(data) == BLOCK:
                held += data
                end = _last_end(held)
                if end:
                    yield held[:end]
                    held = held[end:]
                elif len(held) > MAX_LINE:
                    raise ValueError(f"{self.path.name} has a line longer than {MAX_LINE:,} bytes: correct it.")
                data = file.read(BLOCK)
            held += data
            self._refuse_open_quotes(held[_last_end(held) :])
            yield held

    def _refuse_open_quotes(self, last: bytes) -> None:
        """Refuse a quotation that is never closed; pyarrow would close it silently at the end of the file."""
        try:
            list(_lines_of(last.decode(errors="replace"), self.separator))
        except csv.Error as error:
            if "end of data" in str(error):
                raise _invalid(self.path, error) from None

    def _parsed(self, block: bytes, columns: Sequence[str]) -> Any:
        """The columns of a block; types of the blocks before it are tried first."""
        kinds = dict(self.kinds)
        while True:
            try:
                table = self._read(block, columns, kinds)
                break
            except pa.ArrowInvalid as error:
                unfit = error
            del kinds[self._unfit(unfit, kinds)]
        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        numeric = [field.name for field in table.schema if pa.types.is_floating(field.type)] + whole
        self.kinds = dict.fromkeys(self.texts, _TEXT) | {name: table.schema.field(name).type for name in numeric}
        if whole and (b"0x" in block or b"0X" in block):  # pyarrow reads 0x10 as 16; as text it becomes an error
            return self._read(block, columns, kinds | dict.fromkeys(whole, _TEXT))
        return table

    def _read(self, block: bytes, columns: Sequence[str], kinds: dict[str, Any]) -> Any:
        from pyarrow import csv as arrow_csv

        wanted = {"include_columns": list(columns), "column_types": kinds, "null_values": _NULLS}
        return arrow_csv.read_csv(
            pa.py_buffer(block),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=self.names),
            arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(**wanted),
        )

    def _unfit(self, error: Exception, kinds: dict[str, Any]) -> str:
        """The column that no longer has the type of the blocks before; any other error is raised."""
        row = re.match(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+)", str(error))
        if row is not None:
            raise ValueError(
                f"Row {nth(int(row[1]) - 1)} has {row[2]} fields but the header names {len(self.names)} columns: "
                "correct the row."
            )
        found = re.match(r"In CSV column #(\d+): .*CSV conversion error", str(error))
        name = self.names[int(found[1])] if found else None
        if "invalid UTF8" in str(error):
            raise _not_utf8(self.path, f"`{name}`")
        if name is None or name not in kinds or kinds[name] == _TEXT:
            raise _invalid(self.path, error)
        return name

    def _column(self, column: Any, as_text: bool) -> Any:
        """Numbers as pyarrow read them. Text, words and dates are parsed here, or stay text."""
        kind = column.type
        if as_text:
            return _present(column.combine_chunks())
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return column.combine_chunks()
        if pa.types.is_binary(kind):
            raise _not_utf8(self.path, "a column")
        if pa.types.is_null(kind):
            return np.full(len(column), np.nan)
        if pa.types.is_boolean(kind):
            return column.cast(pa.int8()).combine_chunks()
        return parsed(column)


def _present(ids: Any) -> Any:
    """Ids as they stand, with nulls for empty cells and for words such as NA."""
    absent = [text.strip().lower() in _MISSING for text in ids.dictionary.to_pylist()]
    if not any(absent):
        return ids
    places = pa.array(range(len(absent)), pa.int32(), mask=np.array(absent))
    return pa.DictionaryArray.from_arrays(places.take(ids.indices), ids.dictionary)


def _invalid(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path.name} is not a valid CSV file ({reason(error)}): write it again.")


def _not_utf8(path: Path, where: str) -> ValueError:
    return ValueError(f"{path.name} is not UTF-8 text ({where}): save it as UTF-8, or let `prepare` read it.")


def parsed(column: Any) -> Array:
    """A column of text as numbers if it holds numbers; what is no number stays text, for the error.

    Missing entries (empty, NA, null, …) are NaN, true and false are 1 and 0, and "[1, 2]" is a list.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    distinct = [*map(_entry, column.dictionary.to_pylist()), *([np.nan] if column.null_count else [])]
    codes = np.asarray(column.indices.cast("int64").fill_null(len(distinct) - 1))
    kinds = {type(entry) for entry in distinct}
    if kinds <= {int, float}:
        return np.array(distinct, dtype=np.int64 if kinds == {int} else np.float64)[codes]
    return objects(distinct)[codes]


def _entry(text: str) -> Any:
    word = text.strip().lower()
    if word in _MISSING:
        return np.nan
    if word in _WORDS:
        return _WORDS[word]
    if re.fullmatch(r"[+-]?[0-9]{1,18}", word):
        return int(word)
    try:
        return float(word) if len(word) <= _LONGEST_NUMBER and _plain(word) else _list(word, text)
    except ValueError:
        return _list(word, text)


def _plain(text: str) -> bool:
    """Whether a text has only the signs of plain numbers. Python also reads 1_0 and digits of every script."""
    return text.isascii() and "_" not in text


def is_number(text: str) -> bool:
    """Return whether `text` is a number as anybody would write it."""
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


def open_jsonl(path: Path) -> Opened:
    """A file with one JSON object per line; the first line's keys are the columns."""
    with readable_text(path), path.open(encoding="utf-8-sig") as file:
        first = _records(enumerate(_lines(file)), 1)
    if not first:
        raise ValueError(f"{path.name} is empty: it needs one JSON object per line.")
    names = list(first[0])
    check_names(names)

    def batches(columns: Sequence[str], rows: int, texts: Sequence[str]) -> Iterator[Raw]:
        rows = min(rows, max(3, MAX_CELLS // len(names)))
        with readable_text(path), path.open(encoding="utf-8-sig") as file:
            lines, n = enumerate(_lines(file)), 0
            while records := _records(lines, rows):
                _refuse_new_keys(records, names, n)
                yield {name: typed([record.get(name) for record in records], name in texts) for name in columns}
                n += len(records)

    return Opened(names, batches)


@contextmanager
def readable_text(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_utf8(path, f"byte {error.start}") from None


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
        record = json.loads(line, object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        why = str(error).split(":")[0][:80]
        raise ValueError(f"Row {row} is not valid JSON ({why}): write one JSON object per line.") from None
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


def typed(values: list[Any], as_text: bool) -> Array:
    """Values of a source without types: numbers where all are numbers, and ids as text, except missing ones."""
    kinds = {type(value) for value in values}
    if as_text:
        return objects([id_text(v) if isinstance(v, (int, float)) and v == v else v for v in values])
    if kinds <= {float, int, bool, type(None)} and kinds != {type(None)}:
        floats = bool(kinds & {float, type(None)})
        try:
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64 if floats else np.int64)
        except OverflowError:
            pass
    return objects(values)
