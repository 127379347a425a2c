"""The stochastic proximal iteration: TD, TDC, GTD2, GQ(λ), L1-TD …"""

from __future__ import annotations

from dataclasses import dataclass

from sparsetd.solvers.stream import Average, HandSet


@dataclass(frozen=True)
class Stochastic(HandSet):
    """x ← prox_{αh}(x − α(A_t x − b_t)): each method's own update, with a proximal step.

    The last iterate is reported unless an average is asked for.
    """

    average: Average = "none"
