"""A shop's stock: how much to order, when demand comes in seasons of three strengths.

State: stock 0 … 20 and the season. Each step sells what is asked for (Poisson) as far as there is stock; holding costs,
ordering costs, and the contract ends with a small probability. The log orders up to a level, with some random orders;
the target orders up to another level. Columns: dummies of stock in each season (exact) or hinges of the stock (not
exact).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import poisson

from benchmarks.trust.case import Case
from benchmarks.trust.families.finite_log import log_of
from benchmarks.trust.finite import FiniteProblem

Array = np.ndarray[Any, Any]
STOCK, ORDERS, DEMAND, GAMMA = 21, (0, 4, 8), (1.5, 3.0, 5.0), 0.98
STATES = np.array(list(np.ndindex(STOCK, len(DEMAND))))


def draw(
    rng: np.random.Generator,
    *,
    logged_level: int = 8,
    asked_level: int = 11,
    random: float = 0.3,
    asked_random: float = 0.0,
    episodes: int = 400,
    exact: bool = True,
    noise: int = 0,
    known: bool = True,
) -> Case:
    """Both policies order up to a level, with shares of random orders; `known`: the probabilities are logged."""
    table, names = columns(exact)
    behavior, target = order_up_to(logged_level, random), order_up_to(asked_level, asked_random)
    return log_of(shop(), behavior, target, episodes, rng, table, names, noise=noise, logged=known)


def columns(exact: bool) -> tuple[Array, list[str]]:
    stock, season = STATES.T
    if exact:
        return np.eye(len(STATES))[:, 1:], [f"stock={k},season={j}" for k, j in STATES[1:]]
    hinges = [np.maximum(stock - knot, 0) for knot in (0, 4, 8, 12, 16)]
    seasons = [(season == j).astype(float) for j in (1, 2)]
    names = [*(f"stock>{k}" for k in (0, 4, 8, 12, 16)), "season=1", "season=2"]
    return np.column_stack([*hinges, *seasons]).astype(float), names


def order_up_to(level: int, random: float) -> Array:
    """The largest order that does not lift the stock above the level, mixed with random orders."""
    fits = STATES[:, :1] + np.array(ORDERS) <= level
    fits[:, 0] = True
    best = len(ORDERS) - 1 - fits[:, ::-1].argmax(axis=1)
    return np.asarray((1 - random) * np.eye(len(ORDERS))[best] + random / len(ORDERS))


@lru_cache
def shop() -> FiniteProblem:
    """Price 1 a piece, holding .05, an order .3 and .4 a piece; seasons change with probability .1 to a neighbour."""
    n, ends = len(STATES), 0.04
    moves, reward = np.zeros((n, len(ORDERS), n + 1)), np.zeros((n, len(ORDERS)))
    for s, (stock, season) in enumerate(STATES):
        for action, order in enumerate(ORDERS):
            shelf = min(stock + order, STOCK - 1)
            sold = _sold(shelf, DEMAND[season])
            _carry(moves[s, action], shelf, sold, season, 1 - ends)
            moves[s, action, n] = ends
            reward[s, action] = sold @ np.arange(shelf + 1) - 0.05 * shelf - 0.4 * order - 0.3 * (order > 0)
    start = np.where(STATES[:, 0] == 5, 1 / len(DEMAND), 0.0)
    return FiniteProblem(moves, reward, np.zeros(1), start, GAMMA, noise=1.0)


def _sold(shelf: int, demand: float) -> Array:
    """P(k pieces sold), k = 0 … shelf."""
    chance = poisson.pmf(np.arange(shelf + 1), demand)
    chance[-1] = 1 - chance[:-1].sum()
    return np.asarray(chance)


def _carry(row: Array, shelf: int, sold: Array, season: int, goes_on: float) -> None:
    """What is left on the shelf, in the next season."""
    turns = {season: 0.8, max(season - 1, 0): 0.1, min(season + 1, len(DEMAND) - 1): 0.1}
    turns[season] += 1 - sum(turns.values())
    for after, chance in turns.items():
        row[(shelf - np.arange(shelf + 1)) * len(DEMAND) + after] += goes_on * chance * sold
