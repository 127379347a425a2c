"""What a family of problems hands to the judge: a log with its exact answer, and the cell that the log belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsetd.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Case:
    """One log, the exact value of its target policy, and (where it is known) the features that carry the value."""

    log: Transitions
    truth: float
    gamma: float
    relevant: frozenset[str] | None = None


@dataclass(frozen=True)
class Cell:
    """A family at one setting of its parameters.

    Attributes
    ----------
    name : str
        "family/parameters": `--cells` matches it.
    draw : callable
        From a generator to a fresh `Case`.
    trouble : str
        Empty where the log answers the question, so that a red caution would be a false alarm. Otherwise what is wrong
        with it: the interval must cover all the same, or the caution must be red.
    overlap : bool
        Whether the log visits what the target visits.
    f1_goal : float or None
        The F1 that the support has to reach.
    """

    name: str
    draw: Callable[[np.random.Generator], Case]
    trouble: str = ""
    overlap: bool = True
    f1_goal: float | None = None

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    @property
    def well_posed(self) -> bool:
        return not self.trouble
