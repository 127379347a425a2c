"""What the estimators with a step size share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sparsetd.estimators.base import BaseTD


@dataclass(kw_only=True, eq=False, repr=False)
class StreamingTD(BaseTD):
    """An estimator that takes one step per row.

    Parameters
    ----------
    step_size : float or callable
        α, or a schedule: a function from an array of step indices to an array of steps.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"all", "suffix", "none"}
        What `coef_` is: the α-weighted average of all iterates, that of the last quarter to half of them, or the last
        one.
    radius : float
        x = [w; θ] is kept in the l2 ball of this radius (Assumption 3 of the paper); infinite by default.
    """

    step_size: Any = 0.01
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] = "none"
    radius: float = float("inf")

    @property
    def _streaming(self) -> dict[str, Any]:
        return {"step_size": self.step_size, "average": self.average, "radius": self.radius}
