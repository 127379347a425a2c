"""Part of what matters is not among the columns, or enters them with the wrong shape: V cannot be represented.

`hidden` leaves out coordinates that the log's policy looks at and that earn reward; `curved` observes everything but
the reward is quadratic. The logged probabilities are right in both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.families.gaussian_log import log_of
from benchmarks.trust.gaussian import GaussianProblem

Array = np.ndarray[Any, Any]


def draw(
    rng: np.random.Generator,
    *,
    hidden: int = 2,
    speed: float = 0.9,
    strength: float = 1.0,
    curved: float = 0.0,
    squares: bool = False,
    episodes: int = 1000,
    target: float = 0.8,
    logged: bool = True,
) -> Case:
    """Five coordinates; the last `hidden` of them are not observed, and `curved` weighs the squares in the reward.

    With `squares` the columns hold the squares too, so that V is representable again where nothing is hidden.
    """
    k, seen = 5, 5 - hidden
    out = np.arange(k) >= seen
    problem = GaussianProblem(
        speed=np.full(k, speed),
        push=np.full(k, 0.3),
        weight=np.where(out, strength, 0.3) * 0.2,
        curve=np.full(k, 0.05 * curved),
        mean=np.zeros(k),
        leaning=np.where(out, 0.8 * strength, 0.2),
        offset=-0.3,
        noise=0.5,
        goes_on=0.93,
    )
    names = [f"x_{i}" for i in range(seen)]
    if squares:
        names += [f"x_{i}^2" for i in range(seen)]

    def see(x: Array) -> Array:
        shown = x[:, :seen]
        return np.hstack([shown, shown**2]) if squares else shown

    return log_of(problem, target, episodes, rng, see=see, names=names, logged=logged)
