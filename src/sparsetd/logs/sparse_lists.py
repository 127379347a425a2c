"""Columns of lists as sparse rows: `indices` of the non-zero features and, unless all are 1, their `values`.

A column of lists becomes the arrays of a CSR matrix without being copied: they are Arrow's memory, which is read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import nth, show

KINDS = {"iu": "integers", "iuf": "numbers"}
ROLES = {"observation": ("indices", "values"), "next_observation": ("next_indices", "next_values")}


def sparse_roles(schema: Any) -> dict[str, tuple[str, str | None]]:
    """Which roles an Arrow table fills with lists of integers; none where it has a column of that name."""
    from pyarrow import types

    lists = {field.name for field in schema if types.is_list(field.type) or types.is_large_list(field.type)}
    return {
        role: (indices, values if values in lists else None)
        for role, (indices, values) in ROLES.items()
        if indices in lists and role not in schema.names
    }


def column_names(schema: Any) -> list[str]:
    """The columns of an Arrow table, lists by the role that they fill."""
    lists = sparse_roles(schema)
    return [*lists, *(name for name in schema.names if not any(name in ROLES[role] for role in lists))]


def folded(rows: Any, buckets: int) -> Any:
    """Dense rows of so many columns: feature i is added to column i mod `buckets`, as a shorter hash would do."""
    bent = sp.csr_array((rows.data, rows.indices % buckets, rows.indptr), shape=(rows.shape[0], buckets))
    return bent.toarray()


def joined(parts: Sequence[Any]) -> Any:
    """Rows below one another; of sparse ones the widest decides."""
    if not sp.issparse(parts[0]):
        return np.concatenate(parts)
    return sp.vstack(alike(*parts), format="csr")


def alike(*rows: Any) -> list[Any]:
    """Sparse rows with as many columns as the widest of them."""
    width = max(part.shape[1] for part in rows)
    return [sp.csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width)) for part in rows]


def csr_rows(table: Any, indices: str, values: str | None, n_features: int | None, ones: Ones) -> sp.csr_array:
    """The rows of a table; without `n_features` as wide as the largest index asks for."""
    offsets, places = _lists(table, indices, "iu")
    if n_features is None:
        n_features = min(int(places.max(initial=0)), np.iinfo(np.int32).max - 1) + 1
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


class Ones:
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
    from pyarrow import types

    column = table.column(name)
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        raise ValueError(
            f"{name} has the type {kind_of(column)}, but each of its rows must be a list of {KINDS[kinds]}."
        )
    entries = column.flatten()
    if not (types.is_integer(entries.type) or ("f" in kinds and types.is_floating(entries.type))):
        raise ValueError(f"{name} has the type {kind_of(column)}, but its lists must hold {KINDS[kinds]}.")
    if column.null_count or entries.null_count:
        row = nth(first_missing(column))
        raise ValueError(f"{name} has missing entries (first in row {row}); a row without features is an empty list.")
    numbers = np.asarray(entries)
    if hasattr(column.type, "list_size"):
        return column.type.list_size * np.arange(len(column) + 1), numbers
    offsets = np.asarray(column.offsets)
    return offsets - offsets[0], numbers


def first_missing(column: Any) -> int:
    rows = column.to_pylist()
    return next((i for i, row in enumerate(rows) if row is None or (isinstance(row, list) and None in row)), 0)


def kind_of(column: Any) -> str:
    return show(str(column.type))[1:-1]
