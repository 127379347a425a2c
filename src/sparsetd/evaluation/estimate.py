"""A number with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from sparsetd.selection.episodes import clustered_error, powers
from sparsetd.system import Array


@dataclass(frozen=True)
class Estimate:
    """A point estimate of the target policy's value, its standard error and what these rest on.

    Attributes
    ----------
    name : str
        What estimated it.
    value, standard_error : float
        NaN and infinity where the estimate does not exist.
    n_effective : float
        Effective number of episodes, (Σw)²/Σw².
    freedom : float
        Degrees of freedom of the interval.
    """

    name: str
    value: float
    standard_error: float
    n_effective: float
    freedom: float = 1.0

    @classmethod
    def of_influence(
        cls, name: str, value: float, influence: Array, n_effective: float | None = None, n_fitted: int = 0
    ) -> Estimate:
        """Estimate whose error is a mean of independent terms, the influences (`clustered_error`)."""
        own = powers(influence - influence.mean())
        return cls.of_powers(name, value, len(influence), own, n_effective, n_fitted)

    @classmethod
    def of_powers(
        cls, name: str, value: float, n: int, powers: Array, n_effective: float | None = None, n_fitted: int = 0
    ) -> Estimate:
        """The same from the sums of the influences' first four powers."""
        if n < 2:
            return cls(name, float(value), np.inf, float(n))
        error, freedom = clustered_error(powers, n, n_fitted)
        return cls(name, float(value), float(error), float(n if n_effective is None else n_effective), float(freedom))

    @classmethod
    def missing(cls, name: str, n_effective: float = 0.0) -> Estimate:
        """An estimate that does not exist."""
        return cls(name, np.nan, np.inf, n_effective)

    def resting_on(self, n_effective: float) -> Estimate:
        """The same with another effective number of episodes."""
        return replace(self, n_effective=n_effective)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's interval at the given level."""
        check_level(level)
        half = float(student.ppf(0.5 + level / 2, max(self.freedom, 1.0))) * self.standard_error
        return self.value - half, self.value + half


def check_level(level: float) -> None:
    """Refuse a level that is none."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie strictly between 0 and 1, but it is {level}: pass 0.95 for 95 %.")
