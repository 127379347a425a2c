"""Correlated decoys: six features carry the value, each with five others that look like it; the rest is noise."""

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
    columns: int = 60,
    correlation: float = 0.5,
    rows: int = 2000,
    relevant: int = 6,
    decoys: int = 5,
    length: int = 10,
    target: float = 0.6,
    reward_noise: float = 0.5,
    speed: float = 0.85,
) -> Case:
    """About `rows` rows in episodes of `length` steps on average; weights of both signs and of size .5 to 1.5."""
    busy = np.arange(columns) < relevant
    weight = np.where(busy, rng.choice([-1.0, 1.0], columns) * rng.uniform(0.5, 1.5, columns), 0.0)
    goes_on = 1 - 1 / length
    problem = GaussianProblem(
        speed=np.full(columns, speed),
        push=0.2 * busy,
        weight=weight * (1 - 0.99 * goes_on * speed),
        curve=np.zeros(columns),
        mean=0.5 * busy,
        leaning=0.1 * busy,
        noise=reward_noise,
        goes_on=goes_on,
    )
    names = [f"x_{j}" for j in range(relevant)]
    others = [f"{'decoy' if i < relevant * decoys else 'noise'}_{i}" for i in range(columns - relevant)]

    def see(x: Array) -> Array:
        out = x.copy()
        for i in range(relevant * decoys):
            out[:, relevant + i] = correlation * x[:, i % relevant] + np.sqrt(1 - correlation**2) * x[:, relevant + i]
        return out

    return log_of(problem, target, rows // length, rng, see=see, names=[*names, *others], relevant=names)
