"""Folds that never split an episode: rows of one episode are alike, and a split would let the held-out rows leak."""

from __future__ import annotations

import numpy as np

from sparsetd.system import Array


def episode_of(start: Array) -> Array:
    """The number of each row's episode, from 0; the first row begins one whatever it says."""
    begins = np.array(start, dtype=bool)
    begins[:1] = True
    return np.asarray(np.cumsum(begins) - 1)


def episode_folds(start: Array, n_folds: int) -> Array:
    """The fold of each row: episodes are dealt out in turn; a log with fewer episodes is cut into blocks of rows."""
    n = len(start)
    if not 2 <= n_folds <= n:
        raise ValueError(f"cv={n_folds} must be between 2 and the number of rows, {n}")
    episode = episode_of(start)
    if episode[-1] + 1 >= n_folds:
        return np.asarray(episode % n_folds)
    return np.asarray(np.arange(n) * n_folds // n)


def clusters(start: Array, at_least: int = 20) -> Array:
    """Rows that are treated as dependent: the episodes, or √N-long blocks of rows where there are too few of them."""
    n, episode = len(start), episode_of(start)
    if episode[-1] + 1 >= min(at_least, n):
        return episode
    blocks = np.arange(n) // max(int(np.sqrt(n)), 1)
    return np.asarray(np.unique(np.column_stack([episode, blocks]), axis=0, return_inverse=True)[1].ravel())
