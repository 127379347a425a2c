"""Columns of any source as NumPy arrays: numbers without a copy, lists as matrices, ids as integers or text.

An Arrow column of numbers is the array itself; what has no counterpart in NumPy is refused with its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from sparsetd.logs import checks, files
from sparsetd.logs.checks import Array, nth, objects, reason, show, unmasked

LONGEST_ID = 1_000  # bytes: a file of 30 kB can repeat a text of a mebibyte in ten thousand rows
KINDS = {"iu": "integers", "iuf": "numbers"}


def array_of(name: str, column: Any) -> Array:
    """The entries of a column: nulls and masked entries become NaN, lists of one length become a matrix."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return _from_arrow(name, column)
    if hasattr(column, "toarray"):
        raise ValueError(f"`{name}` is a sparse matrix: pass an array, or make a log with `Transitions.from_arrays`.")
    try:
        return _from_memory(column)
    except MemoryError:
        raise
    except Exception as error:  # pandas and NumPy, each with its own types that are no numbers
        raise ValueError(f"`{name}` cannot be read as an array ({reason(error)}): make it numbers.") from None


def _from_memory(values: Any) -> Array:
    """An array as it is; lists that are mixed or of different lengths stay lists, to be named in an error."""
    values = unmasked(values.to_numpy() if hasattr(values, "to_numpy") else values)
    try:
        array = np.asarray(values)
    except ValueError:
        return objects(values)
    return objects(values) if array.dtype.kind in "UST" and array.ndim == 1 else array


def _from_arrow(name: str, column: Any) -> Array:
    if not len(column):
        return np.zeros(0)  # pyarrow aborts the process when it converts lists of views that are empty
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if is_list(chunked.type):
        return _matrix(name, chunked)
    try:
        values = _plain(chunked)
    except MemoryError:
        raise
    except Exception as error:  # types without a NumPy counterpart, and values that Python's types cannot hold
        kind = kind_of(chunked)
        raise ValueError(
            f"`{name}` has the Arrow type {kind!r}, which cannot be read ({reason(error)}): make it numbers."
        ) from None
    if values.ctypes.data % values.itemsize:  # a damaged file may put numbers where a processor cannot load them
        values = values.copy()
    return np.asarray(values, dtype=object) if values.dtype.kind in "US" else values


def _plain(column: Any) -> Array:
    if pa.types.is_dictionary(column.type):
        return _looked_up(column)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(pa.float64())  # directly, some would be the float beside the nearest
    return np.asarray(column.to_numpy())


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


def is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def kind_of(column: Any) -> str:
    return show(str(column.type))[1:-1]


def _matrix(name: str, column: Any) -> Array:
    """A column of equal-length lists as (n, k); nested lists are flattened row by row, missing ones are NaN."""
    present = np.flatnonzero(column.is_valid())
    if not len(present):
        return np.full((len(column), 1), np.nan)
    lengths = pc.list_value_length(column).drop_null().to_numpy()
    odd = lengths != lengths[0]
    if odd.any():
        i = int(np.argmax(odd))
        raise ValueError(
            f"`{name}` must have lists of equal length, but row {nth(present[i])} has {lengths[i]} and "
            f"row {nth(present[0])} has {lengths[0]}: give every row the same length, or name sparse rows with "
            "`indices=` (`--column indices=…` on the command line)."
        )
    if len(column) * int(lengths[0]) * files.NUMBER > files.MOST:
        raise ValueError(
            f"`{name}` has lists of {lengths[0]} entries from row {nth(0)} on, more than fit: make them shorter."
        )
    entries = _from_arrow(name, pc.list_flatten(column)).reshape(len(present), -1)
    if len(present) == len(column):
        return entries
    whole = np.full((len(column), entries.shape[1]), np.nan, dtype=float if entries.dtype.kind in "biuf" else object)
    whole[present] = entries
    return whole


def lists_of(name: str, column: Any, kinds: str) -> tuple[Array, Array]:
    """Return where the lists of a column of sparse rows begin and end, and what is in them, in Arrow's memory."""
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = _as_lists(name, column)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not is_list(column.type):
        raise ValueError(
            f"`{name}` has the type {kind_of(column)}, but each of its rows must be a list of {KINDS[kinds]}."
        )
    entries = column.flatten()
    if not len(entries) and pa.types.is_null(entries.type):
        entries = entries.cast(pa.int64())
    if not (pa.types.is_integer(entries.type) or ("f" in kinds and pa.types.is_floating(entries.type))):
        raise ValueError(f"`{name}` has the type {kind_of(column)}, but its lists must hold {KINDS[kinds]}.")
    if column.null_count or entries.null_count:
        rows = enumerate(column.to_pylist())
        row = next((i for i, entry in rows if entry is None or None in entry), 0)
        raise ValueError(
            f"`{name}` has missing entries (first in row {nth(row)}): a row without features is an empty list."
        )
    if hasattr(column.type, "list_size"):
        return column.type.list_size * np.arange(len(column) + 1), np.asarray(entries)
    offsets = np.asarray(column.offsets)
    return offsets - offsets[0], np.asarray(entries)


def _as_lists(name: str, values: Any) -> Any:
    """Lists of a text file or a mapping as an Arrow column."""
    try:
        return pa.array(list(values), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`{name}` must hold a list of numbers in every row ({reason(error)}).") from None


def csr_of(offsets: Array, places: Array, values: Array | None, width: int) -> Any:
    """CSR rows that share these arrays; without values every listed feature is 1."""
    rows = sp.csr_array((len(offsets) - 1, width))
    rows.data = np.ones(len(places)) if values is None else values.astype(np.float64, copy=False)
    rows.indices, rows.indptr = places.astype(np.int32, copy=False), offsets.astype(np.int32, copy=False)
    return rows


def joined(parts: Any) -> Any:
    """Rows below one another; of sparse ones the widest decides."""
    if not sp.issparse(parts[0]):
        return np.concatenate(parts)
    return sp.vstack(same_width(*parts), format="csr")


def same_width(*rows: Any) -> list[Any]:
    """Sparse rows with as many columns as the widest of them."""
    width = max(part.shape[1] for part in rows)
    return [sp.csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width)) for part in rows]


def folded(rows: Any, buckets: int) -> Any:
    """Sparse rows of so many columns: feature i is added to column i mod `buckets`, as a shorter hash would do."""
    arrays = rows.data.copy(), rows.indices % buckets, rows.indptr.copy()
    bent = sp.csr_array(arrays, shape=(rows.shape[0], buckets))
    bent.sum_duplicates()
    return bent


def ids_of(name: str, column: Any, n: int) -> Any:
    """The ids of a column in Arrow: integers, or a dictionary of texts, in which every text is held once."""
    kind = column.type if isinstance(column, (pa.Array, pa.ChunkedArray)) else pa.null()
    if pa.types.is_decimal(kind) or pa.types.is_large_string(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_string(kind):
        return _checked_texts(name, column.dictionary_encode(), n)
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return _checked_texts(name, column, n)
    ids = array_of(name, column)
    if ids.ndim != 1:
        raise ValueError(f"`{name}` must have one identifier per row, but its shape is {ids.shape}: pass a vector.")
    checks.length(name, ids, n)
    checks.identifiers(name, ids)
    whole = _whole(ids)
    if whole is not None:
        return pa.array(whole)
    texts = pa.array([id_text(entry) for entry in ids.tolist()], pa.large_string())
    return _checked_texts(name, texts.dictionary_encode(), n)


def _checked_texts(name: str, column: Any, n: int) -> Any:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    checks.length(name, np.empty(len(column), bool), n)
    codes = column.indices.cast(pa.int32())
    missing = np.asarray(codes.is_null() if codes.null_count else np.zeros(n, bool))
    checks.refuse(name, missing, np.full(n, None), "present", "fill in every row")
    if (pc.max(pc.binary_length(column.dictionary)).as_py() or 0) > LONGEST_ID:
        long = np.asarray(pc.binary_length(column.dictionary)) > LONGEST_ID
        row = int(np.argmax(long[np.asarray(codes)]))
        raise ValueError(
            f"`{name}` must have ids of at most {LONGEST_ID:,} bytes, but that in row {nth(row)} is longer: shorten it."
        )
    return pa.DictionaryArray.from_arrays(codes, column.dictionary.cast(pa.string()))


def _whole(ids: Array) -> Array | None:
    """Ids as 64-bit integers, if they are whole numbers of that size and of one type; else they are text."""
    if ids.dtype.kind == "O" and {type(entry) for entry in ids.tolist()} != {int}:
        return None
    ids = ids.astype(np.float64) if ids.dtype.kind == "f" else ids  # 2⁵³ is infinite in half precision
    if ids.dtype.kind == "f" and not ((ids == np.rint(ids)) & (np.abs(ids) < 2**53)).all():
        return None
    if ids.dtype.kind not in "biufO" or (ids.dtype.kind in "uO" and ids.max() >= 2**63) or ids.min() < -(2**63):
        return None
    return ids.astype(np.int64)


def id_text(entry: Any) -> str:
    """An id as text: 7.0 like 7, and a number of more than a thousand digits in a form that takes no time."""
    if isinstance(entry, bytes):
        return entry.decode("utf-8", "backslashreplace")
    if isinstance(entry, float) and entry.is_integer():
        entry = int(entry)
    if isinstance(entry, int) and entry.bit_length() > 3_000:
        return hex(entry)
    return str(entry).encode(errors="backslashreplace").decode()
