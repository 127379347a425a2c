"""Which features carry the value function: a sparse estimator decides, resampled logs tell how firmly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsetd.evaluation.episodes import Episodes
from sparsetd.system import Array, Batch

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Choice:
    """Columns of φ that were kept, the fitted estimator, and the same estimator at its chosen penalty, unfitted."""

    support: Array
    model: Any
    again: Any


def choose(batch: Batch, estimator: Any, episodes: Episodes) -> Choice:
    """Fit `estimator` (a copy, with the batch's own discounts) and read off its support."""
    model = fitted(clone(estimator), batch, episodes)
    again = getattr(model, "best_estimator_", None)
    return Choice(np.flatnonzero(model.support_), model, clone(estimator if again is None else again))


def fitted(model: Any, batch: Batch, episodes: Episodes) -> Any:
    """The estimator fitted to the rows of a batch; one that splits by episode is told the episodes."""
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    if getattr(model, "accepts_groups", False):
        columns["groups"] = episodes.of
    with warnings.catch_warnings():
        # An empty support is an answer here (the value is then a constant), not a mistake.
        warnings.filterwarnings("ignore", "(?s).*set every coefficient to zero", ConvergenceWarning)
        return model.fit(batch.phi, batch.reward, batch.phi_next, **columns)


def frequencies(
    batch: Batch, choice: Choice, episodes: Episodes, n_resamples: int, rng: np.random.Generator, tell: Progress
) -> Array | None:
    """Share of random halves of the log (whole episodes) in which each feature is kept, at the chosen penalty."""
    if n_resamples == 0:
        return None
    kept = np.zeros(batch.n_features)
    for i in range(n_resamples):
        tell(f"resampling {i + 1} of {n_resamples}")
        half = np.sort(rng.permutation(len(episodes))[: max(len(episodes) // 2, 1)])
        rows = np.flatnonzero(np.isin(episodes.of, half))
        kept += fitted(clone(choice.again), batch[rows], episodes.subset(rows)).support_
    return kept / n_resamples
