"""Which features carry the value function: a sparse estimator decides, resampled logs tell how firmly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.evaluation.episodes import Episodes
from sparsetd.progress import track
from sparsetd.selection import SparsePath, SparseTDCV
from sparsetd.system import Array, Batch

Progress = Callable[[str], None]
BELOW = 3.0  # the path is followed to a third of the chosen penalty
MAX_RIVALS = 300  # columns that compete in the resampled halves


@dataclass(frozen=True, eq=False)
class Choice:
    """Columns of φ that were kept, the fitted estimator, the same at its chosen penalty (unfitted), and its path.

    `equation` is LSTD's (A, b) of all features with a constant last, where the estimator has formed it.
    """

    support: Array
    model: Any
    again: Any
    path: SparsePath | None = None
    equation: tuple[Array, Array] | None = None


def choose(batch: Batch, estimator: Any) -> Choice:
    """Fit a copy of `estimator` and read off its support; where it chose a penalty, follow the path a little on."""
    model = fitted(clone(estimator), batch)
    support = np.flatnonzero(model.support_)
    if not isinstance(model, SparseTDCV):
        return Choice(support, model, clone(estimator))
    shared = {name: value for name, value in model.get_params().items() if name in SparseTD().get_params()}
    again = SparseTD(**{**shared, "rho_theta": model.rho_theta_, "refit": False})
    path = model.path(model.rhos_[model.rhos_ >= model.rho_theta_ / BELOW])
    return Choice(support, model, again, path, _equation(model))


def _equation(model: SparseTDCV) -> tuple[Array, Array] | None:
    """The mean system of the fit, where it was formed and is that of LSTD with a constant: no w, no trace."""
    formed = model._state.formed
    plain = model.rho_w is None and model.lam == 0.0 and model.fit_intercept
    return (formed.A, formed.b) if plain and formed is not None else None


def columns(batch: Batch) -> dict[str, Any]:
    """What an estimator's `fit` wants beside the features and the reward."""
    return {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}


def fitted(model: Any, batch: Batch) -> Any:
    """The estimator fitted to the rows of a batch."""
    with warnings.catch_warnings():
        # An empty support is an answer here (the value is then a constant), not a mistake.
        for empty in ("set every coefficient to zero", "selected no feature"):
            warnings.filterwarnings("ignore", f"(?s).*{empty}", ConvergenceWarning)
        return model.fit(batch.phi, batch.reward, batch.phi_next, **columns(batch))


def frequencies(
    batch: Batch, choice: Choice, episodes: Episodes, n_resamples: int, rng: np.random.Generator, tell: Progress
) -> Array | None:
    """Share of random halves of the log (whole episodes) in which each feature is kept, at the chosen penalty."""
    if n_resamples == 0:
        return None
    rivals, kept = _rivals(batch, choice), np.zeros(batch.n_features)
    few = replace(batch, phi=batch.phi[:, rivals], phi_next=batch.phi_next[:, rivals])
    again = clone(choice.again)
    if choice.path is not None:  # an exact solver: where it starts changes its time, not its answer
        again.set_params(coef_init=choice.model.coef_last_[rivals])
    tell(f"choosing again on {n_resamples} random halves of the log")
    for _ in track(range(n_resamples), "halves"):
        half = np.zeros(len(episodes), dtype=bool)
        half[rng.permutation(len(episodes))[: max(len(episodes) // 2, 1)]] = True
        kept[rivals] += fitted(clone(again), few[half[episodes.of]]).support_
    return kept / n_resamples


def _rivals(batch: Batch, choice: Choice) -> Array:
    """The columns that compete: all of a few; of many, those that the path shows to come near, and the kept ones."""
    if batch.n_features <= MAX_RIVALS or choice.path is None:
        return np.arange(batch.n_features)
    size = np.abs(choice.path.coefs).max(axis=1)
    near = np.argsort(-size, kind="stable")[: min(MAX_RIVALS, int((size > 0).sum()))]
    return np.union1d(near, choice.support)
