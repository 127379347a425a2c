"""Linear-Gaussian control problems, whose values have a closed form.

    x' = D x + b a + ε,   r = wᵀx + xᵀQx + u a + noise,   an episode goes on with probability κ

a is 1 or 0. The log's policy looks at the state, μ(1|x) = σ(c₀ + cᵀx); the target does not: π(1|x) = p. With g = γκ its
value is V(x) = xᵀMx + vᵀx + v₀:

    M = Q + g DMD,   v = w + g(Dv + 2p DMb),   v₀ = pu + g(v₀ + p vᵀb + p bᵀMb + tr(MΣ))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Steps:
    """Columns of simulated steps, episode after episode."""

    state: Array
    action: Array
    reward: Array
    successor: Array
    ended: Array
    episode: Array
    behavior: Array


@dataclass(frozen=True, eq=False)
class GaussianProblem:
    """Every coordinate has its own speed (the diagonal of D) and, left alone, variance 1.

    Attributes
    ----------
    speed, push, weight, curve : array (k,)
        The diagonals and vectors D, b, w, Q.
    mean : array (k,)
        Of the start state, which has variance 1.
    leaning : array (k,)
        c of the log's policy, and `offset` its c₀.
    """

    speed: Array
    push: Array
    weight: Array
    curve: Array
    mean: Array
    leaning: Array
    offset: float = 0.0
    bonus: float = 0.0
    noise: float = 1.0
    goes_on: float = 0.95
    gamma: float = 0.99

    def value(self, p: float) -> float:
        """E V(x₀) of the policy that takes action 1 with probability p."""
        curve, slope, level = self.coefficients(p)
        return float(curve @ (self.mean**2 + 1) + slope @ self.mean + level)

    def coefficients(self, p: float) -> tuple[Array, Array, float]:
        """The diagonal of M, v and v₀."""
        g, D, b = self.gamma * self.goes_on, self.speed, self.push
        M = self.curve / (1 - g * D**2)
        v = (self.weight + 2 * g * p * D * M * b) / (1 - g * D)
        level = p * self.bonus + g * (p * v @ b + p * M @ b**2 + M @ (1 - D**2))
        return M, v, float(level / (1 - g))

    def simulate(self, n: int, rng: np.random.Generator, max_steps: int = 100_000) -> Steps:
        """n episodes of the log's policy, side by side, each until it ends or has `max_steps` steps."""
        x, who, parts = self.mean + rng.normal(size=(n, len(self.speed))), np.arange(n), []
        spread = np.sqrt(1 - self.speed**2)
        for _ in range(max_steps):
            chance = expit(self.offset + x @ self.leaning)
            a = (rng.random(len(x)) < chance).astype(np.int64)
            r = x @ self.weight + x**2 @ self.curve + self.bonus * a + self.noise * rng.normal(size=len(x))
            following = self.speed * x + a[:, None] * self.push + spread * rng.normal(size=x.shape)
            ended = rng.random(len(x)) >= self.goes_on
            parts.append((x, a, r, following, ended, who, np.where(a == 1, chance, 1 - chance)))
            x, who = following[~ended], who[~ended]
            if not len(x):
                break
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[5], kind="stable")
        return Steps(*(column[order] for column in columns))
