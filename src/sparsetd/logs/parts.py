"""A source is checked part by part, the same way for a whole log and for batches of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import scipy.sparse as sp

from sparsetd.logs.assemble import Rows, check_rows
from sparsetd.logs.checks import Array, counted_from, nth
from sparsetd.logs.schema import Schema, infer_schema
from sparsetd.logs.sources import Chunks
from sparsetd.logs.sparse_lists import alike, folded

WIDEST = 2**26  # columns of sparse rows: every model of them holds some numbers for each


class Parts:
    """The parts of a source in order, as checked rows; the first part decides on the schema."""

    def __init__(self, source: Chunks, columns: Mapping[str, Any]) -> None:
        first = next(source, None)
        if first is None:
            raise ValueError("The source has no rows: it needs at least one transition.")
        self.buckets = columns.get("buckets")
        self.schema = infer_schema(first, **columns)
        self.n_rows = 0  # of all parts so far
        self._source = chain([first], source)

    def __iter__(self) -> Iterator[Rows]:
        first = None
        for columns in self._source:
            with counted_from(self.n_rows):
                _refuse_missing(columns, self.schema)
                rows = self._of_one_width(check_rows(columns, self.schema))
                first = first or rows[:1]
                _refuse_another_width(rows, first, self.schema)
            self.n_rows += len(rows)
            yield rows

    def _of_one_width(self, rows: Rows) -> Rows:
        """Sparse rows and their successors folded into buckets, or as wide as one another."""
        after = rows.next_observation
        if not sp.issparse(rows.observation):
            if self.buckets is not None:
                raise ValueError("`buckets` folds sparse rows (lists of `indices`), but these are not: leave it out.")
            return rows
        both = [rows.observation] if after is None else [rows.observation, after]
        if self.buckets is not None:
            both = [folded(part, self.buckets) for part in both]
        elif max(part.shape[1] for part in both) > WIDEST:
            raise ValueError(f"`indices` has numbers above {WIDEST:,}: hash the features to fewer, or give `buckets`.")
        else:
            both = alike(*both)
        return replace(rows, observation=both[0], next_observation=None if after is None else both[1])

    def are_over(self) -> bool:
        """Whether there is no other part; if there is one, it is lost."""
        return next(self._source, None) is None


def _refuse_missing(columns: Mapping[str, Array], schema: Schema) -> None:
    absent = next((name for name in schema.used() if name not in columns), None)
    if absent is not None:
        raise ValueError(f"`{absent}` is missing from a later part of the source: give every part the same columns.")


def _refuse_another_width(rows: Rows, first: Rows, schema: Schema) -> None:
    if sp.issparse(rows.observation):
        return
    for role in ("observation", "next_observation", "action"):
        width, before = _width(getattr(rows, role)), _width(getattr(first, role))
        if width != before:
            raise ValueError(
                f"`{getattr(schema, role)[0]}` has {width} numbers from row {nth(0)} on, but {before} before: "
                "give every row the same length."
            )


def _width(values: Array | None) -> int:
    return 0 if values is None else 1 if values.ndim == 1 else values.shape[1]
