"""`inspect`: a report in plain words on how a log was understood, what it lacks and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import into_buckets
from sparsetd.logs.reading import Reading, read_with_notes
from sparsetd.logs.schema import ALIASES, Schema, listed
from sparsetd.logs.suspicions import Facts, only_outcomes, sentence, suspected
from sparsetd.logs.transitions import Transitions

MAX_ROWS = 1_000_000  # enough to see what is wrong, and few enough to be read at once
TOLD = 5  # names of columns in a sentence
LOOKED_AT = 32  # columns that sparse rows are folded into


@dataclass(frozen=True)
class Inspection:
    """Hold what `inspect` found out about a log, as sentences.

    `print` it, or take `to_dict()`. If the log cannot be read, `error` says why in one sentence, and all else is empty;
    otherwise `error` is None.

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
        titles = {"Understood": self.understood, "Missing": self.missing, "Looks wrong": self.suspicious}
        for title, sentences in titles.items():
            lines = [f"  {sentence[0].upper()}{sentence[1:]}" for sentence in sentences] or ["  Nothing."]
            parts.append("\n".join([title, *lines]))
        return "\n\n".join(parts) + "\n"


def inspect(source: Any, *, max_rows: int = MAX_ROWS, **columns: Any) -> Inspection:
    """Report how a log is understood, what it lacks and what looks wrong, before you ask it anything.

    The first `max_rows` rows are read. A log that cannot be read is a finding too. The other parameters are those of
    `read`.

    Examples
    --------
    >>> from sparsetd.logs import inspect
    >>> log = {"obs_x": [1.0, 2.0, 2.5], "reward": [0.0, 0.0, 1.0], "terminated": [False, False, True]}
    >>> inspect(log).understood[-1].partition(", or")[0]
    'Only the last row of an episode has a reward, and every episode ended there: ask with --gamma 1'
    """
    label = str(source) if isinstance(source, (str, Path)) else f"a {type(source).__name__}"
    try:
        reading = read_with_notes(source, max_rows=max_rows, **columns)
    except (ValueError, TypeError, OSError) as error:
        return Inspection(label, error=str(error))
    t = reading.transitions
    looked = t
    if sp.issparse(t.observation):  # the checks want dense columns, so sparse features are folded into a few
        s, after = (into_buckets(rows, LOOKED_AT).toarray() for rows in (t.observation, t.next_observation))
        looked = replace(t, observation=s, next_observation=after)
    with np.errstate(over="ignore", invalid="ignore"):  # the mean of huge numbers overflows
        understood = tuple(_understood(reading))
    found = {**suspected(looked), **suspected(reading, (skipped_steps, listed_features))}
    return Inspection(
        label,
        understood=understood,
        missing=_missing(reading.schema, t),
        suspicious=tuple(found.values()),
        n_rows=len(t),
        n_episodes=t.n_episodes,
        columns={role: value for role, value in asdict(reading.schema).items() if value},
    )


def _understood(reading: Reading) -> Iterator[str]:
    t, schema = reading.transitions, reading.schema
    length, s = np.diff(t._bounds()), cast(Any, t.observation)
    yield f"{len(t):,} transitions in {t.n_episodes:,} episodes of {length.min():,} to {length.max():,} rows."
    if sp.issparse(s):
        yield f"Sparse observations of {s.nnz / len(t):.3g} features a row, numbered 0 to {s.shape[1] - 1:,}."
    else:
        yield f"Observations of {s.shape[1]} numbers from {listed(schema.observation, TOLD)}."
    named = {role: getattr(schema, role) for role in ALIASES if role != "reward" and getattr(schema, role)}
    columns = {role: listed((name,) if isinstance(name, str) else name, TOLD) for role, name in named.items()}
    if told := ", ".join(name if name == repr(role) else f"{name} as {role}" for role, name in columns.items()):
        yield f"Other columns: {told}."
    yield f"Rewards from {schema.reward!r}: {t.reward.min():.4g} to {t.reward.max():.4g}, mean {t.reward.mean():.4g}."
    ended, cut = int(t.terminated.sum()), int(t.truncated.sum())
    yield f"{ended:,} rows terminated (their episode ended for good), {cut:,} truncated (it was cut off there)."
    if only_outcomes(t.reward, t.terminated, t.start):
        yield sentence("rewards_at_ends", {})
    if t.action is not None and t.action.ndim > 1:
        yield f"Actions of {t.action.shape[1]} numbers."
    elif t.action is not None:
        taken = np.unique(t.action)
        names = "" if t.action_names is None else f" ({listed(t.action_names, TOLD)})"
        yield f"{len(taken)} different actions, {taken[0]} to {taken[-1]}{names}."
    if t.ratio is not None or (t.behavior_prob is not None and t.target_prob is not None):
        ratio = t.importance_ratio()
        span = f"from {ratio.min():.3g} to {ratio.max():.3g}, mean {ratio.mean():.3g}"
        yield f"Importance ratios (how much likelier the target policy takes the logged action) {span}."
    if schema.terminated in ("done", "dones"):
        yield f"{schema.terminated!r} is taken as terminated; if it includes time limits, log those as truncated."
    yield from dict.fromkeys(reading.said)  # parts of one log may say the same
    if reading.was_sorted:
        inside = " and step" if schema.step else "; within an episode they keep their order"
        yield f"The rows were sorted by episode{inside}."
    if reading.dropped:
        excess = f", so that ends seem {reading.dropped / len(t):.1%} more frequent than they are"
        rows = f"{reading.dropped:,} rows without a known successor (the last of their episodes)"
        yield f"{rows} were left out{excess if t.terminated.any() else ''}; next_* columns would keep them."
    if not reading.complete:
        yield f"Only the first {reading.n_source_rows:,} rows were looked at."
    schema = schema.keeping_texts()
    if schema.kept:
        yield f"Observed as 0 and 1, and kept as text to ask about groups (--by): {listed(schema.kept, TOLD)}."
    if schema.ignored:
        yield f"Ignored: {listed(schema.ignored, TOLD)}."


def _missing(schema: Schema, t: Transitions) -> tuple[str, ...]:
    has_ratio, has_mu = schema.ratio is not None, schema.behavior_prob is not None
    absent = {
        "no_successors": not schema.has_successors,
        "no_action": not schema.action,
        "no_terminated": schema.terminated is None,
        "no_truncated": schema.truncated is None and not t.truncated.any(),
        "no_episode": schema.episode is None,
        "no_behavior_prob": not has_ratio and not has_mu,
        "no_target_prob": not has_ratio and has_mu and schema.target_prob is None,
    }
    return tuple(sentence(name, {}) for name, is_absent in absent.items() if is_absent)


def listed_features(reading: Reading) -> Facts:
    """Lists of whole numbers that look like indices of features rather than observations."""
    s, names = reading.transitions.observation, reading.schema.observation
    is_list = not sp.issparse(s) and len(names) == 1 and s.shape[1] > 1 and s.dtype.kind == "i"
    if not is_list or s.min() < 0 or s.max() < 4 * s.shape[1]:
        return None
    return {"name": names[0], "greatest": s.max(), "width": s.shape[1]}


def skipped_steps(reading: Reading) -> Facts:
    """Steps that jump while almost all others advance by the same amount."""
    t, step = reading.transitions, reading.step
    inside = np.flatnonzero(~t.start[1:])
    if step is None or reading.schema.has_successors or len(inside) < 10:
        return None
    advance = np.diff(step)[inside]
    values, counts = np.unique(advance, return_counts=True)
    usual = values[np.argmax(counts)]
    jumps = advance != usual
    if not jumps.any() or jumps.mean() > 0.1:
        return None
    by = f"{usual:g}" if usual.dtype.kind != "m" else f"{usual / np.timedelta64(1, 's'):g} seconds"
    return {"count": jumps.sum(), "by": by, "first": inside[jumps][0] + 1}
