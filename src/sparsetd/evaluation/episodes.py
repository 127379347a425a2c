"""A log seen as episodes: what importance sampling needs of it, and nothing else.

    W_{i,t} = ρ_{i,0} ⋯ ρ_{i,t}        G_i = Σ_t γᵗ r_{i,t}

The weights are kept as logarithms: a product of a thousand ratios overflows, a sum of a thousand logarithms does not,
and ρ = 0 is simply −∞.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.logs import Transitions
from sparsetd.system import Array


@dataclass(frozen=True, eq=False)
class Episodes:
    """Rows of a log with their episode `of`, their `age` t, the ratio ρ_t, log W_t, γᵗ and r_t.

    `first` and `last` are the rows where the episodes begin and end; `complete` says which ended by terminating.
    """

    reward: Array
    ratio: Array
    log_weight: Array
    of: Array
    age: Array
    first: Array
    last: Array
    complete: Array
    gamma: float

    @classmethod
    def of_log(cls, log: Transitions, gamma: float, ratio: Array | None = None) -> Episodes:
        """The episodes of a log; `ratio` replaces the log's own π/μ."""
        if not 0 <= gamma <= 1:
            raise ValueError(f"`gamma` must lie between 0 and 1, but it is {gamma}: pass the discount of one step.")
        rho = log.importance_ratio() if ratio is None else np.asarray(ratio, dtype=np.float64)
        if rho.shape != (len(log),) or not np.all(np.isfinite(rho) & (rho >= 0)):
            raise ValueError(f"`ratio` must hold {len(log)} finite non-negative numbers, one per row.")
        first = np.flatnonzero(np.diff(log.episode, prepend=log.episode[:1] - 1))
        length = np.diff(first, append=len(log))
        return cls.of_columns(log.reward, rho, length, log.terminated[first + length - 1], gamma)

    @classmethod
    def of_columns(cls, reward: Array, ratio: Array, length: Array, complete: Array, gamma: float) -> Episodes:
        """From the rewards and ratios of the rows, and how long each episode is and whether it terminated."""
        last = np.cumsum(length) - 1
        first = last - length + 1
        of = np.repeat(np.arange(len(first)), length)
        with np.errstate(divide="ignore"):
            log_rho = np.log(ratio)
        weight = _accumulated(log_rho, first, length)
        return cls(reward, ratio, weight, of, np.arange(len(reward)) - first[of], first, last, complete, gamma)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def discount(self) -> Array:
        """γ, and 0 in the rows that terminated, which are the last of complete episodes."""
        out = np.full(len(self.reward), self.gamma)
        out[self.last[self.complete]] = 0.0
        return out

    @property
    def returns(self) -> Array:
        """G_i = Σ_t γᵗ r_{i,t}, as logged."""
        return self.total(self.gamma**self.age * self.reward)

    @property
    def ess(self) -> float:
        """Effective number of episodes under the weights of whole episodes."""
        return effective_sample_size(scaled_weights(self.log_weight[self.last]))

    def some(self, members: slice) -> Episodes:
        """Some of the episodes, which follow one another."""
        first, last = self.first[members], self.last[members]
        rows, begin = slice(first[0], last[-1] + 1), first[0]
        columns = (self.reward[rows], self.ratio[rows], self.log_weight[rows], self.of[rows] - self.of[begin])
        return Episodes(*columns, self.age[rows], first - begin, last - begin, self.complete[members], self.gamma)

    def subset(self, rows: Array) -> Episodes:
        """The episodes that the given rows (of whole episodes, in order) make up."""
        of = np.unique(self.of[rows], return_inverse=True)[1]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        last = np.append(first[1:], len(rows)) - 1
        columns = (self.reward[rows], self.ratio[rows], self.log_weight[rows], of, self.age[rows])
        return Episodes(*columns, first, last, self.complete[self.of[rows][last]], self.gamma)

    def total(self, values: Array) -> Array:
        """Sum of a column over each episode."""
        return np.bincount(self.of, weights=values, minlength=len(self))


def _accumulated(values: Array, first: Array, length: Array) -> Array:
    """Running sums of a column within each episode: age by age, or episode by episode where these are fewer."""
    longest = int(length.max(initial=0))
    if longest > len(first):
        return np.concatenate([np.add.accumulate(part) for part in np.split(values, first[1:])])
    out = values.copy()
    for age in range(1, longest):
        rows = first[length > age] + age
        out[rows] += out[rows - 1]
    return out


def scaled_weights(log_weight: Array) -> Array:
    """w_i ∝ exp(log w_i), scaled so that the largest is 1 (all zero where no weight is positive)."""
    top = log_weight.max(initial=-np.inf)
    return np.zeros_like(log_weight) if top == -np.inf else np.exp(log_weight - top)


def effective_sample_size(weights: Array) -> float:
    """(Σw)² / Σw²: how many equally weighted draws carry the same information; 0 where all weights are 0."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0
