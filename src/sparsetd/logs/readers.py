"""`read`: a log of any supported form becomes `Transitions`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.logs.arrow import action_names
from sparsetd.logs.assemble import Rows, build, in_order, stack, starts, with_successors
from sparsetd.logs.checks import Array
from sparsetd.logs.columns import refuse_rows_after_the_end
from sparsetd.logs.parts import Parts
from sparsetd.logs.schema import Schema
from sparsetd.logs.sources import MAX_BYTES, chunks, manifest_of
from sparsetd.logs.transitions import Transitions


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
        The roles and the usual names are listed in `sparsetd.logs.schema`.

    Notes
    -----
    Rows are sorted by episode and step where the log has these columns; without episodes, steps that begin again after
    a row that ended one are in order already. Without `next_obs_*` columns the successor is the next row of the
    episode; the last row of an episode that did not terminate then has none and is left out.
    """
    return read_with_notes(source, max_bytes=max_bytes, **columns).transitions


def read_with_notes(source: Any, *, max_bytes: int = MAX_BYTES, max_rows: int | None = None, **columns: Any) -> Reading:
    """As `read`, with the schema and what was sorted and dropped; stops after about `max_rows` rows of the source."""
    parts = Parts(chunks(source, max_bytes=max_bytes), {**manifest_of(source)["columns"], **columns})
    schema = parts.schema
    gathered, complete = _gather(parts, max_bytes, max_rows)
    rows, moved = in_order(stack(gathered), schema)
    gathered.clear()  # the parts would take as much memory again
    start = starts(rows)
    refuse_rows_after_the_end(rows.terminated | rows.truncated, np.cumsum(start))
    filled, known = with_successors(rows, start)
    if not known.any():
        raise ValueError(
            f"`{schema.observation[0]}` has no row with a known successor: add next_obs_* columns, or mark the "
            "last row of an episode as terminated."
        )
    kept = filled if known.all() else filled[known]
    transitions = replace(build(kept, start[known], schema), action_names=action_names(source))
    return Reading(transitions, schema, kept.step, len(rows), moved, int((~known).sum()), complete)


def _gather(parts: Parts, max_bytes: int, max_rows: int | None) -> tuple[list[Rows], bool]:
    """The parts, and whether that was the whole source."""
    gathered: list[Rows] = []
    size = 0
    for rows in parts:
        size += rows.nbytes()
        if size > max_bytes:
            limit = f"{max_bytes / 2**30:.2g} GiB"
            raise ValueError(f"The source needs more than {limit} of memory: use `read_batches`, or raise `max_bytes`.")
        gathered.append(rows)
        if max_rows is not None and parts.n_rows >= max_rows:
            return gathered, parts.are_over()
    return gathered, True
