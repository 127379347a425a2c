"""`read`: a log of any supported form becomes `Transitions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.transitions.assemble import build, check_rows, in_order, starts, with_successors
from sparsetd.transitions.checks import Array, join
from sparsetd.transitions.columns import refuse_rows_after_the_end
from sparsetd.transitions.schema import Schema, infer_schema
from sparsetd.transitions.sources import MAX_BYTES, Chunks, chunks
from sparsetd.transitions.transitions import Transitions


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
    """All rows of a log as `Transitions`.

    Parameters
    ----------
    source : path, frame, mapping or dataset
        A file (.parquet, .arrow, .feather, .csv, .tsv, .jsonl, .npz) or a directory of such parts; a pandas, polars or
        Arrow frame; a mapping of names to arrays; a Minari dataset, or "minari:ID" for a local one.
    max_bytes : int
        The most memory the columns may take; beyond it use `read_batches`.
    **columns
        Names of columns by role, where they differ from the schema: ``observation=["age", "HR"]``, ``reward="score"``.
        The roles and the usual names are listed in `sparsetd.transitions.schema`.

    Notes
    -----
    Rows are sorted by episode and step where the log has these columns; without episodes, steps that begin again after
    a row that ended one are in order already. Without `next_obs_*` columns the successor is the next row of the
    episode; the last row of an episode that did not terminate then has none and is left out.
    """
    return read_with_notes(source, max_bytes=max_bytes, **columns).transitions


def read_with_notes(source: Any, *, max_bytes: int = MAX_BYTES, max_rows: int | None = None, **columns: Any) -> Reading:
    """As `read`, with the schema and what was sorted and dropped; stops after about `max_rows` rows of the source."""
    parts, schema, complete = _gather(chunks(source, max_bytes=max_bytes), columns, max_bytes, max_rows)
    joined = {name: join([part[name] for part in parts]) for name in schema.used()}
    rows, moved = in_order(check_rows(joined, schema), schema)
    start = starts(rows)
    refuse_rows_after_the_end(rows.terminated | rows.truncated, np.cumsum(start))
    filled, known = with_successors(rows, start)
    if not known.any():
        raise ValueError(
            f"`{schema.observation[0]}` has no row with a known successor: add next_obs_* columns, or mark the "
            "last row of an episode as terminated."
        )
    kept = filled if known.all() else filled[known]
    transitions = build(kept, start[known], schema)
    return Reading(transitions, schema, kept.step, len(rows), moved, int((~known).sum()), complete)


def _gather(
    source: Chunks, columns: dict[str, Any], max_bytes: int, max_rows: int | None
) -> tuple[list[dict[str, Array]], Schema, bool]:
    """The columns the schema names out of every chunk, the schema, and whether that was the whole source."""
    parts: list[dict[str, Array]] = []
    schema: Schema | None = None
    size, n = 0, 0
    for chunk in source:
        schema = infer_schema(chunk, **columns) if schema is None else schema
        refuse_missing(chunk, schema)
        part = {name: chunk[name] for name in schema.used()}
        size += sum(column.nbytes for column in part.values())
        if size > max_bytes:
            limit = f"{max_bytes / 2**30:.2g} GiB"
            raise ValueError(f"The source needs more than {limit} of memory: use `read_batches`, or raise `max_bytes`.")
        parts.append(part)
        n += len(part[schema.reward])
        if max_rows is not None and n >= max_rows:
            return parts, schema, next(source, None) is None
    if schema is None:
        raise ValueError("The source has no rows: it needs at least one transition.")
    return parts, schema, True


def refuse_missing(columns: Mapping[str, Array], schema: Schema) -> None:
    absent = next((name for name in schema.used() if name not in columns), None)
    if absent is not None:
        raise ValueError(f"`{absent}` is missing from a later part of the source: give every part the same columns.")
