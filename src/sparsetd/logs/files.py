"""Read the columns that are asked for from Parquet, Arrow and .npz files, in batches and within limits of memory.

A log is trusted as far as pyarrow trusts it. The size in the footer of a Parquet file is believed and kept below
`MOST`, and a small file that would become large is refused. The rest (compressed Arrow buffers, pages that contradict
their footer) is left to pyarrow to refuse.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from sparsetd.logs import checks
from sparsetd.logs.checks import Array, reason, show
from sparsetd.logs.schema import MAX_COLUMNS, check_names
from sparsetd.storage.atomic import replace_file

HARMLESS = 2**28  # bytes that any file may unpack to; a larger result may be `SHRUNK` times the file's own size
SHRUNK = 1_000
PARQUET = (".parquet", ".pq")
METADATA = b"sparsetd"  # the key in a Parquet file under which notes on its making travel
MAGIC = b"ARROW1"  # an Arrow file begins and ends with it; a stream does not
ROW_GROUPS, COLUMNS, ABOUT, PATH, N_VALUES = 4, 1, 3, 3, 5  # fields of a footer that lead to the sizes of lists
DATA_AT, DICTIONARY_AT, COMPRESSED = 9, 11, 7  # fields that say where the pages of a column are
UNPACKED, PACKED = 2, 3  # fields of a page's header: its sizes
HARMLESS_PAGE = 2**26  # bytes; writers end a page at about a megabyte
MOST_TEXT = 2**24  # bytes of a text in a footer or in the header of a page
MOST_WALKED = 2**24  # bytes of a file whose pages are looked at: a page claims 2 GiB at most, 128 times as much
TAIL = 8  # bytes after the footer of a Parquet file: its length and a magic word
LONGEST_HEADER = 2**14  # of an array in an .npz archive; NumPy itself reads no more than 10,000 bytes

T = TypeVar("T")
Raw = Mapping[str, Any]  # columns of some rows by name: Arrow's, or arrays and lists


@dataclass(frozen=True)
class Opened:
    """A source with known columns, before its rows are read.

    `batches(columns, rows, texts)` yields these columns, at most `rows` rows at a time (data in memory comes whole). If
    the source has no types, the columns in `texts` come as text.
    """

    names: Sequence[str]
    batches: Callable[[Sequence[str], int, Sequence[str]], Generator[Raw]]
    notes: Mapping[str, Any] = field(default_factory=dict)  # see `notes_of`
    close: Callable[[], None] = lambda: None  # gives up a source whose rows are not wanted after all

    def has(self, columns: str | Sequence[str] | None) -> bool:
        return set(self.names).issuperset([columns] if isinstance(columns, str) else columns or ())


@contextmanager
def readable(name: str, kind: str) -> Iterator[None]:
    """Turn pyarrow's errors into one sentence; a failed allocation may be the fault of the file or of the machine."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, MemoryError):
            what = f"{name} takes more memory than there is ({reason(error)}): it is too large, or damaged."
            raise ValueError(what) from None
        raise ValueError(f"{name} is not a readable {kind} file ({reason(error)}): write it again.") from None


def open_parquet(path: Path) -> Opened:
    """A Parquet file, opened once; its rows can be read once."""
    import pyarrow.parquet as pq

    with readable(path.name, "Parquet"):
        source = pa.OSFile(os.fsencode(path))
        metadata = pq.read_metadata(source)
        # A file may hold a long text once and refer to it in a million rows; memory must do the same.
        leaves = (metadata.schema.column(j) for j in range(metadata.num_columns))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        # Read in pieces: a column of a row group need not fit in memory, and fresh memory is slower than a copy.
        how: dict[str, Any] = {"buffer_size": 2**20, "pre_buffer": False, "read_dictionary": texts}
        file = pq.ParquetFile(source, metadata=metadata, **how)
        check_names(file.schema_arrow.names)

    def batches(columns: Sequence[str], rows: int, _: Sequence[str]) -> Generator[Raw]:
        with readable(path.name, "Parquet"), source:
            rows = rows_of(path, metadata, rows)
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                yield raw_of(batch, columns)

    return Opened(file.schema_arrow.names, batches, _notes_in(file.schema_arrow.metadata))


def footer_of(path: Path) -> Any:
    """The metadata in the footer of a Parquet file."""
    import pyarrow.parquet as pq

    with readable(path.name, "Parquet"), pa.OSFile(os.fsencode(path)) as source:
        return pq.read_metadata(source)


def rows_of(path: Path, metadata: Any, most_rows: int) -> int:
    """The number of rows of a Parquet file to read at a time, so that they take at most `MOST` bytes.

    The file is refused if its footer says that one row group would unpack to more than that, or that the whole would
    unpack to very much more than its own size.
    """
    leaves = [metadata.schema.column(j) for j in range(metadata.num_columns)]
    widest = max([1, *(leaf.length for leaf in leaves)])
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    # pyarrow believes whichever number it needs, so a damaged footer must be found here.
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        raise ValueError(f"{path.name} is not a readable Parquet file (its rows do not add up): write it again.")
    has_lists, in_file = any(leaf.max_repetition_level for leaf in leaves), path.stat().st_size
    claims = _claims(path, in_file <= MOST_WALKED) if has_lists or in_file <= MOST_WALKED else [(0, 0)] * len(groups)
    for group, (listed, _) in zip(groups, claims, strict=False):
        size = max(group.total_byte_size, checks.NUMBER * listed if has_lists else 0)
        if size > checks.MOST or (size > HARMLESS and size > SHRUNK * in_file):
            much = f"{size / 2**30:.1f} GiB in one row group, beyond {min(size, checks.MOST) / 2**30:.1f}"
            raise ValueError(f"{path.name} would unpack to {much}: write smaller row groups.")
        widest = max(widest, size // max(group.num_rows, 1))
    page = max((page for _, page in claims), default=0)
    if page > HARMLESS_PAGE and page > SHRUNK * in_file:
        raise ValueError(f"{path.name} would unpack to {page / 2**30:.1f} GiB in one page: it is damaged, rewrite it.")
    return max(1, min(rows_at_once(most_rows, metadata.num_columns), checks.MOST // widest))


def rows_at_once(most_rows: int, n_columns: int) -> int:
    """At most `most_rows` rows, fewer if there are so many columns that they would not fit."""
    return min(most_rows, max(3, checks.MOST // (checks.NUMBER * max(n_columns, 1))))


def notes_of(path: Path) -> dict[str, Any]:
    """The notes that `prepare` or `shard` wrote into a Parquet file beside its rows; empty for any other file.

    `action_names` are the names of its actions, `learnt` says how the table was prepared, and `said` has its units.
    """
    is_parquet = path.suffix.lower() in PARQUET and path.is_file()
    return _notes_in(footer_of(path).schema.to_arrow_schema().metadata) if is_parquet else {}


def write_parquet(
    path: str | os.PathLike[str], columns: Mapping[str, Any], notes: Mapping[str, Any], **how: Any
) -> None:
    """Write a Parquet file, which appears whole, with notes on its making beside its rows."""
    import pyarrow.parquet as pq

    told = {METADATA: json.dumps(notes, ensure_ascii=False)} if notes else None
    table = pa.table(dict(columns)).replace_schema_metadata(told)
    replace_file(path, lambda sink: pq.write_table(table, sink, **how))


def _notes_in(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    try:
        notes = json.loads((metadata or {}).get(METADATA, b"{}"))
        names, learnt = notes.get("action_names"), dict(notes.get("learnt") or {})
        columns = learnt.get("columns", {})
        units = ", ".join(f"{name!r} in {how['unit']}" for name, how in columns.items() if how.get("unit"))
        told = {"said": f"Units: {units}."} if units else {}
        return {"action_names": None if names is None else tuple(map(str, names)), "learnt": learnt, **told}
    except (AttributeError, TypeError, ValueError):  # somebody else's metadata under our key
        return {}


def open_ipc(path: Path) -> Opened:
    """An Arrow IPC file (also called Feather) or stream."""
    with readable(path.name, "Arrow"):
        source = pa.memory_map(os.fsencode(path))
        is_file = source.read(len(MAGIC)) == MAGIC
        counted = pa.ipc.open_file(source).num_record_batches if is_file else None
        source.seek(8 if is_file else 0)  # an Arrow file is a stream between a magic word and a footer
        stream = pa.ipc.open_stream(source)
        names = stream.schema.names

    def batches() -> Generator[Any]:
        n = 0
        with source:
            for batch in stream:
                n += 1
                batch.validate(full=True)  # offsets in a damaged file must not be followed
                yield batch
        if is_file and n != counted:
            # The stream of a damaged file may end early; only the footer shows that batches are missing.
            raise pa.ArrowInvalid("its footer does not count its record batches")

    return open_stream(path.name, names, batches())


def open_stream(name: str, columns: Sequence[str], batches: Any) -> Opened:
    """Arrow batches or tables of any size; a stream can be read once."""
    check_names(columns)

    def slices(wanted: Sequence[str], rows: int, _: Sequence[str]) -> Generator[Raw]:
        with readable(name, "Arrow"), closing(batches):  # a database waits until its result is closed
            for batch in batches:
                size = rows_at_once(rows, batch.num_columns)
                for i in range(0, batch.num_rows, size):
                    yield raw_of(batch.slice(i, size), wanted)

    return Opened(list(columns), slices, close=batches.close)


def raw_of(batch: Any, columns: Sequence[str]) -> Raw:
    return {name: batch.column(name) for name in columns}


def portions(items: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Group items into lists; a list ends with the item that brings its size to `most`."""
    pending: list[T] = []
    size = 0
    for item in items:
        pending.append(item)
        size += size_of(item)
        if size >= most:
            yield pending
            pending, size = [], 0
    if pending:
        yield pending


def _claims(path: Path, walk: bool) -> list[tuple[int, int]]:
    """The claims of every row group: the number of entries in its lists and, with `walk`, the size of its largest page.

    A damaged file of a kilobyte may claim 2²⁸ entries, and pyarrow makes room for what the header of a page claims
    before it looks at the page. pyarrow would tell the number of entries, but it ends the process where a damaged
    footer describes a column wrongly. So the footer is read here, as Thrift's compact protocol writes it: a structure
    becomes a dictionary of its fields by number.
    """
    claims = []
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(size - TAIL, 0))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(size - TAIL - length, 0))
            for group in _structure(io.BytesIO(file.read(min(length, size))))[ROW_GROUPS]:
                columns = [column[ABOUT] for column in group[COLUMNS]]
                filled = [about for about in columns if walk and about[N_VALUES]]  # others may have no pages
                pages = [page for about in filled for page in _pages(file, about, size)]
                entries = sum(int(about[N_VALUES]) for about in columns if len(about[PATH]) > 1)
                claims.append((entries, max(pages, default=0)))
    except (EOFError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        what = "its footer or the header of a page is damaged"
        raise ValueError(f"{path.name} is not a readable Parquet file ({what}): write it again.") from None
    return claims


def _pages(file: BinaryIO, about: dict[int, Any], size: int) -> Iterator[int]:
    """The bytes to which each page of a column claims to unpack."""
    at = min((about[name] for name in (DATA_AT, DICTIONARY_AT) if about.get(name)), default=-1)
    if at < 0:
        raise EOFError
    end = min(at + about[COMPRESSED], size)
    while at < end:
        file.seek(at)
        page = _structure(file)
        at = file.tell() + max(page[PACKED], 0)
        if at > size:  # pyarrow would make room for bytes that the file does not have
            raise EOFError
        yield page[UNPACKED]


def _structure(data: BinaryIO) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(data):
        number = number + (head >> 4) if head >> 4 else _number(data)
        kind = head & 15
        fields[number] = kind == 1 if kind in (1, 2) else _value(data, kind)
    return fields


def _value(data: BinaryIO, kind: int) -> Any:
    if kind in (1, 2, 3):
        return _byte(data)
    if kind in (4, 5, 6):
        return _number(data)
    if kind == 7:
        return data.read(8)
    if kind == 8:
        size = _varint(data)
        if size > MOST_TEXT:  # read() makes room for the bytes before it looks for them
            raise EOFError
        return data.read(size)
    if kind in (9, 10):
        head = _byte(data)
        size = _varint(data) if head >> 4 == 15 else head >> 4
        return [_value(data, head & 15) for _ in range(size)]
    if kind == 12:
        return _structure(data)
    raise TypeError("maps do not occur in a footer")


def _byte(data: BinaryIO) -> int:
    found = data.read(1)
    if not found:
        raise EOFError
    return found[0]


def _varint(data: BinaryIO) -> int:
    value = shift = 0
    while (byte := _byte(data)) & 128:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift


def _number(data: BinaryIO) -> int:
    """A signed number; its sign is the last bit (zigzag)."""
    value = _varint(data)
    return value >> 1 ^ -(value & 1)


def read_npz(path: Path, max_bytes: int = checks.MOST) -> dict[str, Array]:
    """Arrays of an .npz archive, without pickles; sizes are checked against the headers before anything is unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            _refuse_bomb(path, archive, max_bytes)
        with np.load(path, allow_pickle=False) as arrays:  # noqa: TID251 (without pickles)
            return {name: arrays[name] for name in arrays.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive fails in zipfile, zlib and NumPy, each in its own ways
        if isinstance(error, ValueError) and str(error).startswith(path.name):
            raise
        why = "it holds Python objects" if "pickle" in str(error).lower() else reason(error)
        raise ValueError(f"{path.name} is not a readable .npz archive ({why}): use np.savez.") from None


def _refuse_bomb(path: Path, archive: zipfile.ZipFile, max_bytes: int) -> None:
    members = archive.infolist()
    if len(members) > MAX_COLUMNS:
        raise ValueError(f"{path.name} holds {len(members):,} arrays, more than {MAX_COLUMNS:,}: use one matrix.")
    total = 0
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a limit
            raise ValueError(f"{path.name} is compressed in a way that NumPy does not use: save it with np.savez.")
        with archive.open(member) as packed:
            file = io.BytesIO(packed.read(LONGEST_HEADER))
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = math.prod((*shape, dtype.itemsize))
        if size > member.file_size or not dtype.itemsize:
            claims = f"{show(member.filename)} claims more data than it holds"
            raise ValueError(f"{path.name} is damaged: {claims}; save it again.")
        total += member.file_size
    if total > max_bytes:
        raise ValueError(
            f"{path.name} would unpack to {total / 2**30:.1f} GiB, beyond {max_bytes / 2**30:.1f}: use Parquet."
        )
