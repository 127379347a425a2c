"""A fitted sparse model as a table: feature, weight per standard deviation, interval, how often it is chosen again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sparsetd import plots
from sparsetd._tools.frames import Framed, frame
from sparsetd.selection.episodes import clusters, halves
from sparsetd.selection.intervals import ClusterSums, sandwich
from sparsetd.selection.sparse_td_select import SparseTDSelect
from sparsetd.system import Array, Batch

COLUMNS = ("feature", "weight", "low", "high", "frequency")


@dataclass(frozen=True, eq=False)
class Summary(Framed):
    """Hold one entry per kept feature, the heaviest first, with its weight, interval and selection frequency.

    `weight` is the change in value per standard deviation of the feature.

    See also `summary`: computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import Summary
    >>> one = np.ones(1)
    >>> found = Summary(np.array(['lactate']), -2 * one, -3 * one, -one, one, level=0.95)
    >>> list(found.to_frame().columns)
    ['feature', 'weight', 'low', 'high', 'frequency']
    >>> print(found)
    feature  weight per s.d.  95% interval       chosen again
    lactate               -2  -3 to -1               100%
    """

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
    n_resamples: int = 20,
    random_state: int = 0,
    **log: Any,
) -> Summary:
    """Return the weights of a fitted sparse model per standard deviation, with intervals and selection frequencies.

    Parameters
    ----------
    model : fitted estimator
        Its `support_`, λ and γ are used; the coefficients are fitted afresh on these rows by LSTD, as in
        `value_interval`. The support counts as given: the intervals do not account for its having been selected on the
        same rows. Select on one half of the episodes and summarise on the other where that matters.
    X, y, X_next, **log
        The rows, and `ratio`, `discount`, `start` and `interest`, as in `fit`.
    level : float
        Of the intervals.
    n_resamples, random_state : int
        Random halves of the episodes on which the model selects again, and their seed.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import SparseTDSelect
    >>> from sparsetd.selection import summary
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 10))
    >>> y = 2.0 * X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=400)
    >>> found = summary(SparseTDSelect(gamma=0.0).fit(X, y), X, y, n_resamples=4)
    >>> list(zip(found.feature[:2], found.weight[:2].round().tolist(), found.frequency[:2].tolist()))
    [('x3', 2.0, 1.0), ('x5', -1.0, 1.0)]
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
    again = chosen_again(model, batch, n_resamples, np.random.default_rng(random_state))
    names = getattr(model, "feature_names_in_", np.array([f"x{j}" for j in range(len(model.support_))]))
    order = np.argsort(-np.abs(spread * found.estimate), kind="stable")
    feature, frequency = np.asarray(names, dtype=object)[kept][order], again[kept][order]
    weight, low, high = ((spread * values)[order] for values in (found.estimate, found.low, found.high))
    return Summary(feature, weight, low, high, frequency, level)


def chosen_again(model: Any, batch: Batch, n_resamples: int, rng: np.random.Generator) -> Array:
    """The share of random halves of the episodes on which the model itself selects each feature again."""
    cluster, d = clusters(batch.start), len(model.support_)
    if cluster[-1] < 1:
        raise ValueError("a summary draws halves of the log, but it has 1 row; pass more rows")
    drawn = halves(int(cluster[-1]) + 1, n_resamples, rng)
    shares = [_selected(model, batch[np.flatnonzero(half[cluster])], d) for half in drawn]
    return np.mean(shares, axis=0) if shares else np.full(d, np.nan)


def _selected(model: Any, batch: Batch, d: int) -> Array:
    if isinstance(model, SparseTDSelect) and model.choice == "elimination" and model.groups is None:
        return np.isin(np.arange(d), model.selected(batch))
    fresh = clone(model)
    rows = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start, "interest": batch.interest}
    return np.asarray(fresh.fit(batch.phi[:, :d], batch.reward, batch.phi_next[:, :d], **rows).support_)
