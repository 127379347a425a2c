"""Sparse feature rows from Parquet, a bounded number at a time.

A row holds the indices of its non-zero features as a list of integers (and, unless they are all 1, their values as a
list of numbers) next to its reward. A column of lists becomes the arrays of a CSR matrix without being copied: they
are Arrow's memory, which is read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.transitions.arrow import parquet_rows, require_pyarrow, unreadable
from sparsetd.transitions.checks import counted_from, nth, show
from sparsetd.transitions.read_ahead import read_ahead
from sparsetd.transitions.schema import check_names

OPTIONAL = ("ratio", "discount", "start", "interest")
KINDS = {"iu": "integers", "iuf": "numbers"}


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
    """Batches {X, y, …} of a Parquet file or of a folder of them, for `fit_stream`.

    Parameters
    ----------
    path : file or folder
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
        ones, n = _Ones(), 0
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
                    batch = {"X": _rows(table, indices, values, n_features, ones), "y": _numbers(table, reward)}
                    if next_indices is not None:
                        batch["X_next"] = _rows(table, next_indices, next_values, n_features, ones)
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
    """The file, or those of the folder in the order of their names; a dataset's own scan decodes many batches ahead."""
    from pyarrow.dataset import dataset
    from pyarrow.parquet import ParquetFile

    for fragment in dataset(str(path), format="parquet").get_fragments():
        # Read in pieces: a column of a row group need not fit in memory, and fresh memory is slower than a copy.
        with ParquetFile(fragment.open(), buffer_size=2**20) as file:
            yield fragment.path, file


def _rows(table: Any, indices: str, values: str | None, n_features: int, ones: _Ones) -> sp.csr_array:
    offsets, places = _lists(table, indices, "iu")
    unsigned = places.view(f"u{places.itemsize}")  # a negative index is a large unsigned one
    if unsigned.max(initial=0) >= n_features:
        row = int(np.searchsorted(offsets, np.argmax(unsigned >= n_features), side="right")) - 1
        raise ValueError(
            f"{indices} has an index outside 0 … {n_features - 1} in row {nth(row)}; hash the features to that range."
        )
    if values is None:
        numbers = ones(len(places))
    else:
        ends, entries = _lists(table, values, "iuf")
        if not np.array_equal(offsets, ends):
            row = int(np.argmax(np.diff(offsets) != np.diff(ends)))
            raise ValueError(f"{values} and {indices} differ in length in row {nth(row)}; give a value per index.")
        numbers = entries.astype(np.float64, copy=False)
    rows = sp.csr_array((len(offsets) - 1, n_features))
    rows.data, rows.indices = numbers, places.astype(np.int32, copy=False)
    rows.indptr = offsets.astype(np.int32, copy=False)
    return rows


class _Ones:
    """The values of features that are all 1: one read-only array for all batches."""

    def __init__(self) -> None:
        self.longest = np.ones(0)

    def __call__(self, n: int) -> Any:
        if n > len(self.longest):
            self.longest = np.ones(n + n // 8)
            self.longest.setflags(write=False)
        return self.longest[:n]


def _lists(table: Any, name: str, kinds: str) -> tuple[Any, Any]:
    """Where the lists of a column begin and end, and what is in them, in Arrow's memory."""
    types = require_pyarrow().types
    column = table.column(name)
    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        raise ValueError(f"{name} has the type {_kind(column)}, but each of its rows must be a list of {KINDS[kinds]}.")
    entries = column.flatten()
    if not (types.is_integer(entries.type) or ("f" in kinds and types.is_floating(entries.type))):
        raise ValueError(f"{name} has the type {_kind(column)}, but its lists must hold {KINDS[kinds]}.")
    if column.null_count or entries.null_count:
        row = nth(_first_missing(column))
        raise ValueError(f"{name} has missing entries (first in row {row}); a row without features is an empty list.")
    numbers = np.asarray(entries)
    if hasattr(column.type, "list_size"):
        return column.type.list_size * np.arange(len(column) + 1), numbers
    offsets = np.asarray(column.offsets)
    return offsets - offsets[0], numbers


def _first_missing(column: Any) -> int:
    rows = column.to_pylist()
    return next((i for i, row in enumerate(rows) if row is None or (isinstance(row, list) and None in row)), 0)


def _kind(column: Any) -> str:
    return show(str(column.type))[1:-1]


def _numbers(table: Any, name: str) -> Any:
    types = require_pyarrow().types
    column = table.column(name)
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
        raise ValueError(f"{name} has the type {_kind(column)}, but each of its rows must be a number.")
    if column.null_count:
        row = nth(_first_missing(column))
        raise ValueError(f"{name} has missing entries (first in row {row}); give every row a number.")
    return column.to_numpy(zero_copy_only=False, writable=True)
