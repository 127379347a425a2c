"""Tell from the cells of a table which columns are ids, times, counts or copies, and which rows are no decisions."""

from __future__ import annotations

import re

import numpy as np

from sparsetd.logs.checks import Array
from sparsetd.logs.raw import MOST_CATEGORIES, Column, Table, meaning
from sparsetd.logs.raw_columns import mostly_above_one
from sparsetd.logs.schema import folded
from sparsetd.logs.suspicions import TIMES
from sparsetd.logs.words import TOTALS

LEAST_ID = 10_000  # shorter numbers are ages and measurements
LEAST_TAKEN = 20  # with fewer rows of an action, its probability cannot be checked
BY_CHANCE = 1e-4  # the probability at which a pattern is no chance
LEAST_IDS = 0.4  # different ids per episode, since patients may have come several times
CODE = re.compile(r"\S*[0-9]\S*")  # a text that may be an id
INDEX = re.compile(r"Unnamed: 0(\.\d+)*|__index_level_\d+__")  # pandas writes an index without a name like this


def no_decisions(table: Table) -> Array:
    """A mask of the rows that hold no decision: the header again, and units, totals and titles at an end of a file.

    These rows have nothing that fits the columns of numbers and dates, and hardly anything else, or begin with "Total".
    """
    n = len(table.rows)
    again, total = np.ones(n, bool), np.zeros(n, bool)
    filled, fit, unfit = np.zeros(n), np.zeros(n), np.zeros(n)  # cells of each row that hold anything, and that fit
    for column in table.columns.values():
        gaps, reading = column.gaps, column.reading
        again &= gaps | column.spread([one == column.name for one in column.cells])
        if (first := ~gaps & (filled == 0)).any():
            total |= first & column.spread([_is_total(one) for one in column.cells])
        filled += ~gaps
        if reading.kind != "text":
            wrong = column.rows_with(reading.bad)
            fit, unfit = fit + ~(gaps | wrong), unfit + wrong
    strange = (total & (filled < len(table.columns))) | ((fit == 0) & ((2 * unfit >= filled) | (filled == 1)))
    found = again & (filled > 0)
    for rows in np.split(np.arange(n), np.searchsorted(table.rows, [begin for begin, _ in table.begins[1:]])):
        odd = strange[rows]
        found[rows] |= np.logical_and.accumulate(odd) | np.logical_and.accumulate(odd[::-1])[::-1]
    return found if len(table.columns) > 1 and not found.all() else np.zeros(n, bool)


def _is_total(one: object) -> bool:
    words = {*re.findall(r"[^\W\d]+", folded(one))} if isinstance(one, str) else set()
    return bool(words) and words <= TOTALS


def counts_rows(column: Column, table: Table) -> bool:
    """Say whether a column counts 1, 2, 3, holds the long numbers of rows in a database, or is an index of pandas.

    An index of pandas has no value twice in a file.
    """
    begins = [*(begin for begin, _ in table.begins), len(table.numbers)]
    if INDEX.fullmatch(column.name):
        file = np.searchsorted(begins, table.rows, side="right")
        return len(np.unique(file * len(column.cells) + column.codes)) == len(column.codes)
    values = column.spread(column.reading.values)
    if len(values) <= MOST_CATEGORIES or len(table.free) == 1:
        return False
    if values[0] in (0, 1):
        return bool((np.diff(values) == 1)[~np.isin(table.rows[1:], begins)].all())
    # So many measurements would hardly all be different.
    few = len(values) ** 2 > 20 * np.ptp(values)
    return few and may_be_ids(column) and len(np.unique(values)) == len(values) and not _has_name_of_time(column)


def in_merged_cells(column: Column, table: Table) -> bool:
    """Say whether every value stands once, above empty cells, as when a spreadsheet merges the cells of a patient.

    A table of one row per patient does not count, even if a few rows lack the id.
    """
    gaps, there = column.gaps, column.codes[~column.gaps]
    tops = np.searchsorted(table.rows, [begin for begin, _ in table.begins])
    once = len(np.unique(there)) == len(there) <= 2 * gaps.sum()
    return once and not gaps[tops[tops < len(gaps)]].any()


def filled_above(gaps: Array) -> Array:
    """For every row, the last one up to it without a gap."""
    return np.maximum.accumulate(np.where(gaps, 0, np.arange(len(gaps))))


def counts_visits(column: Column, group: Array) -> bool:
    """Return whether a column numbers the rows of each episode: 1, 2, 3, in any order."""
    values = column.spread(column.reading.values)
    order = np.lexsort((values, group))
    inside = np.diff(group[order]) == 0
    first = values[order][np.append(True, ~inside)]
    several = column.reading.kind == "number" and (inside[1:] & inside[:-1]).any()  # of two rows, 0 and 1 may be a flag
    return bool(several and (np.diff(values[order])[inside] == 1).all() and (first == first[0]).all())


def is_called_time(column: Column, group: Array) -> bool:
    """Return whether a column of numbers is called a time and has no number twice in an episode."""
    return _has_name_of_time(column) and differs_in_episodes(column, group)


def differs_in_episodes(column: Column, group: Array) -> bool:
    """Return whether a column of numbers has no number twice in an episode, as a time has."""
    differs = len(np.unique(group * len(column.cells) + column.codes)) == len(group) > group.max() + 1
    return differs and column.reading.kind == "number"


def _has_name_of_time(column: Column) -> bool:
    return TIMES.search(folded(column.name).replace("_", " ")) is not None


def seconds_of_day(column: Column) -> Array | None:
    """The times of the day in a column, such as 14:30; None if it holds anything else."""
    texts = [None if one is None else f"1970-01-01 {one}" for one in column.cells]
    found = meaning(texts, column.weight, {"kind": "time"})
    clocks = all(":" in str(one) for one in column.cells if one is not None)
    return column.spread(found.values) if clocks and not found.bad and not column.gaps.all() else None


def changes(column: Column, group: Array) -> int:
    """Count how often a column changes within an episode."""
    order = np.argsort(group, kind="stable")
    return int(((np.diff(column.codes[order]) != 0) & (np.diff(group[order]) == 0)).sum())


def may_be_ids(column: Column) -> bool:
    """Say whether all numbers of a column are whole and long; zeros at the front make a number long, too."""
    values, there = column.reading.values, np.isfinite(column.reading.values)
    zeros = [isinstance(one, str) and re.fullmatch("0[0-9]{4,}", one) is not None for one in column.cells]
    return column.reading.kind == "number" and bool(((values % 1 == 0) & (zeros | (values >= LEAST_ID)))[there].all())


def names_episodes(column: Column, group: Array) -> float:
    """Count the episodes per value of a column that looks like an id, one in each episode and many in all; else 0."""
    codes = column.reading.kind == "text" and all(one is None or CODE.fullmatch(str(one)) for one in column.cells)
    if "kind" in column.known or not (codes or may_be_ids(column)):  # an earlier table may have settled what it is
        return 0
    there = ~column.gaps
    ids, episodes = column.codes[there], group[there]
    n_ids, n_episodes = len(np.unique(ids)), len(np.unique(episodes))
    one_each = len(np.unique(episodes * len(column.cells) + ids)) == n_episodes < len(ids)
    return n_episodes / n_ids if one_each and n_ids > max(MOST_CATEGORIES, LEAST_IDS * n_episodes) else 0


def may_be_propensity(column: Column, action: Array) -> bool:
    """Say whether a column may hold the probability μ of the logged action.

    Then the sum of 1/μ over the rows of each action is the number of all rows, within chance, and μ predicts the
    actions better than their shares do.
    """
    values, counts = column.spread(column.reading.shares), np.bincount(action)
    values = values / 100 if mostly_above_one(values) else values
    if column.reading.kind != "number" or not ((values > 0) & (values <= 1)).all():
        return False
    often = counts >= LEAST_TAKEN
    mean = np.bincount(action, 1 / values)[often] / len(action)
    error = np.sqrt((np.bincount(action, 1 / values**2)[often] / len(action) - mean**2) / len(action))
    alike = (np.abs(mean - 1) < 3 * error).all() and (error < 0.1).all() and often.sum() > 1
    return bool(alike and np.log(values).mean() > np.log(counts / len(action))[action].mean())


def says_the_same(column: Column, other: Column) -> bool:
    """Say whether each cell of one column always stands beside the same cell of the other, and the other way round.

    A column also counts that has its usual cell exactly where the other does not hold one of its own: the dose of a
    drug is empty or 0 wherever another drug was given.
    """
    n_rows, n_cells, n_others = len(column.codes), np.count_nonzero(column.weight), np.count_nonzero(other.weight)
    if n_rows <= MOST_CATEGORIES or n_cells == 1 or not 1 < n_others <= n_rows / 2:
        return False
    if n_cells == n_others and len(np.unique(column.codes * len(other.cells) + other.codes)) == n_cells:
        return True
    return share_told(column, other) == 1


def unusual(column: Column) -> Array:
    """A mask of the rows that do not hold the most frequent cell of a column."""
    return column.codes != column.weight.argmax()


def share_told(column: Column, other: Column) -> float:
    """The share of the rows of a cell in the other column in which this one differs from its usual cell.

    It is 0 if this one also differs elsewhere, or if there are too few rows to tell.
    """
    rare = unusual(column)
    beside = (other.codes == other.codes[np.argmax(rare)]) & ~other.gaps
    if rare.sum() < LEAST_TAKEN or (~beside).sum() < LEAST_TAKEN or not beside[rare].all():
        return 0.0
    return float(rare.sum() / beside.sum())


def tells_ends(column: Column, table: Table) -> bool:
    """Say whether a column is the same in all rows but the last of their episodes, more often than chance allows.

    The greatest length does not count: a programme may measure something at its last visit, before it decides.
    """
    last, place = table.last, np.arange(len(table.group)) - table.begin
    if last.all() or np.ptp(column.codes[~last]) > 0:
        return False
    differs = last & (column.codes != column.codes[np.argmin(last)]) & (place < place.max())
    return bool(last.mean() ** differs.sum() < BY_CHANCE)
