"""`read` and `read_batches`: a log of any supported form becomes `Transitions`, whole or batch by batch.

Checked tables (see `door`) are joined, put in order and turned into `Transitions`; so are arrays in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from sparsetd.logs import checks
from sparsetd.logs.checks import Array, array_of, counted_from, is_list, lists_of, nth
from sparsetd.logs.door import MAX_BYTES, Log, checked, list_column, manifest_of
from sparsetd.logs.partition import hashed
from sparsetd.logs.schema import Schema
from sparsetd.logs.transitions import Transitions

T = TypeVar("T")
OBSERVED = ("observation ", "next_observation ", "indices", "values", "next_indices", "next_values")
TEXTS = pa.dictionary(pa.int32(), pa.string())  # the type of ids that are no numbers
AT_ONCE = 4096  # rows of a matrix that are filled column by column, few enough to stay in the cache meanwhile


@dataclass(frozen=True)
class Reading:
    """Transitions, with a record of how they were read."""

    transitions: Transitions
    schema: Schema
    step: Array | None
    n_source_rows: int
    was_sorted: bool
    dropped: int
    complete: bool
    said: Sequence[str] = ()  # about files that were not read as usual


def read(source: Any, *, max_bytes: int = MAX_BYTES, **columns: Any) -> Transitions:
    """Read all rows of a log, from a file, a folder, a frame or a mapping, as `Transitions`.

    Parameters
    ----------
    source : path, frame, mapping or dataset
        A file (.parquet, .arrow, .feather, .csv, .tsv, .txt, .jsonl, .npz), a folder or a pattern of these, or
        "sqlite:file.db?table=NAME"; a pandas frame, a frame of polars (also a lazy one), a relation of DuckDB or
        anything else with `__arrow_c_stream__`; a mapping of names to arrays; a Minari dataset, or "minari:ID".
    max_bytes : int
        The most memory the columns may take; beyond it use `read_batches`.
    **columns
        Names of columns by role, where they differ from the schema: ``observation=["age", "HR"]``, ``reward="score"``.
        The roles and the usual names are listed in `sparsetd.logs.schema`. `n_features` says how many columns sparse
        rows have, and `buckets` folds them into so many.

    Notes
    -----
    Rows are sorted by episode and step where the log has these columns. Without a column of episodes, steps that begin
    again after a row that ended one are in order already.

    Without `next_obs_*` columns the successor is the next row of the episode. The last row of an episode that did not
    terminate then has none and is left out: its reward is known, but where it led is not. A last row that terminated
    stays. If m of n rows are left out, ends therefore seem n/(n − m) times as frequent as they are; columns of
    successors avoid that.

    Ids stay text where the source has no types, as in CSV: 7 and 07 are two episodes.

    Examples
    --------
    >>> from sparsetd import read
    >>> columns = {"episode": [0, 0, 1], "obs_x": [1.0, 2.0, 5.0], "action": [0, 1, 1], "score": [0.0, 1.0, 3.0]}
    >>> log = read(columns | {"terminated": [False, True, True]}, reward="score")
    >>> log
    Transitions(3 rows, 2 episodes, 1 observed columns, 2 terminated, 0 truncated)
    >>> log.returns(gamma=0.9).tolist()
    [0.9, 3.0]
    """
    return read_with_notes(source, max_bytes=max_bytes, **columns).transitions


def read_with_notes(source: Any, *, max_bytes: int = MAX_BYTES, max_rows: int | None = None, **columns: Any) -> Reading:
    """Read a log like `read`, and record what was sorted and dropped; stop after about `max_rows` rows."""
    log = Log(source, max_bytes=max_bytes, **{**manifest_of(source)["columns"], **columns})
    gathered: list[pa.Table] = []
    complete, size = True, 0
    with closing(iter(log)) as tables:
        for table in tables:
            size += table.nbytes
            if size > max_bytes:
                limit = f"The source needs more than {max_bytes / 2**30:.2g} GiB of memory"
                raise ValueError(f"{limit}: use `read_batches`, or raise `max_bytes`.")
            gathered.append(table)
            if max_rows is not None and log.n_rows >= max_rows:
                complete = next(tables, None) is None
                break
    n = sum(map(len, gathered))
    with counted_from(0, log.begins):
        table, order = in_order(stacked(gathered), log.schema)
        gathered.clear()  # the parts would take as much memory again
        start = whole_episodes(table, order)
    known = with_successors(table, start, log.schema)
    if not known.any():
        remedy = "add next_obs_* columns, or mark the last row of an episode as terminated"
        raise ValueError(f"`{log.schema.observed}` has no row with a known successor: {remedy}.")
    step = array(table, "step")
    transitions = replace(build(table, start, known, log.schema), action_names=log.action_names)
    step = None if step is None else step[known]
    return Reading(transitions, log.schema, step, n, order is not None, int((~known).sum()), complete, log.said)


def read_batches(source: Any, *, batch_rows: int = 65_536, **columns: Any) -> Iterator[Transitions]:
    """Read the rows of a log in batches, for a log larger than memory.

    `concatenate` joins the batches to the log that `read` returns. Data in memory may come in one batch.

    Parameters are those of `read`. The log must be sorted by episode and step already. A batch that begins inside an
    episode has no `start` in its first row, so traces carry over from one `partial_fit` to the next. Batches of sparse
    rows have the same width only if `n_features` or `buckets` gives it. A second thread reads the next batch while the
    caller works on this one, so two are in memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsetd.logs import concatenate, read_batches
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "log.csv")
    >>> rows = [f"{step},1,{step == 9}" for step in range(10)]
    >>> _ = path.write_text("\\n".join(["obs_x,reward,terminated", *rows]))
    >>> batches = list(read_batches(path, batch_rows=4))
    >>> [len(batch) for batch in batches]
    [2, 4, 2, 2]
    >>> concatenate(batches)
    Transitions(10 rows, 1 episodes, 1 observed columns, 1 terminated, 0 truncated)
    >>> folder.cleanup()
    """
    if batch_rows < 3:
        raise ValueError(f"`batch_rows` must be at least 3, but it is {batch_rows}: larger batches are faster.")
    batches = _batches(source, batch_rows, columns)
    # Handing a small batch over from another thread takes longer than reading it.
    yield from read_ahead(batches) if batch_rows >= 4096 else batches


def _batches(source: Any, batch_rows: int, columns: dict[str, Any]) -> Iterator[Transitions]:
    """Turn checked tables into `Transitions`; the last rows of each are held back, and put before the next table.

    Without logged successors the last two rows wait: the last one's successor is in the next table, and the row before
    it is truncated if the last one turns out to end its episode. With successors one row is held, to check that the
    next table goes on where this one ends.
    """
    log = Log(source, batch_rows=batch_rows, **{**manifest_of(source)["columns"], **columns})
    waits = 0 if log.schema.has_successors else 2
    held: pa.Table | None = None
    start, seen = np.zeros(0, dtype=bool), set[int]()
    with closing(iter(log)) as tables:
        for table in tables:
            with counted_from(log.n_rows - len(table) - len(start), log.begins):
                rows = table if held is None else _continued(held, table, log.schema)
                start = _starts_after(rows, start, seen, log.schema)
            done, ready = (0 if waits else len(rows) - len(table)), max(len(rows) - waits, 0)
            yield from _ready(rows.slice(done), start[done:], ready - done, log)
            first = max(len(rows) - max(waits, 1), 0)
            held, start = _with_plain_texts(rows.slice(first)), start[first:]
    if held is not None and waits:
        yield from _ready(held, start, len(held), log)


def _continued(held: pa.Table, table: pa.Table, schema: Schema) -> pa.Table:
    """Put a table behind the rows that were held back, in types that hold the values of both.

    Whole numbers after continuous actions are continuous too. The reverse is refused, since earlier batches are gone.
    """
    rows = joined([held, table])
    if len(schema.action) == 1 and rows.schema.field("action 0").type != held.schema.field("action 0").type:
        others = f"whole numbers up to row {nth(len(held) - 1)} and others after it"
        raise ValueError(f"`{schema.action[0]}` holds {others}: write every row alike, or read the file whole.")
    return rows


def _starts_after(rows: pa.Table, known: Array, seen: set[int], schema: Schema) -> Array:
    """A mask of the rows that start an episode, `known` for the first rows; rows out of order are refused.

    `seen` are the hashes of the episodes so far: they take 8 bytes each, while ids may be long texts.
    """
    start, step = np.append(known, starts(rows)[len(known) :]), array(rows, "step")
    checks.refuse_rows_after_the_end(over(rows), np.cumsum(start))
    if step is not None and not _advances(step, start):
        row = int(np.argmax((step[1:] <= step[:-1]) & ~start[1:])) + 1
        raise ValueError(f"`{schema.step}` must increase, but row {nth(row)} does not: sort the rows.")
    if schema.episode is None:
        return start
    first = len(known) + np.flatnonzero(start[len(known) :])
    for row, episode in zip(first.tolist(), hashes(rows)[first].tolist(), strict=True):
        if episode in seen:
            own = checks.show(array(rows.slice(row, 1), "episode")[0])
            together = f"must keep the rows of an episode together, but row {nth(row)} returns to {own}"
            raise ValueError(f"`{schema.episode}` {together}: sort by episode and step, or read the log whole.")
        seen.add(episode)
    return start


def _ready(table: pa.Table, start: Array, n: int, log: Log) -> Iterator[Transitions]:
    """Yield those of the first n rows that have a successor."""
    known = with_successors(table, start, log.schema)
    n = int(known[:n].sum())
    if n:
        batch = build(table, start, known, log.schema)
        yield replace(batch if n == len(batch) else batch[:n], action_names=log.action_names)


def read_ahead(batches: Iterable[T]) -> Iterator[T]:
    """Yield the same batches in the same order, while a second thread reads one ahead, and never more than one.

    At most two batches are in memory. An error while reading is raised here, after the batches before it. A caller that
    stops early, also by an exception or Ctrl-C, waits only for the batch that is being read; then the source is closed.
    """
    source = iter(batches)
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
            coming = reader.submit(next, source, None)
            while (batch := coming.result()) is not None:
                coming = reader.submit(next, source, None)
                yield batch
    finally:
        if isinstance(source, Generator):
            source.close()


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables below one another, in one piece; a column that has two types gets the one that holds both."""
    return joined(tables).combine_chunks()


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables below one another, each still one piece; text ids are numbered in the same way in all."""
    schema = common([table.schema for table in tables])
    # Not safe, because integers beyond 2⁵³ are rounded beside floats, as NumPy does within one part.
    alike = [_with_texts(table, schema).cast(schema, safe=False) for table in tables]
    return pa.concat_tables(alike).unify_dictionaries()


def _with_texts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Turn ids from numbers into texts where other tables have texts."""
    for j, field in enumerate(schema):
        if field.type == TEXTS and table.schema.field(j).type != TEXTS:
            table = table.set_column(j, field, table.column(j).cast(pa.string()).cast(TEXTS))
    return table


def _with_plain_texts(table: pa.Table) -> pa.Table:
    """Turn ids into plain texts, because a few rows would keep the dictionary of all."""
    plain = [field.with_type(pa.string()) if field.type == TEXTS else field for field in table.schema]
    return table.cast(pa.schema(plain))


def common(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The types that hold the values of all tables: text for ids of two kinds, and the wider type for numbers."""
    texts = {field.name for schema in schemas for field in schema if field.type == TEXTS}
    alike = [pa.schema([f.with_type(TEXTS) if f.name in texts else f for f in schema]) for schema in schemas]
    try:
        return pa.unify_schemas(alike, promote_options="permissive")
    except pa.ArrowTypeError:
        what = "`step` holds times in some parts of the source and numbers in others"
        raise ValueError(f"{what}: write all of one kind.") from None


def array(table: pa.Table, role: str) -> Any:
    """A column of a table as an array, ids as integers or texts; None if the table has no such column."""
    if role not in table.column_names:
        return None
    column = table.column(role)
    if not is_list(column.type):
        return array_of(role, column)
    return np.asarray(column.combine_chunks().flatten()).reshape(len(column), -1)


def observed(table: pa.Table, schema: Schema, prefix: str = "") -> Any:
    """The observations (or with the prefix "next_" the successors) as (n, p), dense or CSR."""
    if f"{prefix}indices" not in table.column_names:
        return matrix(table, f"{prefix}observation")
    offsets, places = lists_of("indices", table.column(f"{prefix}indices"), "iu")
    given = f"{prefix}values" in table.column_names
    values = lists_of("values", table.column(f"{prefix}values"), "iuf")[1] if given else None
    width = schema.buckets or schema.n_features or int(places.max(initial=0)) + 1
    rows = checks.csr_of(offsets, places, values, width)
    return rows if schema.buckets is None else checks.into_buckets(rows, schema.buckets)


def matrix(table: pa.Table, role: str) -> Array | None:
    """The columns of a role side by side; None if there are none."""
    names = [name for name in table.column_names if name.rpartition(" ")[0] == role]
    parts = [array(table, name) for name in names]
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
    """`Transitions` of ordered, checked rows. Rows that are not `complete` are left out: their successor is unknown.

    Where the log has no successors, the next row is the successor, and a row before one that is left out is truncated.
    """
    if schema.reward is None:
        raise ValueError("`reward` is missing: transitions need a column of rewards; states alone do not.")
    s, after = observed(table, schema), observed(table, schema, "next_")
    table = table.drop_columns([name for name in table.column_names if name.startswith(OBSERVED)])
    truncated = array(table, "truncated")
    if after is None:
        last = np.append(start[1:], True)
        after = s[np.arange(len(last)) + ~last]  # the last row of an episode has no successor and is repeated
        truncated = truncated | (np.append(~complete[1:], False) & ~last)
    if not complete.all():
        s, after, start, truncated = (rows[complete] for rows in (s, after, start, truncated))
        table = table.filter(complete)
    s, after = checks.same_width(s, after) if sp.issparse(s) else (s, after)
    action = matrix(table, "action")
    logged = {name: array(table, name) for name in ("terminated", "behavior_prob", "target_prob", "ratio", "group")}
    return Transitions(
        observation=s,
        reward=array(table, "reward").astype(np.float64, copy=False),
        next_observation=checks.filled_in(s, after),
        truncated=truncated,
        start=start,
        episode=np.cumsum(start) - start[0],
        action=action[:, 0] if action is not None and action.dtype.kind == "i" and action.shape[1] == 1 else action,
        names=None if sp.issparse(s) else schema.names(s.shape[1]),
        episode_id=array(table, "episode"),
        **logged,
    )


def from_columns(columns: dict[str, Any], start: Any, names: Sequence[str] | None) -> Transitions:
    """Make `Transitions` of ordered columns by role; `start` may mark first rows, `names` name the observed columns."""
    columns, schema = _roles(columns)
    table = checked(columns, schema, told=1)
    given = None if start is None else checks.flags("start", start, len(table))
    named, unknown = schema.episode is not None, np.zeros(0, dtype=bool)
    own = _starts_after(table, unknown if named or given is None else given, set(), schema)
    first = own if given is None else given
    if named:
        unmarked = own & ~first
        unmarked[0] = False  # a part of a stream may begin inside an episode
        checks.refuse("start", unmarked, first, "true where `episode` changes", "mark the first row of every episode")
    complete = with_successors(table, first, schema)
    if not complete.all():
        where = f"in row {int(np.argmin(complete))}, the last of its episode but not terminated"
        raise ValueError(f"`next_observation` is unknown {where}: pass it, mark the row as terminated, or drop it.")
    made = build(table, first, complete, schema)
    number = np.cumsum(own)
    return replace(made, episode=number - number[0], names=checks.names_of(names, made.observation.shape[1]))


def _roles(columns: dict[str, Any]) -> tuple[dict[str, Any], Schema]:
    """The columns with the schema that they follow: sparse matrices become lists of indices and values."""
    raw, width = dict(columns), 0
    roles: dict[str, Any] = {"observation": ()}
    for name, values in columns.items():
        if name.endswith("observation") and sp.issparse(values):
            rows, prefix = sp.csr_array(values, dtype=np.float64), name.removesuffix("observation")
            width = max(width, rows.shape[1])
            roles |= {f"{prefix}indices": name, f"{prefix}values": f"{name}: values"}
            raw[name] = list_column(rows.indptr, rows.indices)
            raw[f"{name}: values"] = list_column(rows.indptr, rows.data)
        else:
            roles[name] = (name,) if name in ("observation", "next_observation", "action") else name
    return raw, Schema(**roles, n_features=width or None)


def in_order(table: pa.Table, schema: Schema) -> tuple[pa.Table, Array | None]:
    """Sort rows by episode (in order of appearance) and step; also return where they stood, None if nothing moved.

    Without ids of the episodes, steps that begin again after a row that ended an episode are in order.
    """
    step = array(table, "step")
    if "episode" not in table.column_names and (step is None or _advances(step, starts(table))):
        return table, None
    return by_number(table, appearance(table), schema)


def by_number(table: pa.Table, number: Array, schema: Schema) -> tuple[pa.Table, Array | None]:
    """Sort rows by the number of their episode and by step, if there is one; also return where they stood."""
    step = array(table, "step")
    step = np.arange(len(table)) if step is None else step
    if (np.diff(number) >= 0).all() and _advances(step, np.diff(number, prepend=-1) > 0):
        return table, None
    order = np.lexsort((step, number))  # the last key counts first: by episode, and within it by step
    same = (step[order][1:] == step[order][:-1]) & (np.diff(number[order]) == 0)
    if same.any():
        row = int(order[1:][np.argmax(same)])
        ids = array(table.slice(row, 1), "episode")
        where = "" if ids is None else f" of episode {checks.show(ids[0])}"
        repeats = f"row {nth(row)} repeats step {step[row]}{where}"
        remedy = "remove the duplicate, correct its step, or add a column `episode`"
        raise ValueError(f"`{schema.step}` must differ within an episode, but {repeats}: {remedy}.")
    moved = bool((np.diff(order) != 1).any())
    return (table.take(pa.array(order)), order) if moved else (table, None)


def _advances(step: Array, start: Array) -> bool:
    return bool(((step[1:] > step[:-1]) | start[1:]).all())


def codes(table: pa.Table) -> tuple[Array, Any]:
    """A number for the episode of every row, and the ids that the numbers stand for."""
    ids = table.column("episode").combine_chunks()
    ids = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    return np.asarray(ids.indices), ids.dictionary


def appearance(table: pa.Table) -> Array:
    """Number the episodes 0, 1, … in the order of their first rows; without ids, all rows are one episode."""
    if "episode" not in table.column_names:
        return np.zeros(len(table), np.int64)
    return np.asarray(pa.array(codes(table)[0]).dictionary_encode().indices)


def hashes(table: pa.Table) -> Array:
    """The hash of each row's episode; for text it is computed once per id."""
    if pa.types.is_integer(table.schema.field("episode").type):
        return hashed(array(table, "episode"))
    number, ids = codes(table)
    used, place = np.unique(number, return_inverse=True)  # a batch may carry the ids of its whole file
    return np.asarray(hashed(ids.take(pa.array(used)).to_numpy(zero_copy_only=False))[place])


def starts(table: pa.Table) -> Array:
    """A mask of the first rows of episodes: where the id changes, or without ids after a row that ended one."""
    if "episode" not in table.column_names:
        return np.concatenate([[True], over(table)[:-1]])
    number = codes(table)[0]
    return np.concatenate([[True], number[1:] != number[:-1]])


def over(table: pa.Table) -> Array:
    """A mask of the rows that ended an episode, for good or not."""
    return array(table, "terminated") | array(table, "truncated")


def whole_episodes(table: pa.Table, order: Array | None = None) -> Array:
    """A mask of the first rows of episodes, for sorted rows. An episode that goes on after its end is refused."""
    start = starts(table)
    checks.refuse_rows_after_the_end(over(table), np.cumsum(start), order)
    return start


def with_successors(table: pa.Table, start: Array, schema: Schema) -> Array:
    """A mask of the rows whose successor is known or not needed: all if the log has columns of successors.

    Otherwise these are all rows except the last of an episode that did not terminate. That one only serves as the
    successor of the row before.
    """
    if schema.has_successors:
        return np.ones(len(table), dtype=bool)
    return ~np.append(start[1:], True) | array(table, "terminated")
