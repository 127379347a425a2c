"""Slow and fast features side by side: half of the value sits in what hardly moves within an episode."""

from __future__ import annotations

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.families.gaussian_log import log_of
from benchmarks.trust.gaussian import GaussianProblem


def draw(
    rng: np.random.Generator,
    *,
    speeds: tuple[float, ...] = (0.98, 0.9, 0.5, 0.0),
    each: int = 2,
    noise: int = 20,
    episodes: int = 500,
    target: float = 0.7,
    goes_on: float = 0.95,
    reward_noise: float = 1.0,
    lean: float = 0.3,
    offset: float = 0.0,
    logged: bool = True,
    cut: int = 100_000,
    wrong: float = 0.0,
) -> Case:
    """`each` relevant features at every speed and `noise` idle ones, of the same speeds; equal parts of the value."""
    speed = np.concatenate([np.repeat(speeds, each), np.resize(speeds, noise)])
    busy = np.arange(len(speed)) < each * len(speeds)
    share = np.where(busy, rng.choice([-1.0, 1.0], len(speed)), 0.0)
    problem = GaussianProblem(
        speed=speed,
        push=0.2 * busy * rng.uniform(0.5, 1.0, len(speed)),
        weight=2 * share * (1 - 0.99 * goes_on * speed),
        curve=np.zeros(len(speed)),
        mean=0.5 * busy,
        leaning=lean * busy / np.sqrt(each * len(speeds)),
        offset=offset,
        noise=reward_noise,
        goes_on=goes_on,
    )
    names = [f"{'x' if b else 'noise'}_{i}" for i, b in enumerate(busy)]
    relevant = [name for name, b in zip(names, busy, strict=True) if b]
    marks = {"logged": logged, "cut": cut, "wrong": wrong}
    return log_of(problem, target, episodes, rng, see=lambda x: x, names=names, relevant=relevant, **marks)
