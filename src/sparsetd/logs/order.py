"""The order of rows: episodes in the order of their first rows, rows by step; where an episode begins, what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sparsetd.logs import checks
from sparsetd.logs.checks import Array
from sparsetd.logs.columns import refuse_rows_after_the_end
from sparsetd.logs.partition import hashed
from sparsetd.logs.schema import Schema
from sparsetd.logs.table import array, known


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
