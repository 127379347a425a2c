"""`prepare`: a raw table, as hospitals and shops export it, becomes a log in one go.

Text actions and categories keep their names, yes and no become flags, dates become an order, gaps are filled. Every
problem of the file is found in one run, and every decision that was made is written down in a sentence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsetd.logs import messy
from sparsetd.logs.arrow import METADATA, require_pyarrow
from sparsetd.logs.checks import Array
from sparsetd.logs.messy import Notes
from sparsetd.logs.readers import read
from sparsetd.logs.schema import ALIASES, check_names
from sparsetd.logs.sources import chunks
from sparsetd.logs.text import csv_chunks
from sparsetd.logs.transitions import Transitions
from sparsetd.storage.atomic import replace_file

GUESSES = {
    "episode": ("patient", "patient_id", "subject_id", "stay", "stay_id", "user", "user_id", "customer", "session"),
    "step": ("time", "date", "datetime", "timestamp", "day", "hour"),
    "action": ("treatment", "decision", "arm"),
    "terminated": ("discharged", "ended"),
    "reward": ("outcome",),
}
Ends = Literal["last-row", "cut"]


class MessyLog(ValueError):
    """A raw table that cannot be prepared: `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Prepared:
    """The columns of a log, the names of its actions, and in sentences how they were made."""

    columns: Mapping[str, Array]
    action_names: tuple[str, ...] | None
    notes: tuple[str, ...]

    @property
    def transitions(self) -> Transitions:
        return replace(read(self.columns), action_names=self.action_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file that carries the names of the actions and the notes in its metadata."""
        pa = require_pyarrow()
        import pyarrow.parquet as pq

        known = json.dumps({"action_names": self.action_names, "notes": self.notes}, ensure_ascii=False)
        table = pa.table(dict(self.columns)).replace_schema_metadata({METADATA: known.encode()})
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer)
        replace_file(path, buffer.getvalue().to_pybytes())

    def __str__(self) -> str:
        return "\n".join(self.notes)


def prepare(
    source: Any,
    *,
    missing: Literal["fill", "refuse"] = "fill",
    ends: Ends | None = None,
    bandit: bool = False,
    drop: Sequence[str] = (),
    **roles: str,
) -> Prepared:
    """Turn a raw table into the columns of a log.

    Parameters
    ----------
    source : path, frame or mapping
        One row per decision. CSV, Parquet and the other forms of `read`.
    missing : "fill" or "refuse"
        Fill gaps in observed columns with the median and mark them in a column of their own, or list them as problems.
    ends : "last-row", "cut" or None
        Where no column says how an episode ended: it really ended with its last row, or recording merely stopped there.
    bandit : bool
        Every row is a decision of its own, with nothing after it.
    drop : sequence of str
        Columns to leave out.
    **roles
        Columns by role, ``episode="patient"``. Whatever has no role is observed.

    Raises
    ------
    MessyLog
        With every problem that was found, not only the first.
    """
    raw, notes = _raw(source), Notes()
    found = _roles([name for name in raw if name not in drop], roles, notes)
    n = len(next(iter(raw.values())))
    columns, names = _named_columns(raw, found, notes)
    columns |= _ending(found, columns, n, ends, bandit, notes)
    for name in raw:
        if name not in found.values() and name not in drop:
            made = messy.observed(name, raw[name], notes, impute=missing == "fill")
            columns |= {f"obs_{label}": values for label, values in made.items()}
    if not any(name.startswith("obs_") for name in columns):
        notes.problems.append("No column is left to be observed: every one has a role, was left out, or is empty.")
    if notes.problems:
        raise MessyLog(notes.problems)
    return Prepared(columns, names, tuple(notes.done))


def _raw(source: Any) -> dict[str, list[Any]]:
    """All rows, column by column; the text of a CSV file as it stands, because "none" may be a treatment."""
    is_csv = isinstance(source, (str, Path)) and Path(source).suffix.lower() in (".csv", ".tsv")
    parts = csv_chunks(Path(source), 65_536, np.array) if is_csv and Path(source).is_file() else chunks(source)
    raw: dict[str, list[Any]] = {}
    for part in parts:
        for name in part:
            values = part[name].astype("datetime64[us]") if part[name].dtype.kind == "M" else part[name]
            raw.setdefault(name, []).extend(messy.cells(values.tolist()))
    check_names(list(raw))
    return raw


def _roles(names: list[str], given: Mapping[str, str], notes: Notes) -> dict[str, str]:
    """Which column has which role: as given, or by its usual name."""
    unknown = [role for role in given if role not in ALIASES]
    notes.problems += [f"`{role}` is not a role of a column: the roles are {', '.join(ALIASES)}." for role in unknown]
    absent = {role: name for role, name in given.items() if name not in names}
    notes.problems += [f"`{role}` names a column {name!r} that is not there." for role, name in absent.items()]
    found = {role: name for role, name in given.items() if role in ALIASES and role not in absent}
    lower = {name.lower(): name for name in names}
    for role, aliases in ALIASES.items():
        usual = [lower[alias] for alias in (*aliases, *GUESSES.get(role, ())) if len(alias) > 1 and alias in lower]
        free = [name for name in usual if name not in found.values()]
        if role not in given and free:
            found[role] = free[0]
    if "episode" not in {*found, *absent}:
        notes.done.append("No column names the episode: a new one begins after each row that ended.")
    if "reward" not in {*found, *absent}:
        notes.problems.append("No column is the reward: say which one is with --column reward=NAME.")
    return found


def _named_columns(
    raw: Mapping[str, list[Any]], found: Mapping[str, str], notes: Notes
) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """The columns that have a role, and the names of the actions."""
    columns: dict[str, Array] = {}
    names = None
    for role, name in found.items():
        entries = raw[name]
        if role == "action":
            columns[role], names = messy.codes(name, entries, notes)
        elif role in ("terminated", "truncated"):
            columns[role] = messy.flags(name, entries, notes)
        elif role == "episode":
            columns[role] = _episodes(name, entries, notes)
        elif role != "step":
            columns[role] = messy.numbers(name, entries, notes, most=1.0 if role.endswith("_prob") else np.inf)
        if role not in ("action", "step"):
            notes.done.append(f"`{name}` is taken as {role}.")
    if "step" in found:
        columns["step"] = _steps(found["step"], raw[found["step"]], columns.get("episode"), notes)
    return columns, names


def _episodes(name: str, entries: list[Any], notes: Notes) -> Array:
    gaps = [row for row, entry in enumerate(entries) if entry is None]
    if gaps:
        notes.problems.append(f"`{name}`, the episode, is missing in {len(gaps):,} rows (first row {gaps[0]}).")
    return np.array(["" if entry is None else str(entry) for entry in entries])


def _steps(name: str, entries: list[Any], episode: Array | None, notes: Notes) -> Array:
    """0, 1, … in the order of time within each episode: dates need no unit that way."""
    times = messy.as_times(entries)
    if times is None or np.isnan(times).any():
        notes.problems.append(f"`{name}` must hold a number or a date such as 2024-03-05 14:30 in every row.")
        return np.zeros(len(entries))
    group = np.zeros(len(times), dtype=np.int64) if episode is None else np.unique(episode, return_inverse=True)[1]
    order = np.lexsort((times, group))
    same = (np.diff(times[order]) == 0) & (np.diff(group[order]) == 0)
    if same.any():
        first, second = sorted(int(row) for row in order[int(np.argmax(same)) :][:2])
        notes.problems.append(
            f"`{name}` gives rows {first} and {second} of one episode the same time, and {int(same.sum()):,} rows are "
            "like that: remove duplicates, or name a column that tells them apart."
        )
    begins = np.flatnonzero(np.append(True, np.diff(group[order]) != 0))
    step = np.empty(len(times), dtype=np.int64)
    step[order] = np.arange(len(times)) - np.repeat(begins, np.diff(np.append(begins, len(times))))
    notes.done.append(f"`{name}` orders the rows of an episode.")
    return step


def _ending(
    found: Mapping[str, str], columns: Mapping[str, Array], n: int, ends: Ends | None, bandit: bool, notes: Notes
) -> dict[str, Array]:
    """How episodes end, where no column says it."""
    if bandit:
        notes.done.append("Every row is a decision of its own: all are marked as ended.")
        return {"terminated": np.ones(n, dtype=bool)}
    if "terminated" in found or "truncated" in found:
        return {}
    if ends is None or "episode" not in columns:
        notes.problems.append(
            "Nothing says where an episode ended: name a yes/no column with --column terminated=NAME, or name the "
            "episode and say --ends last-row (it really ended there) or --ends cut (recording merely stopped)."
        )
        return {}
    group = np.unique(columns["episode"], return_inverse=True)[1]
    step = columns.get("step", np.arange(n))
    order = np.lexsort((step, group))
    last = np.zeros(n, dtype=bool)
    last[order[np.append(np.diff(group[order]) != 0, True)]] = True
    how, role = ("ended for good", "terminated") if ends == "last-row" else ("was cut off", "truncated")
    notes.done.append(f"Every episode {how} with its last row.")
    return {role: last}
