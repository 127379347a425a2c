"""Columns as they come: in odd units, far from zero, twice, constant. The answer must not notice.

Every kind changes the columns of another family's log; the value does not change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.trust.case import Case, Draw

Array = np.ndarray[Any, Any]
Columns = tuple[Array, Array, list[str]]


def draw(rng: np.random.Generator, *, base: Draw, kind: str) -> Case:
    case = base(rng)
    log = case.log
    before = log.observation.astype(float), log.next_observation.astype(float), list(log.names or ())
    now, following, names = KINDS[kind](*before, rng)
    return replace(case, log=replace(log, observation=now, next_observation=following, names=tuple(names)))


def units(now: Array, following: Array, names: list[str], rng: np.random.Generator) -> Columns:
    """Times powers of ten from 10⁻⁶ to 10⁶."""
    scale = 10.0 ** rng.integers(-6, 7, size=now.shape[1])
    return now * scale, following * scale, names


def means(now: Array, following: Array, names: list[str], rng: np.random.Generator) -> Columns:
    """Up to a million standard deviations away from zero."""
    shift = now.std(axis=0) * 10.0 ** rng.uniform(2, 6, size=now.shape[1])
    return now + shift, following + shift, names


def twice(now: Array, following: Array, names: list[str], rng: np.random.Generator) -> Columns:
    """Every third column once more, exactly or to eight digits, and a constant one."""
    again = np.arange(0, now.shape[1], 3)
    error = 1e-8 * (np.arange(len(again)) % 2) * now[:, again].std(axis=0)
    one = np.ones((len(now), 1))
    copies = [table[:, again] + error * rng.normal(size=(len(now), len(again))) for table in (now, following)]
    more = [*names, *(f"copy_of_{names[j]}" for j in again), "constant"]
    return np.hstack([now, copies[0], one]), np.hstack([following, copies[1], one]), more


def all_at_once(now: Array, following: Array, names: list[str], rng: np.random.Generator) -> Columns:
    for change in (twice, means, units):
        now, following, names = change(now, following, names, rng)
    return now, following, names


KINDS = {"units": units, "means": means, "twice": twice, "all": all_at_once}
