"""Parquet and Arrow files, and Arrow tables, as chunks of columns.

A log is trusted as far as pyarrow trusts it: what the footer of a Parquet file says of its size is believed and kept
below `MOST`, the rest (compressed Arrow buffers, pages that contradict their footer) is pyarrow's to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, nth, reason
from sparsetd.logs.lazy import LazyColumns
from sparsetd.logs.schema import check_names
from sparsetd.logs.sparse_lists import Ones, column_names, csr_rows, sparse_roles

MOST = 8 * 2**30  # bytes that one row group or one column of lists may unpack to
NUMBER = 8  # bytes of an entry
METADATA = b"sparsetd"  # the key in a Parquet file under which the names of its actions travel
MAGIC = b"ARROW1"  # an Arrow file begins and ends with it; a stream does not


def require_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError('Reading Parquet and Arrow files needs pyarrow: pip install "sparsetd[data]".') from None
    return pyarrow


def unreadable(name: str, kind: str, error: Exception) -> ValueError:
    """What pyarrow says of a file, as one sentence; a failed allocation is the fault of the file or of the machine."""
    if isinstance(error, MemoryError):
        return ValueError(f"{name} takes more memory than there is ({reason(error)}): it is too large, or damaged.")
    return ValueError(f"{name} is not a readable {kind} file ({reason(error)}): write it again.")


def parquet_chunks(path: Path, batch_rows: int) -> Iterator[Mapping[str, Array]]:
    """Chunks of a Parquet file, never more than `batch_rows` rows in memory."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        rows = parquet_rows(path, metadata, batch_rows)
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=_texts(metadata)) as file:
            check_names(file.schema_arrow.names)
            # A file that fits is read column by column: all columns side by side take twice the memory.
            at_once = 0 < metadata.num_rows <= rows
            for batch in [file.read(use_threads=False)] if at_once else file.iter_batches(rows):
                yield columns_of(batch)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path.name, "Parquet", error) from None


def action_names(source: Any) -> tuple[str, ...] | None:
    """The names of the actions that `prepare` wrote into a Parquet file; None for any other source."""
    if not isinstance(source, (str, Path)) or Path(source).suffix != ".parquet" or not Path(source).is_file():
        return None
    require_pyarrow()
    import pyarrow.parquet as pq

    try:
        known = json.loads((pq.read_schema(source).metadata or {}).get(METADATA, b"{}"))
        names = known.get("action_names")
        return None if names is None else tuple(map(str, names))
    except (AttributeError, TypeError, ValueError):  # somebody else's metadata under our key
        return None


def rows_at_once(batch_rows: int, n_columns: int) -> int:
    """At most `batch_rows` rows, fewer where very many columns would not fit."""
    return min(batch_rows, max(3, MOST // (NUMBER * max(n_columns, 1))))


def parquet_rows(path: Path, metadata: Any, batch_rows: int) -> int:
    """How many rows of a Parquet file, at most `batch_rows`, to read at a time so that they take at most `MOST` bytes.

    A file of which one row group would unpack to more, by its own footer, is refused.
    """
    leaves = [metadata.schema.column(j) for j in range(metadata.num_columns)]
    widest = max([1, *(leaf.length for leaf in leaves)])
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        raise ValueError(f"{path.name} is not a readable Parquet file (its rows do not add up): write it again.")
    for group in groups:
        if group.total_byte_size > MOST:
            size = f"{group.total_byte_size / 2**30:.1f} GiB in one row group, beyond {MOST / 2**30:.1f}"
            raise ValueError(f"{path.name} would unpack to {size}: write smaller ones.")
        widest = max(widest, group.total_byte_size // max(group.num_rows, 1))
    return max(1, min(rows_at_once(batch_rows, len(leaves)), MOST // widest))


def _texts(metadata: Any) -> list[str]:
    """Columns of text: a file may hold a long text once and refer to it in a million rows, and so shall memory."""
    leaves = (metadata.schema.column(j) for j in range(metadata.num_columns))
    return [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]


def ipc_chunks(path: Path, batch_rows: int) -> Iterator[Mapping[str, Array]]:
    """Chunks of an Arrow IPC file (also called Feather) or stream."""
    pa = require_pyarrow()
    try:
        with pa.memory_map(str(path)) as source:
            for batch in _ipc_batches(pa, source):
                batch.validate(full=True)  # offsets in a damaged file must not be followed
                check_names(batch.schema.names)
                rows = rows_at_once(batch_rows, batch.num_columns)
                for i in range(0, batch.num_rows, rows):
                    yield columns_of(batch.slice(i, rows))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path.name, "Arrow", error) from None


def _ipc_batches(pa: Any, source: Any) -> Iterator[Any]:
    """The record batches: an Arrow file is a stream between a magic word and a footer, which counts the batches."""
    is_file = source.read(len(MAGIC)) == MAGIC
    counted = pa.ipc.open_file(source).num_record_batches if is_file else None
    source.seek(8 if is_file else 0)
    n = 0
    for batch in pa.ipc.open_stream(source):
        n += 1
        yield batch
    if is_file and n != counted:
        raise pa.ArrowInvalid("its footer does not count its record batches")


def columns_of(table: Any) -> Mapping[str, Array]:
    """Columns of an Arrow table or record batch as arrays: nulls become NaN, equal-length lists become matrices.

    Lists of `indices` (and `values`) become sparse observations.
    """
    lists = sparse_roles(table.schema)

    def make(name: str) -> Any:
        return csr_rows(table, *lists[name], None, Ones()) if name in lists else _array(name, table.column(name))

    return LazyColumns(column_names(table.schema), make)


def _array(name: str, column: Any) -> Array:
    pa = require_pyarrow()
    if not len(column):
        return np.zeros(0)  # pyarrow aborts the process when it converts lists of views that are empty
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = chunked.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, chunked)
    try:
        values = _looked_up(chunked) if pa.types.is_dictionary(kind) else chunked.to_numpy()
    except MemoryError:
        raise
    except Exception as error:  # types without a NumPy counterpart, and values that Python's types cannot hold
        raise ValueError(
            f"`{name}` has the Arrow type {str(kind)[:60]!r}, which cannot be read ({reason(error)}): make it numbers."
        ) from None
    if values.ctypes.data % values.itemsize:  # a damaged file may put numbers where a processor cannot load them
        values = values.copy()
    return np.asarray(values, dtype=object) if values.dtype.kind in "US" else values


def _looked_up(column: Any) -> Array:
    """Entries of a dictionary-encoded column; equal ones are one object, so that a long text is in memory once."""
    parts: list[Array] = []
    for chunk in column.chunks:
        values = chunk.dictionary.to_numpy(zero_copy_only=False)
        if chunk.null_count:
            values = np.append(values, [None if values.dtype.kind == "O" else np.nan])
        codes = chunk.indices.cast("int64").fill_null(len(chunk.dictionary))
        parts.append(np.asarray(values[codes.to_numpy()]))
    return np.concatenate(parts)


def _lists(name: str, column: Any) -> Array:
    """A column of equal-length lists as (n, k); nested lists are flattened row by row, missing ones are NaN."""
    import pyarrow.compute as pc

    present = np.flatnonzero(column.is_valid())
    if not len(present):
        return np.full((len(column), 1), np.nan)
    lengths = pc.list_value_length(column).drop_null().to_numpy()
    odd = lengths != lengths[0]
    if odd.any():
        i = int(np.argmax(odd))
        raise ValueError(
            f"`{name}` must have lists of equal length, but row {nth(present[i])} has {lengths[i]} and "
            f"row {nth(present[0])} has {lengths[0]}: give every row the same length."
        )
    if len(column) * int(lengths[0]) * NUMBER > MOST:
        raise ValueError(
            f"`{name}` has lists of {lengths[0]} entries from row {nth(0)} on, more than fit: make them shorter."
        )
    entries = _array(name, pc.list_flatten(column)).reshape(len(present), -1)
    if len(present) == len(column):
        return entries
    whole = np.full((len(column), entries.shape[1]), np.nan, dtype=float if entries.dtype.kind in "biuf" else object)
    whole[present] = entries
    return whole
