"""The target does what the log seldom does: a handful of episodes carries the answer, however many rows there are.

Short episodes of a linear-Gaussian problem; the log takes action 1 with a small probability, the target with a large
one. Or simply few episodes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from benchmarks.trust.case import Case
from benchmarks.trust.families.gaussian_log import log_of
from benchmarks.trust.gaussian import GaussianProblem


def draw(
    rng: np.random.Generator,
    *,
    seldom: float = 0.03,
    target: float = 0.8,
    episodes: int = 200,
    columns: int = 6,
    length: int = 5,
) -> Case:
    """Action 1 earns and pushes all coordinates; half of the columns carry reward."""
    busy = np.arange(columns) < (columns + 1) // 2
    problem = GaussianProblem(
        speed=np.full(columns, 0.7),
        push=np.full(columns, 0.5),
        weight=0.5 * busy,
        curve=np.zeros(columns),
        mean=np.zeros(columns),
        leaning=np.full(columns, 0.2),
        offset=float(logit(seldom)),
        bonus=0.5,
        goes_on=1 - 1 / length,
    )
    names = [f"x_{i}" for i in range(columns)]
    return log_of(problem, target, episodes, rng, see=lambda x: x, names=names)
