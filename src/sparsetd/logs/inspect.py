"""`inspect`: a report in plain words on how a log was understood, what it lacks and what looks wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import into_buckets
from sparsetd.logs.reading import Reading, read_with_notes
from sparsetd.logs.schema import ALIASES, Schema
from sparsetd.logs.suspicions import CHECKS, only_outcomes
from sparsetd.logs.transitions import Transitions

MAX_ROWS = 1_000_000  # enough to see what is wrong, and few enough to be read at once
LOOKED_AT = 32  # columns that sparse rows are folded into


@dataclass(frozen=True)
class Inspection:
    """Hold what `inspect` found out about a log, as sentences.

    `print` it, or take `to_dict()`. `error` is the one sentence that says why the log cannot be read (None if it can);
    then there is nothing else.

    Examples
    --------
    >>> from sparsetd.logs import inspect
    >>> columns = {"episode": ["a", "a", "b"], "obs_x": [1.0, 2.0, 5.0], "reward": [0.0, 1.0, 3.0]}
    >>> columns["terminated"] = [False, True, True]
    >>> found = inspect(columns)
    >>> found.ok, found.n_rows, found.n_episodes
    (True, 3, 2)
    >>> inspect({"obs_x": [1.0]}).ok
    False
    """

    source: str
    understood: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    suspicious: tuple[str, ...] = ()
    error: str | None = None
    n_rows: int = 0
    n_episodes: int = 0
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the log can be read and nothing looks wrong."""
        return self.error is None and not self.suspicious

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.source}\n\nCannot be read\n  {self.error}\n"
        parts = [self.source]
        for title, sentences in (
            ("Understood", self.understood),
            ("Missing", self.missing),
            ("Looks wrong", self.suspicious),
        ):
            lines = [f"  {sentence[0].upper()}{sentence[1:]}" for sentence in sentences] or ["  Nothing."]
            parts.append("\n".join([title, *lines]))
        return "\n\n".join(parts) + "\n"


def inspect(source: Any, *, max_rows: int = MAX_ROWS, **columns: Any) -> Inspection:
    """Read a log (its first `max_rows` rows) and report on it; a log that cannot be read is a finding too.

    Parameters are those of `read`.

    Examples
    --------
    >>> from sparsetd.logs import inspect
    >>> log = {"obs_x": [1.0, 2.0, 2.5], "reward": [0.0, 0.0, 1.0], "terminated": [False, False, True]}
    >>> inspect(log).understood[-1]
    'Only the last row of an episode has a reward, and every episode terminates: ask with --gamma 1.'
    """
    label = str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"
    try:
        reading = read_with_notes(source, max_rows=max_rows, **columns)
    except (ValueError, TypeError, OSError) as error:
        return Inspection(label, error=str(error))
    t = reading.transitions
    with np.errstate(over="ignore", invalid="ignore"):  # the mean of huge numbers overflows, which no check minds
        understood = tuple(_understood(reading))
        found = [*(check(_dense(t)) for check in CHECKS), _skipped_steps(reading), _listed_features(reading)]
    return Inspection(
        label,
        understood=understood,
        missing=tuple(_missing(reading.schema, t)),
        suspicious=tuple(sentence for sentence in found if sentence),
        n_rows=len(t),
        n_episodes=t.n_episodes,
        columns={role: value for role, value in asdict(reading.schema).items() if value},
    )


def _understood(reading: Reading) -> list[str]:
    t, schema = reading.transitions, reading.schema
    length = np.diff(t._bounds())
    out = [
        f"{len(t):,} transitions in {t.n_episodes:,} episodes of {length.min():,} to {length.max():,} rows.",
        _observations(t, schema),
        *_other_roles(schema),
        f"Rewards from {schema.reward!r}: {t.reward.min():.4g} to {t.reward.max():.4g}, mean {t.reward.mean():.4g}.",
        f"{int(t.terminated.sum()):,} rows terminated, {int(t.truncated.sum()):,} truncated.",
    ]
    if only_outcomes(t):
        out.append("Only the last row of an episode has a reward, and every episode terminates: ask with --gamma 1.")
    if t.action is not None:
        out.append(_actions(t))
    if t.ratio is not None or (t.behavior_prob is not None and t.target_prob is not None):
        ratio = t.importance_ratio()
        out.append(f"Importance ratios from {ratio.min():.3g} to {ratio.max():.3g}, mean {ratio.mean():.3g}.")
    if schema.terminated in ("done", "dones"):
        out.append(f"{schema.terminated!r} is taken as terminated; if it includes time limits, log those as truncated.")
    out += reading.said
    if reading.was_sorted:
        inside = " and step" if schema.step else "; in it, they keep their order"
        out.append(f"The rows were sorted by episode{inside}.")
    if reading.dropped:
        bias = (
            f", so that ends seem {reading.dropped / len(t):.1%} more frequent than they are"
            if t.terminated.any()
            else ""
        )
        rows = f"{reading.dropped:,} rows without a known successor (the last of their episodes)"
        out.append(f"{rows} were left out{bias}; next_* columns would keep them.")
    if not reading.complete:
        out.append(f"Only the first {reading.n_source_rows:,} rows were looked at.")
    if schema.ignored:
        out.append(f"Ignored: {_columns(schema.ignored)}.")
    return out


def _observations(t: Transitions, schema: Schema) -> str:
    rows: Any = t.observation
    if not sp.issparse(rows):
        return f"Observations of {rows.shape[1]} numbers from {_columns(schema.observation)}."
    return f"Sparse observations of {rows.nnz / len(t):.3g} features a row, numbered 0 to {rows.shape[1] - 1:,}."


def _dense(t: Transitions) -> Transitions:
    """The log with dense columns, as the suspicions want them; sparse features are folded into a few."""
    if not sp.issparse(t.observation):
        return t
    s, after = (into_buckets(rows, LOOKED_AT).toarray() for rows in (t.observation, t.next_observation))
    return replace(t, observation=s, next_observation=after)


def _other_roles(schema: Schema) -> list[str]:
    """One line with the columns that no other line names."""
    named = {role: getattr(schema, role) for role in ALIASES if role != "reward" and getattr(schema, role)}
    columns = {role: _columns((name,) if isinstance(name, str) else name) for role, name in named.items()}
    told = [name if name == repr(role) else f"{name} as {role}" for role, name in columns.items()]
    return [f"Other columns: {', '.join(told)}."] if told else []


def _actions(t: Transitions) -> str:
    assert t.action is not None
    if t.action.ndim > 1:
        return f"Actions of {t.action.shape[1]} numbers."
    taken = np.unique(t.action)
    named = "" if t.action_names is None else f" ({_columns(t.action_names)})"
    return f"{len(taken)} discrete actions, {taken[0]} to {taken[-1]}{named}."


def _missing(schema: Schema, t: Transitions) -> list[str]:
    out = []
    if not schema.has_successors:
        out.append("Next observations: the next row of the same episode is used.")
    if not schema.action:
        out.append("Actions: only the value of states can be learned, and only for the policy that was logged.")
    if schema.terminated is None:
        out.append("`terminated`: no row is taken as terminal, so every row counts on a future.")
    if schema.truncated is None and not t.truncated.any():
        out.append("`truncated`: no row is taken as cut off.")
    if schema.episode is None:
        out.append("`episode`: a new episode begins after each row that ended one.")
    if schema.ratio is None and schema.behavior_prob is None:
        out.append(
            "`behavior_prob`, the probability of the logged action: to evaluate another policy, it is estimated from "
            "the actions."
        )
    elif schema.ratio is None and schema.target_prob is None:
        out.append("`target_prob`: the target policy must be given, or the logged policy itself is evaluated.")
    return out


def _listed_features(reading: Reading) -> str | None:
    """Lists of whole numbers that look like indices of features rather than observations."""
    s, names = reading.transitions.observation, reading.schema.observation
    if sp.issparse(s) or len(names) != 1 or s.shape[1] < 2 or s.dtype.kind != "i" or s.min() < 0:
        return None
    if s.max() < 4 * s.shape[1]:
        return None
    return (
        f"{names[0]!r} holds lists of whole numbers up to {s.max():,}, which are taken as {s.shape[1]} measurements: "
        f"if they number the features that are present, name them with --column indices={names[0]}."
    )


def _skipped_steps(reading: Reading) -> str | None:
    """Steps that jump while almost all others advance by the same amount."""
    t, step = reading.transitions, reading.step
    if step is None or reading.schema.has_successors:
        return None
    inside = np.flatnonzero(~t.start[1:])
    advance = np.diff(step)[inside]
    if len(advance) < 10:
        return None
    values, counts = np.unique(advance, return_counts=True)
    usual = values[np.argmax(counts)]
    jumps = advance != usual
    if not jumps.any() or jumps.mean() > 0.1:
        return None
    by = f"{usual:g}" if usual.dtype.kind != "m" else f"{usual / np.timedelta64(1, 's'):g} seconds"
    return (
        f"{int(jumps.sum())} rows do not follow the step before them by {by} (first row {inside[jumps][0] + 1}): "
        "rows may be missing, and the row after a gap is taken as the successor of the row before it."
    )


def _columns(names: tuple[str, ...]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
