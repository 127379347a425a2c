"""`read` and `read_batches`: a log of any supported form becomes `Transitions`, whole or batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sparsetd.logs.checks import Array, counted_from, nth, refuse_rows_after_the_end
from sparsetd.logs.door import MAX_BYTES, Log, manifest_of
from sparsetd.logs.schema import Schema
from sparsetd.logs.table import array, build, hashes, in_order, over, stacked, starts, whole_episodes, with_successors
from sparsetd.logs.transitions import Transitions

T = TypeVar("T")
ORDER = ("episode", "step", "terminated", "truncated")  # the columns that say which row may follow which


@dataclass(frozen=True)
class Reading:
    """Transitions, and what happened on the way to them."""

    transitions: Transitions
    schema: Schema
    step: Array | None
    n_source_rows: int
    was_sorted: bool
    dropped: int
    complete: bool


def read(source: Any, *, max_bytes: int = MAX_BYTES, **columns: Any) -> Transitions:
    """Read all rows of a log, from a file, a folder, a frame or a mapping, as `Transitions`.

    Parameters
    ----------
    source : path, frame, mapping or dataset
        A file (.parquet, .arrow, .feather, .csv, .tsv, .jsonl, .npz), a folder or a pattern of such parts, or
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
    Rows are sorted by episode and step where the log has these columns; without episodes, steps that begin again after
    a row that ended one are in order already. Without `next_obs_*` columns the successor is the next row of the
    episode; the last row of an episode that did not terminate then has none and is left out. Ids stay text where the
    source has no types, as in CSV: 7 and 07 are two episodes.

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
    """As `read`, with the schema and what was sorted and dropped; stops after about `max_rows` rows of the source."""
    log = Log(source, max_bytes=max_bytes, **{**manifest_of(source)["columns"], **columns})
    gathered, complete = _gathered(log, max_bytes, max_rows)
    n = sum(map(len, gathered))
    table, moved = in_order(stacked(gathered), log.schema)
    gathered.clear()  # the parts would take as much memory again
    start = whole_episodes(table)
    known = with_successors(table, start, log.schema)
    if not known.any():
        raise ValueError(
            f"`{log.schema.observed}` has no row with a known successor: add next_obs_* columns, or mark the "
            "last row of an episode as terminated."
        )
    step = array(table, "step")
    transitions = replace(build(table, start, known, log.schema), action_names=log.action_names)
    step = None if step is None else step[known]
    return Reading(transitions, log.schema, step, n, moved, int((~known).sum()), complete)


def _gathered(log: Log, max_bytes: int, max_rows: int | None) -> tuple[list[pa.Table], bool]:
    """The tables, and whether they are the whole source."""
    gathered: list[pa.Table] = []
    size, tables = 0, iter(log)
    for table in tables:
        size += table.nbytes
        if size > max_bytes:
            limit = f"{max_bytes / 2**30:.2g} GiB"
            raise ValueError(f"The source needs more than {limit} of memory: use `read_batches`, or raise `max_bytes`.")
        gathered.append(table)
        if max_rows is not None and log.n_rows >= max_rows:
            return gathered, next(tables, None) is None
    return gathered, True


def read_batches(source: Any, *, batch_rows: int = 65_536, **columns: Any) -> Iterator[Transitions]:
    """Read the rows of a log in batches, for a log larger than memory.

    Joined by `concatenate`, the batches equal what `read` returns. What is in memory already may come in one batch.

    Parameters are those of `read`. The log must be sorted by episode and step already. A batch that begins inside an
    episode has no `start` in its first row, so traces carry over from one `partial_fit` to the next. The batches of
    sparse rows are all of one width only if `n_features` or `buckets` says which. The next batch is read by a second
    thread while the caller works on this one, so that two are in memory.

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
    # To hand a small batch over from another thread takes longer than to read it.
    yield from read_ahead(batches) if batch_rows >= 4096 else batches


def _batches(source: Any, batch_rows: int, columns: dict[str, Any]) -> Iterator[Transitions]:
    log = Log(source, batch_rows=batch_rows, **{**manifest_of(source)["columns"], **columns})
    stream = _Stream(log.schema)
    for table in log:
        yield from (replace(batch, action_names=log.action_names) for batch in stream.push(table))
    yield from (replace(batch, action_names=log.action_names) for batch in stream.finish())


def read_ahead(batches: Iterable[T]) -> Iterator[T]:
    """The same batches in the same order; a second thread reads one, and never more than one, ahead.

    At most two batches are in memory. What goes wrong while reading is raised here, after the batches before it. A
    caller that stops early, by an exception or Ctrl-C as well, waits for the batch that is being read and no longer.
    """
    source = iter(batches)
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch


class _Stream:
    """Checked parts in, batches out.

    Without logged successors the last two rows are held back: the last one's successor is in the next part, and the
    row before it is truncated if the last one turns out to end its episode.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.held: pa.Table | None = None
        self.held_start = np.zeros(0, dtype=bool)
        self.last: pa.Table | None = None  # what the order needs of the row before
        self.action: Any = None  # the type of the actions before
        self.seen: set[int] = set()  # hashes of the episodes before
        self.n_rows = 0

    def push(self, table: pa.Table) -> Iterator[Transitions]:
        table, start = self._same_actions(table), self._starts(table)
        self.n_rows += len(table)
        if self.held is not None:
            table, start = stacked([self.held, table]), np.concatenate([self.held_start, start])
        ready = len(table) if self.schema.has_successors else len(table) - 2
        if not self.schema.has_successors:
            self.held, self.held_start = table.slice(max(ready, 0)), start[-2:]
        yield from self._emitted(table, start, ready)

    def finish(self) -> Iterator[Transitions]:
        if self.held is not None:
            yield from self._emitted(self.held, self.held_start, len(self.held))

    def _emitted(self, table: pa.Table, start: Array, ready: int) -> Iterator[Transitions]:
        """The rows before `ready`, with their successors."""
        if ready > 0:
            known = with_successors(table, start, self.schema)
            n = int(known[:ready].sum())
            if n:
                batch = build(table, start, known, self.schema)
                yield batch if n == len(batch) else batch[:n]

    def _starts(self, table: pa.Table) -> Array:
        """Return which rows start an episode; rows that do not continue those before are refused."""
        own = table.select([name for name in ORDER if name in table.column_names])
        rows = own if self.last is None else stacked([self.last, own])
        before = len(rows) - len(own)  # 1 where a row came before
        with counted_from(self.n_rows - before):
            start, step = starts(rows), array(rows, "step")
            refuse_rows_after_the_end(over(rows), np.cumsum(start))
            if step is not None:
                back = np.append(False, step[1:] <= step[:-1]) & ~start
                _refuse_row(back, f"`{self.schema.step}` must increase")
            if self.schema.episode is not None:
                first = np.flatnonzero(start)[before:]
                _refuse_row(self._returning(rows, first), f"`{self.schema.episode}` must keep its rows together")
        self.last = own.slice(len(own) - 1)
        return start[before:]

    def _returning(self, rows: pa.Table, first: Array) -> Array:
        """Return which of the `first` rows of episodes belong to one that was there before."""
        again = np.zeros(len(rows), dtype=bool)
        new = hashes(rows)[first].tolist()
        if len(set(new)) < len(new) or not self.seen.isdisjoint(new):
            own = np.array(new, dtype=np.uint64)
            earlier = np.isin(own, np.array(list(self.seen), dtype=np.uint64))
            earlier[np.setdiff1d(np.arange(len(own)), np.unique(own, return_index=True)[1])] = True
            again[first] = earlier
        self.seen.update(new)
        return again

    def _same_actions(self, table: pa.Table) -> pa.Table:
        """Whole numbers among continuous actions are continuous too; the reverse comes too late."""
        if not self.schema.action:
            return table
        before, self.action = self.action or table.schema.field("action 0").type, table.schema.field("action 0").type
        if len(self.schema.action) == 1 and pa.types.is_integer(before) and pa.types.is_floating(self.action):
            raise ValueError(
                f"`{self.schema.action[0]}` holds whole numbers up to row {self.n_rows - 1} and others after it: "
                "write every row alike, or read the file whole."
            )
        if pa.types.is_floating(before) and pa.types.is_integer(self.action):
            place, self.action = table.column_names.index("action 0"), before
            return table.set_column(place, "action 0", table.column("action 0").cast(pa.float64()))
        return table


def _refuse_row(bad: Array, rule: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{rule}, but row {nth(row)} does not: sort the file by episode and step, or read it whole.")
