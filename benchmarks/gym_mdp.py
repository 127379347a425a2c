"""A Gymnasium environment with a table of transitions as a finite problem with exact answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsetd.problems import FiniteMDP
from sparsetd.system import Array


def gym_mdp(
    env: Any,
    gamma: float = 0.99,
    *,
    features: Array | None = None,
    target: Array | None = None,
    behavior: Array | None = None,
    **kwargs: Any,
) -> FiniteMDP:
    """Turns a Gymnasium environment with a table of transitions into a finite MDP with exact answers.

    The MDP of an environment (FrozenLake-v1, CliffWalking-v1, Taxi-v4, …), given as an object or by its id.

    Only states that can be reached from the initial distribution are kept, and a state entered by a terminating
    transition is terminal; `reachable` gives the numbers of the states. `features` (identity unless given),
    `target` and `behavior` (uniform unless given) have one row for each state of the *environment*. `kwargs` go to
    `gymnasium.make`.
    """
    inner = _make(env, kwargs).unwrapped
    if not hasattr(inner, "P") or not hasattr(inner, "initial_state_distrib"):
        raise ValueError(f"env={env!r} exposes no table: it needs the attributes P and initial_state_distrib")
    initial = np.asarray(inner.initial_state_distrib, dtype=np.float64)
    keep, terminal = reachable(inner.P, np.flatnonzero(initial))
    P, R = _tables(inner.P, keep, terminal)
    rows = {"features": features, "target": target, "behavior": behavior}
    given = {name: np.asarray(values)[keep] for name, values in rows.items() if values is not None}
    given.setdefault("features", np.eye(len(keep)))
    return FiniteMDP(P, R, gamma=gamma, start=initial[keep], terminal=terminal, **given)


def _make(env: Any, kwargs: dict[str, Any]) -> Any:
    if not isinstance(env, str):
        return env
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("gym_mdp needs Gymnasium: pip install gymnasium") from error
    return gymnasium.make(env, **kwargs)


def reachable(table: Mapping[int, Any], first: Array) -> tuple[Array, Array]:
    """The numbers of the reachable states, in order, and which of them are terminal."""
    seen, ends, frontier = set(first.tolist()), set(), first.tolist()
    while frontier:
        for outcomes in table[frontier.pop()].values():
            for probability, following, _, terminated in outcomes:
                following = int(following)
                if probability == 0.0:
                    continue
                if terminated:
                    ends.add(following)
                elif following not in seen:
                    seen.add(following)
                    frontier.append(following)
    both = seen & ends
    if both:
        raise ValueError(f"state {min(both)} is entered both with and without termination: give it two numbers")
    keep = np.array(sorted(seen | ends))
    return keep, np.isin(keep, sorted(ends))


def _tables(table: Mapping[int, Any], keep: Array, terminal: Array) -> tuple[Array, Array]:
    """P and R over the kept states; outcomes that share (s, a, s') are merged, R being their mean."""
    number = {int(state): i for i, state in enumerate(keep)}
    n, n_actions = len(keep), len(table[int(keep[0])])
    P, total = np.zeros((2, n_actions, n, n))
    for s in np.flatnonzero(~terminal):
        for action, outcomes in table[int(keep[s])].items():
            for probability, following, reward, _ in outcomes:
                if probability:
                    P[action, s, number[int(following)]] += probability
                    total[action, s, number[int(following)]] += probability * reward
    return P, np.divide(total, P, out=np.zeros_like(P), where=P > 0)
