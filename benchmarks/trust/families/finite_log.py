"""A log of a finite problem, its states seen as rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.finite import FiniteProblem, Steps
from sparsetd.logs import Transitions

Array = np.ndarray[Any, Any]


def log_of(
    problem: FiniteProblem,
    behavior: Array,
    target: Array,
    episodes: int,
    rng: np.random.Generator,
    table: Array,
    names: list[str],
    *,
    noise: int = 0,
    cut: int = 10_000,
    wrong: float = 0.0,
    logged: bool = True,
) -> Case:
    """Episodes are `cut` after so many steps; a share `wrong` of the cut ones is marked as terminated all the same."""
    steps = problem.simulate(episodes, behavior, rng, cut)
    ended = steps.successor >= problem.n_states
    last = np.append(steps.episode[1:] != steps.episode[:-1], True)
    wronged = last & ~ended & (rng.random(episodes)[steps.episode] < wrong)
    now, following = with_noise(table, steps, np.where(ended, 0, steps.successor), noise, rng)
    log = Transitions.from_arrays(
        now,
        problem.rewards(steps, rng),
        following,
        action=steps.action,
        terminated=ended | wronged,
        truncated=last & ~ended & ~wronged,
        episode=steps.episode,
        behavior_prob=behavior[steps.state, steps.action] if logged else None,
        target_prob=target[steps.state, steps.action],
        names=[*names, *(f"noise_{i}" for i in range(noise))],
    )
    return Case(log, problem.value(target), problem.gamma)


def with_noise(
    table: Array, steps: Steps, successor: Array, noise: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """φ and φ' of every step, with columns of noise that is new at every step (but the same in s' and the next s)."""
    if not noise:
        return table[steps.state], table[successor]
    drawn = rng.normal(size=(len(successor) + 1, noise))
    goes_on = np.append(steps.episode[1:] == steps.episode[:-1], False)
    fresh = np.where(goes_on[:, None], drawn[1:], rng.normal(size=(len(successor), noise)))
    return np.hstack([table[steps.state], drawn[:-1]]), np.hstack([table[successor], fresh])
