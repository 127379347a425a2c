"""Checked rows as an Arrow table: what every source becomes, and what `Transitions` are made of.

A column is called by its role, those of several columns by their number too ("observation 3"). Numbers are int64,
float32 or float64 without nulls, flags are booleans, ids are integers or a dictionary of texts, and sparse rows are
lists of int32 and float64. Rows are checked here and nowhere else, in the order of the source, so that an error names
the source's own columns and rows. From here on, rows are joined, taken, sliced, spilled and written by Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from sparsetd.logs import checks
from sparsetd.logs.arrays import array_of, csr_of, folded, ids_of, is_list, lists_of, same_width
from sparsetd.logs.checks import Array, nth, refuse_rows_after_the_end
from sparsetd.logs.files import Raw
from sparsetd.logs.partition import hashed
from sparsetd.logs.schema import WIDEST, Schema
from sparsetd.logs.transitions import Transitions

OBSERVED = ("observation ", "next_observation ", "indices", "values", "next_indices", "next_values")
TOLD = 6  # problems of a table, one sentence each
AT_ONCE = 4096  # rows of a matrix that are filled column by column while they are in the cache


def checked(raw: Raw, schema: Schema, told: int = TOLD) -> pa.Table:
    """Check every column the schema names; every one that is wrong is told, with its first bad row and a remedy."""
    n = checks.n_rows(schema.observed, raw[schema.observed])
    if n == 0:
        raise ValueError(f"`{schema.observed}` has no rows: the source is empty.")
    look = _Look(raw, schema, n)
    found = look.numbers("action")
    density = any(values.dtype.kind == "f" for values in found.values())
    ended = look.at("terminated", checks.flags)
    mu = look.at("behavior_prob", checks.probabilities, density=density, positive=True)
    pi = look.at("target_prob", checks.probabilities, density=density, positive=False)
    found |= {
        **look.numbers("observation"),
        **look.numbers("next_observation", np.zeros(n, bool) if ended is None else ~ended),
        **(look.tried(_sparse, "", raw, schema, n) or {}),
        **(look.tried(_sparse, "next_", raw, schema, n) or {}),
        "terminated": ended,
        "truncated": look.at("truncated", checks.flags),
        "reward": np.zeros(n) if schema.reward is None else look.at("reward", checks.column),
        "step": look.at("step", checks.column),
        "behavior_prob": mu,
        "target_prob": pi,
        "ratio": look.at("ratio", checks.ratios, behavior_prob=mu, target_prob=pi, behavior=schema.behavior_prob),
        "episode": look.ids("episode"),
        "group": look.ids("group"),
    }
    look.tell(told)
    return pa.table({role: _arrow(values) for role, values in found.items() if values is not None})


class _Look:
    """A look at columns that goes on after one that is wrong, so that all problems are told at once."""

    def __init__(self, raw: Raw, schema: Schema, n: int) -> None:
        self.raw, self.schema, self.n = raw, schema, n
        self.problems: list[Exception] = []

    def tried(self, check: Callable[..., Any], *args: Any, **how: Any) -> Any:
        """Return what a check returns; None where it finds something wrong."""
        try:
            return check(*args, **how)
        except (ValueError, TypeError) as problem:
            self.problems.append(problem)
            return None

    def at(self, role: str, check: Callable[..., Any], **how: Any) -> Any:
        """Return what a check makes of the column of a role; it gets None where there is no such column."""
        name = getattr(self.schema, role)
        values = None if name is None else self.tried(array_of, name, self.raw[name])
        return None if values is None and name is not None else self.tried(check, name or role, values, self.n, **how)

    def ids(self, role: str) -> Any:
        name = getattr(self.schema, role)
        return None if name is None else self.tried(ids_of, name, self.raw[name], self.n)

    def numbers(self, role: str, where: Array | None = None) -> dict[str, Array]:
        """Columns of numbers, or of lists of numbers, finite in the rows `where`."""
        names = enumerate(getattr(self.schema, role))
        found = {f"{role} {j}": self.tried(_numbers, name, self.raw[name], self.n, where) for j, name in names}
        return {column: values for column, values in found.items() if values is not None}

    def tell(self, most: int) -> None:
        """Raise what was found, if anything."""
        if len(self.problems) == 1:
            raise self.problems[0] from None
        if self.problems:
            told = [str(problem) for problem in self.problems[:most]]
            more = [f"{len(self.problems) - most:,} more columns are wrong."] if len(self.problems) > most else []
            raise ValueError(" ".join([*told, *more]))


def _arrow(values: Any) -> Any:
    """An array as an Arrow column that shares its memory; the rows of a matrix become lists."""
    if isinstance(values, pa.Array):
        return values
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def _numbers(name: str, column: Any, n: int, where: Array | None) -> Array:
    values = checks.rows(name, unpacked(array_of(name, column)))
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
    first = tables[0].schema
    if len(tables) == 1 or not (
        any(map(pa.types.is_dictionary, first.types)) or any(t.schema != first for t in tables)
    ):
        return list(tables)
    kinds = {name: common({t.schema.field(name).type for t in tables}) for name in first.names}
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
        after = checks.next_rows(s, last)
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
        next_observation=checks.filled_in(s, after),
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


def from_columns(columns: dict[str, Any], start: Any, names: Sequence[str] | None) -> Transitions:
    """`Transitions` out of columns by role, in order; `start` may mark first rows, `names` name what is observed."""
    columns, schema = _roles(columns)
    table = checked(columns, schema, told=1)
    first, number = _episodes(table, None if start is None else checks.flags("start", start, len(table)))
    complete = with_successors(table, first, schema)
    if not complete.all():
        raise ValueError(
            f"`next_observation` is unknown in row {int(np.argmin(complete))}, the last of its episode but not "
            "terminated: pass next_observation, mark the row as terminated, or drop it."
        )
    made = build(table, first, complete, schema)
    return replace(made, episode=number, names=checks.names_of(names, made.observation.shape[1]))


def _roles(columns: dict[str, Any]) -> tuple[dict[str, Any], Schema]:
    """The columns with the schema that they follow: sparse matrices become lists of indices and values."""
    raw, roles, width = dict(columns), dict[str, Any](), 0
    for prefix in ("", "next_"):
        name = f"{prefix}observation"
        if sp.issparse(raw.get(name)):
            rows = sp.csr_array(raw[name], dtype=np.float64)
            width = max(width, rows.shape[1])
            roles |= {f"{prefix}indices": name, f"{prefix}values": f"{name}: values"}
            raw |= {
                name: _list_column(rows.indptr, rows.indices),
                f"{name}: values": _list_column(rows.indptr, rows.data),
            }
    several = {role: (role,) for role in ("observation", "next_observation", "action") if role in raw}
    single = {role: role for role in raw if role not in several and ":" not in role}
    dense = {role: names for role, names in several.items() if role not in roles.values()}
    return raw, Schema(**{"observation": (), **dense, **single, **roles}, n_features=width or None)


def _episodes(table: pa.Table, given: Array | None) -> tuple[Array, Array]:
    """(start, episode) of rows in order: from the ids of the episodes, else the given starts, else after each end."""
    start, number = starts(table), appearance(table)
    if "episode" in table.column_names:
        back = start & (number < np.maximum.accumulate(number))
        if back.any():
            row = int(np.argmax(back))
            own = checks.show(known(table, "episode")[row])
            together = f"`episode` must keep the rows of an episode together, but row {row} returns to {own}"
            raise ValueError(f"{together}: sort the rows by episode and step.")
        if given is not None:
            missed = start & ~given
            missed[0] = False  # a part of a stream may begin inside an episode
            remedy = "mark the first row of every episode"
            checks.refuse("start", missed, given, "true where `episode` changes", remedy)
            start = given
    else:
        start = start if given is None else given
        number = np.maximum(np.cumsum(start) - start[0], 0)
    refuse_rows_after_the_end(over(table), number)
    return start, number


def known(table: pa.Table, role: str) -> Array:
    """A column that the table has, as an array."""
    column = table.column(role)
    if not is_list(column.type):
        return array_of(role, column)
    return np.asarray(column.combine_chunks().flatten()).reshape(len(column), -1)


def in_order(table: pa.Table, schema: Schema) -> tuple[pa.Table, bool]:
    """Rows sorted by episode (in order of appearance) and step, and whether they had to be.

    Without identifiers of the episodes, steps that begin again after a row that ended an episode are in order.
    """
    step = array(table, "step")
    if "episode" not in table.column_names and (step is None or _advances(step, starts(table))):
        return table, False
    return by_number(table, appearance(table), schema)


def by_number(table: pa.Table, number: Array, schema: Schema) -> tuple[pa.Table, bool]:
    """Rows sorted by the number of their episode and by step (or as they stand), and whether they had to be."""
    step = array(table, "step")
    step = np.arange(len(table)) if step is None else step
    if (np.diff(number) >= 0).all() and _advances(step, np.diff(number, prepend=-1) > 0):
        return table, False
    order = np.lexsort((step, number))
    if "step" in table.column_names:
        _refuse_repeated(table, step, number, order, schema)
    moved = bool((np.diff(order) != 1).any())
    return (table.take(pa.array(order)) if moved else table), moved


def _refuse_repeated(table: pa.Table, step: Array, number: Array, order: Array, schema: Schema) -> None:
    same = (step[order][1:] == step[order][:-1]) & (np.diff(number[order]) == 0)
    if same.any():
        row = int(order[1:][np.argmax(same)])
        ids = array(table.slice(row, 1), "episode")
        where = "" if ids is None else f" of episode {checks.show(ids[0])}"
        raise ValueError(
            f"`{schema.step}` must differ within an episode, but row {row} repeats step {step[row]}{where}: "
            "remove the duplicate, correct its step, or add a column `episode`."
        )


def _advances(step: Array, start: Array) -> bool:
    return bool(((step[1:] > step[:-1]) | start[1:]).all())


def codes(table: pa.Table) -> tuple[Array, Any]:
    """A number for the episode of every row, and the ids that the numbers stand for."""
    ids = table.column("episode").combine_chunks()
    ids = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    return np.asarray(ids.indices), ids.dictionary


def appearance(table: pa.Table) -> Array:
    """0, 1, … for the episodes in the order of their first rows; one episode where there are no ids."""
    if "episode" not in table.column_names:
        return np.zeros(len(table), np.int64)
    return np.asarray(pa.array(codes(table)[0]).dictionary_encode().indices)


def hashes(table: pa.Table) -> Array:
    """The hash of each row's episode, computed once per id."""
    number, ids = codes(table)
    return np.asarray(hashed(ids.to_numpy(zero_copy_only=False))[number])


def starts(table: pa.Table) -> Array:
    """First rows of episodes: where the identifier changes, else after a row that ended one."""
    if "episode" not in table.column_names:
        return np.concatenate([[True], over(table)[:-1]])
    number = codes(table)[0]
    return np.concatenate([[True], number[1:] != number[:-1]])


def over(table: pa.Table) -> Array:
    """Rows that ended an episode, for good or not."""
    return known(table, "terminated") | known(table, "truncated")


def whole_episodes(table: pa.Table) -> Array:
    """Return where the episodes of sorted rows begin; refused where one goes on after its end."""
    start = starts(table)
    refuse_rows_after_the_end(over(table), np.cumsum(start))
    return start


def with_successors(table: pa.Table, start: Array, schema: Schema) -> Array:
    """Return which rows have a successor: all, where the log names it; else the next row of the same episode is it.

    The last row of an episode that did not terminate then has none: it only serves as the successor of the row before.
    """
    if schema.has_successors:
        return np.ones(len(table), dtype=bool)
    return ~np.append(start[1:], True) | known(table, "terminated")
