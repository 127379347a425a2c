"""A fitted sparse model as a table: feature, weight per standard deviation, interval, how often it is chosen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsetd import plots
from sparsetd._tools.frames import Framed, frame
from sparsetd.selection.intervals import ClusterSums, sandwich
from sparsetd.selection.stability import stability_selection
from sparsetd.system import Array

COLUMNS = ("feature", "weight", "low", "high", "frequency")


@dataclass(frozen=True, eq=False)
class Summary(Framed):
    """One entry per kept feature, the heaviest first; `weight` is the change in value per standard deviation."""

    feature: Array
    weight: Array
    low: Array
    high: Array
    frequency: Array
    level: float

    def __repr__(self) -> str:
        width = max(map(len, ["feature", *self.feature]))
        head = f"{'feature':{width}s}  weight per s.d.  {100 * self.level:g}% interval       chosen again"
        rows = zip(self.feature, self.weight, self.low, self.high, self.frequency, strict=True)
        lines = [
            f"{n:{width}s}  {w:+15.4g}  {a:+.4g} to {b:+.4g}".ljust(width + 42) + f"{f:.0%}" for n, w, a, b, f in rows
        ]
        return "\n".join([head, *lines])

    def to_frame(self) -> Any:
        """The same as a pandas (or polars) frame."""
        return frame({name: getattr(self, name) for name in COLUMNS})

    def plot(self, ax: Any = None) -> Any:
        """The weights with their intervals; returns the axes."""
        rows = list(zip(self.feature, self.weight, zip(self.low, self.high, strict=True), strict=True))
        return plots.forest(rows, ax, ours=len(rows), label="change in value per standard deviation")


def summary(
    model: Any,
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    level: float = 0.95,
    n_halves: int = 20,
    seed: int = 0,
    **log: Any,
) -> Summary:
    """Weights of a fitted sparse model per standard deviation, with intervals and selection frequencies.

    Parameters
    ----------
    model : fitted estimator
        Its `support_`, λ and γ are used; the coefficients are fitted afresh on these rows by LSTD, as in
        `value_interval`, and the support counts as given.
    X, y, X_next, **log
        The rows, and `ratio`, `discount`, `start` and `interest`, as in `fit`.
    level : float
        Of the intervals.
    n_halves, seed : int
        Pairs of random halves of the episodes for the frequencies, and their seed.
    """
    check_is_fitted(model)
    columns = [log.get(name) for name in ("ratio", "discount", "start", "interest")]
    batch = model._batch(X, y, X_next, *columns, reset=False)
    kept = np.flatnonzero(model.support_)
    constant = np.arange(len(model.support_), batch.n_features)  # the intercept's column, if there is one
    sums = ClusterSums.of(batch, np.concatenate([kept, constant]), getattr(model, "lam", 0.0))
    rows = batch.phi[:, kept]
    spread = np.asarray((rows.toarray() if hasattr(rows, "toarray") else rows).std(axis=0))
    found = sandwich(sums, np.eye(len(sums.scale))[: len(kept)] / sums.scale, level)
    again = stability_selection(X, y, X_next, n_halves=n_halves, random_state=seed, gamma=model.gamma, **log)
    names = getattr(model, "feature_names_in_", np.array([f"x{j}" for j in range(len(model.support_))]))
    order = np.argsort(-np.abs(spread * found.estimate), kind="stable")
    feature, frequency = np.asarray(names, dtype=object)[kept][order], again.probabilities[kept][order]
    weight, low, high = ((spread * values)[order] for values in (found.estimate, found.low, found.high))
    return Summary(feature, weight, low, high, frequency, level)
