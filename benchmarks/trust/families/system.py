"""Continuous systems with raw columns in their own units: nothing is prepared for a linear value function.

    x' = step(x, a, t) with noise      columns = see(x, t)      an episode ends by chance, by its state or by its clock

The truth is the mean return of many episodes under the target policy, simulated once for each target; its standard
error is a small fraction of what a log can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.trust.case import Case, Cell
from sparsetd.logs import Transitions

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
Policy = Callable[[Array], Array]  # from columns to the probabilities of the actions
LONGEST = 400
MANY = 150_000  # simulated episodes of a truth


@dataclass(frozen=True, eq=False)
class System:
    """A simulator, what is seen of it, the policy of the log and the policies asked about.

    Attributes
    ----------
    start : callable
        From a number and a generator to so many first states.
    step : callable
        From states, actions, the time and a generator to successors, rewards and whether the episode is over.
    see : callable
        From states and the time to the columns of the log.
    length : int
        Steps after which an episode is over: a programme of that length ends then.
    """

    names: tuple[str, ...]
    start: Callable[[int, Rng], Array]
    step: Callable[[Array, Array, int, Rng], tuple[Array, Array, Array]]
    see: Callable[[Array, int], Array]
    behavior: Policy
    targets: Mapping[str, Policy]
    gamma: float = 0.97
    length: int = LONGEST

    def simulate(self, policy: Policy, n: int, rng: Rng) -> dict[str, Array]:
        """Columns of n episodes under a policy, side by side and then episode after episode."""
        x, who, parts = self.start(n, rng), np.arange(n), []
        for t in range(self.length):
            now = self.see(x, t)
            chance = policy(now)
            action = _drawn(chance, rng)
            after, reward, ended = self.step(x, action, t, rng)
            ended = ended | (t == self.length - 1)
            taken = chance[np.arange(len(x)), action]
            age = np.full(len(x), t)
            parts.append((now, action, reward, self.see(after, t + 1), ended, who, taken, age))
            x, who = after[~ended], who[~ended]
            if not len(x):
                break
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[5], kind="stable")
        names = ("now", "action", "reward", "after", "ended", "episode", "chance", "age")
        return {name: column[order] for name, column in zip(names, columns, strict=True)}

    def value(self, target: str, n: int = MANY, seed: int = 2026) -> tuple[float, float]:
        """The mean return of a target, and its standard error; nothing is kept but the returns."""
        rng = np.random.default_rng(seed)
        x, who, earned = self.start(n, rng), np.arange(n), np.zeros(n)
        for t in range(self.length):
            action = _drawn(self.targets[target](self.see(x, t)), rng)
            x, reward, ended = self.step(x, action, t, rng)
            earned[who] += self.gamma**t * reward
            x, who = x[~ended], who[~ended]
            if not len(x):
                break
        return float(earned.mean()), float(earned.std() / np.sqrt(n))


@lru_cache
def truth(make: Callable[[], System], target: str) -> float:
    """The value of a target of a system, simulated once in each process."""
    return make().value(target)[0]


def draw(rng: Rng, *, make: Callable[[], System], target: str, episodes: int, logged: bool = True) -> Case:
    """A log of a system; `logged` says whether it has probabilities."""
    system = make()
    steps = system.simulate(system.behavior, episodes, rng)
    asked = system.targets[target](steps["now"])[np.arange(len(steps["action"])), steps["action"]]
    log = Transitions.from_arrays(
        steps["now"],
        steps["reward"],
        steps["after"],
        action=steps["action"],
        terminated=steps["ended"],
        episode=steps["episode"],
        behavior_prob=steps["chance"] if logged else None,
        target_prob=asked,
        names=list(system.names),
    )
    return Case(log, truth(make, target), system.gamma, policy=system.targets[target])


def cells_of(module: Any, names: tuple[str, ...], sizes: tuple[int, ...]) -> list[Cell]:
    """Cells of the systems of a module: mild and strong policies, with logged and with estimated probabilities."""
    out = []
    for name, target, logged, episodes in product(names, ("mild", "strong"), (True, False), sizes):
        setting = partial(draw, make=getattr(module, name), target=target, episodes=episodes, logged=logged)
        known = "" if logged else ", not logged"
        out.append(Cell(f"{name}/{target}{known}, {episodes}", setting, rivals=True))
    return out


def _drawn(chance: Array, rng: Rng) -> Array:
    """An action for every row of probabilities."""
    return np.asarray((rng.random((len(chance), 1)) > np.cumsum(chance, axis=1)[:, :-1]).sum(axis=1))


def chosen(score: Array, sharpness: float = 1.0) -> Array:
    """Probabilities of the actions from their scores (n, actions)."""
    weight = np.exp(sharpness * (score - score.max(axis=1, keepdims=True)))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def of_two(chance: Array) -> Array:
    """Probabilities of two actions from that of the second."""
    return np.column_stack([1 - chance, chance])


def mixed(policy: Policy, other: Policy, share: float) -> Policy:
    """`policy`, but with a `share` of `other`."""

    def both(columns: Array) -> Array:
        return (1 - share) * policy(columns) + share * other(columns)

    return both
