"""Parquet and Arrow files, and Arrow tables, as chunks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.transitions.checks import Array, reason
from sparsetd.transitions.schema import check_names


def require_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError('Reading Parquet and Arrow files needs pyarrow: pip install "sparsetd[data]".') from None
    return pyarrow


def parquet_chunks(path: Path, batch_rows: int) -> Iterator[dict[str, Array]]:
    """Chunks of a Parquet file, never more than `batch_rows` rows in memory."""
    pa = require_pyarrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            check_names(file.schema_arrow.names)
            for batch in file.iter_batches(batch_rows):
                yield columns_of(batch)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} is not a readable Parquet file ({reason(error)}): write it again.") from None


def ipc_chunks(path: Path, batch_rows: int) -> Iterator[dict[str, Array]]:
    """Chunks of an Arrow IPC file (also called Feather) or stream."""
    pa = require_pyarrow()
    try:
        with pa.memory_map(str(path)) as source:
            for batch in _ipc_batches(pa, source):
                batch.validate(full=True)  # offsets in a damaged file must not be followed
                check_names(batch.schema.names)
                for i in range(0, batch.num_rows, batch_rows):
                    yield columns_of(batch.slice(i, batch_rows))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path.name} is not a readable Arrow file ({reason(error)}): write it again.") from None


def _ipc_batches(pa: Any, source: Any) -> Iterator[Any]:
    try:
        reader = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    yield from (reader.get_batch(i) for i in range(reader.num_record_batches))


def columns_of(table: Any) -> dict[str, Array]:
    """Columns of an Arrow table or record batch as arrays: nulls become NaN, equal-length lists become matrices."""
    return {name: _array(name, column) for name, column in zip(table.schema.names, table.columns, strict=True)}


def _array(name: str, column: Any) -> Array:
    pa = require_pyarrow()
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if pa.types.is_dictionary(chunked.type):
        chunked = chunked.cast(chunked.type.value_type)
    kind = chunked.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(name, chunked)
    values = chunked.to_numpy()
    return np.asarray(values, dtype=object) if values.dtype.kind in "US" else values


def _lists(name: str, column: Any) -> Array:
    """A column of equal-length lists as (n, k); nested lists are flattened row by row."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy()
    odd = ~(lengths == lengths[0]) if len(lengths) else np.zeros(0, dtype=bool)
    if odd.any() or (len(lengths) and lengths[0] != lengths[0]):
        row = int(np.argmax(odd))
        raise ValueError(
            f"`{name}` must have lists of equal length, but row {row} has {lengths[row]} and row 0 has {lengths[0]}: "
            "give every row the same length."
        )
    flat = _array(name, pc.list_flatten(column))
    return flat.reshape(len(lengths), -1) if len(lengths) else flat.reshape(0, 1)
