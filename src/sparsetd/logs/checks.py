"""Turn columns of any source into clean NumPy arrays, or refuse them in one sentence with column, row and remedy.

Numbers come without a copy, lists as matrices, ids as integers or text. An Arrow column of numbers is the array itself;
a type without a counterpart in NumPy is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

Begins = Sequence[tuple[int, str]]  # the first row of every file of a source, and the name of the file

_counted: ContextVar[tuple[int, Begins]] = ContextVar("counted", default=(0, ()))  # the first row, and the files
LONGEST_ID = 1_000  # bytes: a file of 30 kB can repeat a text of a mebibyte in ten thousand rows
KINDS = {"iu": "integers", "iuf": "numbers"}
MOST = 8 * 2**30  # bytes that one row group or one column of lists may unpack to
NUMBER = 8  # bytes of an entry
# Products of a few numbers of this size are still finite, and their sums too. The type is NumPy's, because a number of
# Python's would be rounded to infinity beside an array of float32, and nothing is above that.
LARGEST = np.float64(1e100)
FIRST_YEAR, LAST_YEAR = 1678 - 1970, 2261 - 1970  # nanoseconds in 64 bits reach no further


@contextmanager
def counted_from(row: int, begins: Begins | None = None) -> Iterator[None]:
    """Let errors raised inside count rows from this one on, since a long source is checked part by part.

    Contexts may be nested, and the inner one counts on from the outer one. With `begins`, rows are counted per file.
    """
    offset, files = _counted.get()
    before = _counted.set((offset + row, files if begins is None else begins))
    try:
        yield
    finally:
        _counted.reset(before)


def nth(row: int) -> str:
    """The number by which errors name a row: its place in the source or, with several files, in its file."""
    offset, begins = _counted.get()
    place = offset + int(row)
    if len(begins) < 2:
        return str(place)
    first, file = [begin for begin in begins if begin[0] <= place][-1]
    return f"{place - first} of {file}"


@contextmanager
def explained(what: str, remedy: str, errors: Any = Exception) -> Iterator[None]:
    """Turn errors of other libraries (of all kinds, or of those given) into one sentence: what, why, and a remedy."""
    try:
        yield
    except MemoryError:
        raise
    except errors as error:
        raise ValueError(f"{what} ({reason(error)}): {remedy}.") from None


def refuse(name: str, bad: Mask, values: Array, rule: str, remedy: str) -> None:
    """Raise on the first row where `bad` holds: "`reward` must be finite, but row 3 holds nan: remove it."."""
    if bad.any():
        row, others = int(np.argmax(bad)), int(bad.sum()) - 1
        more = f" (and at least {others:,} more like it)" if others else ""
        raise ValueError(f"`{name}` must be {rule}, but row {nth(row)} holds {show(values[row])}{more}: {remedy}.")


def numbers(name: str, values: Any) -> Array:
    """`values` as a native array of int64, float32 or float64; booleans become int64, numeric objects float64."""
    array = array_of(name, values)
    if _holds_lists(array):
        array = _from_arrow(name, _as_lists(name, array))
    if array.dtype.kind in "OUSTV":
        array = _from_objects(name, array)
    if array.dtype.kind in "mM":
        raise TypeError(f"`{name}` holds dates or durations from row {nth(0)} on: turn them into numbers like seconds.")
    if array.dtype.kind == "c":
        refuse(name, rowwise(array.imag != 0), array, "real", "pass the real part or two columns")
        array = array.real
    if array.dtype.kind in "uO":
        beyond = rowwise((array < -(2**63)) | (array >= 2**63))
        refuse(name, beyond, array, "below 2**63", "hash or renumber the values")
    if array.dtype.kind in "biuO":
        return array.astype(np.int64, copy=False)
    return array.astype(np.float32 if array.dtype.itemsize == 4 else np.float64, copy=False)


def objects(values: Iterable[Any]) -> Array:
    """One Python object per row; NumPy itself would turn the numbers of a mixed list into text."""
    return np.fromiter(values, dtype=object)


def _holds_lists(array: Array) -> bool:
    """Whether the entries of a column are lists, which NumPy has left as they are."""
    if array.dtype.kind != "O" or array.ndim != 1:
        return False
    return isinstance(next((entry for entry in array if not is_missing(entry)), None), (list, tuple, np.ndarray))


def _as_lists(name: str, values: Iterable[Any]) -> Any:
    """A column of lists in Arrow."""
    with explained(f"`{name}` must hold a list of numbers in every row", "correct the others"):
        return pa.array(list(values), from_pandas=True)


def _from_objects(name: str, array: Array) -> Array:
    """Numbers stored as Python objects: integers stay as they are, missing entries become NaN, text is refused."""
    entries, width = array.ravel().tolist(), max(1, math.prod(array.shape[1:]))
    if entries and all(issubclass(kind, (int, np.integer)) for kind in set(map(type, entries))):
        return array.astype(object, copy=False)
    found = np.full(len(entries), np.nan)
    for i, entry in enumerate(entries):
        try:
            if isinstance(entry, (str, bytes)):
                raise TypeError
            real = isinstance(entry, (complex, np.complexfloating)) and entry.imag == 0
            found[i] = np.nan if is_missing(entry) else float(entry.real if real else entry)
        except (TypeError, ValueError, OverflowError):
            but = f"but row {nth(i // width)} holds {show(entry)}"
            raise TypeError(f"`{name}` must hold numbers, {but}: write numbers, or use `prepare`.") from None
    return found.reshape(array.shape)


def is_missing(entry: Any) -> bool:
    """Whether an entry is None, NaN, or one of the ways in which pandas writes them."""
    if isinstance(entry, (list, tuple, np.ndarray)):
        return False
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or bool(entry != entry)


def finite(name: str, values: Any, where: Mask | None = None) -> None:
    """Refuse NaN, infinity and numbers too large to compute with (in the rows `where`, if given)."""
    sparse = sp.issparse(values)
    if all_moderate(values.data if sparse else values):
        return
    entries = values.data if sparse else values.ravel()
    places = np.flatnonzero(immoderate(entries))[::-1]
    width = max(len(entries) // max(values.shape[0], 1), 1)
    row = np.searchsorted(values.indptr, places, side="right") - 1 if sparse else places // width
    found = np.zeros(values.shape[0])
    found[row] = entries[places]  # the first bad entry of every row
    found = found if where is None else np.where(where, found, 0.0)
    refuse(name, ~np.isfinite(found), found, "finite", "drop the row, or put a number in place of NaN or inf")
    refuse(name, immoderate(found), found, f"at most {LARGEST:g} in size", "rescale it")


def immoderate(values: Array) -> Mask:
    """Return which entries are NaN, infinite, or so large that products of them are."""
    return ~np.asarray(np.abs(values) <= LARGEST)


def all_moderate(values: Array) -> bool:
    """Whether no entry is immoderate, without a mask of them: a sum of squares tells, unless all of them are large."""
    if values.dtype.kind == "i":
        return True
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.vdot(flat, flat) <= LARGEST**2) or not immoderate(values).any()


def rows(name: str, values: Any, n: int, where: Mask | None = None) -> Array:
    """Numbers, finite in the rows `where`: one per row, or several as (n, p); images are flattened."""
    array = numbers(name, values)
    length(name, array, n)
    array = array.reshape(n, -1)
    if array.shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one column, but row {nth(0)} is empty: pass what was observed.")
    finite(name, array, where)
    return array[:, 0] if array.shape[1] == 1 else array


def n_rows(name: str, values: Any) -> int:
    if getattr(values, "ndim", 1) == 0 or not hasattr(values, "__len__"):
        raise ValueError(f"`{name}` must have one row per transition, but it is a single number: pass an array.")
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def column(name: str, values: Any, n: int) -> Array:
    """A column of n finite numbers; a column matrix (n, 1) is flattened."""
    array = numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one number per row, but its shape is {array.shape}: pass a vector.")
    length(name, array, n)
    finite(name, array)
    return array


def steps(name: str, values: Any, n: int) -> Array:
    """A column of n numbers, or of n times, which order rows as well."""
    values = array_of(name, values)
    times = _times(values)
    if times is None:
        return column(name, values, n)
    length(name, times, n)
    refuse(name, np.isnat(times), times, "present", "fill in every row")
    inside = times.astype("datetime64[Y]").astype(np.int64)  # years since 1970
    outside = (inside < FIRST_YEAR) | (inside > LAST_YEAR)
    refuse(name, outside, times, "between the years 1678 and 2261", "correct the date")
    return times.astype("datetime64[ns]")


def _times(values: Array) -> Array | None:
    """Times of any unit, with or without a zone, also as text in the form of ISO 8601; None if these are no times."""
    if values.dtype.kind == "M":
        return values
    if values.ndim != 1 or values.dtype.kind != "O":
        return None
    try:
        found = pa.array(values, from_pandas=True)
        if pa.types.is_string(found.type):
            zoned = pc.any(pc.match_substring_regex(found, r":.*(Z|[+-]\d\d(:?\d\d)?)$")).as_py()
            finer = pc.any(pc.match_substring_regex(found, r"\.\d{7,9}")).as_py()  # as pyarrow's own text has it
            found = found.cast(pa.timestamp("ns" if finer else "us", "UTC" if zoned else None))
    except pa.ArrowException:  # text of another kind, or things that no column can hold together
        return None
    return np.asarray(found) if pa.types.is_timestamp(found.type) or pa.types.is_date(found.type) else None


def length(name: str, values: Any, n: int) -> None:
    found = n_rows(name, values)
    if found != n:
        but = f"but it has {found} (row {nth(min(found, n))} has no partner)"
        raise ValueError(f"`{name}` must have {n} rows like the other columns, {but}: give all the same length.")


def flags(name: str, values: Any | None, n: int) -> Mask:
    """A column of booleans (or 0 and 1); None means all False."""
    if values is None:
        return np.zeros(n, dtype=bool)
    values = array_of(name, values)
    if values.dtype == bool and values.shape == (n,):
        return np.array(values)
    array = column(name, values, n)
    refuse(name, (array != 0) & (array != 1), array, "true or false (1 or 0)", "turn the column into 0 and 1")
    return array.astype(bool)


def probabilities(name: str, values: Any, n: int, *, density: bool, positive: bool) -> Array:
    """Probabilities of the logged action: in [0, 1], above 0 where `positive`, without upper limit for a `density`."""
    array = column(name, values, n).astype(np.float64, copy=False)
    log = "if these are log-probabilities, pass np.exp of them"
    refuse(name, array < 0, array, "at least 0", log)
    if positive:
        refuse(name, array == 0, array, "above 0", "an action that was taken cannot have had probability 0")
    if not density:
        refuse(name, array > 1, array, "at most 1", "pass probabilities between 0 and 1, not percentages or odds")
    return np.asarray(array)


def names_of(names: Sequence[str] | None, width: int) -> tuple[str, ...] | None:
    """Distinct names, one per column of the observation."""
    if names is None:
        return None
    out = tuple(str(name) for name in names)
    if len(out) != width:
        raise ValueError(f"`names` has {len(out)} entries for {width} observation columns: name every column once.")
    if len(set(out)) < width:
        i, name = next((i, name) for i, name in enumerate(out) if name in out[:i])
        raise ValueError(f"`names` must be distinct, but entry {i} repeats {name!r}: rename one of the columns.")
    return out


def rowwise(bad: Mask) -> Mask:
    """Whether any entry of a row is bad, for every row."""
    return bad if bad.ndim < 2 else np.asarray(bad.reshape(len(bad), -1).any(axis=1))


def show(value: Any) -> str:
    """A value in an error: on one line, not too long, and printable anywhere."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.size == 1 else value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).splitlines()).encode(errors="backslashreplace").decode()
    return text if len(text) <= 60 else text[:57] + "..."


def reason(error: Exception) -> str:
    """The first line of an error of another library, short enough for a sentence."""
    lines = str(error).encode(errors="backslashreplace").decode().splitlines()
    return lines[0][:120].rstrip(".") if lines else type(error).__name__


def refuse_rows_after_the_end(over: Mask, number: Array, order: Array | None = None) -> None:
    """Refuse an episode that goes on after its end; `order` are the places in the source of rows that were sorted."""
    late = over[:-1] & (number[1:] == number[:-1])
    if late.any():
        i = int(np.argmax(late))
        row, after = (i, i + 1) if order is None else order[i : i + 2]
        rows = f"holds in row {nth(row)}, but row {nth(after)} continues the same episode"
        raise ValueError(f"`terminated` or `truncated` {rows}: mark only the last row of an episode.")


def filled_in(s: Array, successor: Array) -> Array:
    """s', with s in its place where a terminated row has no successor; whole numbers if s has whole numbers."""
    if successor.shape[1] != s.shape[1]:
        widths = f"{successor.shape[1]} columns in row 0 but `observation` has {s.shape[1]}"
        raise ValueError(f"`next_observation` has {widths}: give both the same columns.")
    if sp.issparse(successor):
        return successor
    if not all_moderate(successor):
        successor = np.where(rowwise(immoderate(successor))[:, None], s, successor)
    if s.dtype.kind == "i" and successor.dtype.kind == "f":  # a missing value may have turned integers into floats
        whole = (successor == np.rint(successor)) & (np.abs(successor) < 2.0**63)
        return successor.astype(s.dtype) if whole.all() else successor
    return successor


def quotient(name: str, mu: Array | None, pi: Array | None) -> Array | None:
    """π/μ where both are known. It is refused where it overflows: μ is then a rounding error, or no probability."""
    if mu is None or pi is None:
        return None
    with np.errstate(over="ignore"):
        found = pi / mu
    refuse(name, ~np.isfinite(found), mu, "large enough to divide by", "correct the probability or drop the row")
    return np.asarray(found)


def ratios(name: str, values: Any, n: int, quotient: Array | None) -> Array:
    """π/μ: finite, non-negative, and equal to the two probabilities' quotient where all three are given."""
    ratio = column(name, values, n).astype(np.float64, copy=False)
    refuse(name, ratio < 0, ratio, "at least 0", "pass π(a|s) / μ(a|s), not its logarithm")
    if quotient is not None:
        off = ~np.isclose(ratio, quotient, rtol=1e-4, atol=1e-8)
        refuse(name, off, ratio, "target_prob / behavior_prob", "drop one of the three columns, or correct it")
    return np.asarray(ratio)


def array_of(name: str, column: Any) -> Array:
    """The entries of a column: nulls and masked entries become NaN, lists of one length become a matrix.

    Python lists that are mixed or of different lengths stay lists, so that an error can name them.
    """
    if type(column) is np.ndarray and column.dtype.kind in "biuf":
        return column
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return _from_arrow(name, column)
    if hasattr(column, "toarray"):
        raise ValueError(f"`{name}` is a sparse matrix: pass an array, or make a log with `Transitions.from_arrays`.")
    with explained(f"`{name}` cannot be read as an array", "make it numbers"):  # by pandas or NumPy
        values = _unmasked(column.to_numpy() if hasattr(column, "to_numpy") else column)
        try:
            array = np.asarray(values)
        except ValueError:
            return objects(values)
        return objects(values) if array.dtype.kind in "UST" and array.ndim == 1 else array


def _unmasked(values: Any) -> Any:
    """The values with NaN or None for masked entries, whatever number lies under the mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = np.ma.getmaskarray(values)
    missing: Any = np.nan if values.dtype.kind in "biuf" else None
    return np.where(masked, missing, values.data) if masked.any() else values.data


def _from_arrow(name: str, column: Any) -> Array:
    if not len(column):
        return np.zeros(0)  # pyarrow aborts the process when it converts lists of views that are empty
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if is_list(column.type):
        return _matrix(name, column)
    # Some types have no counterpart in NumPy, and some values none in Python.
    with explained(f"`{name}` has the Arrow type {kind_of(column)!r}, which cannot be read", "make it numbers"):
        if pa.types.is_dictionary(column.type):
            whole = column.unify_dictionaries().combine_chunks()
            values = looked_up(whole.dictionary.to_numpy(zero_copy_only=False), whole)
        elif pa.types.is_decimal(column.type):  # a direct cast would round some to a neighbour of the nearest float
            values = column.cast(pa.string()).cast(pa.float64()).to_numpy()
        else:
            values = np.asarray(column.to_numpy())
    if values.ctypes.data % values.itemsize:  # a damaged file may put numbers where a processor cannot load them
        values = values.copy()
    return np.asarray(values, dtype=object) if values.dtype.kind in "US" else values


def looked_up(values: Array, column: Any) -> Array:
    """The values of a dictionary-encoded column; equal ones are one object, so that a long text is in memory once."""
    if column.null_count:
        values = np.append(values, [None if values.dtype.kind == "O" else np.nan])
    return np.asarray(values[np.asarray(column.indices.cast("int64").fill_null(len(column.dictionary)))])


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
        differ = f"row {nth(present[i])} has {lengths[i]} and row {nth(present[0])} has {lengths[0]}"
        remedy = "give every row the same length, or name sparse rows with `indices=` (--column indices=…)"
        raise ValueError(f"`{name}` must have lists of equal length, but {differ}: {remedy}.")
    if len(column) * int(lengths[0]) * NUMBER > MOST:
        raise ValueError(f"`{name}` has lists of {lengths[0]} entries from row {nth(0)} on: make them shorter.")
    entries = _from_arrow(name, pc.list_flatten(column)).reshape(len(present), -1)
    if len(present) == len(column):
        return entries
    whole = np.full((len(column), entries.shape[1]), np.nan, dtype=float if entries.dtype.kind in "biuf" else object)
    whole[present] = entries
    return whole


def lists_of(name: str, column: Any, kinds: str) -> tuple[Array, Array]:
    """The ends of the lists in a column of sparse rows, and their entries, without a copy of Arrow's memory."""
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):  # lists of a text file or a mapping
        column = _as_lists(name, column)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    wrong = f"`{name}` has the type {kind_of(column)}, but"
    if not is_list(column.type):
        remedy = "store it as Parquet or as JSON lines, whose columns can hold lists"
        raise ValueError(f"{wrong} each of its rows must be a list of {KINDS[kinds]}: {remedy}.")
    entries = column.flatten()
    if not len(entries) and pa.types.is_null(entries.type):
        entries = entries.cast(pa.int64())
    if not (pa.types.is_integer(entries.type) or ("f" in kinds and pa.types.is_floating(entries.type))):
        raise ValueError(f"{wrong} its lists must hold {KINDS[kinds]}.")
    if column.null_count or entries.null_count:
        rows = enumerate(column.to_pylist())
        row = next((i for i, entry in rows if entry is None or None in entry), 0)
        missing = f"missing entries (first in row {nth(row)})"
        raise ValueError(f"`{name}` has {missing}: a row without features is an empty list.")
    if hasattr(column.type, "list_size"):
        return column.type.list_size * np.arange(len(column) + 1), np.asarray(entries)
    offsets = np.asarray(column.offsets)
    return offsets - offsets[0], np.asarray(entries)


def csr_of(offsets: Array, places: Array, values: Array | None, width: int) -> Any:
    """CSR rows that share these arrays; without values every listed feature is 1."""
    data = np.ones(len(places)) if values is None else values.astype(np.float64, copy=False)
    indices, indptr = (array.astype(np.int32, copy=False) for array in (places, offsets))
    return sp.csr_array((data, indices, indptr), shape=(len(offsets) - 1, width))


def joined(parts: Any) -> Any:
    """Rows below one another; sparse ones all get the width of the widest."""
    if not sp.issparse(parts[0]):
        return np.concatenate(parts)
    return sp.vstack(same_width(*parts), format="csr")


def same_width(*rows: Any) -> list[Any]:
    """Sparse rows with as many columns as the widest of them."""
    width = max(part.shape[1] for part in rows)
    return [sp.csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width)) for part in rows]


def into_buckets(rows: Any, buckets: int) -> Any:
    """Fold sparse rows into `buckets` columns: feature i is added to column i mod `buckets`, as by a shorter hash."""
    arrays = rows.data.copy(), rows.indices % buckets, rows.indptr.copy()
    bent = sp.csr_array(arrays, shape=(rows.shape[0], buckets))
    bent.sum_duplicates()
    return bent


def ids_of(name: str, column: Any, n: int, *, gaps: bool = False) -> Any:
    """The ids of a column in Arrow: integers, or a dictionary of texts, in which every text is held once.

    Every row needs an id, unless `gaps` are allowed: then the ids are texts.
    """
    kind = column.type if isinstance(column, (pa.Array, pa.ChunkedArray)) else pa.null()
    if pa.types.is_decimal(kind) or pa.types.is_large_string(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if pa.types.is_string(kind):
        return _checked_texts(name, column.dictionary_encode(), n, gaps)
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return _checked_texts(name, column, n, gaps)
    ids = array_of(name, column)
    if ids.ndim != 1:
        raise ValueError(f"`{name}` must have one identifier per row, but its shape is {ids.shape}: pass a vector.")
    length(name, ids, n)
    if ids.dtype.kind == "O" and not set(map(type, ids.tolist())) <= {str, bytes, int}:
        several = np.array([isinstance(entry, Collection) and not isinstance(entry, (str, bytes)) for entry in ids])
        refuse(name, several, ids, "numbers or text", "fill in every row")
    whole = None if gaps else _whole(ids)
    if whole is not None:
        return pa.array(whole)
    texts = pa.array([None if is_missing(entry) else id_text(entry) for entry in ids.tolist()], pa.large_string())
    return _checked_texts(name, texts.dictionary_encode(), n, gaps)


def _checked_texts(name: str, column: Any, n: int, gaps: bool = False) -> Any:
    """Check a dictionary of texts: none is too long, missing (unless `gaps` are allowed) or there twice."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column.dictionary.null_count or len(column.dictionary.unique()) < len(column.dictionary):
        column = column.dictionary_decode().dictionary_encode()
    length(name, column, n)
    codes = column.indices.cast(pa.int32())
    if not gaps:
        refuse(name, np.asarray(codes.is_null()), np.full(n, None), "present", "fill in every row")
    long = np.asarray(pc.binary_length(column.dictionary)) > LONGEST_ID
    if long.any():
        row = int(np.argmax(long[np.asarray(codes.fill_null(0))]))
        rule = f"ids of at most {LONGEST_ID:,} bytes"
        raise ValueError(f"`{name}` must have {rule}, but that in row {nth(row)} is longer: shorten it.")
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
