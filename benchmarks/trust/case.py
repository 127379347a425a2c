"""What a family of problems hands to the judge: a log with its exact answer, and the cell that the log belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from sparsetd.logs import Transitions


@dataclass(frozen=True, eq=False)
class Case:
    """One log, the exact value of its target policy, and (where it is known) the features that carry the value.

    `policy` gives the target's probabilities of all actions from the columns, for rivals that need them.
    """

    log: Transitions
    truth: float
    gamma: float
    relevant: frozenset[str] | None = None
    policy: Callable[[Any], Any] | None = None


Draw = Callable[[np.random.Generator], Case]


class Trouble(StrEnum):
    """What can be wrong with a log."""

    NONE = ""
    OVERLAP = "little overlap"
    EPISODES = "few effective episodes"
    SHAPE = "wrong shape"
    HIDDEN = "unobserved state"
    MARKS = "ends marked wrong"
    BEHAVIOR = "behaviour hard to estimate"


@dataclass(frozen=True)
class Cell:
    """A family at one setting of its parameters.

    Attributes
    ----------
    name : str
        "family/parameters": `--cells` matches it.
    draw : callable
        From a generator to a fresh `Case`.
    trouble : Trouble
        None where the log answers the question, so that a red caution would be a false alarm. Otherwise what is wrong
        with it: the interval must cover all the same, or the caution must be red.
    overlap : bool
        Whether the log visits what the target visits.
    f1_goal, rmse_goal, dropped_goal : float or None
        Goals of this cell alone: the F1 of the support, the error, the share of the columns of noise that are dropped.
    rivals : bool
        Whether the log is also given to the rivals of `rivals.py`: the columns are raw, and the value is curved.
    """

    name: str
    draw: Draw
    trouble: Trouble = Trouble.NONE
    overlap: bool = True
    f1_goal: float | None = None
    rmse_goal: float | None = None
    dropped_goal: float | None = None
    rivals: bool = False

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    @property
    def well_posed(self) -> bool:
        return self.trouble is Trouble.NONE
