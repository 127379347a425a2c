"""`prepare`: a raw table, as hospitals and shops export it, becomes a log in one go.

Text actions and categories keep their names, yes and no become flags, dates put visits in order, copies are dropped,
and gaps are filled. Every problem of the table is found in one run, and every decision that was made is written down in
a sentence. What was learnt from the table is kept, so that a later table is prepared alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsetd.logs import cells, messy
from sparsetd.logs.cells import Reading, folded
from sparsetd.logs.checks import Array, show
from sparsetd.logs.files import METADATA
from sparsetd.logs.messy import Filling, Notes, option
from sparsetd.logs.raw import Column, Raw, raw_table
from sparsetd.logs.reading import read
from sparsetd.logs.schema import ALIASES
from sparsetd.logs.transitions import Transitions
from sparsetd.logs.visits import Visits, visits
from sparsetd.storage.atomic import replace_file

KEEP = ("order", "duplicates", "names", "outcome")
MISSING = ("carry", "median", "mark", "refuse")
Ends = Literal["last-row", "cut"]


class MessyLog(ValueError):
    """Report that a raw table cannot be prepared: `problems` lists everything that is wrong with it.

    Examples
    --------
    >>> from sparsetd.logs import MessyLog, prepare
    >>> raw = {"lactate": [2.0, 3.0], "treatment": ["B", None], "reward": [0, 1]}
    >>> try:
    ...     made = prepare(raw, bandit=True)
    ... except MessyLog as messy:
    ...     print(messy.problems[0])
    `treatment`, the action, is missing in 1 row (first row 1): fill in what was done.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Prepared:
    """Hold the columns of a prepared log, and in sentences how they were made.

    `action_names` are the names of its actions, and `learnt` is what another table is read by.

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
        import pyarrow as pa
        import pyarrow.parquet as pq

        known = {"action_names": self.action_names, "notes": self.notes, "learnt": self.learnt}
        said = json.dumps(known, ensure_ascii=False).encode()
        table = pa.table(dict(self.columns)).replace_schema_metadata({METADATA: said})
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer)
        replace_file(path, buffer.getvalue().to_pybytes())

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
    dates: Literal["day-first", "month-first"] | None = None,
    like: Any = None,
    **roles: str | None,
) -> Prepared:
    """Turn a raw table into the columns of a log.

    Parameters
    ----------
    source : path, frame or mapping
        One row per decision. CSV, Parquet and the other forms of `read`.
    missing : "carry", "median", "mark" or "refuse"
        Gaps in observed columns get the last value of the episode (the default where the time is known), the median, or
        the median and a mark in a column of their own (the default elsewhere); or they are listed as problems. What
        cannot be carried is marked.
    ends : "last-row", "cut" or None
        Where no column says how an episode ended: it really ended with its last row, or recording merely stopped there.
    bandit : bool
        Every row is a decision of its own, with nothing after it.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of "order", "duplicates", "names" and "outcome"
        What is to be left as it stands: the order of the rows, rows that are exact copies, names that differ in case or
        blanks only, an outcome that stands in every row of its episode.
    na, text : sequence of str
        More words that stand for a missing value; columns to be read as text.
    dates : "day-first", "month-first" or None
        How dates such as 3/4/2024 are meant; found out column by column by default.
    like : Prepared, or path of a log that `prepare` wrote
        Read the table as that one was read: same roles, categories, codes, medians and first dates.
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
    Rows out of order in 1 row (first row 1) were sorted by `visit`.
    >>> made.transitions
    Transitions(3 rows, 2 episodes, 3 observed columns, 2 terminated, 0 truncated)
    """
    _refuse_unknown(missing, keep)
    known = learnt_from(like)
    given: dict[str, Any] = {"ends": ends, "bandit": bandit, "drop": drop, "na": na, "text": text, "dates": dates}
    asked = {name: value or known.get(name) for name, value in given.items()} | {"keep": keep}
    raw = _without_words(raw_table(source), asked["na"] or ())
    notes = Notes(raw.rows, list(raw.said), list(raw.problems))
    found = visits(_chosen(raw, asked["drop"] or (), known, notes), roles, known, asked, notes)
    together = "episode" in found.roles
    how = missing or known.get("missing") or ("carry" if together and "time" in found.roles else "mark")
    filling = Filling(how, found.group if together else np.arange(len(found.group)))
    columns, names = _named_columns(found, known.get("action_names") or (), keep, notes)
    columns |= _ending(found, columns, asked, bool(known), notes)
    _say_outcome(found, columns, notes)
    seen, learnt = _observed(found, filling, notes, "names" not in keep)
    if notes.problems:
        raise MessyLog(notes.problems)
    kept = {name: value for name, value in asked.items() if value and name != "keep"} | {"missing": how}
    kept |= {"columns": learnt, "roles": found.roles, "worth": found.worth, "time": found.clock, "action_names": names}
    return Prepared(columns | seen, names, tuple(notes.done), json.loads(json.dumps(kept)))


def learnt_from(like: Any) -> dict[str, Any]:
    """Return what `prepare` learnt from an earlier table, out of its result or of the file that it wrote."""
    if like is None:
        return {}
    if isinstance(like, Prepared):
        return dict(like.learnt)
    if isinstance(like, Mapping):
        return dict(like)
    if not isinstance(like, (str, Path)):
        raise TypeError("`like` must be what `prepare` returned, or the path of a log that it wrote.")
    import pyarrow.parquet as pq

    try:
        learnt = json.loads((pq.read_schema(like).metadata or {}).get(METADATA, b"{}")).get("learnt")
    except (ValueError, AttributeError, OSError) as error:
        raise ValueError(f"{like} is not a log that `prepare` wrote ({type(error).__name__}): name one.") from None
    if not isinstance(learnt, dict) or not learnt:
        raise ValueError(f"{like} does not say how it was prepared: write it again with `sparsetd prepare`.")
    return learnt


def _refuse_unknown(missing: Any, keep: Sequence[str]) -> None:
    if missing is not None and missing not in MISSING:
        renamed = "'fill' is now 'mark'" if missing == "fill" else f"it is one of {', '.join(MISSING)}"
        raise ValueError(f"`missing` is {missing!r}: {renamed}.")
    for word in keep:
        if word not in KEEP:
            raise ValueError(f"`keep` names {word!r}: it takes {', '.join(KEEP)}.")


def _without_words(raw: Raw, words: Sequence[str]) -> Raw:
    """The table with more words that stand for nothing."""
    gone = set(map(folded, words))
    columns = {}
    for name, column in raw.columns.items():
        cells = [None if isinstance(one, str) and folded(one) in gone else one for one in column.cells]
        columns[name] = replace(column, cells=cells)
    return replace(raw, columns=columns)


def _chosen(raw: Raw, drop: Sequence[str], known: Mapping[str, Any], notes: Notes) -> Raw:
    """The table without columns that are dropped or that an earlier table did not have; what it had must be there."""
    new: list[str] = []
    if known:
        earlier = {*known["columns"], *known["roles"].values()}
        new = [name for name in raw.columns if name not in earlier and name not in drop]
        absent = [name for name in known["columns"] if name not in raw.columns]
        notes.problems += [f"`{name}` is missing, which the earlier table had: add it." for name in absent]
        notes.done += [f"`{name}` was left out: the earlier table did not have it." for name in new]
    return replace(raw, columns={name: c for name, c in raw.columns.items() if name not in {*drop, *new}})


def _observed(found: Visits, filling: Filling, notes: Notes, join: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    """The columns without a role as numbers, text also as it stands (to ask about groups), and what was learnt."""
    columns: dict[str, Array] = {}
    learnt: dict[str, Any] = {}
    for name, column in found.raw.columns.items():
        if name in found.roles.values():
            continue
        made, learnt[name] = messy.observed(column, found.hints[name], notes, filling, join=join)
        columns |= {f"obs_{label}": values for label, values in made.items()}
        if learnt[name].get("kind") == "text" and not _is_role(name):
            texts = messy.names_of(column, Notes(notes.rows), join)
            columns[name] = texts.spread(np.array(texts.cells, dtype=object))
    if not columns:
        notes.problems.append("No column is left to be observed: each has a role, was left out, or is empty.")
    return columns, learnt


def _named_columns(
    found: Visits, actions: Sequence[str], keep: Sequence[str], notes: Notes
) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """The columns that have a role, and the names of the actions."""
    columns: dict[str, Array] = {}
    names = None
    for role, name in found.roles.items():
        column = found.raw.columns[name]
        if role == "action":
            columns[role], names = messy.codes(column, notes, actions, "names" not in keep)
        elif role == "time":
            columns["step"] = found.step
        elif role in ("terminated", "truncated"):
            columns[role] = _flags(found, column, notes)
        elif role == "episode":
            columns[role] = _episodes(column, notes)
        elif role == "reward":
            columns[role] = _reward(found, column, keep, notes)
        else:
            most = 1.0 if role.endswith("_prob") else np.inf
            columns[role] = messy.numbers(column, notes, found.hints[name], most=most)
        if role not in ("action", "time"):
            notes.done.append(f"`{name}` is taken as {role}.")
    return columns, names


def _episodes(column: Column, notes: Notes) -> Array:
    if column.gaps.any():
        notes.problem(f"`{column.name}`, the episode, is missing", column.gaps, "fill it in")
    ids = ["" if one is None else messy.written(one) if isinstance(one, float) else str(one) for one in column.cells]
    return column.spread(np.array(ids))


def _flags(found: Visits, column: Column, notes: Notes) -> Array:
    flags = messy.flags(column, notes)
    early = flags & ~found.last
    if early.any() and "episode" in found.roles:
        remedy = f"leave it out with {option('--drop', column.name)} and say --ends last-row"
        notes.problem(f"`{column.name}` ends an episode of which more rows follow", early, remedy)
    return flags


def _reward(found: Visits, column: Column, keep: Sequence[str], notes: Notes) -> Array:
    """A number per row; an outcome of the whole episode stands in its last row and is 0 before."""
    reading = cells.read(column.cells, column.weight, found.hints[column.name])
    values, gaps = column.spread(_worth(column, reading, found.worth, notes)), column.gaps
    if np.isnan(values[~gaps]).any():
        return np.zeros(len(values))
    several = "episode" in found.roles and not found.last.all()
    in_words = reading.kind != "number" or bool(found.worth)
    constant = bool((np.diff(values)[~found.last[:-1]] == 0).all())
    if several and in_words and constant and "outcome" not in keep:
        notes.done.append(f"`{column.name}` is the same in all rows of an episode: it counts once, in the last.")
        notes.outcome = True
        return np.where(found.last, values, 0.0)
    if gaps.any() and several and not (~gaps & ~found.last).any():
        notes.done.append(f"`{column.name}` stands in the last rows of episodes only: it is 0 before.")
        notes.outcome, gaps = True, gaps & found.last
    if gaps.any():
        at = " at the end of an episode" if notes.outcome else ""
        remedy = "fill it in" + ("" if at else ", or, if it is an outcome, name the time with --column time=NAME")
        notes.problem(f"`{column.name}`, the reward, is missing{at}", gaps, remedy)
    return np.nan_to_num(values)


def _worth(column: Column, reading: Reading, worth: Mapping[str, float], notes: Notes) -> Array:
    """Return what every distinct cell of the reward is worth; NaN for a gap, and for what is a problem."""
    words = [i for i, one in enumerate(column.cells) if one is not None]
    values = reading.values
    if worth:
        values = np.array([np.nan if one is None else worth.get(folded(str(one)), np.nan) for one in column.cells])
    odd = [i for i in words if np.isnan(values[i])]
    if odd:
        spec = ", ".join(f"{column.cells[i]}={worth.get(folded(str(column.cells[i])), '…')}" for i in words[:5])
        remedy = f"say what each word is worth with {option('--reward', f'{column.name}: {spec}')}"
        what = f"`{column.name}`, the reward, must be a number, but holds {show(column.cells[odd[0]])}"
        notes.problem(what, np.isin(column.codes, odd), remedy)
    return values


def _ending(
    found: Visits, columns: Mapping[str, Array], asked: Mapping[str, Any], later: bool, notes: Notes
) -> dict[str, Array]:
    """How episodes end, where no column says it; a `later` table without a reward needs no end."""
    ends = asked["ends"]
    if asked["bandit"]:
        notes.done.append("Every row is a decision of its own: all are marked as ended.")
        return {"terminated": np.ones(len(found.group), dtype=bool)}
    if {"terminated", "truncated"} & set(columns) or (later and "reward" not in columns):
        return {}
    if ends is None and notes.outcome:
        notes.done.append("Episodes have an outcome: each ended for good with its last row (if not, say --ends cut).")
        return {"terminated": found.last}
    if ends is None or "episode" not in columns:
        notes.problems.append(
            "Nothing says where an episode ended: name a yes/no column with --column terminated=NAME, or name the "
            "episode and say --ends last-row (it really ended there) or --ends cut (recording merely stopped)."
        )
        return {}
    how, role = ("ended for good", "terminated") if ends == "last-row" else ("was cut off", "truncated")
    notes.done.append(f"Every episode {how} with its last row.")
    return {role: found.last}


def _say_outcome(found: Visits, columns: Mapping[str, Array], notes: Notes) -> None:
    reward, ended = columns.get("reward"), columns.get("terminated")
    if reward is None or ended is None or "episode" not in columns or found.last.all():
        return
    if reward.any() and not reward[~found.last].any() and ended[found.last].all():
        notes.done.append(
            "Only the last row of an episode has a reward, and every episode ended there: ask with --gamma 1, or later "
            "outcomes count less."
        )


def _is_role(name: str) -> bool:
    """Return whether `read` would take a column of this name for something."""
    taken = {alias for aliases in ALIASES.values() for alias in aliases} | {"observation", "obs", "state"}
    return name in taken or name.startswith(("obs_", "next_", "state_", "observation_", "action"))
