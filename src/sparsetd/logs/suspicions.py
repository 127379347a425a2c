"""Checks for mistakes in a log that can be read.

A check returns the numbers that its sentence names, or None if nothing looks wrong; the sentence stands under the name
of the check in `suspicions.toml`. `inspect` reports every finding, and the cautions of an answer report those that bear
on the value.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array, Mask
from sparsetd.logs.schema import folded
from sparsetd.logs.transitions import Transitions
from sparsetd.logs.words import ROLE_NAMES

Facts = dict[str, Any] | None
Check = Callable[[Transitions], Facts]
WORDS: dict[str, str] = tomllib.loads(files("sparsetd.logs").joinpath("suspicions.toml").read_text("utf-8"))
FEW = 0.05  # a share of rows or episodes below this is taken as chance
COPIED = 0.02  # copies are reported if more than this share of the episodes are copies
BLOCK = 4_096  # rows that are compared at a time
TIMES = re.compile(rf"\b({'|'.join(ROLE_NAMES['time'])}|visit|step)\b")
ID = re.compile(r"(^|[_ ])(id|patient|subject|person|user|customer|member|client|mrn)([_ ]|$)", re.IGNORECASE)
MAX_DESIGN = 20_000  # rows in which a regression looks for shifted rewards


def timeouts_marked_as_terminals(t: Transitions) -> Facts:
    """Many episodes end as terminated at exactly the longest length, far more than a little before it."""
    bounds = t._bounds()
    length, ended = np.diff(bounds), t.terminated[bounds[1:] - 1]
    longest = int(length.max())
    count = int(((length == longest) & ended).sum())
    before = int(((length >= longest - 3) & (length < longest) & ended).sum())
    # Three times the mean of the three lengths before: natural ends fade out, a time limit piles them up.
    spike = count > 3 * (before / 3 + 1)
    if longest < 5 or count < max(3, FEW * len(length)) or not spike:
        return None
    others = f"{int(t.truncated.sum())} rows are truncated" if t.truncated.any() else "none is truncated"
    return {"count": count, "n": len(length), "longest": longest, "others": others}


def ends_without_survivors(t: Transitions) -> Facts:
    """At a time limit, the log keeps the rows that ended and lacks those that went on, whose successor is unknown."""
    bounds = t._bounds()
    length, ended = np.diff(bounds), t.terminated[bounds[1:] - 1]
    limit = int(length.max(where=~ended, initial=0)) + 1
    count, n_cut = int((length[ended] == limit).sum()), int((length[~ended] == limit - 1).sum())
    if count < 3 or count > n_cut or length.max() > limit:
        return None
    return {"count": count, "n": int(ended.sum()), "limit": limit}


def successors_after_a_reset(t: Transitions) -> Facts:
    """Truncated rows have the first state of the *next* episode as their successor, and not by coincidence."""
    cut = np.flatnonzero((t.truncated & ~t.terminated)[:-1] & t.start[1:])
    same = (t.next_observation[cut] == t.observation[cut + 1]).all(axis=1)
    if same.sum() <= len(cut) / 2 or len(np.unique(t.observation[t.start], axis=0)) < 3:
        return None
    return {"count": same.sum(), "n": len(cut), "first": cut[same][0]}


def broken_chains(t: Transitions) -> Facts:
    """The successor of some rows is not the observation of the next row of their episode."""
    inside = np.flatnonzero(~t.start[1:] & ~t.terminated[:-1])
    off: list[int] = []
    for low in range(0, len(inside), BLOCK):
        rows = inside[low : low + BLOCK]
        rows = rows[(t.next_observation[rows] != t.observation[rows + 1]).any(axis=1)]  # most are equal
        near = np.isclose(t.next_observation[rows], t.observation[rows + 1], rtol=1e-5, atol=1e-8)
        off += rows[~near.all(axis=1)].tolist()
    return {"count": len(off), "n": len(inside), "first": off[0]} if off else None


def first_rewards_are_zero(t: Transitions) -> Facts:
    """Rewards logged one row late leave a zero in the first row of every episode."""
    first, rest = t.reward[t.start], t.reward[~t.start]
    if len(first) < 5 or not len(rest) or first.any() or np.mean(rest != 0) < 0.5:
        return None
    return {"n": len(first), "others": np.mean(rest != 0)}


def rewards_fit_a_neighbour(t: Transitions) -> Facts:
    """Rewards fit (s, a, s') of the row before or after far better than that of their own row."""
    t = t[:MAX_DESIGN]
    middle = np.flatnonzero(~t.start[1:-1] & ~t.start[2:]) + 1
    rows = _design(t)
    if len(middle) < 4 * rows.shape[1] or np.ptp(t.reward) == 0:
        return None
    fit = {shift: _r2(rows[middle], t.reward[middle + shift]) for shift in (-1, 0, 1)}
    best = max((-1, 1), key=fit.__getitem__)
    if fit[best] < 0.5 or 1 - fit[best] > 0.5 * (1 - fit[0]):
        return None
    return {"best": fit[best], "side": "next" if best == 1 else "previous", "own": max(fit[0], 0)}


def _design(t: Transitions) -> Array:
    """[1, s, a, s', s·a] of every row, standardised; at most 50 columns of each, to stay cheap."""
    parts = [t.observation[:, :50], t.next_observation[:, :50]]
    if t.action is not None and t.action.ndim == 1 and t.action.min() >= 0 and t.action.max() < 20:
        taken = np.eye(20)[t.action][:, np.unique(t.action)]
        parts += [taken, *(t.observation * one[:, None] for one in taken.T[: 50 // t.observation.shape[1]])]
    rows = np.hstack(parts).astype(np.float64)
    spread = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.hstack([np.ones((len(rows), 1)), rows])


def _r2(rows: Array, reward: Array) -> float:
    """The share of the variance that a ridge regression explains."""
    centred = reward - reward.mean()
    total = float(centred @ centred)
    gram = rows.T @ rows + 1e-6 * len(rows) * np.eye(rows.shape[1])  # columns may be copies of one another
    left = centred - rows @ np.linalg.solve(gram, rows.T @ centred)
    return 1 - float(left @ left) / total if total > 0 else 0.0


def ratios_off_one(t: Transitions) -> Facts:
    """Importance ratios do not average 1, their expectation under μ; the mean is less if π does what μ never did."""
    ratio = t.importance_ratio()
    mean, error = float(ratio.mean()), float(ratio.std() / np.sqrt(len(ratio)))
    given = t.ratio is not None or (t.target_prob is not None and t.behavior_prob is not None)
    # Rows of an episode are alike, so the standard error is too small: five are allowed in place of two.
    if not given or len(ratio) < 30 or abs(mean - 1) <= max(5 * error, 0.05):
        return None
    return {"mean": mean, "why": "the target does what was never logged, or " if mean < 1 else ""}


def no_ratio(t: Transitions) -> Facts:
    """The target policy takes none of the logged actions."""
    return None if t.importance_ratio().any() else {}


def few_large_ratios(t: Transitions) -> Facts:
    """A few rows carry nearly all the weight."""
    ratio = t.importance_ratio()
    share = float(ratio.sum() ** 2 / (ratio**2).sum() / len(ratio)) if ratio.any() else 1.0
    return {"greatest": ratio.max(), "share": share} if share < 0.1 else None


def impossible_propensities(t: Transitions) -> Facts:
    """The mean of 1/μ(a|s) exceeds the number of actions, although its expectation cannot."""
    mu, action = t.behavior_prob, t.action
    if mu is None or action is None or action.ndim != 1 or len(mu) < 30:
        return None
    n_actions, inverse = len(np.unique(action)), 1 / mu
    mean, error = float(inverse.mean()), float(inverse.std() / np.sqrt(len(mu)))
    if n_actions > 1 and np.all(mu == 1):
        return {"found": f"`behavior_prob` is 1 in every row although {n_actions} different actions were taken"}
    if mean <= max(action.max() + 1, n_actions) + 5 * error:
        return None
    return {"found": f"1/`behavior_prob` averages {mean:.3g}, which cannot exceed the {n_actions} actions seen"}


def constant_columns(t: Transitions) -> Facts:
    """Observed columns never change."""
    constant = np.flatnonzero(np.ptp(t.observation, axis=0) == 0)
    return {"count": len(constant), "first": t.labels()[constant[0]]} if len(constant) and len(t) > 1 else None


def different_scales(t: Transitions) -> Facts:
    """Scales of observed columns differ greatly."""
    spread = t.observation.std(axis=0)
    varied = spread[spread > 0]
    factor = varied.max() / varied.min() if len(varied) else 1.0
    return {"factor": factor} if factor >= 1e4 else None


def constant_reward(t: Transitions) -> Facts:
    """The reward never changes."""
    return {"reward": t.reward[0]} if len(t) > 1 and np.ptp(t.reward) == 0 else None


def repeated_rows(t: Transitions) -> Facts:
    """The same transition stands twice in a row, inside an episode and although the state changed."""
    same = (t.observation[1:] == t.observation[:-1]).all(axis=1) & (t.reward[1:] == t.reward[:-1])
    same &= (t.next_observation[1:] == t.next_observation[:-1]).all(axis=1) & ~t.start[1:]
    same &= (t.observation[1:] != t.next_observation[1:]).any(axis=1)
    if t.action is not None:
        actions = t.action.reshape(len(t), -1)
        same &= (actions[1:] == actions[:-1]).all(axis=1)
    return {"count": same.sum(), "first": np.argmax(same) + 1} if same.any() else None


def repeated_episodes(t: Transitions) -> Facts:
    """Episodes of three rows or more are copies of others, although hardly two begin in the same state."""
    return copied(episode_digests(t.observation, t.reward, t._bounds()))


def episode_digests(observation: Array, reward: Array, bounds: Array) -> Array:
    """Two numbers for every episode of three rows or more: one for its ends and its rewards, one for its first state.

    Every evaluation computes them; `fingerprints`, which reads every entry, takes a hundred times as long.
    """
    long = np.diff(bounds) >= 3
    first, last = bounds[:-1][long], bounds[1:][long] - 1
    begin, rewards = _digest(observation[first]), np.append(np.uint64(0), np.cumsum(_digest(reward[:, None])))
    return np.stack([begin + 3 * _digest(observation[last]) + 5 * (rewards[last + 1] - rewards[first]), begin])


def copied(digests: Array) -> Facts:
    """Count the episodes that are copies of others, by their digests; None if they are few."""
    n = digests.shape[1]
    kept = digests[1][np.unique(digests[0], return_index=True)[1]]
    if n - len(kept) < max(5, COPIED * n) or len(np.unique(kept)) < (1 - FEW) * len(kept):
        return None
    return {"count": n - len(kept), "n": n}


def _digest(rows: Array) -> Array:
    """A number for every row; only equal rows have the same, up to chance."""
    bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)  # + 0.0 makes −0.0 and 0.0 alike
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    mixed = (bits ^ (bits >> np.uint64(32))) * odd
    return np.asarray((mixed ^ (mixed >> np.uint64(29))).sum(axis=1))


def one_endless_episode(t: Transitions) -> Facts:
    """All rows are one episode: there is no column of episodes, and no row ended one."""
    return {"n": len(t)} if t.n_episodes == 1 and len(t) > 1 else None


def decimal_actions(t: Transitions) -> Facts:
    """Discrete actions that were stored as 0.0, 1.0, … are taken for continuous ones."""
    decimal = t.action is not None and t.action.dtype.kind == "f" and np.all(t.action == np.rint(t.action))
    return {} if decimal else None


def codes_of_missing_text(t: Transitions) -> Facts:
    """A −1 among codes 0, 1, … is what `pandas.factorize` writes where the text was missing."""
    columns = {"action": t.action} if t.action is not None and t.action.ndim == 1 else {}
    columns |= {name: t.observation[:, j] for j, name in enumerate(t.names or ())}
    for name, values in columns.items():
        if values.min() == -1 and values.max() > 0 and len(found := np.unique(values)) < 100 and not (found % 1).any():
            return {"name": name, "count": (values == -1).sum()}
    return None


def time_goes_back(t: Transitions) -> Facts:
    """Visits are out of order: a column that is called a time goes back within episodes."""
    for name, values in zip(t.names or (), t.observation.T, strict=False):
        is_time = TIMES.search(folded(name).replace("_", " ")) is not None
        if is_time and (back := ((np.diff(values) < 0) & ~t.start[1:]).sum()):
            rows = np.unique(_digest(np.column_stack([t.observation, t.reward, t.episode])))
            role = shlex.quote(f"time={name}")
            return {"name": name, "count": back, "copies": len(t) - len(rows), "role": role}
    return None


def two_spellings(t: Transitions) -> Facts:
    """Names of actions or of categories differ in case or blanks only."""
    for names in (t.action_names or (), [name for name in t.names or () if ": " in name]):
        first: dict[str, str] = {}
        for name in names:
            if first.setdefault(folded(name), name) != name:
                return {"one": first[folded(name)], "other": name}
    return None


def repeated_outcomes(t: Transitions) -> Facts:
    """An outcome stands in every row of its episode."""
    outcomes = not np.all(t.start) and np.isin(t.reward, (0, 1)).all() and np.ptp(t.reward) > 0
    return {} if outcomes and t.n_episodes >= 5 and not np.diff(t.reward)[~t.start[1:]].any() else None


def only_outcomes(reward: Array, terminated: Mask, start: Mask) -> bool:
    """Whether only last rows have a reward and every episode terminates: a discount would make late outcomes small."""
    last = np.append(start[1:], True)
    return not last.all() and bool(terminated[last].all() and reward.any() and not reward[~last].any())


def ids_that_repeat(t: Transitions) -> Facts:
    """Episodes share the values of a column of ids, which does not change within an episode."""
    bounds = t._bounds()
    for j, name in enumerate(t.names or ()):
        if sp.issparse(t.observation) or not ID.search(name):
            continue
        values = t.observation[:, j]
        own = values[bounds[:-1]]
        n = len(np.unique(own))
        # A few patients who come twice do not matter; a single id for all episodes is no id.
        if 1 < n < (1 - FEW) * len(own) and np.array_equal(np.repeat(own, np.diff(bounds)), values):
            return {"n": len(own), "count": n, "name": name}
    return None


# A function whose name has a sentence is a check.
CHECKS: tuple[Check, ...] = tuple(globals()[name] for name in WORDS if name in globals())


def suspected(t: Any, checks: Iterable[Callable[[Any], Facts]] = CHECKS) -> dict[str, str]:
    """The sentences of the checks that find something in a log, by the names of the checks."""
    with np.errstate(over="ignore", invalid="ignore"):  # the mean of huge numbers overflows, which no check minds
        found = {check.__name__: check(t) for check in checks}
    return {name: sentence(name, facts) for name, facts in found.items() if facts is not None}


def sentence(name: str, facts: dict[str, Any]) -> str:
    """Put the numbers that a check found into its sentence."""
    return WORDS[name].format(**facts)
