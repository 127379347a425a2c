"""Sparse feature rows from Parquet, a bounded number at a time.

A row holds the indices of its non-zero features as a list of integers (and, unless they are all 1, their values as a
list of numbers) next to its reward. Columns of lists become the arrays of a CSR matrix without being copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.transitions.read_ahead import read_ahead

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
    dataset = _dataset(path)
    known = set(dataset.schema.names)
    lists = [name for name in (indices, values, next_indices, next_values) if name is not None]
    missing = [name for name in (*lists, reward) if name not in known]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(sorted(known))}")
    kept = [name for name in OPTIONAL if name in known]

    def batches() -> Iterator[dict[str, Any]]:
        for table in dataset.to_batches(columns=[*lists, reward, *kept], batch_size=batch_rows, use_threads=False):
            if table.num_rows:
                batch = {"X": _rows(table, indices, values, n_features), "y": _numbers(table, reward)}
                if next_indices is not None:
                    batch["X_next"] = _rows(table, next_indices, next_values, n_features)
                yield batch | {name: _numbers(table, name) for name in kept}

    yield from read_ahead(batches())


def _dataset(path: str | Path) -> Any:
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise ImportError('reading Parquet needs pyarrow: pip install "sparsetd[data]"') from None
    return ds.dataset(str(path), format="parquet")


def _rows(table: Any, indices: str, values: str | None, n_features: int) -> sp.csr_array:
    offsets, places = _lists(table, indices, "iu")
    largest = places.view(f"u{places.itemsize}").max(initial=0)  # a negative index is a large unsigned one
    if largest >= n_features:
        raise ValueError(f"{indices} has an index outside 0 … {n_features - 1}; hash the features to that range")
    if values is None:
        numbers = np.ones(len(places))
    else:
        ends, numbers = _lists(table, values, "iuf")
        if not np.array_equal(offsets, ends):
            row = int(np.argmax(np.diff(offsets) != np.diff(ends)))
            raise ValueError(f"{values} and {indices} differ in length in row {row} of a batch; give a value per index")
    rows = sp.csr_array((len(offsets) - 1, n_features))
    rows.data, rows.indices = numbers.astype(np.float64, copy=False), places.astype(np.int32, copy=False)
    rows.indptr = offsets.astype(np.int32, copy=False)
    return rows


def _lists(table: Any, name: str, kinds: str) -> tuple[Any, Any]:
    """Where the lists of a column begin and end, and what is in them, without a copy."""
    column = table.column(name)
    if not hasattr(column, "flatten") or not hasattr(column.type, "value_type"):
        raise ValueError(f"{name} has the type {column.type}, but each of its rows must be a list of {KINDS[kinds]}")
    entries = column.flatten()
    if column.null_count or entries.null_count:
        raise ValueError(f"{name} has missing entries; a row without features is an empty list")
    numbers = np.asarray(entries)
    if numbers.dtype.kind not in kinds:
        raise ValueError(f"{name} has the type {column.type}, but its lists must hold {KINDS[kinds]}")
    if hasattr(column.type, "list_size"):
        return column.type.list_size * np.arange(len(column) + 1), numbers
    offsets = np.asarray(column.offsets)
    return offsets - offsets[0], numbers


def _numbers(table: Any, name: str) -> Any:
    return table.column(name).to_numpy(zero_copy_only=False)
