"""What the estimators with a step size share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sparsetd import solvers
from sparsetd.estimators.base import BaseTD


@dataclass(kw_only=True, eq=False, repr=False)
class StreamingTD(BaseTD):
    """An estimator that takes one step per row.

    Parameters
    ----------
    step_size : "auto", float or callable
        "auto" needs no number: the distance moved so far over the root of the summed squared gradients (the page on
        automatic steps says why and how well). Or α, or a schedule: a function from an array of step indices to an
        array of steps.
    n_passes : int
        How often `fit` goes through the rows.
    average : {"all", "suffix", "none"} or None
        What `coef_` is: the α-weighted average of all iterates, that of the last quarter to half of them, or the last
        one. None is "suffix" with automatic steps, "none" otherwise.
    radius : float
        x = [w; θ] is kept in the l2 ball of this radius (Assumption 3 of the paper); infinite by default.
    """

    step_size: Any = "auto"
    n_passes: int = 1
    average: Literal["all", "suffix", "none"] | None = None
    radius: float = float("inf")

    @property
    def _automatic(self) -> bool:
        return isinstance(self.step_size, str)

    @property
    def _streaming(self) -> dict[str, Any]:
        if self._automatic:
            return {"average": self.average or "suffix", "radius": self.radius, "rescale": not np.isfinite(self.radius)}
        return {"step_size": self.step_size, "average": self.average or "none", "radius": self.radius}

    @property
    def _stochastic(self) -> Any:
        """The solver of x ← x − α(A_t x − b_t)."""
        return (solvers.DistanceOverGradients if self._automatic else solvers.Stochastic)(**self._streaming)

    def _mirror_prox(self, p: float) -> Any:
        """The solver of the same system by extragradient steps."""
        if not self._automatic:
            return solvers.MirrorProx(**self._streaming, p=p)
        if p != 2.0:
            raise ValueError(f"p={p!r} needs a number as step_size: automatic steps are Euclidean (p = 2)")
        return solvers.DistanceOverGradients(**self._streaming, extragradient=True)
