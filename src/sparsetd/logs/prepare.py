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
from sparsetd.logs.cells import folded, number
from sparsetd.logs.checks import Array, show
from sparsetd.logs.files import METADATA
from sparsetd.logs.messy import Filling, Notes, option
from sparsetd.logs.raw import Column, Raw, raw_table
from sparsetd.logs.reading import read
from sparsetd.logs.rules import nearest
from sparsetd.logs.schema import ALIASES
from sparsetd.logs.transitions import Transitions
from sparsetd.storage.atomic import replace_file

# Names that say what a column is, beside those of `schema.ALIASES`, in the languages of the tables that were met.
GUESSES = {
    "episode": "patient patient_id patientnr patiënt paciente subject_id stay stay_id sejour séjour fall fallnummer "
    "opname user user_id customer session",
    "time": "time date datetime timestamp day hour zeit zeitpunkt datum tijd tijdstip heure fecha hora",
    "action": "treatment decision arm traitement behandlung behandeling tratamiento tratamento terapia",
    "terminated": "discharged ended entlassen ontslagen",
    "reward": "outcome ausgang issue uitkomst desenlace esito desfecho",
}
ROLES = {"time": (), **ALIASES}
KEEP = ("order", "duplicates", "names", "outcome")
MISSING = ("carry", "median", "mark", "refuse")
Ends = Literal["last-row", "cut"]


class MessyLog(ValueError):
    """A raw table that cannot be prepared: `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Prepared:
    """The columns of a log, the names of its actions, in sentences how they were made, and what was learnt."""

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
    """
    _refuse_unknown(missing, keep)
    known = learnt_from(like)
    given: dict[str, Any] = {"ends": ends, "bandit": bandit, "drop": drop, "na": na, "text": text, "dates": dates}
    asked = {name: value or known.get(name) for name, value in given.items()}
    raw = _without_words(raw_table(source), asked["na"] or ())
    notes = Notes(raw.rows, list(raw.said), list(raw.problems))
    dropped = [*(asked["drop"] or ()), *_unknown_to(raw, known, notes)]
    job = _Job(
        replace(raw, columns={n: c for n, c in raw.columns.items() if n not in dropped}), notes, known, asked, keep
    )
    job.find_roles(roles)
    job.order()
    job.fill_with(missing or known.get("missing"))
    made = job.made()
    if notes.problems:
        raise MessyLog(notes.problems)
    return made


def learnt_from(like: Any) -> dict[str, Any]:
    """What `prepare` learnt from an earlier table, out of its result or of the file that it wrote."""
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
    if not gone:
        return raw
    columns = {}
    for name, column in raw.columns.items():
        cells = [None if isinstance(one, str) and folded(one) in gone else one for one in column.cells]
        columns[name] = replace(column, cells=cells)
    return replace(raw, columns=columns)


def _unknown_to(raw: Raw, known: Mapping[str, Any], notes: Notes) -> list[str]:
    """Columns that an earlier table did not have are left out; those that it had must be there."""
    if not known:
        return []
    absent = [name for name in known["columns"] if name not in raw.columns]
    notes.problems += [f"`{name}` is missing, which the earlier table had: add it." for name in absent]
    new = [name for name in raw.columns if name not in known["columns"] and name not in known["roles"].values()]
    notes.done += [f"`{name}` was left out: the earlier table did not have it." for name in new]
    return new


@dataclass
class _Job:
    """A table on its way to a log."""

    raw: Raw
    notes: Notes
    known: Mapping[str, Any]
    asked: Mapping[str, Any]
    keep: Sequence[str]
    found: dict[str, str] = field(default_factory=dict)  # role → column
    worth: dict[str, float] = field(default_factory=dict)  # of every text of an outcome
    clock: dict[str, Any] = field(default_factory=dict)  # how times are written
    timeless: bool = False  # whether the caller said which column is the time, or that none is
    outcome: bool = False  # whether the reward is one of the whole episode, and stands at its end
    group: Array = field(default_factory=lambda: np.zeros(0))
    filling: Filling = field(default_factory=lambda: Filling("mark", np.zeros(0)))

    def column(self, role: str) -> Column:
        return self.raw.columns[self.found[role]]

    def how(self, name: str) -> dict[str, Any]:
        """What is known beforehand of the way in which a column is written."""
        first = {} if self.asked["dates"] is None else {"day_first": self.asked["dates"] == "day-first"}
        kind = {"kind": "text"} if name in (self.asked["text"] or ()) else {}
        return {"comma_likely": self.raw.comma_likely, **first, **kind, **self.known.get("columns", {}).get(name, {})}

    def find_roles(self, given: Mapping[str, str | None]) -> None:
        """Which column has which role: as given, as in an earlier table, or by its usual name."""
        names, problems = list(self.raw.columns), self.notes.problems
        unknown = [role for role in given if role not in ROLES]
        problems += [f"`{role}` is not a role of a column: the roles are {', '.join(ROLES)}." for role in unknown]
        earlier = {role: name for role, name in self.known.get("roles", {}).items() if name in names}
        self.worth = dict(self.known.get("worth", {}))
        wanted = earlier | {role: name for role, name in given.items() if role in ROLES}
        if isinstance(given.get("reward"), str):
            wanted["reward"], self.worth = self._outcome(str(given["reward"]))
        wanted = {"time" if role == "step" else role: name for role, name in wanted.items()}
        for role, name in wanted.items():
            if name in names:
                self.found[role] = name
            elif name is not None:
                problems.append(f"`{role}` names a column {name!r} that is not there{nearest(str(name), names)}")
        self.timeless = "time" in wanted
        lower = {folded(name): name for name in reversed(names)}
        for role, aliases in ROLES.items():
            usual = [*(alias for alias in aliases if len(alias) > 1), *GUESSES.get(role, "").split()]
            free = [lower[a] for a in usual if a in lower and lower[a] not in self.found.values()]
            role = "time" if role == "step" else role
            if role == "time" and self.asked["bandit"]:
                continue
            if role not in {*wanted, *self.found} and free and not self.known:
                self.found[role] = free[0]
        self.notes.episode_known = "episode" in self.found
        if "episode" not in {*self.found, *wanted}:
            self.notes.done.append("No column names the episode: a new one begins after each row that ended.")
        if "reward" not in {*self.found, *wanted} and not self.known:
            problems.append("No column is the reward: say which one is with --column reward=NAME.")

    def _outcome(self, spec: str) -> tuple[str, dict[str, float]]:
        """The column of an outcome in words, and what each word is worth: "Issue: vivant=1, décédé=0"."""
        name, colon, pairs = spec.partition(":")
        if spec in self.raw.columns or not colon:
            return spec, {}
        worth = {}
        for pair in pairs.split(","):
            word, _, value = pair.rpartition("=")
            try:
                worth[folded(word)] = number(value.strip())
            except ValueError:
                self.notes.problems.append(
                    f"The reward {show(spec)} cannot be read at {show(pair.strip())}: it looks like "
                    f"{option('--reward', 'Outcome: alive=1, dead=0')}."
                )
        return name.strip(), worth

    def order(self) -> None:
        """Put the rows of every episode together and in the order of time, without copies."""
        n = len(self.raw.rows)
        self.group = self.column("episode").codes if "episode" in self.found else np.zeros(n, dtype=np.int64)
        times = self._times()
        if times is not None and "episode" in self.found and "duplicates" not in self.keep:
            times = self._drop_copies(times)
        sort = times is not None and "order" not in self.keep
        rank = times if sort and times is not None else np.arange(len(self.raw.rows))
        order = np.lexsort((rank, self.group))
        if sort and times is not None:
            self._say_order(times, order)
        self._take(order)

    def _take(self, rows: Array) -> None:
        self.raw, self.group = self.raw.take(rows), self.group[rows]
        self.notes.rows = self.raw.rows

    def _times(self) -> Array | None:
        """When every row happened; a single column of dates that differ within episodes needs no role."""
        if not self.timeless and "time" not in self.found and "episode" in self.found and not self.known:
            free = [column for name, column in self.raw.columns.items() if name not in self.found.values()]
            dated = [column.name for column in free if self._is_visit(column)]
            if len(dated) > 1:
                which = " or ".join(option("--column", f"time={name}") for name in dated)
                self.notes.problems.append(f"Several columns may say when a row happened: name it with {which}.")
            if len(dated) == 1:
                self.found["time"] = dated[0]
        if "time" not in self.found:
            return None
        column = self.column("time")
        reading = messy.as_read(column, {**self.how(column.name), **self.known.get("time", {})}, self.notes)
        self.clock = messy.written_as(reading)
        values = column.spread(reading.values)
        self.notes.done.append(f"`{column.name}` orders the rows of an episode.")
        if reading.kind not in ("time", "number") or (np.isnan(values).any() and not reading.bad):
            rows = np.isnan(values)
            self.notes.problems.append(
                f"`{column.name}` must hold a number or a date such as 2024-03-05 14:30 in every row; it does not "
                f"{self.notes.where(rows)}."
            )
        return np.nan_to_num(values)

    def _is_visit(self, column: Column) -> bool:
        """Whether a column holds dates that differ within episodes."""
        reading = cells.read(column.cells, column.weight, self.how(column.name))
        if reading.kind != "time" or reading.bad:
            return False
        order = np.argsort(self.group, kind="stable")
        return bool(((np.diff(column.codes[order]) != 0) & (np.diff(self.group[order]) == 0)).any())

    def _drop_copies(self, times: Array) -> Array:
        key = np.zeros(len(times), dtype=np.uint64)
        for column in self.raw.columns.values():
            key = key * np.uint64(0x9E3779B97F4A7C15) + column.codes.astype(np.uint64) + np.uint64(1)
        first = np.unique(key, return_index=True)[1]
        copy = np.ones(len(times), dtype=bool)
        copy[first] = False
        if copy.any():
            self.notes.done.append(f"Exact copies of other rows, {self.notes.where(copy)}, were dropped.")
            self._take(np.flatnonzero(~copy))
        return times[~copy]

    def _say_order(self, times: Array, order: Array) -> None:
        together = np.argsort(self.group, kind="stable")
        back = (np.diff(times[together]) < 0) & (np.diff(self.group[together]) == 0)
        name = self.found["time"]
        if back.any():
            late = np.isin(np.arange(len(times)), together[1:][back])
            self.notes.done.append(f"Rows out of order {self.notes.where(late)} were sorted by `{name}`.")
        same = (np.diff(times[order]) == 0) & (np.diff(self.group[order]) == 0)
        if same.any() and not self.notes.problems:
            first = int(np.argmax(same))
            one, other = sorted(self.raw.rows[order[first : first + 2]].tolist())
            self.notes.problems.append(
                f"`{name}` gives rows {one} and {other} of one episode the same time, and {int(same.sum()):,} rows are "
                "like that: correct them, name a column that tells them apart with --column time=NAME, or leave the "
                "order as it is with --keep order."
            )

    def fill_with(self, missing: str | None) -> None:
        self.filling = Filling(missing or ("carry" if "time" in self.found else "mark"), self.group)

    @property
    def last(self) -> Array:
        """Which rows are the last of their episode."""
        return np.append(np.diff(self.group) != 0, True)[: len(self.group)]

    def made(self) -> Prepared:
        """The log: columns with a role, how episodes end, and what is observed."""
        columns, names = self._named_columns()
        columns |= self._ending(columns)
        self._say_outcome(columns)
        learnt: dict[str, Any] = {}
        join = "names" not in self.keep
        for name, column in self.raw.columns.items():
            if name in self.found.values():
                continue
            made, learnt[name] = messy.observed(column, self.how(name), self.notes, self.filling, join=join)
            columns |= {f"obs_{label}": values for label, values in made.items()}
            if learnt[name].get("kind") == "text" and not _is_role(name):
                columns[name] = column.spread(np.array(column.cells, dtype=object))
        if not any(name.startswith("obs_") for name in columns):
            self.notes.problems.append("No column is left to be observed: each has a role, was left out, or is empty.")
        kept: dict[str, Any] = {name: value for name, value in self.asked.items() if value}
        kept |= {"columns": learnt, "roles": self.found, "worth": self.worth, "time": self.clock}
        kept |= {"missing": self.filling.missing, "action_names": names}
        return Prepared(columns, names, tuple(self.notes.done), json.loads(json.dumps(kept)))

    def _named_columns(self) -> tuple[dict[str, Array], tuple[str, ...] | None]:
        columns: dict[str, Array] = {}
        names = None
        for role, name in self.found.items():
            column = self.raw.columns[name]
            if role == "action":
                earlier = self.known.get("action_names") or ()
                columns[role], names = messy.codes(column, self.notes, earlier, "names" not in self.keep)
                continue
            if role in ("terminated", "truncated"):
                columns[role] = self._flags(column)
            elif role == "episode":
                columns[role] = self._episodes(column)
            elif role == "reward":
                columns[role] = self._reward(column)
            elif role == "time":
                columns["step"] = np.arange(len(self.group)) - np.maximum.accumulate(
                    np.where(np.append(True, self.last[:-1]), np.arange(len(self.group)), 0)
                )
                continue
            else:
                most = 1.0 if role.endswith("_prob") else np.inf
                columns[role] = messy.numbers(column, self.notes, self.how(name), most=most)
            self.notes.done.append(f"`{name}` is taken as {role}.")
        return columns, names

    def _episodes(self, column: Column) -> Array:
        if column.gaps.any():
            self.notes.problems.append(f"`{column.name}`, the episode, is missing {self.notes.where(column.gaps)}.")
        cells = ["" if one is None else one if isinstance(one, str) else _id(one) for one in column.cells]
        return column.spread(np.array(cells))

    def _flags(self, column: Column) -> Array:
        found = messy.flags(column, self.notes)
        early = found & ~self.last
        if early.any() and "episode" in self.found:
            self.notes.problems.append(
                f"`{column.name}` ends an episode {self.notes.where(early)} although more rows of it follow: leave the "
                f"column out with {option('--drop', column.name)} and say --ends last-row."
            )
        return found

    def _reward(self, column: Column) -> Array:
        """A number per row; an outcome that only the end of an episode has is 0 before."""
        reading = cells.read(column.cells, column.weight, self.how(column.name))
        values = column.spread(self._worth(column, reading))
        gaps = column.gaps
        if np.isnan(values[~gaps]).any():
            return np.zeros(len(values))
        once = "episode" in self.found and len(np.unique(self.group)) < len(self.group)
        words = reading.kind in ("text", "flag") or bool(self.worth)
        if once and words and not gaps.any() and self._constant(values) and "outcome" not in self.keep:
            self.outcome = True
            self.notes.done.append(
                f"`{column.name}` is the same in all rows of an episode: it counts once, in the last of them."
            )
            return np.where(self.last, values, 0.0)
        if gaps.any() and once and not (~gaps & ~self.last).any():
            unknown = gaps & self.last
            if unknown.any():
                self.notes.problems.append(
                    f"`{column.name}`, the outcome, is missing at the end of an episode {self.notes.where(unknown)}: "
                    "fill it in, or remove these episodes."
                )
            self.outcome = True
            self.notes.done.append(f"`{column.name}` stands in the last rows of episodes only: it is 0 before.")
            return np.nan_to_num(values)
        if gaps.any():
            self.notes.problems.append(
                f"`{column.name}`, the reward, is missing {self.notes.where(gaps)}: fill it in, or, if it stands at "
                "the end of episodes, name the time of the rows with --column time=NAME."
            )
        return np.nan_to_num(values)

    def _worth(self, column: Column, reading: Any) -> Array:
        """What every distinct cell of the reward is worth; NaN for a gap, and for what is a problem."""
        words = [one for one in column.cells if one is not None]
        if self.worth:
            values = [np.nan if one is None else self.worth.get(folded(str(one)), np.nan) for one in column.cells]
            odd = [one for one in words if folded(str(one)) not in self.worth]
        else:
            values = reading.values
            odd = [column.cells[i] for i in reading.bad] if reading.kind in ("number", "flag") else words
        if odd:
            rows = np.isin(column.codes, [column.cells.index(one) for one in odd])
            spec = ", ".join(f"{one}={self.worth.get(folded(str(one)), '…')}" for one in words[:5])
            self.notes.problems.append(
                f"`{column.name}`, the reward, must be a number, but holds {show(odd[0])} {self.notes.where(rows)}: "
                f"say what each word is worth with {option('--reward', f'{column.name}: {spec}')}."
            )
        return np.asarray(values, dtype=np.float64)

    def _constant(self, values: Array) -> bool:
        return bool((np.diff(values)[~self.last[:-1]] == 0).all())

    def _ending(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """How episodes end, where no column says it."""
        ends, done = self.asked["ends"], self.notes.done
        if self.asked["bandit"]:
            done.append("Every row is a decision of its own: all are marked as ended.")
            return {"terminated": np.ones(len(self.group), dtype=bool)}
        if "terminated" in self.found or "truncated" in self.found or (self.known and "reward" not in columns):
            return {}
        if ends is None and self.outcome:
            done.append("Episodes have an outcome: each ended for good with its last row (if not, say --ends cut).")
            return {"terminated": self.last}
        if ends is None or "episode" not in columns:
            self.notes.problems.append(
                "Nothing says where an episode ended: name a yes/no column with --column terminated=NAME, or name the "
                "episode and say --ends last-row (it really ended there) or --ends cut (recording merely stopped)."
            )
            return {}
        how, role = ("ended for good", "terminated") if ends == "last-row" else ("was cut off", "truncated")
        done.append(f"Every episode {how} with its last row.")
        return {role: self.last}

    def _say_outcome(self, columns: Mapping[str, Array]) -> None:
        reward, ended = columns.get("reward"), columns.get("terminated")
        if reward is None or ended is None or "episode" not in columns or self.last.all():
            return
        if not reward[~self.last].any() and reward.any() and ended[self.last].all():
            self.notes.done.append(
                "Only the last row of an episode has a reward, and every episode ended there: ask with --gamma 1, or "
                "later outcomes count less."
            )


def _id(entry: Any) -> str:
    return messy.written(entry) if isinstance(entry, float) else str(entry)


def _is_role(name: str) -> bool:
    """Whether `read` would take a column of this name for something."""
    taken = {alias for aliases in ROLES.values() for alias in aliases} | {"observation", "obs", "state"}
    return name in taken or name.startswith(("obs_", "next_", "state_", "observation_", "action"))
