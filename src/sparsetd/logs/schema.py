"""The schema of a log: which column has which role, and how the roles are found from the usual names.

observation      `obs_*` columns, or columns named by the caller, or one list column `observation`
next observation `next_obs_*` (or `next_` + the observation's name); absent: the next row of the same episode
indices, values  in place of these, sparse rows: lists of the features that are not 0, and of their values (absent: 1)
next_indices, …  the successor of a sparse row (`next_indices`, `next_values`); absent: the next row of the same episode
action           integers 0, 1, … (or `action_0`, `action_1`, … for several numbers)
reward           what the transition paid; the only column besides the observation that must be there
terminated       the episode ended here for good: nothing follows, the successor's value is 0
truncated        the episode was cut off here (time limit): the successor still has a value
episode, step    which episode, and the order in it; absent: the file's order
behavior_prob    probability of the logged action under the policy that chose it
target_prob      its probability under the policy to be evaluated
ratio            target_prob / behavior_prob, instead of the two
group            the group of the row (an age group, a hospital), to ask about groups; only where the caller names it

Sparse rows have `n_features` columns (by default as many as the largest index needs), or `buckets` columns, into which
the features are folded.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from sparsetd.logs.checks import Array, show

ALIASES: dict[str, tuple[str, ...]] = {
    "reward": ("reward", "rewards", "r"),
    "action": ("action", "actions", "a"),
    "terminated": ("terminated", "terminal", "terminals", "terminations", "done", "dones"),
    "truncated": ("truncated", "truncations", "timeout", "timeouts"),
    "episode": ("episode", "episode_id", "trajectory", "trajectory_id"),
    "step": ("step", "timestep", "time_step", "t"),
    "behavior_prob": ("behavior_prob", "behaviour_prob", "propensity", "propensity_score", "pscore", "action_prob"),
    "target_prob": ("target_prob",),
    "ratio": ("ratio", "importance_ratio", "importance_weight"),
    "group": (),
}
WHOLE = tuple((name, f"next_{name}") for name in ("observation", "observations", "obs", "state"))
BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=[^\W\d])")
PREFIXES = ("obs_", "observation_", "state_")
SPARSE = ("indices", "values", "next_indices", "next_values")
SIZES = ("n_features", "buckets")  # these name no column: they say how many columns sparse rows have
WIDEST = 2**26  # columns of sparse rows: every model of them holds some numbers for each
MAX_COLUMNS = 100_000
LONGEST_NAME = 1000


@dataclass(frozen=True)
class Schema:
    """Say which column of a log has which role; an empty tuple or None means that the log has none.

    Examples
    --------
    >>> from sparsetd.logs import infer_schema
    >>> schema = infer_schema(["episode", "obs_age", "obs_HR", "action", "reward", "done"])
    >>> schema.observation
    ('obs_age', 'obs_HR')
    >>> schema.terminated, schema.step
    ('done', None)
    """

    observation: tuple[str, ...]
    reward: str | None
    next_observation: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    terminated: str | None = None
    truncated: str | None = None
    episode: str | None = None
    step: str | None = None
    behavior_prob: str | None = None
    target_prob: str | None = None
    ratio: str | None = None
    group: str | None = None
    indices: str | None = None
    values: str | None = None
    next_indices: str | None = None
    next_values: str | None = None
    n_features: int | None = None
    buckets: int | None = None
    kept: tuple[str, ...] = ()
    ignored: tuple[str, ...] = field(default=(), compare=False)

    def used(self) -> tuple[str, ...]:
        """Every column that is read, each named once."""
        roles = [getattr(self, f.name) for f in fields(self) if f.name not in ("ignored", *SIZES)]
        return tuple(_names_in(roles))

    def texts(self) -> tuple[str, ...]:
        """The columns of ids, which are read as text: 7 and 07 are two patients."""
        return (*(name for name in (self.episode, self.group) if name is not None), *self.kept)

    def keeping_texts(self) -> Schema:
        """The schema with `kept`: texts that `prepare` keeps beside their columns of 0 and 1, to ask about groups."""
        observed = {name[: at.start()] for name in self.observation for at in re.finditer(": ", name)}
        kept = tuple(name for name in self.ignored if f"obs_{name}" in observed)  # obs_ward: icu is made of ward
        return replace(self, kept=kept, ignored=tuple(name for name in self.ignored if name not in kept))

    @property
    def observed(self) -> str:
        """The first column of the observation."""
        return self.observation[0] if self.indices is None else self.indices

    @property
    def has_successors(self) -> bool:
        """Whether the log has columns of successors."""
        return bool(self.next_observation) or self.next_indices is not None

    def labels(self) -> tuple[str, ...]:
        """Names for the numbers of the observation: those of the columns, without a prefix if a word follows it."""
        return tuple(map(label, self.observation))

    def names(self, width: int) -> tuple[str, ...] | None:
        """The labels of `width` columns, or full names if labels clash; None if a column holds several numbers."""
        if len(self.observation) != width:
            return None
        return self.observation if width == 1 or len(set(self.labels())) < width else self.labels()


def infer_schema(columns: Iterable[str], **given: Any) -> Schema:
    """Find the roles of columns from their names; `given` names columns by role and overrules what the names suggest.

    `observation` and `next_observation` may be one name or several; `None` says that the log has no such column.

    Examples
    --------
    >>> from sparsetd.logs import infer_schema
    >>> schema = infer_schema(["obs_age", "obs_HR", "dose", "score"], action="dose", reward="score")
    >>> schema.observation, schema.action, schema.reward
    (('obs_age', 'obs_HR'), ('dose',), 'score')
    """
    names = list(columns)
    check_names(names)
    sizes = {name: given.pop(name) for name in SIZES if name in given}
    for name, value in sizes.items():
        if value is not None and not (isinstance(value, int) and 1 <= value <= WIDEST):
            raise ValueError(f"`{name}` must be a number of columns from 1 to {WIDEST:,}, not {show(value)}.")
    unknown = set(given) - set(ALIASES) - {"observation", "next_observation", *SPARSE}
    if unknown:
        known = ["observation", *ALIASES, *SPARSE]
        raise TypeError(f"`{min(unknown)}` is not a role of a column{nearest(min(unknown), known)}")
    roles = _sparse(given, names) or _dense(given, names)
    taken = _names_in(roles.values())
    free = [name for name in names if name not in taken]
    for role, aliases in ALIASES.items():
        inferred = next((alias for alias in aliases if alias in free), None)
        roles[role] = _one(role, given[role], names) if role in given and role != "action" else inferred
    numbered = tuple(name for name in free if re.fullmatch(r"actions?_\d+", name))
    inferred_actions = numbered if roles["action"] is None else (roles["action"],)
    roles["action"] = _named("action", given["action"], names) if "action" in given else inferred_actions
    if roles["reward"] is None and "reward" not in given:
        raise ValueError(f"`reward` is missing: say which column it is {_by_role('reward')}{nearest('reward', free)}")
    used = _names_in(roles.values())
    return Schema(**roles, **sizes, ignored=tuple(name for name in names if name not in used))


def _names_in(roles: Iterable[Any]) -> dict[str, None]:
    """List every column that has a role once; a role may have one column, several or none."""
    several = [[value] if isinstance(value, str) else value or () for value in roles]
    return dict.fromkeys(name for names in several for name in names)


def _sparse(given: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The roles of lists of indices and values, where the caller names them or nothing else can be the observation."""
    dense = given.get("observation") or any(whole in names for whole, _ in WHOLE)
    dense = dense or any(name.startswith(PREFIXES) for name in names)
    if given.get("indices") is None and (dense or "indices" not in names or "indices" in given):
        return {}
    if given.get("observation"):
        raise ValueError("`indices` and `observation` are two ways to give the observation: name one of them.")
    roles = {role: _one(role, given.get(role, role if role in names else None), names) for role in SPARSE}
    return {"observation": (), **roles}


def _dense(given: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The roles of columns that are observed one by one."""
    observation = _observation(given.get("observation") or None, names)
    return {"observation": observation, "next_observation": _next_observation(given, observation, names)}


def check_names(names: Sequence[str]) -> None:
    """Refuse columns without a name, and two of the same name."""
    if not names:
        raise ValueError("The source has no columns: pass at least an observation and a reward.")
    if len(names) > MAX_COLUMNS:
        many = f"{len(names):,} columns, more than {MAX_COLUMNS:,}"
        raise ValueError(f"The source has {many}: use one list column instead.")
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"Column {i} has no name ({name!r}): give every column a name.")
        half = any("\ud800" <= letter <= "\udfff" for letter in name)  # JSON can spell half a character
        if name.splitlines() != [name] or len(name) > LONGEST_NAME or half:
            raise ValueError(f"Column {i} has a name that is not one short line of text ({show(name)}): rename it.")
        if name in seen:
            raise ValueError(f"`{name}` names two columns (the second is column {i}): rename one of them.")
        seen.add(name)


def _named(role: str, given: Any, names: list[str]) -> tuple[str, ...]:
    """The columns that a caller names for a role: one, several, or none."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    named = tuple(given) if several else () if given is None else (given,)
    known = set(names)
    for name in named:
        if not isinstance(name, str):
            raise ValueError(f"`{role}` must name columns by text, not by {name!r:.80}: give their names.")
        if name not in known:
            raise ValueError(f"`{role}` names a column {name!r} that is not there{nearest(name, names)}")
    return named


def _one(role: str, given: Any, names: list[str]) -> str | None:
    """The one column that a caller names for a role, or None."""
    named = _named(role, given, names)
    if given is not None and len(named) != 1:
        raise ValueError(f"`{role}` must be one column, but {len(named)} were named: name one.")
    return named[0] if named else None


def _observation(given: Any, names: list[str]) -> tuple[str, ...]:
    if given is not None:
        return _named("observation", given, names)
    known = set(names)
    claimed = {alias for aliases in ALIASES.values() for alias in aliases if len(alias) > 1}
    candidates = [tuple(name for name in names if name.startswith(prefix)) for prefix in PREFIXES]
    candidates += [(whole,) for whole, _ in WHOLE if whole in known]
    candidates += [tuple(name for name in names if f"next_{name}" in known and name not in claimed)]
    found = next(filter(None, candidates), None)
    if found is None:
        named = f"name the columns obs_*, or say which they are {_by_role('observation')}"
        sparse = f"lists of hashed features with `indices=`: there are {listed(names, 6)}"
        raise ValueError(f"`observation` is missing: {named}, {sparse}. `prepare` makes a log of a raw table.")
    return found


def _next_observation(given: dict[str, Any], observation: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    if "next_observation" in given:
        found = _named("next_observation", given["next_observation"], names)
    else:
        known, candidates = set(names), [f"next_{name}" for name in observation]
        found = tuple(name for name in candidates if name in known)
        absent = [name for name in candidates if name not in known]
        if found and absent:
            there = f"`{absent[0]}` is missing although `{found[0]}` is there"
            raise ValueError(f"{there}: add it, or drop all next_ columns.")
    if found and len(found) != len(observation):
        raise ValueError(f"`next_observation` has {len(found)} columns but `observation` has {len(observation)}.")
    return found


def _by_role(role: str) -> str:
    return f"with `{role}=` (`--column {role}=…` on the command line)"


def label(name: str) -> str:
    """The label of a column: its name without the prefix of an observation, if a word is left."""
    return re.sub(r"^(obs|observation|state)_(?=\D)", "", name)


def folded(text: str) -> str:
    """Write a name in one way, to compare it: without case, blanks around it or in "10 mg", and doubled blanks inside.

    Turkish has i with a dot and without, and writes them İ and I in capitals: all four are one letter here. Programs
    that do not know Turkish turn İ into an i with a second dot, which is the same letter, too.
    """
    plain = unicodedata.normalize("NFC", text).replace("İ", "i").replace("ı", "i").replace("i\u0307", "i")
    return BEFORE_UNIT.sub("", " ".join(plain.split())).casefold()


def nearest(name: str, names: Sequence[str]) -> str:
    """End a sentence about a name that is not there with the nearest one that is, or with all of them."""
    meant = meant_by(name, names)
    return f": there are {listed(names)}." if meant is None else f"; did you mean {meant!r}?"


def meant_by(name: str, names: Sequence[str]) -> str | None:
    """The name that begins with one that is not there, such as the column with its unit, or is spelt nearly like it."""
    known = {folded(one): one for one in names[:1000]}
    longer = [one for one in known if len(name) > 2 and one.startswith(folded(name))]
    shortest = min(longer, key=len, default="")
    if longer and all(one.startswith(shortest) for one in longer):
        return known[shortest]
    close = difflib.get_close_matches(folded(name), known, n=1)
    return known[close[0]] if close else None


def listed(names: Iterable[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    return first_of([repr(name[:40]) for name in names], most) or "no others"


def first_of(texts: Sequence[str], most: int) -> str:
    """The first of several texts, and how many more there are."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def names_in(observation: Any, *, one_row: bool = False) -> list[str] | None:
    """Column names of a frame, or of one row taken out of it, if they are text."""
    row = one_row and hasattr(observation, "to_frame")
    columns = getattr(observation, "index" if row else "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return list(columns)


def in_order(rows: Array, names: Sequence[str] | None, wanted: Sequence[str] | None) -> Array:
    """The columns `wanted` of rows whose columns are called `names`; rows without names are returned unchanged."""
    if names is None or wanted is None or list(names) == list(wanted):
        return rows
    place = {label(name): j for j, name in enumerate(names)} | {name: j for j, name in enumerate(names)}
    absent = [name for name in wanted if name not in place]
    if absent:
        fitted = f"the model was fitted to a column {show(absent[0])} that the data does not have"
        raise ValueError(f"{fitted}: its columns are {show(list(names))}; rename or add what is missing.")
    return rows[:, [place[name] for name in wanted]]


def joined_actions(
    named: Mapping[Any, Sequence[str] | None], wanted: Sequence[str] | None = None
) -> tuple[tuple[str, ...] | None, dict[Any, Array]]:
    """Number the actions of several logs together; return their names, and new codes for every log that differs.

    Where the logs differ, names are in numerical or alphabetical order, or as `wanted`. If one log names its actions,
    all must.
    """
    known = {log: tuple(names) for log, names in named.items() if names is not None}
    if not known:
        return None, {}
    if len(known) < len(named):
        other = next(log for log, names in named.items() if names is None)
        said = f"{next(iter(known))} names its actions and {other or 'another source'} does not"
        raise ValueError(f"{said}, so that their codes may differ: prepare all of them.")
    distinct = set(known.values())
    union = {name for names in distinct for name in names}
    if wanted is not None or len(distinct) == 1:
        order = tuple(wanted or next(iter(distinct)))
    else:
        try:
            order = tuple(sorted(union, key=lambda name: (float(name), name)))
        except ValueError:
            order = tuple(sorted(union))
    place = {name: code for code, name in enumerate(order)}
    codes = {log: np.array([place[name] for name in own]) for log, own in known.items() if own != order}
    return order, codes
