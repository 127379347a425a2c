"""Read CSV files with pyarrow, in blocks of whole lines, and JSON lines with Python's own reader.

pyarrow guesses the type of a column from a block. A later block that does not fit (4.5 where all were whole) is guessed
again, so that nothing is ever rounded. Columns that pyarrow takes for text are parsed here, every distinct text once.
Its reader of JSON ends the process on some files, so it is not used.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparsetd.logs.checks import Array, counted_from, id_text, looked_up, nth, objects, reason, show
from sparsetd.logs.encodings import UTF8, encoding_of
from sparsetd.logs.files import Opened, Raw
from sparsetd.logs.schema import check_names
from sparsetd.logs.words import GAPS
from sparsetd.storage.container import distinct

BLOCK = 4 * 2**20  # bytes of a CSV file that are parsed at a time
MAX_LINE = 16 * 2**20
MOST_TITLES = 20  # lines above the header of a table
MAX_CELLS = 2**27  # cells in a chunk of JSON lines: a row of three characters can lack a hundred thousand columns
_LONGEST_NUMBER = 64
_MISSING = GAPS | {"none"}
_NULLS = [form for word in sorted(_MISSING) for form in {word, word.upper(), word.title(), "NaN"}]
_WORDS = {"true": 1, "false": 0} | dict.fromkeys(_MISSING, np.nan)
_TEXT = pa.dictionary(pa.int32(), pa.string())
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_QUOTED = re.compile(rb'(?:(?<=[,;|\t\r\n])|\A)"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')
_END = re.compile(_QUOTED.pattern + rb"|\n|\Z")  # of a line; a field in quotes may hold line breaks


def open_csv(path: Path) -> Opened:
    """A CSV file with a header line, in any of the usual encodings."""
    table = Csv(path)
    usual = table.encoding == UTF8 and table.n_head == 1
    return Opened(table.names, table.batches, {"said": None if usual else table.said})


def _lines_of(text: str, separator: str, *, strict: bool = True) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=strict)


def _last_end(data: bytes) -> int:
    """Find the end of the last whole line. A line break inside quotes does not end a line."""
    end = data.rfind(b"\n") + 1
    if data.count(b'"', 0, end) % 2:
        for field in reversed(list(_QUOTED.finditer(data))):
            end = data.rfind(b"\n", 0, field.start()) + 1 if field.start() < end <= field.end() else end
    return end


class Line(NamedTuple):
    """One of the first lines of a file, which is a title or the header."""

    text: str
    end: int
    number: int  # its row in a spreadsheet
    separator: str
    filled: int  # fields that are not blank


def _first_lines(data: bytes) -> Iterator[Line]:
    """The lines that are not blank, each with its most frequent separator outside of quotes."""
    begin = number = 0
    for end in (found.end() for found in _END.finditer(data) if found[0] in (b"\n", b"")):
        line, begin, number = data[begin:end], end, number + 1
        plain = _QUOTED.sub(b"quoted", line).decode(errors="replace")
        separator = max(SEPARATORS, key=plain.count)
        if filled := sum(bool(field.strip()) for field in plain.split(separator)):
            yield Line(line.decode(errors="replace"), end, number, separator, filled)


def _names_groups(head: Line, below: Line | None = None, row: Line | None = None) -> bool:
    """Say whether a line names groups of columns ("Patient;;;Signs;"), and the line below it the columns themselves."""
    if below is None or row is None or not head.filled < below.filled:
        return False
    try:
        lines = [next(_lines_of(line.text, below.separator)) for line in (head, below, row)]
    except csv.Error:
        return False
    groups, names, cells = ([field.strip() for field in line] for line in lines)
    are_names = len({*names}) == len(names) and not any(name == "" or name[0].isdigit() for name in names)
    return "" in groups and are_names and any(cell[:1].isdigit() for cell in cells)


class Csv:
    """The rows of a CSV file, and the types that its columns were found to have so far.

    The header shows whether commas, semicolons, tabs or bars separate the columns. Unless the encoding is given, it is
    found out from the first mebibytes, or with `whole` from all of the file.
    """

    def __init__(self, path: Path, encoding: str | None = None, *, whole: bool = False) -> None:
        self.path = path
        self.names: list[str] = []
        self.texts: Sequence[str] = ()
        self.kinds: dict[str, Any] = {}
        with path.open("rb") as file:
            data = file.read(-1 if whole else MAX_LINE)
        self.codec, self.encoding = encoding_of(data, encoding, complete=len(data) == path.stat().st_size)
        self._read_header(next(self._pieces(MAX_LINE), b""))
        named, self.names = self.names, _told_apart(self.names) if whole else self.names
        self.renamed = [name for name, one in zip(self.names, named, strict=True) if name != one]
        check_names(self.names)

    def _read_header(self, data: bytes) -> None:
        """Find the names and the separator in the first line that is no title, and where the rows begin."""
        heads = list(islice(_first_lines(data), MOST_TITLES))
        if not heads:
            raise ValueError(f"{self.path.name} is empty: it needs a header line with the names of the columns.")
        most = max(line.filled for line in heads)
        first = next(i for i, line in enumerate(heads) if line.filled > 2 or 2 * line.filled >= most)
        head = heads[first + _names_groups(*heads[first : first + 3])]
        try:
            names = _without_end(next(_lines_of(head.text, head.separator)), 1)
        except csv.Error as error:
            raise _invalid(self.path, error) from None
        self.begin, self.n_head, self.separator = head.end, head.number, head.separator
        self.names = [" ".join(name.split()) or f"Unnamed: {j}" for j, name in enumerate(names)]  # as pandas calls it

    @property
    def said(self) -> str:
        """A sentence on how the file was read."""
        header = f" Its header is row {self.n_head}." if self.n_head > 1 else ""
        separated = f"its columns separated by {SEPARATORS[self.separator]}"
        names = ", ".join(f"`{name}`" for name in self.renamed)
        renamed = f" Names that stand twice in it became {names}." if names else ""
        return f"{self.path.name} was read as {self.encoding}, {separated}.{header}{renamed}"

    def cells(self) -> tuple[Any, Array, list[int]]:
        """Read all cells as text; also return the numbers of their rows, and of rows with more or fewer fields.

        As in a spreadsheet, the header counts as row 1. Blank rows are left out.
        """
        schema, skipped = pa.schema(dict.fromkeys(self.names, _TEXT)), dict[int, list[str]]()

        def handle(row: Any) -> str:
            record = next(_lines_of(row.text, self.separator, strict=False), [])
            skipped[row.number] = _without_end(record, len(self.names))
            return "skip"

        rows = b"".join(self._blocks())
        try:
            table = self._read(rows, self.names, dict(zip(schema.names, schema.types, strict=True)), handle)
        except pa.ArrowInvalid as error:
            raise _invalid(self.path, error) from None
        whole = np.delete(np.arange(len(table) + len(skipped)) + 1, np.array([*skipped], int) - 1)
        mended = {i: fields for i, fields in skipped.items() if len(fields) == len(self.names)}  # without empty ends
        columns = {name: [fields[j] for fields in mended.values()] for j, name in enumerate(self.names)}
        table = pa.concat_tables([table, pa.table(columns, schema)]).unify_dictionaries().combine_chunks()
        number = self.n_head + np.append(whole, np.array([*mended], int))
        filled = np.zeros(len(table), dtype=bool)
        for column in table.columns:
            cells = column.combine_chunks()
            has_text = np.array([bool(text.strip()) for text in cells.dictionary.to_pylist()], dtype=bool)
            filled |= has_text[np.asarray(cells.indices)]
        kept = np.argsort(number, kind="stable")
        kept = kept[filled[kept]]
        odd = [self.n_head + i for i in skipped if i not in mended and any(map(str.strip, skipped[i]))]
        return table.take(pa.array(kept)), number[kept], odd

    def batches(self, columns: Sequence[str], rows: int, texts: Sequence[str]) -> Generator[Raw]:
        """Yield the columns, `rows` rows at a time: those in `texts` as text, all others as numbers or lists."""
        self.texts, self.kinds = texts, dict.fromkeys(texts, _TEXT)
        n = 0
        for block in filter(bytes.strip, self._blocks()):
            with counted_from(n):
                table = self._parsed(block, columns)
                made = {name: self._column(table.column(name), name in texts) for name in columns}
            n += len(table)
            for i in range(0, len(table), rows):
                yield {name: column[i : i + rows] for name, column in made.items()}
        if n == 0:
            raise ValueError(f"{self.path.name} has a header but no rows: add at least one transition.")

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, a few mebibytes at a time."""
        held, skipped = b"", self.begin
        for data in self._pieces(BLOCK):
            held += data[skipped:]
            skipped = max(skipped - len(data), 0)
            end = _last_end(held) if len(held) > BLOCK // 2 else 0
            if end:
                yield held[:end]
                held = held[end:]
            elif len(held) > MAX_LINE:
                raise ValueError(f"{self.path.name} has a line longer than {MAX_LINE:,} bytes: correct it.")
        try:  # pyarrow would silently accept a quotation that is never closed
            list(_lines_of(held[_last_end(held) :].decode(errors="replace"), self.separator))
        except csv.Error as error:
            if "end of data" in str(error):
                raise _invalid(self.path, error) from None
        yield held

    def _pieces(self, size: int) -> Iterator[bytes]:
        """The bytes of the file as UTF-8, `size` at a time; if lines end with returns only, these become newlines."""
        decoder = codecs.getincrementaldecoder(self.codec)("replace")
        with self.path.open("rb") as file:
            data = file.read(size)
            only_returns = b"\r" in data and b"\n" not in data
            data = data.removeprefix(codecs.BOM_UTF8) if self.encoding == UTF8 else data
            while data:
                plain = data if self.encoding == UTF8 else decoder.decode(data).encode(errors="replace")
                yield plain.replace(b"\r", b"\n") if only_returns else plain
                data = file.read(size)

    def _parsed(self, block: bytes, columns: Sequence[str]) -> Any:
        """Parse the columns of a block; the types of the blocks before it are tried first."""
        kinds = dict(self.kinds)
        while True:
            try:
                table = self._read(block, columns, kinds)
                break
            except pa.ArrowInvalid as error:
                del kinds[self._unfit(error, kinds)]
        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        numeric = [field.name for field in table.schema if pa.types.is_floating(field.type)] + whole
        self.kinds = dict.fromkeys(self.texts, _TEXT) | {name: table.schema.field(name).type for name in numeric}
        if whole and (b"0x" in block or b"0X" in block):  # pyarrow reads 0x10 as 16; as text it becomes an error
            return self._read(block, columns, kinds | dict.fromkeys(whole, _TEXT))
        return table

    def _read(self, block: bytes, columns: Sequence[str], kinds: dict[str, Any], odd: Any = None) -> Any:
        """Read the columns of a block; `odd` is called for rows of another length, and makes blank lines rows, too."""
        from pyarrow import csv as arrow_csv

        if not block:
            return pa.schema(kinds).empty_table()
        size = min(len(block), 2 * MAX_LINE) + 1  # a block is shorter, but all rows of a file may be longer
        wanted = {"include_columns": list(columns), "column_types": kinds, "null_values": [] if odd else _NULLS}
        lines = {"ignore_empty_lines": odd is None, "invalid_row_handler": odd}
        return arrow_csv.read_csv(
            pa.py_buffer(block),
            arrow_csv.ReadOptions(use_threads=False, block_size=size, column_names=self.names),
            arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True, **lines),
            arrow_csv.ConvertOptions(**wanted),
        )

    def _unfit(self, error: Exception, kinds: dict[str, Any]) -> str:
        """Name the column that no longer has the type of the blocks before; raise any other error."""
        row = re.match(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+)", str(error))
        if row is not None:
            fields = f"{row[2]} fields but the header names {len(self.names)} columns"
            raise ValueError(f"Row {nth(int(row[1]) - 1)} has {fields}: correct the row.") from None
        found = re.match(r"In CSV column #(\d+): .*CSV conversion error", str(error))
        name = self.names[int(found[1])] if found else None
        if "invalid UTF8" in str(error):
            raise _not_utf8(self.path, f"`{name}`") from None
        if name is None or name not in kinds or kinds[name] == _TEXT:
            raise _invalid(self.path, error) from None
        return name

    def _column(self, column: Any, as_text: bool) -> Any:
        """Numbers as pyarrow read them. Text, words and dates are parsed here, or stay text."""
        if as_text:  # ids stay text, except that empty cells and words like NA are gaps
            ids = column.combine_chunks()
            absent = np.array([text.strip().lower() in _MISSING for text in ids.dictionary.to_pylist()], dtype=bool)
            places = pa.array(np.arange(len(absent), dtype=np.int32), mask=absent)
            return pa.DictionaryArray.from_arrays(places.take(ids.indices), ids.dictionary)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            return column.combine_chunks()
        if pa.types.is_binary(column.type):
            raise _not_utf8(self.path, "a column")
        return _parsed(column)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Make every name unique: the second column that is called CRP becomes "CRP (2)"."""
    times: Counter[str] = Counter()
    apart = []
    for name in names:
        times[name] += 1
        apart.append(name if times[name] == 1 else f"{name} ({times[name]})")
    return apart


def _without_end(record: list[str], least: int) -> list[str]:
    """Drop the empty fields that separators at the end of a line make."""
    filled = [i + 1 for i, field in enumerate(record) if field.strip()]
    return record[: max([least, *filled])]


def _invalid(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path.name} is not a valid CSV file ({reason(error)}): write it again.")


def _not_utf8(path: Path, where: str) -> ValueError:
    return ValueError(f"{path.name} is not UTF-8 text ({where}): save it as UTF-8, or let `prepare` read it.")


def _parsed(column: Any) -> Array:
    """Turn a column of text into numbers; entries that are no numbers stay text, so that an error can show them.

    Missing entries (empty, NA, null, …) are NaN, true and false are 1 and 0, and "[1, 2]" is a list.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    column = column.unify_dictionaries().combine_chunks()
    return looked_up(typed([*map(_entry, column.dictionary.to_pylist())], as_text=False), column)


def _entry(text: str) -> Any:
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        if re.fullmatch(r"[+-]?[0-9]{1,18}", word):
            return int(word)
        if word.startswith("["):
            return json.loads(word)
        return float(word) if len(word) <= _LONGEST_NUMBER and _is_plain(word) else text
    except (ValueError, RecursionError):
        return text


def _is_plain(text: str) -> bool:
    """Whether a text has only the signs of plain numbers. Python also reads 1_0 and digits of every script."""
    return text.isascii() and "_" not in text


def is_number(text: str) -> bool:
    """Return whether `text` is a number as anybody would write it."""
    try:
        return _is_plain(text) and float(text) == float(text)
    except ValueError:
        return False


def open_jsonl(path: Path) -> Opened:
    """A file with one JSON object per line; the first line's keys are the columns."""
    first = next(_records(path, 1), None)
    if first is None:
        raise ValueError(f"{path.name} is empty: it needs one JSON object per line.")
    names = list(first[0])
    check_names(names)

    def batches(columns: Sequence[str], rows: int, texts: Sequence[str]) -> Generator[Raw]:
        for records in _records(path, min(rows, max(3, MAX_CELLS // len(names))), first[0]):
            yield {name: typed([record.get(name) for record in records], name in texts) for name in columns}

    return Opened(names, batches)


def _records(path: Path, n: int, first: dict[str, Any] | None = None) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects of the lines, `n` at a time; a key that the first line does not have is refused."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = enumerate(_lines(file))
            while found := [_record(row, line, first) for row, line in islice(lines, n)]:
                yield found
    except UnicodeDecodeError as error:
        raise _not_utf8(path, f"byte {error.start}") from None


def _lines(file: Any) -> Iterator[str]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ValueError(f"A line is longer than {MAX_LINE:,} characters: write one object per line.")
        if line.strip():
            yield line


def _record(row: int, line: str, first: dict[str, Any] | None) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        why = str(error).split(":")[0][:80]
        raise ValueError(f"Row {nth(row)} is not valid JSON ({why}): write one JSON object per line.") from None
    if not isinstance(record, dict):
        kind = type(record).__name__
        raise ValueError(f"Row {nth(row)} is a JSON {kind}, not an object: write one JSON object per line.")
    if first is not None and not record.keys() <= first.keys():
        name = show(next(name for name in record if name not in first))[1:-1]
        raise ValueError(f"`{name}` first appears in row {nth(row)}: give every row the columns of row 0.")
    return record


def typed(values: list[Any], as_text: bool) -> Array:
    """Make an array of values without types: numbers if all are numbers; ids become text, unless they are missing."""
    if as_text:
        return objects([id_text(v) if isinstance(v, (int, float)) and v == v else v for v in values])
    if set(map(type, values)) <= {float, int, bool, type(None)}:
        return np.asarray([np.nan if value is None else value for value in values])
    return objects(values)
