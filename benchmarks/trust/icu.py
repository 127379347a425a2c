"""ICU-Sepsis, the package's own benchmark: no worse than before. Needs: pip install icu-sepsis"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from benchmarks.trust.case import Case, Cell
from sparsetd.problems.icu_sepsis import ICUSepsis

GAMMA, EPISODES = 0.99, 2000
RMSE, DROPPED = 0.0131, 0.95  # of version 0.1, over the seeds 0 … 99


def cells() -> list[Cell]:
    plain = [Cell(f"icu/{name}", partial(draw, target=name), rmse_goal=RMSE) for name in ("greedy", "half", "expert")]
    noisy = Cell("icu/greedy, 1000 noise columns", partial(draw, target="greedy", noise=1000), dropped_goal=DROPPED)
    return [*plain, noisy]


def draw(rng: np.random.Generator, *, target: str, noise: int = 0) -> Case:
    policy = problem().policy(target)
    return Case(problem().log(EPISODES, policy, rng, n_noise=noise), truth(target), GAMMA)


@lru_cache
def problem() -> ICUSepsis:
    return ICUSepsis.load(GAMMA)


@lru_cache
def truth(target: str) -> float:
    return problem().exact_value(problem().policy(target))
