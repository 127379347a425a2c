"""A log in shards, for the functions of this package: they ask a `Part`, or `Parts`, for sums.

A log in memory is one part. Of a log in shards nothing is kept but the group of every episode: rows are read
again, once for all that is asked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.evaluation.asks import Ask, answers
from sparsetd.evaluation.behavior import Calibrated
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.moments import Part
from sparsetd.evaluation.target import pose
from sparsetd.features.featurize import featurize
from sparsetd.logs import Shard, Transitions
from sparsetd.logs.engines import Engine, reduced
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array


@dataclass(frozen=True, eq=False)
class Reading:
    """How transitions become a part: target policy, discount, fitted features and their units.

    `behavior` fills in the probabilities of the logged actions where they were estimated.
    """

    target: Any
    gamma: float
    features: Any = None
    units: Units | None = None
    behavior: Calibrated | None = None

    def __call__(self, log: Transitions) -> Part:
        posed = pose(log if self.behavior is None else self.behavior.apply(log), self.target).log
        episodes = Episodes.of_log(posed, self.gamma)
        batch = featurize(posed, self.features, self.gamma, clear=False)
        return Part(batch, episodes, log.ids(), self.units)


@dataclass(frozen=True, eq=False)
class Parts:
    """The shards of a log, how and by whom they are read, and the ids of their episodes."""

    shards: Sequence[Shard]
    reading: Reading
    engine: Engine | None
    folder: str | None
    sizes: Array  # episodes of every shard

    def answer(self, *asked: Ask) -> list[Any]:
        """What is asked, from one reading of the shards."""
        along = [np.split(array, np.cumsum(self.sizes)[:-1]) for ask in asked for array in ask.along]
        own = list(zip(*along, strict=True)) if along else None
        plans = tuple(ask.plan() for ask in asked)
        where: dict[str, Any] = {"engine": self.engine, "folder": self.folder}
        return list(reduced(answers, self.shards, (plans,), along=own, opened=self.reading, **where).values)

    def in_units(self, units: Units) -> Parts:
        return replace(self, reading=replace(self.reading, units=units))
