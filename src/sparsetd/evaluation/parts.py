"""A log in shards, for the functions of this package: they ask a `Part`, or `Parts`, for sums and joined columns.

A log in memory is one part. Of a log in shards a few numbers per row are kept (reward, ratio, weight, …), never the
features: they are read again, once for all that is asked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.engines import Engine, reduced, tree
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.moments import Ask, Part, Spread
from sparsetd.evaluation.target import pose
from sparsetd.features.featurize import featurize
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array
from sparsetd.transitions import Shard, Transitions


@dataclass(frozen=True, eq=False)
class Reading:
    """How transitions become a part: target policy, discount, fitted features and their units."""

    target: Any
    gamma: float
    features: Any = None
    units: Units | None = None

    def __call__(self, log: Transitions) -> Part:
        posed = pose(log, self.target).log
        episodes = Episodes.of_log(posed, self.gamma)
        rows = featurize(posed, self.features, self.gamma)
        return Part(rows if self.units is None else self.units.applied(rows), episodes, log.ids())


@dataclass(frozen=True, eq=False)
class Parts:
    """The shards of a log, how and by whom they are read, and the episodes of all of them, shard by shard."""

    shards: Sequence[Shard]
    reading: Reading
    engine: Engine | None
    folder: str | None
    episodes: Episodes
    ids: Array
    sizes: tuple[Array, Array]  # episodes and rows of every shard

    @classmethod
    def first_pass(
        cls,
        shards: Sequence[Shard],
        reading: Reading,
        engine: Engine | None = None,
        folder: str | None = None,
    ) -> tuple[Parts, Spread]:
        """The log with what is kept of it, and the spread of its features."""
        found = reduced(facts, shards, listed=True, opened=reading, engine=engine, folder=folder)
        *columns, spreads = zip(*found, strict=True)
        reward, ratio, length, complete, ids = map(np.concatenate, columns)
        sizes = (np.array([len(part) for part in columns[2]]), np.array([len(part) for part in columns[0]]))
        episodes = Episodes.of_columns(reward, ratio, length, complete, reading.gamma)
        return cls(shards, reading, engine, folder, episodes, ids, sizes), tree(spreads)

    def answer(self, *asked: Ask) -> list[Any]:
        """What is asked, from one reading of the shards."""
        plan = [(ask.f, ask.args, len(ask.along), ask.views, ask.joined) for ask in asked]
        own = [sum(parts, ()) for parts in zip(*(self._split(ask.along) for ask in asked), strict=True)]
        where: dict[str, Any] = {"engine": self.engine, "folder": self.folder}
        found = reduced(answers, self.shards, (tuple(plan),), along=own, opened=self.reading, **where)
        return [_joined(v) if ask.joined else v for ask, v in zip(asked, found.values, strict=True)]

    def in_units(self, units: Units) -> Parts:
        return replace(self, reading=replace(self.reading, units=units))

    def _split(self, along: Sequence[Array]) -> list[tuple[Array, ...]]:
        """The pieces of the arrays for every shard."""
        cuts = [np.cumsum(self.sizes[int(len(a) != len(self.episodes))])[:-1] for a in along]
        pieces = [np.split(a, cut) for a, cut in zip(along, cuts, strict=True)]
        return [tuple(piece[k] for piece in pieces) for k in range(len(self.shards))]


@dataclass(frozen=True, eq=False)
class Several:
    """Results that are added one by one."""

    values: list[Any]

    def __add__(self, other: Several) -> Several:
        return Several([a + b for a, b in zip(self.values, other.values, strict=True)])


def answers(part: Part, *own_and_plan: Any) -> Several:
    """The answers of one part; what is to be joined is in a list, since lists add up to longer ones."""
    *own, plan = own_and_plan
    out, at = [], 0
    for f, args, n_along, views, joined in plan:
        found = f(part.seen(views), *own[at : at + n_along], *args)
        out.append([found] if joined else found)
        at += n_along
    return Several(out)


def _joined(parts: list[Any]) -> Any:
    several = isinstance(parts[0], tuple)
    return tuple(map(np.concatenate, zip(*parts, strict=True))) if several else np.concatenate(parts)


def facts(part: Part) -> tuple[Any, ...]:
    """What the first pass keeps of a part."""
    episodes = part.episodes
    length = episodes.last - episodes.first + 1
    return episodes.reward, episodes.ratio, length, episodes.complete, part.ids, Spread.of(part.batch.phi)
