"""Which column of a raw table is what, and in which order its rows happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.logs import cells, messy
from sparsetd.logs.cells import folded, number
from sparsetd.logs.checks import Array, show
from sparsetd.logs.messy import Notes, option
from sparsetd.logs.raw import Column, Raw
from sparsetd.logs.schema import ALIASES, nearest

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


@dataclass(frozen=True, eq=False)
class Visits:
    """A raw table whose rows stand episode after episode, in the order of time.

    `roles` gives the column of every role, `worth` what each word of an outcome is worth, `group` the episode of every
    row, `clock` how times are written, and `hints` what is known of the way in which columns are written.
    """

    raw: Raw
    roles: Mapping[str, str]
    worth: Mapping[str, float]
    hints: Mapping[str, Mapping[str, Any]]
    group: Array
    clock: Mapping[str, Any]

    @property
    def last(self) -> Array:
        """Which rows are the last of their episode."""
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
    hints = {name: _hints(name, raw, known, asked) for name in raw.columns}
    group = raw.columns[roles["episode"]].codes if "episode" in roles else np.zeros(len(raw.rows), dtype=np.int64)
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
    """Which column has which role: as given, as in an earlier table, or by its usual name; the first two again."""
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
    lower = {folded(name): name for name in reversed(names)}
    for role, aliases in ROLES.items():
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


def _hints(name: str, raw: Raw, known: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known beforehand of the way in which a column is written."""
    first = {} if asked["dates"] is None else {"day_first": asked["dates"] == "day-first"}
    kind = {"kind": "text"} if name in (asked["text"] or ()) else {}
    return {"comma_likely": raw.comma_likely, **first, **kind, **known.get("columns", {}).get(name, {})}


def _dates(raw: Raw, roles: Mapping[str, str], hints: Mapping[str, Any], group: Array, notes: Notes) -> dict[str, str]:
    """The one column of dates that differ within episodes needs no role; of several, one must be named."""
    free = [column for name, column in raw.columns.items() if name not in roles.values()]
    dated = [column.name for column in free if _differs(column, hints[column.name], group)]
    if len(dated) > 1:
        which = " or ".join(option("--column", f"time={name}") for name in dated)
        notes.problems.append(f"Several columns may say when a row happened: name it with {which}.")
    return {"time": dated[0]} if len(dated) == 1 else {}


def _differs(column: Column, hints: Mapping[str, Any], group: Array) -> bool:
    reading = cells.read(column.cells, column.weight, hints)
    order = np.argsort(group, kind="stable")
    within = (np.diff(column.codes[order]) != 0) & (np.diff(group[order]) == 0)
    return reading.kind == "time" and not reading.bad and bool(within.any())


def _times(column: Column, hints: Mapping[str, Any], notes: Notes) -> tuple[Array, dict[str, Any]]:
    """Return when every row happened, NaN where that is a problem, and how times are written."""
    reading = messy.as_read(column, hints, notes)
    times = column.spread(reading.values)
    notes.done.append(f"`{column.name}` orders the rows of an episode.")
    if reading.kind not in ("time", "number") or (np.isnan(times).any() and not reading.bad):
        notes.problem(f"`{column.name}`, the time, is no number and no date", np.isnan(times), "correct it")
    return times, messy.written_as(reading)


def _sorted(found: Visits, times: Array, keep: Sequence[str], notes: Notes) -> Visits:
    """The rows without exact copies, in the order of time within each episode; both are said."""
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
        key = key * MIX + column.codes.astype(np.uint64) + np.uint64(1)
    copy = np.ones(len(key), dtype=bool)
    copy[np.unique(key, return_index=True)[1]] = False
    return copy
