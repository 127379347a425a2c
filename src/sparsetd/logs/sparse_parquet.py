"""Sparse feature rows from Parquet, a bounded number at a time.

A row holds the indices of its non-zero features as a list of integers (and, unless they are all 1, their values as a
list of numbers) next to its reward.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsetd.logs.arrow import parquet_rows, require_pyarrow, unreadable
from sparsetd.logs.checks import counted_from, nth
from sparsetd.logs.read_ahead import read_ahead
from sparsetd.logs.schema import check_names
from sparsetd.logs.sources import files_of
from sparsetd.logs.sparse_lists import Ones, csr_rows, first_missing, kind_of

OPTIONAL = ("ratio", "discount", "start", "interest")


def sparse_parquet(
    path: str | Path,
    n_features: int,
    *,
    indices: str = "indices",
    values: str | None = None,
    next_indices: str | None = None,
    next_values: str | None = None,
    reward: str = "reward",
    batch_rows: int = 65_536,
) -> Iterator[dict[str, Any]]:
    """Batches {X, y, …} of a Parquet file, a folder or a pattern of them, for `fit_stream`.

    Parameters
    ----------
    path : file, folder or pattern
    n_features : int
        Every index is below it: hash features to that range.
    indices, values : names of the columns of lists; without values every listed feature is 1.
    next_indices, next_values : the same for the successor; without them a row's successor is the next row.
    reward : name of the column of rewards
    batch_rows : int
        How many rows are read at a time; the next batch is read while one is worked on, so two are in memory.

    Columns named ratio, discount, start and interest are passed on where the file has them.
    """
    lists = [name for name in (indices, values, next_indices, next_values) if name is not None]

    def batches() -> Iterator[dict[str, Any]]:
        ones, n = Ones(), 0
        for name, file in _files(path):
            check_names(file.schema_arrow.names)
            rows = parquet_rows(Path(name), file.metadata, batch_rows)
            known = set(file.schema_arrow.names)
            missing = [column for column in (*lists, reward) if column not in known]
            if missing:
                raise ValueError(f"{name} has no column {missing[0]!r}; it has {', '.join(sorted(known)[:20])}.")
            kept = [column for column in OPTIONAL if column in known]
            for table in file.iter_batches(rows, columns=[*lists, reward, *kept], use_threads=False):
                with counted_from(n):
                    batch = {"X": csr_rows(table, indices, values, n_features, ones), "y": _numbers(table, reward)}
                    if next_indices is not None:
                        batch["X_next"] = csr_rows(table, next_indices, next_values, n_features, ones)
                    batch |= {column: _numbers(table, column) for column in kept}
                n += len(table)
                yield batch

    return read_ahead(_readable(path, batches()))


def _readable(path: str | Path, batches: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The batches, with what pyarrow says of a damaged file as one sentence."""
    pa = require_pyarrow()
    try:
        yield from batches
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist: check the path.") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable(str(path), "Parquet", error) from None


def _files(path: str | Path) -> Iterator[tuple[str, Any]]:
    """The file, or those of the folder or pattern in the order of their names."""
    from pyarrow.parquet import ParquetFile

    for file in files_of(path):
        # Read in pieces: a column of a row group need not fit in memory, and fresh memory is slower than a copy.
        with ParquetFile(file, buffer_size=2**20) as opened:
            yield str(file), opened


def _numbers(table: Any, name: str) -> Any:
    types = require_pyarrow().types
    column = table.column(name)
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
        raise ValueError(f"{name} has the type {kind_of(column)}, but each of its rows must be a number.")
    if column.null_count:
        row = nth(first_missing(column))
        raise ValueError(f"{name} has missing entries (first in row {row}); give every row a number.")
    return column.to_numpy(zero_copy_only=False, writable=True)
