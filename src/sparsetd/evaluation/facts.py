"""What rewards, ratios and lengths say of a log, as sums over its episodes: everything that needs no features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.moments import Part
from sparsetd.system import Array


@dataclass(frozen=True, eq=False)
class Weighed:
    """Σw, Σwc and Σw² of weights w with values c, divided by e^top (e^{2 top}), the largest weight; one for each age.

    Ages beyond the last one are like it.
    """

    top: Array
    total: Array
    moment: Array
    squares: Array

    @classmethod
    def of(cls, log_weight: Array, values: Array) -> Weighed:
        top = log_weight.max(initial=-np.inf)
        w = np.zeros(len(values)) if top == -np.inf else np.exp(log_weight - top)
        return cls(*(np.array([float(x)]) for x in (top, w.sum(), w @ values, w @ w)))

    def __add__(self, other: Weighed) -> Weighed:
        n = max(len(self.top), len(other.top))
        one, two = self.of_ages(n), other.of_ages(n)
        top = np.maximum(one.top, two.top)
        return Weighed(top, *(one._scaled(top) + two._scaled(top)))

    def of_ages(self, n: int) -> Weighed:
        """The same with n ages."""
        return Weighed(*(np.pad(x, (0, n - len(x)), "edge") for x in vars(self).values()))

    def _scaled(self, top: Array) -> Array:
        share = np.exp(np.subtract(self.top, top, where=self.top > -np.inf, out=np.full(len(top), -np.inf)))
        return np.stack([self.total * share, self.moment * share, self.squares * share**2])

    @property
    def ess(self) -> float:
        """(Σw)² / Σw², 0 where all weights are 0."""
        return float(self.total[0] ** 2 / self.squares[0]) if self.squares[0] > 0 else 0.0

    @staticmethod
    def joined(ages: list[Weighed]) -> Weighed:
        return Weighed(*(np.concatenate([getattr(age, name) for age in ages]) for name in vars(ages[0])))


@dataclass(frozen=True, eq=False)
class Facts:
    """Sums over the rows and episodes of a log."""

    gamma: float
    n_rows: int
    n_episodes: int
    n_complete: int
    n_zero: int  # ratios
    n_early: int  # rewards other than 0 before the end of an episode
    unseen: float  # Σ γᴸ of episodes that were cut after L rows
    returns: float  # Σ G
    per_decision: float  # Σ γᵗ W r
    gained: float  # Σ ρ r
    left: float  # Σ ρ (1 − γ), γ being 0 at the end
    ratio: float  # Σ ρ
    squares: float  # Σ ρ²
    clustered: Array  # Σ T², Σ TL, Σ L² with T = Σρ and the length L of an episode
    least: Array  # reward, ratio above 0
    most: Array  # reward, ratio, length
    weights: Weighed  # W and G of whole episodes

    @classmethod
    def of(cls, part: Part) -> Facts:
        return cls.of_episodes(part.episodes)

    @classmethod
    def of_episodes(cls, e: Episodes) -> Facts:
        length, returns, total = e.last - e.first + 1, e.returns, e.total(e.ratio)
        with np.errstate(over="ignore"):
            decided = float(weighted_totals(e).sum())
        return cls(
            gamma=e.gamma,
            n_rows=len(e.reward),
            n_episodes=len(e),
            n_complete=int(e.complete.sum()),
            n_zero=int((e.ratio == 0).sum()),
            n_early=int(((e.reward != 0) & (e.discount != 0)).sum()),
            unseen=float((~e.complete * e.gamma**length).sum()),
            returns=float(returns.sum()),
            per_decision=decided,
            gained=float(e.ratio @ e.reward),
            left=float(e.ratio @ (1 - e.discount)),
            ratio=float(e.ratio.sum()),
            squares=float(e.ratio @ e.ratio),
            clustered=np.array([total @ total, total @ length, length @ length], dtype=np.float64),
            least=np.array([e.reward.min(), e.ratio.min(where=e.ratio > 0, initial=np.inf)]),
            most=np.array([e.reward.max(), e.ratio.max(), length.max()]),
            weights=Weighed.of(e.log_weight[e.last], returns),
        )

    def __add__(self, other: Facts) -> Facts:
        added = {name: value + getattr(other, name) for name, value in vars(self).items()}
        extremes = {"least": np.minimum(self.least, other.least), "most": np.maximum(self.most, other.most)}
        return Facts(**{**added, **extremes, "gamma": self.gamma})

    @property
    def complete(self) -> bool:
        """Whether every episode terminated."""
        return self.n_complete == self.n_episodes

    @property
    def mean_return(self) -> float:
        return self.returns / self.n_episodes


def weighted_totals(episodes: Episodes) -> Array:
    """Σ_t γᵗ W_t r_t of every episode, with 0 where r is 0."""
    discounted = episodes.gamma**episodes.age * episodes.reward
    with np.errstate(over="ignore"):
        weight = np.exp(episodes.log_weight)
    terms = np.multiply(weight, discounted, where=discounted != 0, out=np.zeros(len(discounted)))
    return episodes.total(terms)
