"""`Transitions`: rows (s, a, r, s') of logged experience, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd import plots
from sparsetd._tools.frames import ROWS, Framed, frame
from sparsetd.logs.checks import Array, Mask, id_text, joined, objects
from sparsetd.logs.partition import partition
from sparsetd.logs.policy import action_probabilities, chosen, discrete, is_whole
from sparsetd.logs.schema import in_order, joined_actions, names_in
from sparsetd.system import rows_of


@dataclass(frozen=True, eq=False)
class Transitions(Framed):
    """Hold the columns of a log in time order, episode after episode.

    Build one with `from_arrays`, which checks it, or with `read`.

    Two kinds of ending are kept apart. After a *terminated* row nothing follows: its successor has value 0. A
    *truncated* row was merely cut off (a time limit, the end of the log): its successor is a state like any other and
    is bootstrapped from. `next_observation` is therefore always the true successor s', never the first state after a
    reset; where a row terminated it is not used and may be anything.

    Attributes
    ----------
    observation, next_observation : array (n, p), or CSR
        s and s'. Integers stay integers (discrete states are a single column).
    reward : array (n,)
    terminated, truncated, start : boolean array (n,)
        `start` marks the first row of an episode: eligibility traces are cut there.
    episode : integer array (n,)
        Number of the episode of each row, for splitting by episode.
    action : integer array (n,), float array (n, k), or None
        Discrete actions are 0, 1, …
    behavior_prob, target_prob : array (n,) or None
        μ(a|s) and π(a|s) of the logged action.
    ratio : array (n,) or None
        π(a|s) / μ(a|s) where it was given instead of the two probabilities.
    names : tuple of str, or None
        Names of the observation's columns.
    episode_id : array (n,) or None
        The id that the log gives the episode of each row: integers or objects.
    group : array (n,) or None
        The group of each row (an age group, a hospital): see `read(…, group=…)`.
    action_names : tuple of str, or None
        Names of the discrete actions, where `prepare` found text.

    Examples
    --------
    >>> from sparsetd import Transitions
    >>> log = Transitions.from_arrays([1.0, 2.0, 5.0], [0.0, 1.0, 3.0], terminated=[False, True, True])
    >>> log
    Transitions(3 rows, 2 episodes, 1 observed columns, 2 terminated, 0 truncated)
    >>> log.next_observation[0].tolist(), log.start.tolist()
    ([2.0], [True, False, True])
    >>> log[log.episode == 1].reward.tolist()
    [3.0]
    """

    observation: Array
    reward: Array
    next_observation: Array
    terminated: Mask
    truncated: Mask
    start: Mask
    episode: Array
    action: Array | None = None
    behavior_prob: Array | None = None
    target_prob: Array | None = None
    ratio: Array | None = None
    names: tuple[str, ...] | None = None
    episode_id: Array | None = None
    group: Array | None = None
    action_names: tuple[str, ...] | None = None

    @classmethod
    def from_arrays(
        cls,
        observation: Any,
        reward: Any,
        next_observation: Any = None,
        *,
        action: Any = None,
        terminated: Any = None,
        truncated: Any = None,
        start: Any = None,
        episode: Any = None,
        behavior_prob: Any = None,
        target_prob: Any = None,
        ratio: Any = None,
        names: Sequence[str] | None = None,
    ) -> Transitions:
        """Check and normalise columns given as arrays, lists or frames.

        Without `next_observation` the successor is the next row of the same episode, and the last row of every episode
        must have terminated. Without `episode` and `start`, a new episode follows each row that terminated or was
        truncated.
        """
        from sparsetd.logs.reading import from_columns  # late, because it imports this class

        columns = {"observation": observation, "next_observation": next_observation}
        columns |= {"action": action, "reward": reward, "episode": episode}
        columns |= {"terminated": terminated, "truncated": truncated}
        columns |= {"behavior_prob": behavior_prob, "target_prob": target_prob, "ratio": ratio}
        given = {name: values for name, values in columns.items() if values is not None}
        return from_columns(given, start, names_in(observation) if names is None else names)

    def __len__(self) -> int:
        return len(self.reward)

    def __repr__(self) -> str:
        ends = f"{int(self.terminated.sum())} terminated, {int(self.truncated.sum())} truncated"
        width = self.observation.shape[1]
        return f"Transitions({len(self)} rows, {self.n_episodes} episodes, {width} observed columns, {ends})"

    def to_frame(self) -> Any:
        """Return a pandas (or polars) frame with one row per transition and the observed columns by name."""
        action = self.action if self.action_names is None else np.array(self.action_names, dtype=object)[self.action]
        shown = {"episode": self.episode, "action": action, "reward": self.reward, "terminated": self.terminated}
        shown |= {"truncated": self.truncated, "behavior_prob": self.behavior_prob, "target_prob": self.target_prob}
        flat = {name: values for name, values in shown.items() if values is not None and values.ndim == 1}
        observed = {} if sp.issparse(self.observation) else dict(zip(self.labels(), self.observation.T, strict=True))
        return frame(flat | observed)

    def _first_rows(self) -> Any:
        return self[:ROWS].to_frame()

    def plot(self, ax: Any = None) -> Any:
        """Draw a histogram of the importance ratios, and return the axes."""
        return plots.ratios(self, ax)

    def __getitem__(self, rows: slice | Array) -> Transitions:
        """Take some of the rows. Where rows are skipped a `start` is set, so that no trace carries over the gap."""
        index = np.arange(len(self))[rows]
        if index.ndim != 1:
            raise TypeError("Transitions are sliced by rows: pass a slice, a mask or an array of row numbers.")
        start = self.start[index]
        start[1:] |= np.diff(index) != 1
        taken: dict[str, Any] = {name: rows_of(value, rows) for name, value in self._columns().items()}
        return replace(self, **{**taken, "start": start})

    @property
    def n_episodes(self) -> int:
        return len(self._bounds()) - 1

    def episodes(self) -> Iterator[Transitions]:
        """Yield the episodes one by one."""
        bounds = self._bounds()
        return (self[i:j] for i, j in pairwise(bounds))

    def part(self, k: int, n: int) -> Transitions:
        """Take the k-th of n parts of the episodes, for example to learn a policy on one and judge it on another.

        A hash of the ids decides on the part of an episode. Parts are of equal size and share no episode.
        """
        if not 1 <= k <= n <= self.n_episodes:
            raise ValueError(f"There is no part {k} of {n} of {self.n_episodes} episodes: count from 1 to {n}.")
        return self[np.flatnonzero(self.parts(n, "part") == k - 1)]

    def parts(self, n: int, salt: str) -> Array:
        """Divide the episodes into n parts, and return the part 0, …, n − 1 of every row.

        Another `salt` gives independent parts.
        """
        return np.repeat(partition(self.ids(), n, salt), np.diff(self._bounds()))

    def ids(self) -> Array:
        """Return the id of each episode: its `episode_id`, or its number if the log has no ids."""
        named = self.episode if self.episode_id is None else self.episode_id
        return named[self._bounds()[:-1]]

    def labels(self) -> list[str]:
        """Names of the observed columns; x0, x1, … where they have none."""
        return list(self.names or (f"x{j}" for j in range(self.observation.shape[1])))

    def returns(self, gamma: float = 1.0) -> Array:
        """Sum the discounted rewards of every episode as they were logged, Σ_t γᵗ r_t.

        An episode that was cut off counts with the rows that it has.
        """
        bounds = self._bounds()
        age = np.arange(len(self)) - np.repeat(bounds[:-1], np.diff(bounds))
        return np.asarray(np.add.reduceat(gamma**age * self.reward, bounds[:-1]))

    def importance_ratio(self) -> Array:
        """Return how much likelier the target policy takes each logged action than the behaviour, π(a|s)/μ(a|s).

        This is the column `ratio`, else target_prob / behavior_prob, else 1.
        """
        if self.ratio is not None:
            return self.ratio
        if self.target_prob is None or self.behavior_prob is None:
            return np.ones(len(self))
        return np.asarray(self.target_prob / self.behavior_prob)

    def probabilities(self, policy: Any, observation: Array | None = None) -> Array:
        """Ask a policy for the probabilities π(·|s) of all actions in every row, or in other observations.

        The policy sees the names of columns and actions that the log knows.
        """
        rows = self.observation if observation is None else observation
        asked = callable(policy) or hasattr(policy, "predict_proba") or np.ndim(policy) == 0  # a rule in words is 0-d
        if observation is not None and not asked:
            raise ValueError("An array of actions holds for its rows only, not for other states: pass a function.")
        known: dict[str, Any] = {"names": self.names, "action_names": self.action_names, "n_actions": self.n_actions}
        return action_probabilities(policy, rows, **known)

    @property
    def n_actions(self) -> int:
        """The number of discrete actions, from their names or their greatest code; 0 if there are none."""
        if self.action_names is not None:
            return len(self.action_names)
        action = self.with_codes().action
        return 0 if action is None or action.ndim > 1 else int(np.max(action, initial=-1)) + 1

    def with_codes(self) -> Transitions:
        """Turn actions into codes 0, 1, … if they are whole numbers written as floats, without densities."""
        action, mu = self.action, self.behavior_prob
        if action is None or action.ndim == 1 or action.shape[1] != 1 or not is_whole(action):
            return self
        if (action < 0).any() or (mu is not None and (mu > 1).any()):
            return self
        return replace(self, action=action[:, 0].astype(np.int64))

    def with_target(self, policy: Any) -> Transitions:
        """Put the probabilities π(a|s) of a policy into `target_prob`; a `ratio` of another target is dropped."""
        table = self.probabilities(policy)
        return replace(self, target_prob=chosen(table, discrete(self.action, table.shape[1])), ratio=None)

    def with_columns(self, names: Sequence[str] | None) -> Transitions:
        """Keep only these observed columns, in this order; nothing changes if either side has no names."""
        if self.names is None or names is None:
            return self
        s, after = (in_order(rows, self.names, names) for rows in (self.observation, self.next_observation))
        return replace(self, observation=s, next_observation=after, names=tuple(names))

    def _bounds(self) -> Array:
        """First row of every episode, and the number of rows."""
        change = np.flatnonzero(np.diff(self.episode)) + 1
        return np.concatenate([[0], change, [len(self)]]) if len(self) else np.zeros(1, dtype=np.int64)

    def _columns(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("names", "action_names")}
        return {name: value for name, value in values.items() if value is not None}


def concatenate(parts: Sequence[Transitions]) -> Transitions:
    """Join several `Transitions` into one, with their episodes renumbered.

    The slices of a log join to the log again. A part whose first row is not a `start` continues the last episode of the
    part before it. Actions are joined by name: where parts number them differently, all get one numbering of all names.

    Examples
    --------
    >>> from sparsetd import Transitions
    >>> from sparsetd.logs import concatenate
    >>> log = Transitions.from_arrays([1.0, 2.0, 5.0], [0.0, 1.0, 3.0], terminated=[False, True, True])
    >>> concatenate([log, log])
    Transitions(6 rows, 4 episodes, 1 observed columns, 4 terminated, 0 truncated)
    >>> again = concatenate([log[:1], log[1:]])
    >>> len(again), again.n_episodes
    (3, 2)
    """
    if not parts:
        raise ValueError("`parts` is empty: pass at least one Transitions.")
    parts = _same_actions(parts)
    expected, width = parts[0]._columns(), parts[0].observation.shape[1]
    for i, part in enumerate(parts):
        odd = sorted(part._columns().keys() ^ expected.keys())
        if odd or part.names != parts[0].names:
            what = f"part {i} differs in column {odd[0]!r}" if odd else f"part {i} differs in `names`"
            raise ValueError(f"`parts` must have the same columns, but {what}: add or drop it there.")
        if not sp.issparse(part.observation) and part.observation.shape[1] != width:
            what = f"part {i} has {part.observation.shape[1]}"
            raise ValueError(f"`parts` must observe the same columns, but {what}: select the columns first.")
    parts = _same_ids(parts)
    whole: dict[str, Any] = {name: joined([getattr(part, name) for part in parts]) for name in expected}
    changes = [np.append(part.start[:1], np.diff(part.episode) != 0) for part in parts]
    number = np.cumsum(np.concatenate(changes))
    whole["episode"] = number - number[:1]
    return replace(parts[0], **whole)


def _same_actions(parts: Sequence[Transitions]) -> Sequence[Transitions]:
    """Give the same actions the same codes in all parts; whole numbers beside continuous actions become continuous."""
    shapes = {None if part.action is None else part.action.ndim for part in parts}
    if shapes == {1, 2}:
        parts = [replace(part, action=np.asarray(part.action, float).reshape(len(part), -1)) for part in parts]
    union, codes = joined_actions({f"part {i}": part.action_names for i, part in enumerate(parts)})
    own = [codes.get(f"part {i}") for i in range(len(parts))]
    return [
        part if code is None else replace(part, action=code[part.action], action_names=union)
        for part, code in zip(parts, own, strict=True)
    ]


def _same_ids(parts: Sequence[Transitions]) -> Sequence[Transitions]:
    """Give all parts ids of one kind: texts, where some parts have numbers and others have texts."""
    for name in ("episode_id", "group"):
        ids = [getattr(part, name) for part in parts]
        if len({None if own is None else own.dtype.kind == "O" for own in ids}) > 1:
            texts: list[dict[str, Any]] = [{name: objects(map(id_text, own.tolist()))} for own in ids]
            parts = [replace(part, **own) for part, own in zip(parts, texts, strict=True)]
    return parts
