"""What each column of `Transitions` must satisfy, given the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd._tools.moderate import all_moderate, immoderate
from sparsetd.logs import checks
from sparsetd.logs.checks import Array, Mask, nth, refuse


def boundaries(n: int, over: Mask, start: Any, episode: Any) -> tuple[Mask, Array]:
    """(start, episode) of n rows: from the episodes' identifiers, else the starts, else the rows that ended one."""
    first = None if start is None else checks.flags("start", start, n)
    if episode is not None:
        number = _episode_numbers(episode, n)
        change = np.diff(number, prepend=-1) != 0
        if first is None:
            first = change
        else:
            missed = change & ~first
            missed[0] = False  # a part of a stream may begin inside an episode
            refuse("start", missed, first, "true where `episode` changes", "mark the first row of every episode")
    elif first is not None:
        number = np.maximum(np.cumsum(first) - first[0], 0)
    else:
        first = np.concatenate([[True], over[:-1]])
        number = np.cumsum(first) - 1
    refuse_rows_after_the_end(over, number)
    return first, number


def _episode_numbers(episode: Any, n: int) -> Array:
    """0, 1, … in order of appearance; identifiers may be integers or text. The rows of an episode stay together."""
    ids = np.asarray(episode)
    if ids.ndim != 1:
        raise ValueError(f"`episode` must have one identifier per row, but its shape is {ids.shape}: pass a vector.")
    checks.length("episode", ids, n)
    checks.identifiers("episode", ids)
    change = ids[1:] != ids[:-1]
    first = np.flatnonzero(np.concatenate([[True], change]))
    seen: set[Any] = set()
    for row in first:
        identifier = ids[row].item() if isinstance(ids[row], np.generic) else ids[row]
        if identifier in seen:
            raise ValueError(
                f"`episode` must keep the rows of an episode together, but row {row} returns to {identifier!r}: "
                "sort the rows by episode and step."
            )
        seen.add(identifier)
    return np.concatenate([[0], np.cumsum(change)])


def refuse_rows_after_the_end(over: Mask, number: Array) -> None:
    late = over[:-1] & (number[1:] == number[:-1])
    if late.any():
        row = int(np.argmax(late))
        raise ValueError(
            f"`terminated` or `truncated` holds in row {nth(row)}, but row {nth(row + 1)} continues the same episode: "
            "mark only the last row of an episode, or start a new episode after it."
        )


def successors(s: Array, given: Any, terminated: Mask, start: Mask) -> Array:
    """s' of every row: as given, or the next row of the same episode. A terminated row has none: s stands in."""
    if given is None:
        last = np.append(start[1:], True)
        unknown = last & ~terminated
        if unknown.any():
            row = int(np.argmax(unknown))
            raise ValueError(
                f"`next_observation` is unknown in row {row}, the last of its episode but not terminated: "
                "pass next_observation, mark the row as terminated, or drop it."
            )
        return next_rows(s, last)
    successor = checks.rows("next_observation", given)
    checks.length("next_observation", successor, s.shape[0])
    checks.finite("next_observation", successor, where=~terminated)
    return filled_in(s, successor)


def filled_in(s: Array, successor: Array) -> Array:
    """s' with s where it is missing, which it may be in a terminated row; whole numbers where s has whole numbers."""
    if successor.shape[1] != s.shape[1]:
        raise ValueError(
            f"`next_observation` has {successor.shape[1]} columns in row 0 but `observation` has {s.shape[1]}: "
            "give both the same columns."
        )
    if sp.issparse(successor):
        return successor
    if not all_moderate(successor):
        successor = np.where(checks.rowwise(immoderate(successor))[:, None], s, successor)
    if s.dtype.kind == "i" and successor.dtype.kind == "f" and np.all(_is_integer(successor)):
        successor = successor.astype(s.dtype)  # integers that were stored with a missing value among them
    return successor


def next_rows(s: Array, last: Mask) -> Array:
    """The row after each; the `last` of an episode stands in for its own."""
    if sp.issparse(s):
        return s[np.where(last, np.arange(len(last)), np.arange(1, len(last) + 1))]
    successor = np.empty_like(s)
    successor[:-1] = s[1:]
    successor[last] = s[last]
    return successor


def _is_integer(values: Array) -> Mask:
    """Return which floats are whole numbers that int64 can hold."""
    return np.asarray((values == np.rint(values)) & (np.abs(values) < 2.0**63))


def actions(action: Any, n: int) -> Array:
    """Integers (n,) for discrete actions, floats (n, k) for continuous ones, integers (n, k) for several at once."""
    array = checks.numbers("action", action)
    if array.ndim == 0:
        raise ValueError("`action` must have one row per transition, but it is a single number: pass an array.")
    checks.length("action", array, n)
    checks.finite("action", array)
    array = array.reshape(n, -1)
    return array[:, 0] if array.dtype.kind == "i" and array.shape[1] == 1 else array


def probability(name: str, values: Any, n: int, action: Array | None, *, positive: bool) -> Array | None:
    """Probabilities of the logged action; where actions are continuous these are densities and may exceed 1."""
    if values is None:
        return None
    density = action is not None and action.dtype.kind == "f"
    return checks.probabilities(name, values, n, density=density, positive=positive)


def refuse_infinite_ratio(name: str, behavior_prob: Array | None, target_prob: Array | None) -> None:
    """A probability may be so small that π/μ is infinite: then it is a rounding error, or none at all."""
    if behavior_prob is None or target_prob is None:
        return
    with np.errstate(over="ignore"):
        infinite = ~np.isfinite(target_prob / behavior_prob)
    refuse(name, infinite, behavior_prob, "large enough to divide by", "correct the probability or drop the row")


def ratios(
    values: Any, n: int, behavior_prob: Array | None, target_prob: Array | None, name: str = "ratio"
) -> Array | None:
    """π/μ: finite, non-negative, and equal to the two probabilities' quotient where all three are given."""
    if values is None:
        return None
    ratio = checks.column(name, values, n).astype(np.float64, copy=False)
    refuse(name, ratio < 0, ratio, "at least 0", "pass π(a|s) / μ(a|s), not its logarithm")
    if behavior_prob is not None and target_prob is not None:
        off = ~np.isclose(ratio, target_prob / behavior_prob, rtol=1e-4, atol=1e-8)
        refuse(name, off, ratio, "target_prob / behavior_prob", "drop one of the three columns, or correct it")
    return ratio
