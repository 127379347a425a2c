"""`read_batches`: logs larger than memory, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sparsetd.logs.assemble import Rows, build, stack, starts, with_successors
from sparsetd.logs.checks import Array, counted_from, nth
from sparsetd.logs.columns import refuse_rows_after_the_end
from sparsetd.logs.parts import Parts
from sparsetd.logs.schema import Schema
from sparsetd.logs.sources import chunks, manifest_of
from sparsetd.logs.transitions import Transitions


def read_batches(source: Any, *, batch_rows: int = 65_536, **columns: Any) -> Iterator[Transitions]:
    """The rows of a log in batches; joined by `concatenate` they equal what `read` returns.

    Parameters are those of `read`. The log must be sorted by episode and step already. A batch that begins inside an
    episode has no `start` in its first row, so traces carry over from one `partial_fit` to the next.
    """
    if batch_rows < 3:
        raise ValueError(f"`batch_rows` must be at least 3, but it is {batch_rows}: larger batches are faster.")
    parts = Parts(chunks(source, batch_rows), {**manifest_of(source)["columns"], **columns})
    stream = _Stream(parts.schema)
    for rows in parts:
        yield from stream.push(rows)
    yield from stream.finish()


class _Stream:
    """Checked parts in, batches out.

    Without logged successors the last two rows are held back: the last one's successor is in the next part, and the
    row before it is truncated if the last one turns out to end its episode.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.held: Rows | None = None
        self.held_start = np.zeros(0, dtype=bool)
        self.last: Rows | None = None
        self.seen: set[Any] = set()
        self.n_rows = 0

    def push(self, rows: Rows) -> Iterator[Transitions]:
        with counted_from(self.n_rows):
            rows, start = self._in_sequence(rows)
        self.n_rows += len(rows)
        self.last = rows[-1:]
        if self.held is not None:
            rows, start = stack([self.held, rows]), np.concatenate([self.held_start, start])
        if rows.next_observation is None:
            self.held, self.held_start = rows[-2:], start[-2:]
            yield from self._emit(rows, start, len(rows) - 2)
        else:
            yield build(rows, start, self.schema)

    def finish(self) -> Iterator[Transitions]:
        if self.held is not None:
            yield from self._emit(self.held, self.held_start, len(self.held))

    def _emit(self, rows: Rows, start: Array, ready: int) -> Iterator[Transitions]:
        filled, known = with_successors(rows, start)
        known[ready:] = False
        if known.any():
            yield build(filled[known], start[known], self.schema)

    def _in_sequence(self, rows: Rows) -> tuple[Rows, Array]:
        """Rows that continue those before, and which of them start an episode."""
        rows = self._same_actions(rows)
        start = starts(rows)
        start[0] = self._opens(rows)
        refuse_rows_after_the_end(rows.terminated | rows.truncated, np.cumsum(start))
        if self.last is not None and not start[0]:
            self._refuse_late_first_row()
        self._refuse_steps_back(rows, start)
        self._refuse_returning(rows, start)
        return rows, start

    def _same_actions(self, rows: Rows) -> Rows:
        """Whole numbers among continuous actions are continuous too; the reverse comes too late."""
        if self.last is None or self.last.action is None or rows.action is None:
            return rows
        if self.last.action.ndim == 1 < rows.action.ndim:
            raise ValueError(
                f"`{self.schema.action[0]}` holds whole numbers up to row {nth(-1)} and others after it: "
                "write every row alike, or read the file whole."
            )
        if self.last.action.dtype.kind == "f" and rows.action.ndim == 1:
            return replace(rows, action=rows.action[:, None].astype(np.float64))
        return rows

    def _opens(self, rows: Rows) -> bool:
        """Whether the first row of a chunk starts an episode."""
        if self.last is None:
            return True
        if rows.episode is None or self.last.episode is None:
            return bool(self.last.terminated[0] | self.last.truncated[0])
        return bool(rows.episode[0] != self.last.episode[0])

    def _refuse_late_first_row(self) -> None:
        assert self.last is not None
        if self.last.terminated[0] or self.last.truncated[0]:
            raise ValueError(
                f"`terminated` or `truncated` holds in row {nth(-1)}, but row {nth(0)} continues the same episode: "
                "mark only the last row of an episode."
            )

    def _refuse_steps_back(self, rows: Rows, start: Array) -> None:
        if rows.step is None:
            return
        before = rows.step[:1] if self.last is None or self.last.step is None else self.last.step
        back = rows.step <= np.concatenate([before, rows.step[:-1]])
        _refuse_row(back & ~start, f"`{self.schema.step}` must increase")

    def _refuse_returning(self, rows: Rows, start: Array) -> None:
        if rows.episode is None:
            return
        again = np.zeros(len(rows), dtype=bool)
        for row, entry in zip(np.flatnonzero(start), rows.episode[start].tolist(), strict=True):
            again[row] = entry in self.seen
            self.seen.add(entry)
        _refuse_row(again, f"`{self.schema.episode}` must keep the rows of an episode together")


def _refuse_row(bad: Array, rule: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{rule}, but row {nth(row)} does not: sort the file by episode and step, or read it whole.")
