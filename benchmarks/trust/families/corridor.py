"""A corridor with the reward at its far end, which the log rarely reaches and the target policy does.

At place i of n one goes forth or back; each step may end the episode. Columns: one per place (exact), or a few
bumps (smooth, not exact). The ratios of single actions look harmless throughout; the states are what differs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.trust.case import Case
from benchmarks.trust.families.finite_log import log_of
from benchmarks.trust.finite import FiniteProblem

Array = np.ndarray[Any, Any]
GAMMA = 0.98


def draw(
    rng: np.random.Generator,
    *,
    places: int = 20,
    forth: float = 0.45,
    asked: float = 0.75,
    episodes: int = 400,
    bumps: int = 0,
    ends: float = 0.03,
) -> Case:
    """The log goes forth with probability `forth`, the target with `asked`."""
    table = columns(places, bumps)
    behavior, target = (np.tile([1 - p, p], (places, 1)) for p in (forth, asked))
    names = [f"place_{i}" for i in range(table.shape[1])]
    return log_of(corridor(places, ends), behavior, target, episodes, rng, table, names)


def columns(places: int, bumps: int) -> Array:
    """One column per place but the first, or Gaussian bumps along the corridor."""
    if not bumps:
        return np.eye(places)[:, 1:]
    centre, at = np.linspace(0, places - 1, bumps), np.arange(places)[:, None]
    return np.exp(-0.5 * ((at - centre) / (places / bumps)) ** 2)


@lru_cache
def corridor(places: int, ends: float) -> FiniteProblem:
    """Reward grows over the last quarter; a step slips (stays) with probability .1."""
    at = np.arange(places)
    moves = np.zeros((places, 2, places + 1))
    for action, step in enumerate((-1, 1)):
        moves[at, action, np.clip(at + step, 0, places - 1)] += 0.9 * (1 - ends)
        moves[at, action, at] += 0.1 * (1 - ends)
    moves[:, :, places] = ends
    reward = np.repeat(np.clip(4 * (at + 1) / places - 3, 0, 1)[:, None], 2, axis=1)
    start = np.zeros(places)
    start[:2] = 0.5
    return FiniteProblem(moves, reward, np.zeros(1), start, GAMMA, noise=0.3)
