"""Turning what a user passes into clean columns, or into one sentence that names the column, the row and the remedy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsetd._tools.moderate import LARGEST, all_moderate, immoderate

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_offset: ContextVar[int] = ContextVar("offset", default=0)


@contextmanager
def counted_from(row: int) -> Iterator[None]:
    """Errors raised inside count rows from this one on: a long source is checked part by part."""
    before = _offset.set(row)
    try:
        yield
    finally:
        _offset.reset(before)


def nth(row: int) -> int:
    """Return what errors call a row: its number in the source."""
    return _offset.get() + row


def refuse(name: str, bad: Mask, values: Array, rule: str, remedy: str) -> None:
    """Raise on the first row where `bad` holds: "`reward` must be finite, but row 3 holds nan: remove it."."""
    if bad.any():
        row, others = int(np.argmax(bad)), int(bad.sum()) - 1
        more = f" (and at least {others:,} more like it)" if others else ""
        raise ValueError(f"`{name}` must be {rule}, but row {nth(row)} holds {show(values[row])}{more}: {remedy}.")


def numbers(name: str, values: Any) -> Array:
    """`values` as a native array of int64, float32 or float64; booleans become int64, numeric objects float64."""
    array = _as_array(name, values)
    if array.dtype.kind in "OUSTV":
        array = _from_objects(name, array)
    if array.dtype.kind in "mM":
        raise TypeError(f"`{name}` holds dates or durations from row {nth(0)} on: turn them into numbers like seconds.")
    if array.dtype.kind == "c":
        refuse(name, rowwise(array.imag != 0), array, "real", "pass the real part or two columns")
        array = array.real
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        refuse(name, rowwise(array > np.iinfo(np.int64).max), array, "below 2**63", "hash or renumber the values")
    return array.astype(_native(array.dtype), copy=False)


def _as_array(name: str, values: Any) -> Array:
    try:
        array = np.asarray(unmasked(values))
    except ValueError:
        row = _irregular(values)
        raise ValueError(
            f"`{name}` has rows of different lengths (row {nth(row)} is the first to differ): make all of one length."
        ) from None
    return objects(values) if array.dtype.kind in "US" and not hasattr(values, "dtype") else array


def unmasked(values: Any) -> Any:
    """A masked entry is a missing value, whatever number lies under the mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.getmaskarray(values).any():
        return values.data
    numeric = values.dtype.kind in "biuf"
    return values.astype(float).filled(np.nan) if numeric else values.astype(object).filled(None)


def objects(values: Iterable[Any]) -> Array:
    """One Python object per row; NumPy itself would turn the numbers of a mixed list into text."""
    rows = list(values)
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


def _irregular(values: Sequence[Any]) -> int:
    """The first row whose shape is not that of row 0, or that has none."""
    first = shape(values[0])
    return 0 if first is None else next((i for i, row in enumerate(values) if shape(row) != first), 0)


def shape(row: Any) -> tuple[int, ...] | None:
    """The shape of a list, or None where it is ragged."""
    try:
        return np.shape(row)
    except ValueError:
        return None


def _from_objects(name: str, array: Array) -> Array:
    """Numbers stored as Python objects: integers stay integers, missing entries become NaN, text is refused."""
    entries, width = array.ravel().tolist(), max(1, math.prod(array.shape[1:]))
    if entries and all(issubclass(kind, (int, np.integer)) for kind in set(map(type, entries))):
        beyond = rowwise((array < -(2**63)) | (array >= 2**63))
        refuse(name, beyond, array, "below 2**63", "hash or renumber the values")
        return array.astype(np.int64)
    found = [_number(name, i // width, entry) for i, entry in enumerate(entries)]
    return np.array(found, dtype=np.float64).reshape(array.shape)


def _number(name: str, row: int, entry: Any) -> float:
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return np.nan
    try:
        if isinstance(entry, (str, bytes)):
            raise TypeError
        return float(entry.real if isinstance(entry, (complex, np.complexfloating)) and entry.imag == 0 else entry)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"`{name}` must hold numbers, but row {nth(row)} holds {show(entry)}: encode it as numbers, or let "
            "`prepare` do it."
        ) from None


def _native(dtype: np.dtype[Any]) -> type:
    if dtype.kind in "biu":
        return np.int64
    return np.float32 if dtype.itemsize == 4 else np.float64


def finite(name: str, values: Array, where: Mask | None = None) -> None:
    """Refuse NaN, infinity and what is too large to compute with (in the rows `where`, if given)."""
    if sp.issparse(values):
        return _finite_entries(name, values, where)
    if all_moderate(values):
        return
    here = np.ones(len(values), dtype=bool) if where is None else where
    bad, huge = rowwise(~np.isfinite(values)), rowwise(immoderate(values))
    refuse(name, bad & here, values, "finite", "drop the row or fill the value")
    refuse(name, huge & here, values, f"at most {LARGEST:g} in size", "rescale it")


def _finite_entries(name: str, rows: Any, where: Mask | None) -> None:
    """The same of sparse rows, whose entries are looked up in their rows only if one is bad."""
    if all_moderate(rows.data):
        return
    bad = np.zeros(rows.shape[0], dtype=bool)
    bad[np.searchsorted(rows.indptr, np.flatnonzero(immoderate(rows.data)), side="right") - 1] = True
    bad &= True if where is None else where
    refuse(name, bad, np.full(len(bad), np.nan), "finite and moderate", "drop the row or fill the value")


def rows(name: str, values: Any) -> Array:
    """Observations as (n, p), dense or CSR: one number per row becomes one column, images are flattened."""
    if sp.issparse(values):
        return sp.csr_array(values, dtype=np.float64)
    array = numbers(name, values)
    n = n_rows(name, array)
    array = array.reshape(n, -1) if n else array.reshape(0, int(np.prod(array.shape[1:])))
    if array.shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one column, but row {nth(0)} is empty: pass what was observed.")
    return array


def n_rows(name: str, values: Any) -> int:
    if getattr(values, "ndim", 1) == 0 or not hasattr(values, "__len__"):
        raise ValueError(f"`{name}` must have one row per transition, but it is a single number: pass an array.")
    return len(values)


def column(name: str, values: Any, n: int) -> Any:
    """A column of n finite numbers; a column matrix (n, 1) is flattened, and None stays None."""
    if values is None:
        return None
    array = numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one number per row, but its shape is {array.shape}: pass a vector.")
    length(name, array, n)
    finite(name, array)
    return array


def length(name: str, values: Array, n: int) -> None:
    if values.shape[0] != n:
        row = min(values.shape[0], n)
        raise ValueError(
            f"`{name}` must have {n} rows like `observation`, but it has {values.shape[0]} "
            f"(row {nth(row)} has no partner): pass columns of equal length."
        )


def flags(name: str, values: Any | None, n: int) -> Mask:
    """A column of booleans (or 0 and 1); None means all False."""
    if values is None:
        return np.zeros(n, dtype=bool)
    array = column(name, values, n)
    refuse(name, (array != 0) & (array != 1), array, "true or false (1 or 0)", "turn the column into 0 and 1")
    return array.astype(bool)


def identifiers(name: str, ids: Array) -> None:
    """Refuse missing entries, and those that are neither numbers nor text."""
    remedy = "fill in every row"
    if ids.dtype.kind != "O":
        refuse(name, np.asarray(ids != ids), ids, "present", remedy)
        return
    if set(map(type, ids.tolist())) <= {str, bytes, int}:
        return
    several = np.array([isinstance(entry, Collection) and not isinstance(entry, (str, bytes)) for entry in ids])
    refuse(name, several, ids, "numbers or text", remedy)
    refuse(name, np.array([is_missing(entry) for entry in ids]), ids, "present", remedy)


def is_missing(entry: Any) -> bool:
    if isinstance(entry, (list, tuple, np.ndarray)):
        return False
    return entry is None or type(entry).__name__ in ("NAType", "NaTType") or bool(entry != entry)


def probabilities(name: str, values: Any, n: int, *, density: bool, positive: bool) -> Array | None:
    """Probabilities of the logged action: in [0, 1], above 0 where `positive`, without upper limit for a `density`."""
    if values is None:
        return None
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
    seen: set[str] = set()
    for i, name in enumerate(out):
        if name in seen:
            raise ValueError(f"`names` must be distinct, but entry {i} repeats {name!r}: rename one of the columns.")
        seen.add(name)
    return out


def rowwise(bad: Mask) -> Mask:
    """Return whether any entry of a row is bad."""
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


def refuse_rows_after_the_end(over: Mask, number: Array) -> None:
    late = over[:-1] & (number[1:] == number[:-1])
    if late.any():
        row = int(np.argmax(late))
        raise ValueError(
            f"`terminated` or `truncated` holds in row {nth(row)}, but row {nth(row + 1)} continues the same episode: "
            "mark only the last row of an episode, or start a new episode after it."
        )


def filled_in(s: Array, successor: Array) -> Array:
    """s' with s where it is missing, which it may be in a terminated row; whole numbers where s has whole numbers."""
    if successor.shape[1] != s.shape[1]:
        raise ValueError(
            f"`next_observation` has {successor.shape[1]} columns in row 0 but `observation` has {s.shape[1]}: "
            "give both the same columns."
        )
    if sp.issparse(successor):
        return successor
    if not all_moderate(successor):
        successor = np.where(rowwise(immoderate(successor))[:, None], s, successor)
    if s.dtype.kind == "i" and successor.dtype.kind == "f" and np.all(_is_integer(successor)):
        successor = successor.astype(s.dtype)  # integers that were stored with a missing value among them
    return successor


def next_rows(s: Array, last: Mask) -> Array:
    """The row after each; the `last` of an episode stands in for its own."""
    if sp.issparse(s):
        return s[np.where(last, np.arange(len(last)), np.arange(1, len(last) + 1))]
    successor = np.empty_like(s)
    successor[:-1] = s[1:]
    successor[last] = s[last]
    return successor


def _is_integer(values: Array) -> Mask:
    """Return which floats are whole numbers that int64 can hold."""
    return np.asarray((values == np.rint(values)) & (np.abs(values) < 2.0**63))


def ratios(
    name: str,
    values: Any,
    n: int,
    behavior_prob: Array | None,
    target_prob: Array | None,
    behavior: str | None = "behavior_prob",
) -> Array | None:
    """π/μ: finite, non-negative, and equal to the two probabilities' quotient where all three are given.

    A probability may be so small that π/μ is infinite: then it is a rounding error, or none at all.
    """
    quotient = None
    if behavior_prob is not None and target_prob is not None:
        with np.errstate(over="ignore"):
            quotient = target_prob / behavior_prob
        remedy = "correct the probability or drop the row"
        refuse(str(behavior), ~np.isfinite(quotient), behavior_prob, "large enough to divide by", remedy)
    if values is None:
        return None
    ratio = column(name, values, n).astype(np.float64, copy=False)
    refuse(name, ratio < 0, ratio, "at least 0", "pass π(a|s) / μ(a|s), not its logarithm")
    if quotient is not None:
        off = ~np.isclose(ratio, quotient, rtol=1e-4, atol=1e-8)
        refuse(name, off, ratio, "target_prob / behavior_prob", "drop one of the three columns, or correct it")
    return np.asarray(ratio)
