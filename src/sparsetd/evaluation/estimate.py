"""A number with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from sparsetd.system import Array


@dataclass(frozen=True)
class Estimate:
    """A point estimate of the target policy's value, its standard error and the episodes it effectively rests on.

    Attributes
    ----------
    name : str
        What estimated it.
    value, standard_error : float
    n_effective : float
        Effective number of episodes, (Σw)²/Σw²; it sets the degrees of freedom of the interval.
    """

    name: str
    value: float
    standard_error: float
    n_effective: float

    @classmethod
    def of_influence(cls, name: str, value: float, influence: Array, n_effective: float | None = None) -> Estimate:
        """Estimate whose error is the mean of independent terms: s.e. = sd(influence) / √n.

        An influence is what one episode adds to n times the error; for a plain mean it is the deviation from the mean.
        """
        n = len(influence)
        spread = float(np.std(influence, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        return cls(name, float(value), spread, float(n if n_effective is None else n_effective))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's interval at the given level, with n_effective − 1 degrees of freedom (at least one)."""
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie strictly between 0 and 1, but it is {level}: pass 0.95 for 95 %.")
        half = float(student.ppf(0.5 + level / 2, max(self.n_effective - 1, 1.0))) * self.standard_error
        return self.value - half, self.value + half
