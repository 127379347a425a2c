"""Rows of one episode are alike, so whole episodes are held out, drawn again and counted as one observation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetd.logs.partition import partition
from sparsetd.system import Array


def episode_of(start: Array) -> Array:
    """The number of each row's episode, from 0. The first row always begins one."""
    begins = np.array(start, dtype=bool)
    begins[:1] = True
    return np.asarray(np.cumsum(begins) - 1)


def episode_folds(start: Array, n_folds: int) -> Array:
    """The fold of each row, episodes dealt out by a hash; a log with fewer episodes is cut into blocks of rows."""
    n = len(start)
    if not 2 <= n_folds <= n:
        raise ValueError(f"n_folds={n_folds} must be between 2 and the number of rows, {n}")
    episode = episode_of(start)
    if episode[-1] + 1 >= n_folds:
        return np.asarray(partition(np.arange(episode[-1] + 1), n_folds)[episode])
    return np.asarray(np.arange(n) * n_folds // n)


def clusters(start: Array, at_least: int = 20) -> Array:
    """The cluster of every row: its episode, or a block of √N rows if there are too few episodes."""
    n, episode = len(start), episode_of(start)
    if episode[-1] + 1 >= min(at_least, n):
        return episode
    blocks = np.arange(n) // max(int(np.sqrt(n)), 1)
    return np.asarray(np.unique(np.column_stack([episode, blocks]), axis=0, return_inverse=True)[1].ravel())


def halves(n: int, times: int, rng: np.random.Generator) -> Iterator[Array]:
    """Masks of random halves of n things."""
    for _ in range(times):
        yield np.isin(np.arange(n), rng.permutation(n)[: max(n // 2, 1)])


def powers(values: Array) -> Array:
    """Σ x^k, k = 1, …, 4, over the last axis."""
    squares = values * values  # products: a power of 3 or 4 takes fifty times as long
    terms = (values, squares, squares * values, squares * squares)
    return np.stack([term.sum(axis=-1) for term in terms], axis=-1)


def clustered_error(power: Array, n: int, n_fitted: int = 0) -> tuple[Array, Array]:
    """sd/√n of n > 1 influences x_i, one per episode, and its degrees of freedom, from the sums Σ x^k of `powers`.

    An influence is what one episode adds to n times the error. The degrees of freedom are Satterthwaite's,
    2n / (kurtosis − 1): n for normal terms, few where a handful of episodes carries the sum, so that a heavy tail
    widens the interval. They are at most n − 1 less the `n_fitted` parameters that were fitted beside a mean.
    """
    first, second, third, fourth = np.moveaxis(power, -1, 0)
    mean, most = first / n, max(n - 1.0 - n_fitted, 1.0)
    squares = second - n * mean**2
    around = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * n * mean**4
    kurtosis = np.divide(n * around, squares**2, where=squares > 0, out=np.full(np.shape(squares), 3.0))
    return np.sqrt(squares / most / n), np.minimum(most, 2 * n / np.maximum(kurtosis - 1, 1e-9))
