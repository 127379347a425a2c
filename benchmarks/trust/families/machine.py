"""A machine that wears out: run it fast, run it slowly, or repair it; the target policy is nearly deterministic.

State: wear 0 … 11 and the load of the day (3 levels). Running earns, wear breaks the machine (−8, the end), a contract
may end at any step. The log follows the optimal policy with a share of random actions. Columns: dummies of wear and
load with their products (exact), or a straight line and a square (not exact).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.families.finite_log import log_of
from benchmarks.trust.finite import FiniteProblem

Array = np.ndarray[Any, Any]
WEAR, LOAD, GAMMA = 12, 3, 0.97
STATES = np.array(list(np.ndindex(WEAR, LOAD)))


def draw(
    rng: np.random.Generator,
    *,
    random: float = 0.3,
    asked: float = 0.0,
    better: bool = True,
    episodes: int = 500,
    exact: bool = True,
    noise: int = 0,
) -> Case:
    """`random` and `asked` are the shares of random actions in the log and in the target (of the worst policy if not
    `better`)."""
    table, names = columns(exact)
    target = policy(asked, better)
    return log_of(machine(), policy(random, True), target, episodes, rng, table, names, noise=noise)


def columns(exact: bool) -> tuple[Array, list[str]]:
    wear, load = STATES.T
    if not exact:
        return np.column_stack([wear, wear**2, load]).astype(float), ["wear", "wear^2", "load"]
    dummies = np.eye(WEAR * LOAD)[:, 1:]
    return dummies, [f"wear={w},load={k}" for w, k in STATES[1:]]


@lru_cache
def policy(random: float, better: bool) -> Array:
    return np.asarray((1 - random) * machine().extreme(better) + random / 3)


@lru_cache
def machine() -> FiniteProblem:
    """Wear grows by 0, 1 or 2; running fast earns twice as much and wears twice as fast under high load."""
    moves, reward = np.zeros((WEAR * LOAD, 3, WEAR * LOAD + 2)), np.zeros((WEAR * LOAD, 3))
    for s, (wear, load) in enumerate(STATES):
        breaks = 0.3 * (wear / WEAR) ** 3
        for action, grows in enumerate((0.25 + 0.15 * load, 0.1, 0.0)):
            after = 0 if action == 2 else wear
            _spread(moves[s, action], after, grows, (1 - breaks) * 0.97)
            moves[s, action, -2:] = breaks, (1 - breaks) * 0.03
        reward[s] = 1.0 + 0.5 * load, 0.6 + 0.2 * load, -2.0
    start = np.where(STATES[:, 0] < 4, 1.0, 0.0)
    return FiniteProblem(moves, reward, np.array([-8.0, 0.0]), start / start.sum(), GAMMA, noise=0.5)


def _spread(row: Array, wear: int, grows: float, goes_on: float) -> None:
    """Two chances to grow, and a new load."""
    for more, chance in enumerate(((1 - grows) ** 2, 2 * grows * (1 - grows), grows**2)):
        place = min(wear + more, WEAR - 1) * LOAD
        row[place : place + LOAD] += goes_on * chance * np.array([0.5, 0.3, 0.2])
