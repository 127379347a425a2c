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
        How many rows are in memory at a time.

    Columns named ratio, discount, start and interest are passed on where the file has them.
    """
    dataset = _dataset(path)
    known = set(dataset.schema.names)
    lists = [name for name in (indices, values, next_indices, next_values) if name is not None]
    missing = [name for name in (*lists, reward) if name not in known]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(sorted(known))}")
    kept = [name for name in OPTIONAL if name in known]
    for table in dataset.to_batches(columns=[*lists, reward, *kept], batch_size=batch_rows, use_threads=False):
        if table.num_rows:
            batch = {"X": _rows(table, indices, values, n_features), "y": _numbers(table, reward)}
            if next_indices is not None:
                batch["X_next"] = _rows(table, next_indices, next_values, n_features)
            yield batch | {name: _numbers(table, name) for name in kept}


def _dataset(path: str | Path) -> Any:
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise ImportError('reading Parquet needs pyarrow: pip install "sparsetd[data]"') from None
    return ds.dataset(str(path), format="parquet")


def _rows(table: Any, indices: str, values: str | None, n_features: int) -> sp.csr_array:
    column = table.column(indices)
    places = np.asarray(column.flatten()).astype(np.int32, copy=False)
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < n_features:
        raise ValueError(f"{indices} has an index outside 0 … {n_features - 1}; hash the features to that range")
    offsets = np.asarray(column.offsets).astype(np.int64)
    numbers = np.ones(len(places)) if values is None else np.asarray(table.column(values).flatten(), dtype=np.float64)
    if len(numbers) != len(places):
        raise ValueError(f"{values} has {len(numbers)} entries but {indices} has {len(places)}; give one per index")
    rows = sp.csr_array((len(offsets) - 1, n_features))
    rows.data, rows.indices, rows.indptr = numbers, places, (offsets - offsets[0]).astype(np.int32)
    return rows


def _numbers(table: Any, name: str) -> Any:
    return table.column(name).to_numpy(zero_copy_only=False)
