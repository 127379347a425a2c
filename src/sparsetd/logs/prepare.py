"""`prepare`: a raw table, as hospitals and shops export it, becomes a log in one go.

Text actions and categories keep their names, yes and no become flags, dates put visits in order, copies are dropped,
and gaps are filled. Every problem of the table is found in one run, and every decision that was made is written down in
a sentence. What was learnt from the table is kept, so that a later table is prepared alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsetd.logs import raw_columns
from sparsetd.logs.checks import Array, show
from sparsetd.logs.door import files_of
from sparsetd.logs.files import METADATA, notes_of
from sparsetd.logs.raw import Column, Raw, Reading, meaning, number, raw_table
from sparsetd.logs.raw_columns import MOST_CATEGORIES, Filling, Notes, option
from sparsetd.logs.reading import read
from sparsetd.logs.schema import ALIASES, folded, nearest
from sparsetd.logs.transitions import Transitions
from sparsetd.storage.atomic import replace_file

KEEP = ("order", "duplicates", "names", "outcome", "ids")
MISSING = ("carry", "median", "mark", "refuse")
Ends = Literal["last-row", "cut"]
# Names that say what a column is, beside those of `schema.ALIASES`, in the languages of the tables that were met.
GUESSES = {
    "episode": "patient patient_id patientnr patiënt patiëntnummer paciente subject_id stay stay_id sejour séjour fall "
    "fallnummer opname user user_id customer session",
    "time": "time date datetime timestamp day hour zeit zeitpunkt datum tijd tijdstip heure fecha hora",
    "action": "treatment decision arm traitement behandlung behandeling tratamiento tratamento terapia",
    "terminated": "discharged ended entlassen ontslagen",
    "reward": "outcome ausgang issue uitkomst desenlace esito desfecho",
}
ROLES = {"time" if role == "step" else role: aliases for role, aliases in ALIASES.items()}
MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd number that spreads codes over 64 bits


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
        the median and a mark in a column of their own (the default elsewhere); or they are listed as problems. What
        cannot be carried is marked.
    ends : "last-row", "cut" or None
        Where no column says how an episode ended: it really ended with its last row, or recording merely stopped there.
    bandit : bool
        Every row is a decision of its own, with nothing after it.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of "order", "duplicates", "names", "outcome" and "ids"
        What is to be left as it stands: the order of the rows, rows that are exact copies, names that differ in case or
        blanks only, an outcome that stands in every row of its episode, columns of numbers that look like ids.
    na, text : sequence of str
        More words that stand for a missing value; columns to be read as text.
    dates : "day-first", "month-first" or None
        How dates such as 3/4/2024 are meant; found out column by column by default.
    encoding : str, optional
        The encoding of a CSV file, such as "cp1250"; found out by default.
    like : Prepared, or path of a log that `prepare` wrote, or of its shards
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
    known = _known_from(like)
    given: dict[str, Any] = {"ends": ends, "bandit": bandit, "drop": drop, "na": na, "text": text, "dates": dates}
    asked = {name: value or known.get(name) for name, value in given.items()} | {"keep": keep}
    raw = _without_words(raw_table(source, encoding), asked["na"] or ())
    notes = Notes(raw.rows, list(raw.said), list(raw.problems))
    raw = _without_index(raw, {*keep, *roles.values()}, notes)
    found = visits(_chosen(raw, asked["drop"] or (), known, notes), roles, known, asked, notes)
    together = "episode" in found.roles
    how = missing or known.get("missing") or ("carry" if together and "time" in found.roles else "mark")
    filling = Filling(how, found.group if together else np.arange(len(found.group)))
    columns, names = _named_columns(found, known.get("action_names") or (), keep, notes)
    columns |= _ending(found, columns, asked, bool(known), notes)
    _say_outcome(found, columns, notes)
    seen, learnt = _observed(found, filling, keep, notes)
    if not known:
        _say_unnamed(found, roles, bandit, notes)
    if notes.problems:
        raise MessyLog(notes.problems)
    kept = {name: value for name, value in asked.items() if value and name != "keep"} | {"missing": how}
    kept |= {"columns": learnt, "roles": found.roles, "worth": found.worth, "time": found.clock, "action_names": names}
    return Prepared(columns | seen, names, tuple(notes.done), json.loads(json.dumps(kept)))


def _known_from(like: Any) -> dict[str, Any]:
    """The record of what `prepare` learnt from an earlier table, from its result or from the file that it wrote."""
    if like is None:
        return {}
    if isinstance(like, Prepared):
        return dict(like.learnt)
    if isinstance(like, Mapping):
        return dict(like)
    if not isinstance(like, (str, Path)):
        raise TypeError("`like` must be what `prepare` returned, or the path of a log that it wrote.")
    learnt = notes_of(files_of(like)[0]).get("learnt")
    if not learnt:
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
    """The table with these words as gaps."""
    gone = set(map(folded, words))
    columns = {}
    for name, column in raw.columns.items():
        cells = [None if isinstance(one, str) and folded(one) in gone else one for one in column.cells]
        columns[name] = replace(column, cells=cells)
    return replace(raw, columns=columns)


def _without_index(raw: Raw, kept: Container[Any], notes: Notes) -> Raw:
    """The table without an index that pandas wrote beside its rows: it says nothing, and it hides copies of rows."""
    gone = [name for name, column in raw.columns.items() if raw_columns.counts_rows(column)]
    gone = [] if "ids" in kept else [name for name in gone if name not in kept]
    notes.done += [f"`{name}` only numbers the rows: it was left out (if it does more, --keep ids)." for name in gone]
    return replace(raw, columns={name: column for name, column in raw.columns.items() if name not in gone})


def _chosen(raw: Raw, drop: Sequence[str], known: Mapping[str, Any], notes: Notes) -> Raw:
    """The table without the columns to drop; with `like`, exactly the columns that the earlier table had."""
    new: list[str] = []
    if known:
        earlier = {*known["columns"], *known["roles"].values()}
        new = [name for name in raw.columns if name not in earlier and name not in drop]
        absent = [name for name in known["columns"] if name not in raw.columns]
        notes.problems += [f"`{name}` is missing, which the earlier table had: add it." for name in absent]
        notes.done += [f"`{name}` was left out: the earlier log does not have it." for name in new]
    return replace(raw, columns={name: c for name, c in raw.columns.items() if name not in {*drop, *new}})


def _observed(
    found: Visits, filling: Filling, keep: Sequence[str], notes: Notes
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The columns without a role as numbers, text also as it stands (to ask about groups), and what was learnt."""
    columns: dict[str, Array] = {}
    learnt: dict[str, Any] = {}
    untouched, join = [], "names" not in keep
    for column in found.free:
        name, n_notes = column.name, len(notes.done)
        if "ids" not in keep and raw_columns.names_episodes(column, found.hints[name], found.group):
            notes.done.append(f"`{name}` looks like an id, one for each episode: it was left out (if not, --keep ids).")
            continue
        made, how = raw_columns.observed(column, found.hints[name], notes, filling, join=join)
        twice = [label for label in made if f"obs_{label}" in columns]
        notes.problems += [f"Two columns would be called `{label}`: rename one in the table." for label in twice]
        columns |= {f"obs_{label}": values for label, values in made.items()}
        learnt |= {name: how} if how else {}
        untouched += [f"`{name}`"] if how and len(notes.done) == n_notes else []
        if how.get("kind") == "text" and not _is_role(name):
            texts = raw_columns.names_of(column, Notes(notes.rows), join)
            columns[name] = texts.spread(np.array(texts.cells, dtype=object))
    if untouched:
        all_of_them = "is observed as it is" if len(untouched) == 1 else "are observed as they are"
        notes.done.append(f"{', '.join(untouched)} {all_of_them}.")
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
            columns[role], names = raw_columns.codes(column, notes, actions, "names" not in keep)
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
            columns[role] = raw_columns.numbers(column, notes, found.hints[name], most=most)
        if role not in ("action", "time"):
            notes.done.append(f"`{name}` is taken as {role}.")
    return columns, names


def _episodes(column: Column, notes: Notes) -> Array:
    if column.gaps.any():
        notes.problem(f"`{column.name}`, the episode, is missing", column.gaps, "fill it in")
    return column.spread(np.array(_ids(column)))


def _ids(column: Column) -> list[str]:
    """The text of every distinct id; that of a gap is empty."""
    named = [raw_columns.written(one) if isinstance(one, float) else str(one) for one in column.cells]
    return ["" if one is None else name for one, name in zip(column.cells, named, strict=True)]


def _flags(found: Visits, column: Column, notes: Notes) -> Array:
    flags = raw_columns.flags(column, notes)
    early = flags & ~found.last
    if early.any() and "episode" in found.roles:
        remedy = f"leave it out with {option('--drop', column.name)} and say --ends last-row"
        notes.problem(f"`{column.name}` ends an episode, but more of its rows follow", early, remedy)
    return flags


def _reward(found: Visits, column: Column, keep: Sequence[str], notes: Notes) -> Array:
    """A number per row; an outcome of the whole episode stands in its last row and is 0 before."""
    reading = meaning(column.cells, column.weight, found.hints[column.name])
    if not found.worth:
        raw_columns.say_how(column, reading, found.hints[column.name], notes)
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
    """The reward of every distinct cell; NaN for a gap, and for a cell that is a problem."""
    words = [i for i, one in enumerate(column.cells) if one is not None]
    values = reading.values
    if worth:
        values = np.array([np.nan if one is None else worth.get(folded(str(one)), np.nan) for one in column.cells])
    odd = [i for i in words if np.isnan(values[i])]
    if odd:
        spec = ", ".join(f"{column.cells[i]}={worth.get(folded(str(column.cells[i])), '…')}" for i in words[:5])
        remedy = f"say what each word is worth with {option('--reward', f'{column.name}: {spec}')}"
        what = f"`{column.name}`, the reward, must be a number, but holds {raw_columns.shown(column, odd)}"
        notes.problem(what, np.isin(column.codes, odd), remedy)
    return values


def _ending(
    found: Visits, columns: Mapping[str, Array], asked: Mapping[str, Any], later: bool, notes: Notes
) -> dict[str, Array]:
    """The ends of episodes, if no column says them; a `later` table without a reward needs none."""
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


def _say_unnamed(found: Visits, given: Mapping[str, Any], bandit: bool, notes: Notes) -> None:
    """Offer the likely columns of an episode and an action that nobody named; among problems, if there are any."""
    unnamed = {"action"} if bandit else {"episode", "action"}
    unnamed -= {*found.roles, *given}
    if not unnamed:
        return
    readings = [(one, meaning(one.cells, one.weight, found.hints[one.name])) for one in found.free]
    likely: dict[str, list[Column]] = {"episode": [], "action": []}
    for column, reading in readings:
        n_cells, in_words = len(np.unique(column.codes)), reading.kind == "text"
        if in_words and 1 < n_cells <= MOST_CATEGORIES:
            likely["action"].append(column)
        elif (in_words or raw_columns.may_be_ids(reading)) and MOST_CATEGORIES < n_cells <= len(column.codes) / 1.5:
            likely["episode"].append(column)  # its values come back
    group = likely["episode"][0].codes if likely["episode"] and "episode" in unnamed else found.group
    likely["action"] = [column for column in likely["action"] if _varies(column, group)]
    for role in likely:
        if role in unnamed and likely[role]:
            options = " or ".join(option("--column", f"{role}={column.name}") for column in likely[role][:4])
            told = f"No column was recognised as the {role}: if one is, name it, such as with {options}."
            (notes.problems or notes.done).append(told)


def _is_role(name: str) -> bool:
    """Return whether `read` would give a column of this name a role."""
    taken = {alias for aliases in ALIASES.values() for alias in aliases} | {"observation", "obs", "state"}
    return name in taken or name.startswith(("obs_", "next_", "state_", "observation_", "action"))


@dataclass(frozen=True, eq=False)
class Visits:
    """A raw table whose rows stand episode after episode, in the order of time.

    `roles` gives the column of every role, `worth` what each word of an outcome is worth, `group` the episode of every
    row, `clock` how times are written, and `hints` how other columns are written, as far as that is known beforehand.
    """

    raw: Raw
    roles: Mapping[str, str]
    worth: Mapping[str, float]
    hints: Mapping[str, Mapping[str, Any]]
    group: Array
    clock: Mapping[str, Any]

    @property
    def free(self) -> list[Column]:
        """The columns that have no role."""
        return [column for name, column in self.raw.columns.items() if name not in self.roles.values()]

    @property
    def last(self) -> Array:
        """A mask of the rows that are the last of their episode."""
        return np.append(np.diff(self.group) != 0, True)

    @property
    def step(self) -> Array:
        """The number 0, 1, … of every row in its episode."""
        rows = np.arange(len(self.group))
        return rows - np.maximum.accumulate(np.where(np.append(True, self.last[:-1]), rows, 0))

    def take(self, rows: Array, notes: Notes) -> Visits:
        raw = self.raw.take(rows)
        notes.rows = raw.rows
        return replace(self, raw=raw, group=self.group[rows])


def visits(
    raw: Raw, given: Mapping[str, Any], known: Mapping[str, Any], asked: Mapping[str, Any], notes: Notes
) -> Visits:
    """Find the roles, drop copies and sort the rows."""
    roles, worth, named = _roles(raw, given, known, notes)
    commas = {"comma_likely": raw.comma_likely, "commas": raw.has_decimal_commas}
    hints = {name: commas | _hints(name, known, asked) for name in raw.columns}
    group = np.zeros(len(raw.rows), dtype=np.int64)
    if "episode" in roles:
        column = raw.columns[roles["episode"]]
        place = {name: code for code, name in reversed(list(enumerate(_ids(column))))}  # 7 and "7" are one episode
        group = column.spread([place[name] for name in _ids(column)])
    if "time" not in named and asked["bandit"]:
        roles.pop("time", None)
    elif not {"time"} & {*roles, *named} and "episode" in roles and not known:
        roles |= _dates(raw, roles, hints, group, notes)
    found = Visits(raw, roles, worth, hints, group, {})
    if "time" not in roles:
        return found.take(np.argsort(group, kind="stable"), notes)
    times, clock = _times(raw.columns[roles["time"]], {**hints[roles["time"]], **known.get("time", {})}, notes)
    return _sorted(replace(found, clock=clock), times, asked["keep"], notes)


def _roles(
    raw: Raw, given: Mapping[str, Any], known: Mapping[str, Any], notes: Notes
) -> tuple[dict[str, str], dict[str, float], dict[str, Any]]:
    """The column of every role, the worth of every word of an outcome, and the roles that the caller or `like` named.

    A role that nobody named is given to a column with a usual name, except with `like`.
    """
    names = list(raw.columns)
    given = {"time" if role == "step" else role: name for role, name in given.items()}
    unknown = [role for role in given if role not in ROLES]
    notes.problems += [f"`{role}` is not a role of a column: the roles are {', '.join(ROLES)}." for role in unknown]
    wanted = {role: name for role, name in known.get("roles", {}).items() if name in names}
    wanted |= {role: name for role, name in given.items() if role in ROLES}
    worth = dict(known.get("worth", {}))
    if isinstance(given.get("reward"), str):
        wanted["reward"], worth = _outcome(given["reward"], names, notes)
    absent = {role: name for role, name in wanted.items() if name is not None and name not in names}
    for role, name in absent.items():
        notes.problems.append(f"`{role}` names a column {name!r} that is not there{nearest(str(name), names)}")
    roles = {role: name for role, name in wanted.items() if name in names}
    lower = {folded(name): name for name in reversed(names)}  # reversed: of two spellings the first column wins
    for role, aliases in ROLES.items():
        # A column called "a" or "r" in a raw table is rather a measurement than the action or the reward.
        usual = [*(alias for alias in aliases if len(alias) > 1), *GUESSES.get(role, "").split()]
        free = [lower[alias] for alias in usual if alias in lower and lower[alias] not in roles.values()]
        if free and role not in wanted and not known:
            roles[role] = free[0]
    notes.episode_known = "episode" in roles
    if "episode" not in {*roles, *wanted}:
        notes.done.append("No column names the episode: a new one begins after each row that ended.")
    if "reward" not in {*roles, *wanted} and not known:
        notes.problems.append("No column is the reward: say which one is with --column reward=NAME.")
    return roles, worth, wanted


def _outcome(spec: str, names: Sequence[str], notes: Notes) -> tuple[str, dict[str, float]]:
    """The column of an outcome in words, and what each word is worth: "Issue: vivant=1, décédé=0"."""
    name, colon, pairs = spec.partition(":")
    if spec in names or not colon:
        return spec, {}
    worth = {}
    for pair in pairs.split(","):
        word, _, value = pair.rpartition("=")
        try:
            worth[folded(word)] = number(value.strip())
        except ValueError:
            example = option("--reward", "Outcome: alive=1, dead=0")
            notes.problems.append(f"The reward {show(spec)} cannot be read at {show(pair)}: it looks like {example}.")
    return name.strip(), worth


def _hints(name: str, known: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The hints about how a column is written, from the options and from an earlier table."""
    first = {} if asked["dates"] is None else {"day_first": asked["dates"] == "day-first"}
    kind = {"kind": "text"} if name in (asked["text"] or ()) else {}
    return {**first, **kind, **known.get("columns", {}).get(name, {})}


def _dates(raw: Raw, roles: Mapping[str, str], hints: Mapping[str, Any], group: Array, notes: Notes) -> dict[str, str]:
    """The column of dates that orders the rows. A single one that varies within episodes needs no name."""
    free = [column for name, column in raw.columns.items() if name not in roles.values()]
    dated = [column.name for column in free if _differs(column, hints[column.name], group)]
    if len(dated) > 1:
        which = " or ".join(option("--column", f"time={name}") for name in dated)
        notes.problems.append(f"Several columns may say when a row happened: name it with {which}.")
    return {"time": dated[0]} if len(dated) == 1 else {}


def _differs(column: Column, hints: Mapping[str, Any], group: Array) -> bool:
    reading = meaning(column.cells, column.weight, hints)
    return reading.kind == "time" and not reading.bad and _varies(column, group)


def _varies(column: Column, group: Array) -> bool:
    """Say whether a column changes within an episode."""
    order = np.argsort(group, kind="stable")
    return bool(((np.diff(column.codes[order]) != 0) & (np.diff(group[order]) == 0)).any())


def _times(column: Column, hints: Mapping[str, Any], notes: Notes) -> tuple[Array, dict[str, Any]]:
    """The time of every row (NaN if it cannot be read), and how times are written."""
    reading = raw_columns.as_read(column, hints, notes)
    times = column.spread(reading.values)
    notes.done.append(f"`{column.name}` orders the rows of an episode.")
    if reading.kind not in ("time", "number") or (np.isnan(times).any() and not reading.bad):
        notes.problem(f"`{column.name}`, the time, is no number and no date", np.isnan(times), "correct it")
    return times, raw_columns.written_as(reading)


def _sorted(found: Visits, times: Array, keep: Sequence[str], notes: Notes) -> Visits:
    """Drop exact copies and sort the rows by time within each episode, with a note about both."""
    copy = _copies(found.raw)
    if copy.any() and "episode" in found.roles and "duplicates" not in keep:
        notes.done.append(f"Exact copies of other rows, {notes.where(copy)}, were dropped.")
        found, times = found.take(np.flatnonzero(~copy), notes), times[~copy]
    together = np.argsort(found.group, kind="stable")
    if "order" in keep:
        return found.take(together, notes)
    name, order = found.roles["time"], np.lexsort((times, found.group))
    back = together[1:][(np.diff(times[together]) < 0) & (np.diff(found.group[together]) == 0)]
    if len(back):
        late = np.isin(np.arange(len(times)), back)
        notes.done.append(f"Rows out of order {notes.where(late)} were sorted by `{name}`.")
    same = (np.diff(times[order]) == 0) & (np.diff(found.group[order]) == 0)
    if same.any():
        one, other = sorted(found.raw.rows[order[np.argmax(same) :][:2]].tolist())
        notes.problems.append(
            f"`{name}` gives rows {one} and {other} of one episode the same time, and {int(same.sum()):,} rows are "
            "like that: correct them, name a column that tells them apart with --column time=NAME, or leave the order "
            "as it is with --keep order."
        )
    return found.take(order, notes)


def _copies(raw: Raw) -> Array:
    """The rows that are the same as an earlier one in every column."""
    key = np.zeros(len(raw.rows), dtype=np.uint64)
    for column in raw.columns.values():
        key = key * MIX + column.codes.astype(np.uint64) + np.uint64(1)  # wraps around, as a hash may
    copy = np.ones(len(key), dtype=bool)
    copy[np.unique(key, return_index=True)[1]] = False
    return copy
