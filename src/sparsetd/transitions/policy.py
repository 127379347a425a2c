"""A policy is a callable from observations (n, p) to the probabilities π(·|s) of discrete actions (n, n_actions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparsetd.transitions.checks import Array, reason, refuse, rowwise
from sparsetd.transitions.names import in_order

Policy = Callable[[Array], Any]


def action_probabilities(
    policy: Policy, observation: Array, name: str = "policy", names: Sequence[str] | None = None
) -> Array:
    """π(·|s) of every row as (n, n_actions), checked: finite, non-negative, each row summing to one.

    A policy that knows the columns it was learnt from (`feature_names_in_`) gets those, out of the columns `names`.
    """
    n = len(observation)
    table = _numbers(policy(in_order(observation, names, getattr(policy, "feature_names_in_", None))), name)
    if table.ndim != 2 or len(table) != n:
        raise ValueError(
            f"`{name}` must map {n} observations to shape ({n}, n_actions), but it returned shape {table.shape}: "
            "return one row of action probabilities per observation."
        )
    refuse(name, rowwise(~np.isfinite(table)), table, "finite", "return numbers between 0 and 1")
    refuse(name, rowwise(table < 0), table, "non-negative", "return numbers between 0 and 1")
    sums = table.sum(axis=1)
    remedy = "return the probabilities of all actions, not scores or logits"
    refuse(name, np.abs(sums - 1) > 1e-6, table, "a distribution (sum 1)", remedy)
    return table


def _numbers(answer: Any, name: str) -> Array:
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must return numbers, but its answer is no array of them ({reason(error)}): "
            "return one row of action probabilities per observation."
        ) from None


def discrete(action: Array | None, n_actions: int, name: str = "policy") -> Array:
    """The logged actions, checked to be integers that a policy of `n_actions` actions knows."""
    if action is None or action.ndim != 1 or action.dtype.kind != "i":
        raise ValueError(f"`{name}` needs a column `action` of integers 0, 1, …: pass the index of each logged action.")
    bad = (action < 0) | (action >= n_actions)
    refuse("action", bad, action, f"between 0 and {n_actions - 1}", f"renumber them like the columns of `{name}`")
    return action


def chosen(table: Array, action: Array) -> Array:
    """π(a|s) of the logged actions, out of the rows π(·|s)."""
    return np.asarray(table[np.arange(len(action)), action])
