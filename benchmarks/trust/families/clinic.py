"""A hospital stay in categories: eight variables as 13 dummies, with or without their 70 products and noise columns.

An infection damages organs, organs lower pressure and oxygen, and a stay ends in discharge (+1) or death (−1). Two
treatments may be given at each step (four actions): one clears the infection, one raises the pressure and, where it was
not low, harms. The log follows the optimal policy with 30 % random actions. 1,440 states, solved exactly.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.trust.case import Case
from benchmarks.trust.families.finite_log import log_of
from benchmarks.trust.finite import FiniteProblem

Array = np.ndarray[Any, Any]
LEVELS = {"organ": 5, "pressure": 3, "oxygen": 3, "infection": 2, "fever": 2, "ventilated": 2, "chronic": 2, "old": 2}
STATES = np.array(list(np.ndindex(*LEVELS.values())))
GAMMA = 0.99
RANDOM = 0.3  # share of random actions in the log


def draw(
    rng: np.random.Generator,
    *,
    columns: int = 13,
    target: str = "optimal",
    episodes: int = 500,
    cut: int = 10_000,
    wrong: float = 0.0,
    instance: int = 0,
    logged: bool = True,
) -> Case:
    """A log of the clinic. Stays are `cut` after so many steps; a share `wrong` of these is marked as terminated."""
    table, names = dummies(min(columns, 83))
    return log_of(
        clinic(instance),
        policy("logged", instance),
        policy(target, instance),
        episodes,
        rng,
        table,
        names,
        noise=columns - table.shape[1],
        cut=cut,
        wrong=wrong,
        logged=logged,
    )


@lru_cache
def dummies(columns: int) -> tuple[Array, list[str]]:
    """Level k ≥ 1 of every variable as a column, then the products of columns of different variables."""
    owner = [(name, k) for name, size in LEVELS.items() for k in range(1, size)]
    place = {name: i for i, name in enumerate(LEVELS)}
    table = [(STATES[:, place[name]] == k).astype(float) for name, k in owner]
    names = [f"{name}={k}" for name, k in owner]
    for i, j in combinations(range(len(owner)), 2):
        if owner[i][0] != owner[j][0]:
            table.append(table[i] * table[j])
            names.append(f"{names[i]}*{names[j]}")
    return np.column_stack(table[:columns]), names[:columns]


@lru_cache
def policy(name: str, instance: int) -> Array:
    """π(a|s): "logged", "optimal", "mixed" (half optimal, half random), "nearly" optimal, "worst", "untreated", or
    "less" (three quarters as logged, a quarter untreated)."""
    problem = clinic(instance)
    uniform = np.full(problem.reward.shape, 0.25)
    if name == "untreated":
        return np.tile([1.0, 0.0, 0.0, 0.0], (problem.n_states, 1))
    if name == "less":
        return 0.75 * policy("logged", instance) + 0.25 * policy("untreated", instance)
    if name == "worst":
        return problem.extreme(best=False)
    share = {"optimal": 0.0, "logged": RANDOM, "mixed": 0.5, "nearly": 0.02}[name]
    return (1 - share) * (problem.extreme() if name == "optimal" else policy("optimal", instance)) + share * uniform


@lru_cache(maxsize=3)
def clinic(instance: int) -> FiniteProblem:
    """The tables. Another instance has other rates of the same kind; stays of odd instances are 2.5 times as long."""
    rng, pace = np.random.default_rng([77, instance]), 0.4 if instance % 2 else 1.0
    factors = [_factor(name, rng) for name in LEVELS]
    moves = reduce(np.multiply, (f[:, :, STATES[:, i]] for i, f in enumerate(factors)))
    ends = np.stack(_ends(rng, pace), axis=2)
    moves *= 1 - ends.sum(axis=2, keepdims=True)
    start = reduce(np.multiply, (_start(name)[STATES[:, i]] for i, name in enumerate(LEVELS)))
    return FiniteProblem(
        np.concatenate([moves, ends], axis=2), np.zeros((len(STATES), 4)), np.array([1.0, -1.0]), start, GAMMA
    )


def _start(name: str) -> Array:
    known = {"organ": [0.0, 0.1, 0.3, 0.4, 0.2], "infection": [0.1, 0.9], "pressure": [0.6, 0.4, 0.0]}
    return np.array(known.get(name, [0.6, 0.4] if LEVELS[name] == 2 else [0.3, 0.5, 0.2]))


def _variables() -> tuple[dict[str, Array], Array, Array]:
    """Every variable as a column (states, 1), and the two treatments as rows (1, actions)."""
    x = {name: STATES[:, [i]].astype(float) for i, name in enumerate(LEVELS)}
    return x, np.array([[0, 1, 0, 1.0]]), np.array([[0, 0, 1, 1.0]])


def _ends(rng: np.random.Generator, pace: float) -> tuple[Array, Array]:
    """Chances of discharge and of death."""
    x, _, _ = _variables()
    k = rng.uniform(0.8, 1.2, size=5)
    low, thin, frail = x["pressure"] == 0, x["oxygen"] == 0, x["chronic"] + x["old"]
    well = expit(-0.5 - k[0] * x["organ"] - 1.2 * (x["pressure"] != 1) - 0.8 * (x["oxygen"] != 1) - frail)
    worse = 0.4 * k[1] * x["organ"] + k[2] * low + k[3] * thin + 1.2 * k[4] * frail
    well, dead = well * (1 - 0.6 * x["infection"]), expit(worse - 6.0)
    return np.repeat(0.6 * pace * well, 4, axis=1), np.repeat(0.6 * pace * dead, 4, axis=1)


def _factor(name: str, rng: np.random.Generator) -> Array:
    """P(level' | s, a) of one variable, (states, actions, levels)."""
    x, clears, raises = _variables()
    k, one = rng.uniform(0.8, 1.2, size=3), np.ones((len(STATES), 4))
    if name in ("chronic", "old"):
        return np.repeat(np.eye(2)[STATES[:, list(LEVELS).index(name)]][:, None], 4, axis=1)
    if name in ("infection", "fever", "ventilated"):
        on = {
            "infection": np.where(x["infection"] == 1, 0.95 - 0.3 * k[0] * clears, 0.03 * one),
            "fever": (0.1 + 0.6 * k[1] * x["infection"]) * one,
            "ventilated": np.where(x["ventilated"] == 1, 0.8, 0.05 + 0.4 * k[2] * (x["oxygen"] == 0)) * one,
        }[name]
        return np.stack([1 - on, on], axis=2)
    harm = raises * (x["pressure"] > 0)
    up, down = {
        "organ": (0.08 + 0.3 * k[0] * x["infection"] + 0.15 * k[1] * harm + 0.05 * x["old"], (0.3 - 0.1 * harm) * one),
        "pressure": (0.1 + 0.5 * k[0] * raises, (0.05 + 0.08 * k[1] * x["organ"]) * (1 - 0.5 * raises)),
        "oxygen": ((0.15 + 0.25 * k[0] * x["ventilated"]) * one, (0.05 + 0.06 * k[1] * x["organ"]) * one),
    }[name]
    return _ladder(x[name], up * one, down * one, LEVELS[name])


def _ladder(level: Array, up: Array, down: Array, size: int) -> Array:
    """A level moves up or down by one, or stays."""
    up, down = np.where(level < size - 1, up, 0.0), np.where(level > 0, down, 0.0)
    out = np.zeros((*up.shape, size))
    for to in range(size):
        out[:, :, to] = up * (level + 1 == to) + down * (level - 1 == to) + (1 - up - down) * (level == to)
    return out
