"""Checked rows as an Arrow table: what every source becomes, and what `Transitions` are made of.

A column is called by its role, those of several columns by their number too ("observation 3"). Numbers are int64,
float32 or float64 without nulls, flags are booleans, ids are integers or a dictionary of texts, and sparse rows are
lists of int32 and float64. Rows are checked here and nowhere else, in the order of the source, so that an error names
the source's own columns and rows. From here on, rows are joined, taken, sliced, spilled and written by Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from sparsetd.logs import checks, columns
from sparsetd.logs.arrays import array_of, csr_of, folded, ids_of, is_list, lists_of, same_width
from sparsetd.logs.checks import Array, nth
from sparsetd.logs.files import Raw
from sparsetd.logs.schema import WIDEST, Schema
from sparsetd.logs.transitions import Transitions

OBSERVED = ("observation ", "next_observation ", "indices", "values", "next_indices", "next_values")
TOLD = 6  # problems of a table, one sentence each
AT_ONCE = 4096  # rows of a matrix that are filled column by column while they are in the cache


def checked(raw: Raw, schema: Schema) -> pa.Table:
    """Check every column the schema names; every one that is wrong is told, with its first bad row and a remedy."""
    n = len(raw[schema.observed])
    if n == 0:
        raise ValueError(f"`{schema.observed}` has no rows: the source is empty.")
    look = _Look(raw, n)
    found = look.numbers("action", schema.action)
    density = any(values.dtype.kind == "f" for values in found.values())
    ended = look.at(_flags, schema.terminated, raw, n)
    mu = look.at(_probability, schema.behavior_prob, raw, n, density=density, positive=True)
    pi = look.at(_probability, schema.target_prob, raw, n, density=density, positive=False)
    look.at(columns.refuse_infinite_ratio, schema.behavior_prob, mu, pi)
    found |= {
        **look.numbers("observation", schema.observation),
        **look.numbers("next_observation", schema.next_observation, np.zeros(n, bool) if ended is None else ~ended),
        **(look.at(_sparse, "", raw, schema, n) or {}),
        **(look.at(_sparse, "next_", raw, schema, n) or {}),
        "terminated": ended,
        "truncated": look.at(_flags, schema.truncated, raw, n),
        "reward": np.zeros(n) if schema.reward is None else look.at(_column, schema.reward, raw, n),
        "step": look.at(_column, schema.step, raw, n),
        "behavior_prob": mu,
        "target_prob": pi,
        "ratio": look.at(_ratio, schema.ratio, raw, n, mu, pi),
        "episode": look.at(_ids, schema.episode, raw, n),
        "group": look.at(_ids, schema.group, raw, n),
    }
    look.tell()
    return pa.table({role: _arrow(values) for role, values in found.items() if values is not None})


class _Look:
    """A look at columns that goes on after one that is wrong, so that all problems are told at once."""

    def __init__(self, raw: Raw, n: int) -> None:
        self.raw, self.n = raw, n
        self.problems: list[Exception] = []

    def at(self, check: Callable[..., Any], name: str | None, *args: Any, **how: Any) -> Any:
        """Return what the check makes of a column; None where it is wrong."""
        try:
            return check(name, *args, **how)
        except (ValueError, TypeError) as problem:
            self.problems.append(problem)
            return None

    def numbers(self, role: str, names: Sequence[str], where: Array | None = None) -> dict[str, Array]:
        """Columns of numbers, or of lists of numbers, finite in the rows `where`."""
        found = {f"{role} {j}": self.at(_numbers, name, self.raw, self.n, where) for j, name in enumerate(names)}
        return {column: values for column, values in found.items() if values is not None}

    def tell(self) -> None:
        """Raise what was found, if anything."""
        if len(self.problems) == 1:
            raise self.problems[0] from None
        if self.problems:
            told = [str(problem) for problem in self.problems[:TOLD]]
            more = [f"{len(self.problems) - TOLD:,} more columns are wrong."] if len(self.problems) > TOLD else []
            raise ValueError(" ".join([*told, *more]))


def _arrow(values: Any) -> Any:
    """An array as an Arrow column that shares its memory; the rows of a matrix become lists."""
    if isinstance(values, pa.Array):
        return values
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def _column(name: str | None, raw: Raw, n: int) -> Array | None:
    return None if name is None else checks.column(name, array_of(name, raw[name]), n)


def _flags(name: str | None, raw: Raw, n: int) -> Array:
    return checks.flags(name or "", None if name is None else array_of(name, raw[name]), n)


def _probability(name: str | None, raw: Raw, n: int, *, density: bool, positive: bool) -> Array | None:
    if name is None:
        return None
    return checks.probabilities(name, array_of(name, raw[name]), n, density=density, positive=positive)


def _ratio(name: str | None, raw: Raw, n: int, mu: Array | None, pi: Array | None) -> Array | None:
    return None if name is None else columns.ratios(array_of(name, raw[name]), n, mu, pi, name)


def _ids(name: str | None, raw: Raw, n: int) -> Any:
    return None if name is None else ids_of(name, raw[name], n)


def _numbers(name: str, raw: Raw, n: int, where: Array | None) -> Array:
    values = checks.rows(name, unpacked(array_of(name, raw[name])))
    checks.length(name, values, n)
    checks.finite(name, values, where)
    return values[:, 0] if values.shape[1] == 1 else values


def unpacked(values: Array) -> Any:
    """A list column (an array of lists) as a list of rows, which NumPy makes rectangular; missing lists are NaN."""
    if values.dtype == object and values.ndim == 1 and len(values):
        first = next((entry for entry in values if not checks.is_missing(entry)), None)
        if isinstance(first, (list, tuple, np.ndarray)):
            absent = np.full(checks.shape(first) or (), np.nan)
            return [absent if checks.is_missing(entry) else entry for entry in values]
    return values


def _sparse(prefix: str, raw: Raw, schema: Schema, n: int) -> dict[str, Any]:
    """Sparse rows, or with the prefix "next_" their successors, as lists, folded into buckets where these are given."""
    indices, values = getattr(schema, f"{prefix}indices"), getattr(schema, f"{prefix}values")
    if indices is None:
        if schema.buckets is not None and not prefix:
            raise ValueError("`buckets` folds sparse rows (lists of `indices`), but these are not: leave it out.")
        return {}
    offsets, places = lists_of(indices, raw[indices], "iu")
    checks.length(indices, offsets[1:], n)
    _refuse_outside(indices, offsets, places, schema)
    places = places % schema.buckets if schema.buckets is not None else places
    lists = {f"{prefix}indices": _list_column(offsets, places.astype(np.int32))}
    if values is not None:
        ends, entries = lists_of(values, raw[values], "iuf")
        if not np.array_equal(offsets, ends):
            row = int(np.argmax(np.diff(offsets) != np.diff(ends))) if len(ends) == len(offsets) else 0
            raise ValueError(f"`{values}` and `{indices}` differ in length in row {nth(row)}: give a value per index.")
        checks.finite(values, csr_of(offsets, places, entries, 1))
        lists[f"{prefix}values"] = _list_column(offsets, entries.astype(np.float64, copy=False))
    return lists


def _list_column(offsets: Array, entries: Array) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32, copy=False)), pa.array(entries))


def _refuse_outside(name: str, offsets: Array, places: Array, schema: Schema) -> None:
    most = schema.n_features or (2**63 if schema.buckets else WIDEST)
    unsigned = places.view(f"u{places.itemsize}")  # a negative index is a large unsigned one
    limit = most if places.dtype.kind == "u" else min(most, 2 ** (8 * places.itemsize - 1))
    if unsigned.max(initial=0) < limit:
        return
    row = int(np.searchsorted(offsets, np.argmax(unsigned >= limit), side="right")) - 1
    raise ValueError(
        f"`{name}` has an index outside 0 … {most - 1:,} in row {nth(row)}: hash the features to that range, or give "
        "`n_features` or `buckets` (`--n-features`, `--buckets`)."
    )


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables below one another, in one piece; a column that has two types gets the one that holds both."""
    return pa.concat_tables(alike(tables)).combine_chunks()


def alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The same tables with columns of the same types, and ids that are numbered in the same way."""
    if len(tables) == 1:
        return list(tables)
    kinds = {name: common({t.schema.field(name).type for t in tables}) for name in tables[0].column_names}
    columns = [[_as(table.column(name), kind) for name, kind in kinds.items()] for table in tables]
    for j, kind in enumerate(kinds.values()):
        if pa.types.is_dictionary(kind):
            chunks = [chunk for several in columns for chunk in several[j].chunks]
            unified = pa.chunked_array(chunks, kind).unify_dictionaries()
            ends = np.cumsum([0, *(len(several[j]) for several in columns)])
            for i, several in enumerate(columns):
                several[j] = unified.slice(ends[i], ends[i + 1] - ends[i])
    return [pa.table(dict(zip(kinds, several, strict=True))) for several in columns]


def _as(column: Any, kind: Any) -> Any:
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        return column.cast(pa.string()).dictionary_encode()
    return column if column.type == kind else column.cast(kind)


def common(kinds: set[Any]) -> Any:
    """The type that holds what these do: text for ids, and that of NumPy for numbers."""
    if len(kinds) == 1:
        return next(iter(kinds))
    texts = next((kind for kind in kinds if pa.types.is_dictionary(kind)), None)
    if texts is not None:
        return texts
    inner = [kind.value_type if is_list(kind) else kind for kind in kinds]
    number = pa.from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in inner)))
    size = max(getattr(kind, "list_size", 0) for kind in kinds)
    return pa.list_(number, size) if size else number


def array(table: pa.Table, role: str) -> Array | None:
    """A column of a table as an array, ids as integers or texts; None where it has no such column."""
    return known(table, role) if role in table.column_names else None


def observed(table: pa.Table, schema: Schema, prefix: str = "") -> Any:
    """The observations (or with the prefix "next_" the successors) as (n, p), dense or CSR."""
    if f"{prefix}indices" not in table.column_names:
        return matrix(table, f"{prefix}observation")
    offsets, places = lists_of("indices", table.column(f"{prefix}indices"), "iu")
    given = f"{prefix}values" in table.column_names
    values = lists_of("values", table.column(f"{prefix}values"), "iuf")[1] if given else None
    width = schema.buckets or schema.n_features or int(places.max(initial=0)) + 1
    rows = csr_of(offsets, places, values, width)
    return rows if schema.buckets is None else folded(rows, schema.buckets)


def matrix(table: pa.Table, role: str) -> Array | None:
    """Columns of a role side by side; None where there is none."""
    names = [name for name in table.column_names if name.rpartition(" ")[0] == role]
    parts = [known(table, name) for name in names]
    if len(parts) < 2:
        return parts[0].reshape(len(table), -1) if parts else None
    widths = np.cumsum([0, *(1 if part.ndim == 1 else part.shape[1] for part in parts)])
    whole = np.empty((len(table), widths[-1]), dtype=np.result_type(*parts))
    for i in range(0, len(whole), AT_ONCE):
        rows = slice(i, i + AT_ONCE)
        for part, begin, end in zip(parts, widths[:-1], widths[1:], strict=True):
            whole[rows, begin:end] = part[rows].reshape(-1, end - begin)
    return whole


def build(table: pa.Table, start: Array, complete: Array, schema: Schema) -> Transitions:
    """`Transitions` out of ordered, checked rows, but for those that are not `complete`: their successor is unknown.

    Where the log has no successors the next row is it, and a row before one that is left out becomes truncated.
    """
    if schema.reward is None:
        raise ValueError("`reward` is missing: transitions need a column of rewards; states alone do not.")
    s, after = observed(table, schema), observed(table, schema, "next_")
    table = table.drop_columns([name for name in table.column_names if name.startswith(OBSERVED)])
    truncated = known(table, "truncated")
    if after is None:
        last = np.append(start[1:], True)
        after = columns.next_rows(s, last)
        truncated = truncated | (np.append(~complete[1:], False) & ~last)
    if not complete.all():
        s, after, table, start, truncated = (
            s[complete],
            after[complete],
            table.filter(complete),
            start[complete],
            truncated[complete],
        )
    s, after = same_width(s, after) if sp.issparse(s) else (s, after)
    action = matrix(table, "action")
    return Transitions(
        observation=s,
        reward=known(table, "reward").astype(np.float64, copy=False),
        next_observation=columns.filled_in(s, after),
        terminated=known(table, "terminated"),
        truncated=truncated,
        start=start,
        episode=np.cumsum(start) - start[0],
        action=action[:, 0] if action is not None and action.dtype.kind == "i" and action.shape[1] == 1 else action,
        names=None if sp.issparse(s) else schema.names(s.shape[1]),
        episode_id=array(table, "episode"),
        behavior_prob=array(table, "behavior_prob"),
        target_prob=array(table, "target_prob"),
        ratio=array(table, "ratio"),
        group=array(table, "group"),
    )


def known(table: pa.Table, role: str) -> Array:
    """A column that the table has, as an array."""
    column = table.column(role)
    if not is_list(column.type):
        return array_of(role, column)
    return np.asarray(column.combine_chunks().flatten()).reshape(len(column), -1)
