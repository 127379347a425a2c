"""`prepare` turns a raw table, as hospitals and shops export it, into a log in one go.

Text actions and categories keep their names, yes and no become flags, dates put visits in order, copies are dropped,
and gaps are filled. One run finds every problem of the table, and a sentence tells every decision that was made. What
was learnt from the table is kept, so that a later table is prepared in the same way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsetd.logs import raw_columns, signs
from sparsetd.logs.checks import Array, id_text, show
from sparsetd.logs.door import files_of
from sparsetd.logs.files import notes_of, write_parquet
from sparsetd.logs.raw import MOST_CATEGORIES, Column, Table, number, raw_table
from sparsetd.logs.raw_columns import option
from sparsetd.logs.reading import read
from sparsetd.logs.schema import ALIASES, folded, meant_by, nearest
from sparsetd.logs.suspicions import only_outcomes, sentence
from sparsetd.logs.transitions import Transitions
from sparsetd.logs.words import ROLE_NAMES

KEEP = ("order", "duplicates", "names", "outcome", "ids", "rows", "same", "time")
MISSING = ("carry", "median", "mark", "refuse")
Ends = Literal["last-row", "cut"]
ROLES = {"time" if role == "step" else role: aliases for role, aliases in ALIASES.items()} | {"clock": ()}
DOSES = ("mg", "g", "µg", "mcg", "ml", "ie", "iu", "ui")  # units of doses, which are given rather than measured
EMPTY = "empty"  # the word for an empty cell, where an outcome is only ticked
EACH = "each"  # the word for one unit of a reward in numbers, which is worth −1 if the reward is a cost
MOST_WORTH = 5  # words of an outcome that are written out
LEAST_EPISODES = 5  # with fewer, an outcome of 0 and 1 cannot be told from the reward of each row
WRITTEN = 0.9  # share of the rows of a drug in which its dose is written down, at least
ENDS = ("reward", "terminated", "truncated")  # roles that say how an episode ended
MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd number that spreads codes over 64 bits


class MessyLog(ValueError):
    """Report that a raw table cannot be prepared: `problems` lists everything that is wrong with it.

    Examples
    --------
    >>> from sparsetd.logs import MessyLog, prepare
    >>> raw = {"lactate": [2.0, 3.0], "drug": ["B", None], "reward": [0, 1]}
    >>> try:
    ...     made = prepare(raw, bandit=True, action="drug")
    ... except MessyLog as messy:
    ...     print(messy.problems[0])
    `drug`, the action, is missing in 1 row (first row 1): fill it in, or say what a gap means with --fill 'drug=…'.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Prepared:
    """Hold the columns of a prepared log, and the sentences on how they were made.

    `action_names` are the names of its actions. With `learnt`, another table is read in the same way: see `like` of
    `prepare`.

    Examples
    --------
    >>> from sparsetd.logs import prepare
    >>> raw = {"lactate": [1.5, 3.0], "treatment": ["B", "none"], "reward": [0, 1]}
    >>> made = prepare(raw, bandit=True)
    >>> made.action_names
    ('B', 'none')
    >>> list(made.columns)
    ['reward', 'action', 'terminated', 'obs_lactate']
    >>> made.transitions
    Transitions(2 rows, 2 episodes, 1 observed columns, 2 terminated, 0 truncated)
    """

    columns: Mapping[str, Array]
    action_names: tuple[str, ...] | None
    notes: tuple[str, ...]
    learnt: Mapping[str, Any] = field(default_factory=dict)

    @property
    def transitions(self) -> Transitions:
        return replace(read(self.columns), action_names=self.action_names)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file that carries names, notes and what was learnt in its metadata."""
        notes = {"action_names": self.action_names, "notes": self.notes, "learnt": self.learnt}
        write_parquet(path, self.columns, notes)

    def __str__(self) -> str:
        return "\n".join(self.notes)


def prepare(
    source: Any,
    *,
    missing: Literal["carry", "median", "mark", "refuse"] | None = None,
    ends: Ends | None = None,
    bandit: bool = False,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    na: Sequence[str] = (),
    text: Sequence[str] = (),
    skip: Sequence[str | int] = (),
    fill: Mapping[str, str] | None = None,
    dates: Literal["day-first", "month-first"] | None = None,
    encoding: str | None = None,
    like: Any = None,
    **roles: str | None,
) -> Prepared:
    """Turn a raw table, with its text, dates and gaps, into a log, and note every decision that was made on the way.

    Parameters
    ----------
    source : path, frame or mapping
        One row per decision. CSV, Parquet and the other forms of `read`.
    missing : "carry", "median", "mark" or "refuse"
        Gaps in observed columns get the last value of the episode (the default where the time is known), the median, or
        the median and a mark in another column (the default elsewhere); or they are listed as problems. With "carry", a
        gap before the first value is marked.
    ends : "last-row", "cut" or None
        Where no column says how an episode ended: it really ended with its last row, or recording merely stopped there.
    bandit : bool
        Whether every row is a separate decision, with nothing after it.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of "order", "duplicates", "names", "outcome", "ids", "rows", "same" and "time"
        What to leave unchanged: the order of the rows, rows that are exact copies, names that differ in case or blanks
        only, an outcome that stands in every row of its episode, columns of numbers that look like ids, rows of units
        and totals, columns that repeat the action or the reward; "time" also observes the number of the row in its
        episode, as it is done where all episodes ended after equally many rows.
    na, text : sequence of str
        More words that stand for a missing value; columns to be read as text.
    skip : sequence of str or int
        Rows to leave out, by the numbers in messages: ``4``, or ``"4 of visits.csv"`` if there are several files. The
        name of a column stands for all rows in which it is empty.
    fill : mapping
        What an empty cell of a column stands for: ``{"drug": "none"}``.
    dates : "day-first", "month-first" or None
        How dates such as 3/4/2024 are meant; found out column by column by default.
    encoding : str, optional
        The encoding of a CSV file, such as "cp1250"; found out by default.
    like : Prepared, or path of a log that `prepare` wrote, or of its shards
        An earlier table: this one is read with the same roles, categories, codes, medians and first dates.
    **roles
        Columns by role, ``episode="patient"``, ``time="visit"``; None where there is none. Whatever has no role is
        observed. The reward may be an outcome in words, ``reward="Issue: vivant=1, décédé=0"``.

    Raises
    ------
    MessyLog
        With every problem that was found, not only the first.

    Examples
    --------
    >>> from sparsetd import prepare
    >>> raw = {
    ...     "patient": ["a", "a", "b"],
    ...     "visit": ["25/3/2024 20:00", "25/3/2024 08:00", "1/4/2024"],
    ...     "lactate": ["<0,5", "4,5", ""],
    ...     "treatment": ["none", "B", "b"],
    ...     "outcome": ["alive", "", "dead"],
    ... }
    >>> made = prepare(raw, time="visit", reward="outcome: alive=1, dead=0")
    >>> print(*made.notes[:3], sep="\\n")
    `visit` has dates with the day first.
    `visit` orders the rows of an episode.
    `visit` went back in 1 row (first row 1), so the rows were sorted by it.
    >>> made.transitions
    Transitions(3 rows, 2 episodes, 3 observed columns, 2 terminated, 0 truncated)
    """
    _refuse_unknown(missing, keep)
    given = {"missing": missing, "ends": ends, "bandit": bandit, "drop": drop, "na": na, "text": text, "dates": dates}
    asked = _known_from(like) | {name: value for name, value in {**given, "fill": fill}.items() if value}
    table = raw_table(source, encoding)
    table.asked, table.keep = asked, keep
    _choose(table)
    _give_hints(table)
    _leave_out_rows(table, skip)
    named = _give_roles(table, roles)
    if "bandit" in asked:
        _share_ids(table)
    if not table.is_later:
        _leave_out_index(table)
    clock = _put_in_order(table, named)
    joined = _join_discharges(table) if asked.get("joined", not table.is_later) else False
    table.missing = asked.get("missing") or ("carry" if {"episode", "time"} <= {*table.roles} else "mark")
    columns, names = _columns_with_roles(table)
    unnamed = [role for role in ("reward", "episode", "action") if role not in {**roles, **table.roles}]
    unnamed = [role for role in unnamed if not table.is_later and not (bandit and role == "episode")]
    likely = _likely(table, unnamed) if unnamed else {}
    table.has_outcome |= bool(likely.get("reward"))
    absent = {role for role, name in named.items() if name is not None and role not in table.roles}
    columns |= _ends(table, columns, absent)
    if "action" in columns and "behavior_prob" not in columns and "same" not in keep:
        _refuse_propensity(table, columns["action"])
    counted = asked.get("counted") if table.is_later else _counted(table, columns)
    seen, learnt = _observed(table, counted)
    _say_unnamed(table, likely)
    if table.problems:
        raise MessyLog(table.problems)
    kept = asked | {"missing": table.missing, "columns": learnt, "roles": table.roles, "worth": table.worth}
    kept |= {"time": clock, "counted": counted, "joined": joined, "shared": table.shared, "action_names": names}
    return Prepared(columns | seen, names, tuple(table.done), json.loads(json.dumps(kept)))


def _refuse_unknown(missing: Any, keep: Sequence[str]) -> None:
    if missing is not None and missing not in MISSING:
        renamed = "'fill' is now 'mark'" if missing == "fill" else f"it is one of {', '.join(MISSING)}"
        raise ValueError(f"`missing` is {missing!r}: {renamed}.")
    for word in keep:
        if word not in KEEP:
            raise ValueError(f"`keep` names {word!r}: it takes {', '.join(KEEP)}.")


def _known_from(like: Any) -> dict[str, Any]:
    """The record of what `prepare` learnt from an earlier table, from its result or from the file that it wrote."""
    if like is None or isinstance(like, Prepared):
        return {} if like is None else dict(like.learnt)
    if not isinstance(like, (str, Path)):
        raise TypeError("`like` must be what `prepare` returned, or the path of a log that it wrote.")
    learnt = notes_of(files_of(like)[0]).get("learnt")
    if not learnt:
        raise ValueError(f"{like} does not say how it was prepared: write it again with `sparsetd prepare`.")
    return learnt


def _choose(table: Table) -> None:
    """Turn words for missing values into gaps, fill gaps with what they stand for, and drop columns.

    With `like`, exactly the columns that the earlier table had are left.
    """
    asked = table.asked
    gone = set(map(folded, asked.get("na", ())))
    for name, column in table.columns.items() if gone else ():
        cells = [None if isinstance(one, str) and folded(one) in gone else one for one in column.cells]
        table.columns[name] = replace(column, cells=cells)
    _fill(table, asked.get("fill", {}))
    left_out = {*asked.get("drop", ())}
    if table.is_later:
        earlier = {*asked["columns"], *asked["roles"].values()}
        new = [name for name in table.columns if name not in earlier and name not in left_out]
        absent = [name for name in asked["columns"] if name not in table.columns]
        table.problems += [f"`{name}` is missing, which the earlier table had: add it." for name in absent]
        table.done += [f"`{name}` was left out: the earlier log does not have it." for name in new]
        left_out.update(new)
        # A table of new patients may have empty columns for what is not known yet.
        empty = [name for name in asked["roles"].values() if name in table.columns and table.columns[name].gaps.all()]
        table.done += [f"`{name}` is empty and was left out." for name in empty]
        left_out.update(empty)
    table.columns = {name: column for name, column in table.columns.items() if name not in left_out}


def _fill(table: Table, words: Mapping[str, str]) -> None:
    for name, word in words.items():
        if name not in table.columns:
            near = nearest(name, list(table.columns))
            table.problems.append(f"`fill` names a column {name!r} that is not there{near}")
        elif (gaps := table.columns[name].gaps).any():
            column = table.columns[name]
            cells = [word if one is None else one for one in column.cells]
            table.columns[name] = replace(Column.coded(name, cells, column.codes), known=column.known)
            table.done.append(f"`{name}` is empty {table.where(gaps)}: taken as {word!r}, as asked.")


def _leave_out_rows(table: Table, skip: Sequence[str | int]) -> None:
    """Leave out the rows that the caller names, and those of units, totals and titles, which are no decisions."""
    asked = set(map(str, skip))
    if asked:
        numbers = [table.nth(place) for place in range(len(table.rows))]
        rows = np.isin(numbers, [*asked])
        table.problems += [f"There is no row {one} to skip." for one in sorted(asked - {*numbers, *table.columns})]
        for name in asked & {*table.columns} - {*numbers}:
            rows |= table.columns[name].gaps
        if rows.any():
            table.leave_out(rows, ", as asked")
    if "rows" in table.keep or not len(table.rows):
        return
    rows = signs.no_decisions(table)
    if rows.any():
        row = [column.cells[column.codes[int(np.argmax(rows))]] for column in table.columns.values()]
        some = ", ".join([repr(str(one)) for one in row if one is not None][:3])
        table.leave_out(rows, f": units, totals or titles ({some}), no decisions (if they are, --keep rows)")


def _leave_out_index(table: Table) -> None:
    """Leave out free columns that only number the rows: they say nothing, and hide copies of rows."""
    for column in [] if "ids" in table.keep else table.free:
        if signs.counts_rows(column, table):
            table.done.append(f"`{column.name}` only numbers the rows: it was left out (if it does more, --keep ids).")
            del table.columns[column.name]


def _give_roles(table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """Find the column of every role, and the worth of every word of an outcome; return what the caller or `like` named.

    A role that nobody named is given to a column with a usual name, except with `like`.
    """
    names = list(table.columns)
    given = {"time" if role == "step" else role: name for role, name in given.items()}
    unknown = [role for role in given if role not in ROLES]
    known = f"the roles are {', '.join(ROLES)}; whatever has none is observed, unless it is dropped"
    table.problems += [f"`{role}` is not a role of a column: {known}." for role in unknown]
    wanted = {role: name for role, name in table.asked.get("roles", {}).items() if name in names}
    wanted |= {role: name for role, name in given.items() if role in ROLES}
    worth = table.asked.get("worth", {})
    by_role = all(isinstance(one, Mapping) for one in worth.values())  # 0.3 wrote the words of the reward only
    table.worth = dict(worth) if by_role else {"reward": worth}
    for role in ("reward", "terminated", "truncated"):
        if isinstance(given.get(role), str):
            wanted[role], table.worth[role] = _in_words(role, given[role], names, table)
    for role, name in wanted.items():
        if name is not None and name not in names:
            nearby, meant = nearest(str(name), names), meant_by(str(name), names)
            table.problems.append(f"`{role}` names a column {name!r} that is not there{nearby}")
            if meant not in wanted.values():  # look for other problems in the column that was meant
                wanted[role] = meant or name
    roles = {role: name for role, name in wanted.items() if name in names}
    lower = {folded(name): name for name in reversed(names)}  # reversed: of two spellings the first column wins
    for role, aliases in ROLES.items():
        # A column called "a" or "r" in a raw table is more likely a measurement than the action or the reward.
        usual = [*(alias for alias in aliases if len(alias) > 1), *ROLE_NAMES.get(role, ())]
        free = [lower[alias] for alias in usual if alias in lower and lower[alias] not in roles.values()]
        if free and role not in wanted and not table.is_later:
            roles[role] = free[0]
    if "episode" not in {*roles, *wanted}:
        table.done.append("No column names the episode: a new one begins after each row that ended one.")
    table.roles = roles
    return wanted


def _share_ids(table: Table) -> None:
    """Where every row is a separate decision, an id of several rows names something that these rows share."""
    name = table.roles.get("episode", "")
    if name and len(np.unique(table.columns[name].codes)) < len(table.rows):
        table.shared = table.roles.pop("episode")


def _in_words(role: str, spec: str, names: Sequence[str], table: Table) -> tuple[str, dict[str, float]]:
    """The column of a role in words, and what each word is worth: "Issue: vivant=1, décédé=0"."""
    name, colon, pairs = spec.partition(":")
    if spec in names or not colon:
        return spec, {}
    worth = {}
    for pair in pairs.split(","):
        word, _, value = pair.rpartition("=")
        try:
            worth[folded(word)] = number(value.strip())
        except ValueError:
            example = option(*_asked_as(role, "Outcome: alive=1, dead=0"))
            table.problems.append(f"The {role} {show(spec)} cannot be read at {show(pair)}: it looks like {example}.")
    return name.strip(), worth


def _asked_as(role: str, words: str) -> tuple[str, str]:
    """The option that gives a role to a column, and its value."""
    return ("--reward", words) if role == "reward" else ("--column", f"{role}={words}")


def _give_hints(table: Table) -> None:
    """Tell every column how it is written, as far as the options or an earlier table say it."""
    asked = table.asked
    dates = {"day_first": asked["dates"] == "day-first"} if "dates" in asked else {}
    earlier = {asked.get("roles", {}).get("time"): asked.get("time", {}), **asked.get("columns", {})}
    for name, column in table.columns.items():
        kind = {"kind": "text"} if name in asked.get("text", ()) else {}
        table.columns[name] = replace(column, known={**column.known, **dates, **kind, **earlier.get(name, {})})


def _put_in_order(table: Table, named: Collection[str]) -> dict[str, Any]:
    """Put the rows of an episode together, in the order of time, without copies; return how times are written."""
    if "episode" in table.roles:
        _fill_down(table, table.columns[table.roles["episode"]])
        column = table.columns[table.roles["episode"]]
        if "names" not in table.keep:
            column = table.columns[column.name] = raw_columns.with_one_spelling(column, table)
        ids = _ids(column)
        place = {name: code for code, name in reversed([*enumerate(ids)])}  # 7 and "7" are one episode
        table.group = column.spread([place[name] for name in ids])
    if "time" not in named and "bandit" in table.asked:
        table.roles.pop("time", None)
    elif "time" not in {*named, *table.roles} and "episode" in table.roles and not table.is_later:
        dates = [column for column in table.free if column.reading.kind == "time" and not column.reading.bad]
        dated = [column.name for column in dates if signs.changes(column, table.group)]
        dated = dated or [column.name for column in table.free if signs.counts_visits(column, table.group)][:1]
        dated = dated or [column.name for column in table.free if signs.is_called_time(column, table.group)]
        if len(dated) > 1:
            which = " or ".join(option("--column", f"time={name}") for name in dated)
            table.problems.append(f"Several columns may say when a row happened: name it with {which}.")
        if not dated and "order" not in table.keep:
            _refuse_scattered(table)
        table.roles |= {"time": dated[0]} if len(dated) == 1 else {}
    if "time" not in table.roles:
        if "clock" in table.roles:
            table.problems.append("`clock` is the time of the day, but no column is the date: say --column time=NAME.")
        table.take(np.argsort(table.group, kind="stable"))
        return {}
    name = table.roles["time"]
    column = table.columns[name]
    reading = raw_columns.as_read(column, table)
    times = column.spread(reading.values)
    if reading.kind not in ("time", "number") or (np.isnan(times).any() and not reading.bad):
        in_words = "correct it, or keep the rows as they stand with --column time=none"
        remedy = in_words if np.isnan(times).all() else "correct it"
        table.problem(f"`{name}`, the time, is neither a number nor a date", np.isnan(times), remedy)
    if reading.kind == "time" and not (times % raw_columns.DAY).any() and not table.is_later:
        clocks = [other.name for other in table.free if signs.seconds_of_day(other) is not None]
        table.roles |= {"clock": clocks[0]} if len(clocks) == 1 and "clock" not in named else {}
    both = f"`{name}` orders"
    if "clock" in table.roles:
        clock = table.columns[table.roles["clock"]]
        both = f"`{name}` and `{clock.name}` order"
        times = times + _clock(clock, table) / (1.0 if reading.kind == "time" else raw_columns.DAY)
    table.done.append(f"{both} the rows of an episode.")
    _sort(table, times)
    return raw_columns.written_as(reading)


def _refuse_scattered(table: Table) -> None:
    """Ask for the time where the rows of an episode are scattered over the table: their order may mean nothing."""
    begins = np.append(True, np.diff(table.group) != 0)
    scattered = int((np.bincount(table.group[begins]) > 1).sum())
    if not scattered:
        return
    likely = [column.name for column in table.free if signs.differs_in_episodes(column, table.group)]
    options = " or ".join(option("--column", f"time={name}") for name in likely[:3])
    table.problems.append(
        f"The rows of {scattered:,} episodes are not together, and no column says when they happened: name it with "
        f"{options or '--column time=NAME'}, or say --keep order if a lower row always happened later."
    )


def _fill_down(table: Table, ids: Column) -> None:
    """Copy an id in merged cells to the rows below it, and also columns that are empty wherever the id is empty."""
    if not signs.in_merged_cells(ids, table):
        return
    merged = [column for column in table.columns.values() if column.gaps[ids.gaps].all() and not column.gaps.all()]
    table.columns |= {column.name: column.take(signs.filled_above(ids.gaps)) for column in merged}
    names = ", ".join(f"`{column.name}`" for column in merged)
    stand = "stands" if len(merged) == 1 else "stand"
    table.done.append(f"{names} {stand} in the first row of each episode only: taken for the rows below it as well.")


def _clock(column: Column, table: Table) -> Array:
    """The seconds of the day that stand in a column; a gap is the beginning of the day."""
    found = signs.seconds_of_day(column)
    if found is None:
        table.problems.append(f"`{column.name}`, the clock, must hold times such as 14:30: correct it.")
    return np.zeros(len(column.codes)) if found is None else np.nan_to_num(found)


def _copies(table: Table) -> Array:
    """A mask of the rows that are exact copies of earlier ones."""
    key = np.zeros(len(table.rows), dtype=np.uint64)
    for column in table.columns.values():
        key = key * MIX + column.codes.astype(np.uint64) + np.uint64(1)  # wraps around, as a hash may
    copy = np.ones(len(key), dtype=bool)
    copy[np.unique(key, return_index=True)[1]] = False
    return copy


def _sort(table: Table, times: Array) -> None:
    """Drop exact copies and sort the rows by time within each episode, with a note about both."""
    copy = _copies(table)
    if copy.any() and "episode" in table.roles and "duplicates" not in table.keep:
        table.done.append(f"Exact copies of other rows stood {table.where(copy)} and were dropped.")
        table.take(np.flatnonzero(~copy))
        times = times[~copy]
    together = np.argsort(table.group, kind="stable")
    if "order" in table.keep:
        table.take(together)
        return
    name, order = table.roles["time"], np.lexsort((times, table.group))
    back = together[1:][(np.diff(times[together]) < 0) & (np.diff(table.group[together]) == 0)]
    if len(back):
        late = np.isin(np.arange(len(times)), back)
        table.done.append(f"`{name}` went back {table.where(late)}, so the rows were sorted by it.")
    same = (np.diff(times[order]) == 0) & (np.diff(table.group[order]) == 0)
    if same.any():
        one, other = sorted(table.rows[order[np.argmax(same) :][:2]].tolist())
        both = f"`{name}` gives rows {table.nth(one)} and {table.nth(other)} of one episode the same time"
        parts = "if they are parts of one decision, such as the lines of a bill, add them up to one row"
        apart = "otherwise tell them apart with --column time=NAME or --column clock=NAME, or say --keep order"
        table.problems.append(f"{both}, and {int(same.sum()):,} rows are like that: {parts}; {apart}.")
    table.take(order)


def _join_discharges(table: Table) -> bool:
    """Join rows at the ends of episodes in which nothing was decided, such as a discharge, to the rows before them.

    What they say about the end belongs to the last decision.
    """
    name = table.roles.get("action", "")
    ends = np.flatnonzero(_discharges(table, name)) if {"action", "episode"} <= {*table.roles} else np.zeros(0, int)
    if not len(ends) or "rows" in table.keep:
        return False
    for found in {found for role, found in table.roles.items() if role in ENDS}:
        codes, told = table.columns[found].codes.copy(), ends[~table.columns[found].gaps[ends]]
        codes[told - 1] = codes[told]
        table.columns[found] = replace(table.columns[found], codes=codes)
    rows = np.isin(np.arange(len(table.group)), ends)
    decided = option("--fill", f"{name}=…")
    empty = f"`{name}` is empty {table.where(rows)}, each the last of an episode: nothing was decided there"
    joined = "so what such a row says about the end counts for the row before it"
    table.done.append(f"{empty}, {joined} (if something was decided, {decided}).")
    table.take(np.flatnonzero(~rows))
    return True


def _discharges(table: Table, action: str) -> Array:
    """A mask of last rows without an action, if most episodes have one and no other row lacks an action.

    If a row and the one before it both have a reward, they cannot be joined, and none is.
    """
    gaps, last = table.columns[action].gaps, table.last
    ends = gaps & last & (table.begin < np.arange(len(gaps)))
    if ends.sum() < max(LEAST_EPISODES, last.sum() / 2) or (gaps & ~last).any():
        return np.zeros(len(gaps), dtype=bool)
    paid = np.zeros(len(gaps), dtype=bool)
    if "reward" in table.roles:
        paid = ~table.columns[table.roles["reward"]].gaps
    return ends & ~(ends[1:] & paid[1:] & paid[:-1]).any()


def _columns_with_roles(table: Table) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """The columns that have a role, and the names of the actions."""
    columns: dict[str, Array] = {}
    names = None
    for role, name in table.roles.items():
        column = table.columns[name]
        if role == "action":
            columns[role], names = raw_columns.codes(column, table)
        elif role in ("time", "clock"):
            columns["step"] = np.arange(len(table.group)) - table.begin
        elif role in ("terminated", "truncated"):
            columns[role] = flags = _flags(table, column, role)
            if (early := flags & ~table.last).any() and "episode" in table.roles:
                stays = "if one id has several stays, give each of them an id; otherwise "
                remedy = f"{stays}leave it out with {option('--drop', name)} and say --ends last-row"
                table.problem(f"`{name}` ends an episode, but more of its rows follow", early, remedy)
        elif role == "episode":
            columns[role] = column.spread(np.array(_ids(column)))
            if column.gaps.any():
                table.problem(f"`{name}`, the episode, is missing", column.gaps, "fill it in")
        elif role == "reward":
            columns[role] = _reward(table, column)
        else:
            most = 1.0 if role.endswith("_prob") else np.inf
            columns[role] = raw_columns.numbers(column, table, most=most)
        if role not in ("action", "time", "clock"):
            table.done.append(f"`{name}` is taken as {role}.")
    return columns, names


def _ids(column: Column) -> list[str]:
    """The text of every distinct id; that of a gap is empty."""
    return [one if isinstance(one, str) else id_text("" if one is None else one) for one in column.cells]


def _flags(table: Table, column: Column, role: str) -> Array:
    """Return yes or no per row; words that are neither get the worth that they were given."""
    worth = table.worth.get(role, {})
    cells = [worth.get(word or "", one) for word, one in zip(_words(column), column.cells, strict=True)]
    remedy = "correct it"
    if _may_have_worth(column):
        remedy = f"say what each word means with {_worth_of_words(column, worth, role)}"
    return raw_columns.flags(replace(column, cells=cells), table, remedy)


def _reward(table: Table, column: Column) -> Array:
    """Return a reward per row; an outcome of the whole episode stands in its last row and is 0 before."""
    worth = table.worth.get("reward", {})
    if not worth or EACH in worth:
        raw_columns.say_how(column, column.reading, table)
    values, gaps, last = column.spread(_worth(table, column)), column.gaps, table.last
    several = "episode" in table.roles and not last.all()
    only_at_ends = several and bool(gaps.any() and gaps[~last].all())
    if EMPTY in worth:
        filled = gaps & (last | (not only_at_ends))
        values[filled], gaps = worth[EMPTY], gaps & ~filled
    if np.isnan(values[~gaps]).any():
        table.has_outcome = only_at_ends
        return np.zeros(len(values))
    if not worth and {*values[~gaps]} == {0.0, 1.0}:
        turned = _worth_of_words(column, dict(zip(_words(column), 1 - column.reading.values, strict=True)))
        table.done.append(f"`{column.name}`: 1 or yes counts as better than 0 or no; if it is worse, say {turned}.")
    elif not worth and folded(column.name) not in ROLES["reward"] and (values[~gaps] >= 0).all():
        turned = option("--reward", f"{column.name}: {EACH}=-1")
        table.done.append(f"`{column.name}`: more counts as better; if it is a cost, say {turned}.")
    in_words = column.reading.kind != "number" or bool({*worth} - {EACH})
    yes_and_no = last.sum() >= LEAST_EPISODES and {*values[~gaps]} == {0.0, 1.0}
    constant = (in_words or yes_and_no) and bool((np.diff(values)[~last[:-1]] == 0).all())
    if several and constant and "outcome" not in table.keep:
        once = "it counts once, in the last (if it does in each, --keep outcome)"
        table.done.append(f"`{column.name}` is the same in all rows of an episode: {once}.")
        table.has_outcome = True
        return np.where(last, values, 0.0)
    if only_at_ends:
        table.done.append(f"`{column.name}` stands in the last rows of episodes only: it counts as 0 before.")
        table.has_outcome, gaps = True, gaps & last
    if gaps.any():
        at = " at the end of an episode" if table.has_outcome else ""
        table.problem(f"`{column.name}`, the reward, is missing{at}", gaps, _cure_of_gaps(table, column, worth))
    return np.nan_to_num(values)


def _cure_of_gaps(table: Table, column: Column, worth: Mapping[str, float]) -> str:
    """What cures a missing reward: of an outcome in words, of a table of rewards, of decisions without episodes."""
    if "episode" not in table.roles:
        return f"fill it in, or leave out these rows with {option('--skip', column.name)} if chance alone made the gaps"
    if not table.has_outcome:
        return "fill it in, or, if it is an outcome, name the time with --column time=NAME"
    if len(column.cells) > MOST_WORTH:
        return "fill it in"
    worth_of_gaps = _worth_of_words(column, {**worth, EMPTY: None})
    known = _worth_of_words(column, dict.fromkeys(filter(None, _words(column)), 1.0), "terminated")
    return f"say what an empty cell is worth with {worth_of_gaps}; if nobody knows the outcome, say empty=0 and {known}"


def _worth(table: Table, column: Column) -> Array:
    """The reward of every distinct cell; NaN for a gap, and for a cell that is a problem."""
    words = {i: word for i, word in enumerate(_words(column)) if word is not None}
    values, worth = column.reading.values, table.worth.get("reward", {})
    if worth:
        values = values * worth.get(EACH, np.nan)
        values[list(words)] = [worth.get(word, values[i]) for i, word in words.items()]
    odd = [i for i in words if np.isnan(values[i])]
    if odd:
        remedy = f"say what each word is worth with {_worth_of_words(column, worth)}"
        what = f"`{column.name}`, the reward, must be a number, but holds {raw_columns.shown(column, odd)}"
        table.problem(what, column.rows_with(odd), remedy)
    return values


def _ends(table: Table, columns: Mapping[str, Array], absent: set[str]) -> dict[str, Array]:
    """Mark the ends of episodes if no column does; a later table without a reward needs none.

    If a column that may mark them was named but is `absent`, that is a problem already.
    """
    made, ends = dict[str, Array](), table.asked.get("ends")
    needless = bool({"terminated", "truncated"} & {*columns}) or (table.is_later and "reward" not in columns)
    if "bandit" in table.asked:
        table.done.append("Every row is a separate decision: all are marked as ended.")
        made = {"terminated": np.ones(len(table.group), dtype=bool)}
    elif not needless and ends is None and table.has_outcome:
        outcome = [table.columns[name] for role, name in table.roles.items() if role == "reward"]
        several = [column for column in outcome if _n_words(column) > 2 and _may_have_worth(column)]
        some = "".join(f", or {_worth_of_words(column, {}, 'terminated')} if some did" for column in several)
        how = f"each ended for good with its last row (if not, say --ends cut{some})"
        table.done.append(f"Episodes have an outcome: {how}.")
        made = {"terminated": table.last}
    elif needless or absent & {"episode", "time", "reward", "terminated", "truncated"}:
        pass
    elif ends is None or "episode" not in columns:
        telling = [column for column in table.free if signs.tells_ends(column, table) and _may_have_worth(column)]
        in_words = "".join(f", or in words {_worth_of_words(column, {}, 'terminated')}" for column in telling)
        named = f"name a yes/no column with --column terminated=NAME{in_words}"
        told = "name the episode and say --ends last-row (it really ended) or --ends cut (recording merely stopped)"
        bandit = "say --bandit (every row is a separate decision)"
        table.problems.append(f"Nothing says where an episode ended: {named}, or {told}, or {bandit}.")
    else:
        how, role = ("ended for good", "terminated") if ends == "last-row" else ("was cut off", "truncated")
        table.done.append(f"Every episode {how} with its last row.")
        made = {role: table.last}
    found = {**columns, **made}
    start = np.append(True, table.last[:-1])
    ended = {"episode", "reward", "terminated"} <= {*found}
    if ended and only_outcomes(found["reward"], found["terminated"], start):
        table.done.append(sentence("rewards_at_ends", {}))
    return made


def _refuse_propensity(table: Table, action: Array) -> None:
    """Ask about columns that look like the probability of the action: no policy knows it, so it is no observation."""
    for column in table.free:
        if "kind" not in column.known and action.min() >= 0 and signs.may_be_propensity(column, action):
            named = option("--column", f"behavior_prob={column.name}")
            looks = f"`{column.name}` looks like the probability of the action that was taken"
            table.problems.append(f"{looks}: if it is, say {named}; if it is not, --keep same.")


def _counted(table: Table, columns: Mapping[str, Array]) -> str:
    """The name under which the number of the row in its episode is observed; "" where it is not.

    In a programme of fixed length it tells the end in advance, and what is left to gain depends on it.
    """
    length = np.diff([*np.unique(table.begin), len(table.group)])
    ended = columns.get("terminated", table.last & False)[table.last]
    fixed = "step" in columns and length[0] > 1 and len(length) >= LEAST_EPISODES
    fixed = bool(fixed and np.ptp(length) == 0 and ended.all())
    if not fixed and "time" not in table.keep:
        return ""
    time = table.columns.get(table.roles.get("time", ""))
    name = time.name if time and signs.counts_visits(time, table.group) else "number of the row"
    why = f": all episodes ended after {length[0]} rows, so that what is left to gain depends on it" if fixed else ""
    table.done.append(f"`{name}`, which counts the rows of an episode, is observed as well{why}.")
    return name


def _observed(table: Table, counted: str | None) -> tuple[dict[str, Array], dict[str, Any]]:
    """Turn the columns without a role into numbers, and keep text too, to ask about groups; also return `learnt`.

    If the rows of an episode are `counted`, so that is the name of their number, this is observed as well.
    """
    columns: dict[str, Array] = {}
    if counted:
        time, number = table.columns.get(counted), np.arange(len(table.group)) - table.begin + 1.0
        columns[f"obs_{counted}"] = time.spread(time.reading.values) if time else number
    learnt: dict[str, Any] = {}
    untouched = []
    for column in table.free:
        name, n_notes = column.name, len(table.done)
        shares = 2 if name == table.shared else signs.names_episodes(column, table.group)
        if shares and "ids" not in table.keep:
            what = f"that several episodes share: ask with {option('--cluster', name)}"
            what = what if shares > 1 else "of one episode: it was left out"
            table.done.append(f"`{name}` looks like an id {what} (if not, --keep ids).")
            columns |= {name: column.spread(np.array(_ids(column), dtype=object))} if shares > 1 else {}
            table.shared = table.shared or (name if shares > 1 else "")
            continue
        if "same" not in table.keep and "kind" not in column.known and _is_known_later(table, column):
            continue
        if column.reading.kind == "text":
            column = raw_columns.with_one_spelling(column, table)
        made, how = raw_columns.observed(column, table)
        twice = [label for label in made if f"obs_{label}" in columns]
        table.problems += [f"Two columns would be called `{label}`: rename one in the table." for label in twice]
        columns |= {f"obs_{label}": values for label, values in made.items()}
        learnt |= {name: how} if how else {}
        untouched += [f"`{name}`"] if how and len(table.done) == n_notes else []
        if how.get("kind") == "text" and not _is_role(name):
            columns[name] = column.spread([raw_columns.MISSING if one is None else one for one in column.cells])
    if untouched:
        all_of_them = "is observed as it is" if len(untouched) == 1 else "are observed as they are"
        table.done.append(f"{', '.join(untouched)} {all_of_them}.")
    if not any(name.startswith("obs_") for name in columns):
        table.problems.append("No column is left to be observed: each has a role, was left out, or is empty.")
    return columns, learnt


def _is_known_later(table: Table, column: Column) -> bool:
    """Note a column that repeats the action, the reward or the end of an episode, and say whether it did.

    It is left out; one that nearly does may be a reason for the action, so the caller is asked.
    """
    drop = option("--drop", column.name)
    for other in [table.columns[table.roles[role]] for role in ("action", "reward") if role in table.roles]:
        if signs.says_the_same(column, other):
            what = f"`{column.name}` only repeats `{other.name}`"
            table.done.append(f"{what}: it was left out (if it is known earlier, --keep same).")
            return True
        if signs.share_told(column, other) >= WRITTEN:
            beside = f"`{other.name}` is {raw_columns.example(other, signs.unusual(column))}"
            what = f"`{column.name}` differs from its usual value only where {beside}, and nearly always there"
            cure = f"if it is a dose or came later, {drop}; if it was known before, --keep same"
            table.problems.append(f"{what}: {cure}.")
            return True
    return _tells_ends(table, column)


def _tells_ends(table: Table, column: Column) -> bool:
    """Note a column that changes at the ends of episodes only, and say whether it did."""
    if not signs.tells_ends(column, table):
        return False
    named = {"terminated", "truncated"} & {*table.roles} or not _may_have_worth(column)
    offer = "" if named else _worth_of_words(column, {}, "terminated")
    offer = f"; if it says which of them ended for good, {offer}" if offer else ""
    what = f"`{column.name}` changes in the last rows of episodes only, and tells how they ended"
    table.done.append(f"{what}: it was left out (if it is known earlier, --keep same{offer}).")
    return True


def _is_role(name: str) -> bool:
    """Return whether `read` would give a column of this name a role."""
    taken = {alias for aliases in ALIASES.values() for alias in aliases} | {"observation", "obs", "state"}
    return name in taken or name.startswith(("obs_", "next_", "state_", "observation_", "action"))


def _likely(table: Table, unnamed: Sequence[str]) -> dict[str, list[Column]]:
    """Find columns that may be the reward (an outcome in words), the episode or the action, if nobody named them."""
    likely: dict[str, list[Column]] = {"reward": [], "episode": [], "action": []}
    in_words = []
    for column in table.free:
        n_cells, is_text = len(np.unique(column.codes)), column.reading.kind == "text"
        given = column.reading.kind == "flag" or str(column.reading.how.get("unit", "")).lower().startswith(DOSES)
        if (is_text or given) and 1 < n_cells <= MOST_CATEGORIES:
            in_words.append(column)
        elif (is_text or signs.may_be_ids(column)) and MOST_CATEGORIES < n_cells <= len(column.codes) / 1.5:
            likely["episode"].append(column)  # its values repeat
        elif signs.in_merged_cells(column, table):
            likely["episode"].append(column)
    # Measurements repeat less evenly than ids do; of several ids, the first column wins.
    likely["episode"].sort(key=lambda column: round(np.std(column.weight) / np.mean(column.weight)))
    group = table.group
    if likely["episode"] and "episode" in unnamed:
        ids = likely["episode"][0]
        group = ids.codes[signs.filled_above(ids.gaps)]
    dates = [column.spread(column.reading.values) for column in table.free if column.reading.kind == "time"]
    order = np.lexsort([*dates, group])
    order = order[~_copies(table)[order]]  # an outcome that was sent twice still stands in the last row only
    before_last = order[:-1][np.diff(group[order]) == 0]
    for column in in_words:
        if len(before_last) and column.gaps[before_last].all():
            likely["reward"].append(column)
        elif signs.changes(column, group):
            likely["action"].append(column)
    # A ward changes less often than a treatment.
    likely["action"].sort(key=lambda column: -signs.changes(column, group))
    return {role: likely[role] for role in unnamed}


def _say_unnamed(table: Table, likely: Mapping[str, Sequence[Column]]) -> None:
    """Ask for the reward, and offer likely columns for roles that nobody named; offers join the problems, if any."""
    if "reward" in likely:
        outcomes = " or ".join(_worth_of_words(column, {}) for column in likely["reward"][:4])
        remedy = f"say what each word of the outcome is worth with {outcomes}"
        if not outcomes:
            remedy = "say which one is with --column reward=NAME, or --reward 'NAME: WORD=NUMBER, …' if it is in words"
        table.problems.append(f"No column is the reward: {remedy}.")
    for role in ("episode", "action"):
        # The problem of a text with many values already offers it as the episode.
        some = [one for one in likely.get(role, ()) if role == "action" or one.reading.kind != "text"]
        options = " or ".join(option("--column", f"{role}={column.name}") for column in some[:4])
        if some or (role == "action" and role in likely):
            such = f", for example with {options}" if some else " with --column action=NAME"
            told = f"No column was recognised as the {role}: if one is, name it{such}."
            (table.problems or table.done).append(told)


def _may_have_worth(column: Column) -> bool:
    """Say whether a column has few enough words to say what each of them is worth."""
    return column.reading.kind == "text" and _n_words(column) <= MOST_WORTH


def _n_words(column: Column) -> int:
    return sum(one is not None for one in column.cells)


def _worth_of_words(column: Column, worth: Mapping[Any, float | None], role: str = "reward") -> str:
    """The option that says what each word of an outcome is worth, as far as that is known."""
    cells = [one for one in column.cells if one is not None][:MOST_WORTH]
    if (len(cells) == 1 and role == "reward") or EMPTY in worth:
        cells.append(EMPTY)
    known = {word: f"{value:g}" for word, value in worth.items() if value is not None}
    pairs = (f"{raw_columns.written(one)}={known.get(folded(raw_columns.written(one)), '…')}" for one in cells)
    return option(*_asked_as(role, f"{column.name}: {', '.join(pairs)}"))


def _words(column: Column) -> list[str | None]:
    """The distinct cells as words to compare; None for a gap."""
    return [None if one is None else folded(raw_columns.written(one)) for one in column.cells]
