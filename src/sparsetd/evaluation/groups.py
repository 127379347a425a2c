"""Groups of episodes: some that follow one another make a fold, and half of all make a resampled log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.opened import Opened
from sparsetd.logs.partition import cuts, parts_between
from sparsetd.system import Array

N_GROUPS = 40


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of every episode by a hash of its id; `each` of them that follow one another make a fold."""

    group: Array
    n: int
    each: int

    @classmethod
    def of(cls, log: Opened, n_folds: int) -> Groups:
        n_episodes = len(log.hashes)
        if n_episodes < 2:
            raise ValueError(
                f"All {len(log.question.log)} rows are one episode, and an interval needs several: number them in a "
                "column `episode`, or mark where they end in `terminated` or `truncated`."
            )
        if n_episodes < n_folds:
            raise ValueError(f"The log has {n_episodes} episodes, fewer than {n_folds} folds: use fewer folds.")
        each = max(1, min(N_GROUPS, n_episodes) // n_folds)
        group = parts_between(cuts(log.hashes, n_folds * each), log.hashes)
        return cls(group.astype(np.min_scalar_type(n_folds * each)), n_folds * each, each)

    @property
    def fold(self) -> Array:
        return self.group // self.each
