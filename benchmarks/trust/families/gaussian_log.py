"""A log of a linear-Gaussian problem, seen through columns of one's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.gaussian import GaussianProblem
from sparsetd.logs import Transitions

Array = np.ndarray[Any, Any]


def log_of(
    problem: GaussianProblem,
    target: float,
    episodes: int,
    rng: np.random.Generator,
    *,
    see: Callable[[Array], Array],
    names: list[str],
    relevant: list[str] | None = None,
    logged: bool = True,
    cut: int = 100_000,
    wrong: float = 0.0,
) -> Case:
    """`see` turns states into the observed columns; `target` is the chance of action 1 in question.

    Episodes are `cut` after so many steps; a share `wrong` of the cut ones is marked as terminated all the same.
    """
    steps = problem.simulate(episodes, rng, cut)
    last = np.append(steps.episode[1:] != steps.episode[:-1], True)
    wronged = last & ~steps.ended & (rng.random(episodes)[steps.episode] < wrong)
    log = Transitions.from_arrays(
        see(steps.state),
        steps.reward,
        see(steps.successor),
        action=steps.action,
        terminated=steps.ended | wronged,
        truncated=last & ~steps.ended & ~wronged,
        episode=steps.episode,
        behavior_prob=steps.behavior if logged else None,
        target_prob=np.where(steps.action == 1, target, 1 - target),
        names=names,
    )
    known = None if relevant is None else frozenset(relevant)
    return Case(log, problem.value(target), problem.gamma, known)
