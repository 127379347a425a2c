"""How far off may a value be? Intervals for V at states and for the value of a policy, and a table of a fitted model.

LSTD on the support S solves Σ_t e_t δ_t = 0. Episodes c are independent, so with G = Σ_t e_t(φ_t − ψ_t)ᵀ and the
scores s_c = Σ_{t∈c} e_t δ_t the estimate a·θ of any a moves by

    a·θ̂ − a·θ ≈ Σ_c aᵀG⁻¹ s_c                                            (sandwich, clustered by episode)

and the value of the policy, the mean of V over the states in which episodes begin, by (V(s_c) − mean)/n more.

`summary` puts these intervals beside the weights of the features, per standard deviation, with how often each feature
is chosen again on random halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import stdtrit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sparsetd import plots
from sparsetd._tools.frames import Framed
from sparsetd._tools.lazy_names import renamed
from sparsetd.estimators.base import BaseTD
from sparsetd.operators import td
from sparsetd.selection.episodes import clustered_error, clusters, episode_of, halves, powers
from sparsetd.selection.moments import lengths
from sparsetd.selection.sparse_td_select import SparseTDSelect
from sparsetd.solvers.mean import selected_rows
from sparsetd.system import Array, Batch, dense


@dataclass(frozen=True, eq=False)
class Interval(Framed):
    """Hold estimates with their standard errors and interval ends, one entry per state (or one, for a policy).

    See also `value_interval`: computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.selection import Interval
    >>> value, error = np.array([1.0, 2.0]), np.array([0.1, 0.2])
    >>> found = Interval(value, error, value - 2 * error, value + 2 * error, 0.95)
    >>> found
    Interval(1 (0.8 to 1.2); 2 (1.6 to 2.4); level 0.95)
    >>> found.to_frame().shape
    (2, 4)
    """

    estimate: Array
    standard_error: Array
    low: Array
    high: Array
    level: float

    def __repr__(self) -> str:
        ends = zip(self.estimate[:5], self.low[:5], self.high[:5], strict=True)
        shown = "; ".join(f"{value:.4g} ({low:.4g} to {high:.4g})" for value, low, high in ends)
        more = f"; and {len(self.estimate) - 5} more" if len(self.estimate) > 5 else ""
        return f"Interval({shown}{more}; level {self.level:g})"

    def plot(self, ax: Any = None) -> Any:
        """The estimates with their intervals, one line per state; returns the axes."""
        rows = enumerate(zip(self.estimate, self.low, self.high, strict=True))
        return plots.forest([(str(k), v, (low, high)) for k, (v, low, high) in rows], ax, ours=len(self.estimate))


@renamed
def value_interval(
    model: BaseTD,
    X: Any,
    y: Any,
    X_next: Any = None,
    *,
    at: Any = None,
    level: float = 0.95,
    **log: Any,
) -> Interval:
    """Return an interval for the value of states or of the policy, on the features that a model selected.

    The estimates are those of LSTD on these features.

    Parameters
    ----------
    model : fitted estimator
        Its `support_` (and intercept, λ and γ) are used; the coefficients are fitted afresh on these rows.
    X, y, X_next, **log
        The rows, and `ratio`, `discount`, `start` and `interest`, as in `fit`. `start` says where episodes begin, and
        these count as independent. With fewer than 20 episodes, blocks of √N rows take their place.
    at : array of shape (n, n_features) or None
        φ of the states asked about; None asks for the mean of V over the first states of the episodes.
    level : float
        Nominal coverage, by Student's quantiles.

    Notes
    -----
    The support counts as given. It was chosen on the same rows, so the interval is too short where relevant features
    were nearly missed; choose on one half of the episodes and ask here with the other half if that matters.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import SparseTDSelect
    >>> from sparsetd.selection import value_interval
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 10))
    >>> y = 2.0 * X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=400)
    >>> model = SparseTDSelect(gamma=0.0).fit(X, y)
    >>> found = value_interval(model, X, y, at=np.eye(10)[[3, 5]])
    >>> found.estimate.round(1), bool((found.high - found.low < 0.1).all())
    (array([ 2., -1.]), True)
    """
    check_is_fitted(model)
    batch = model._batch(X, y, X_next, **log, reset=False)
    support = np.flatnonzero(np.append(model.support_, np.ones(batch.n_features - len(model.support_), dtype=bool)))
    if not len(support):
        raise ValueError(
            "model selected no feature, so there is nothing to give an interval for; use a smaller rho_theta"
        )
    states = None if at is None else _states(model, at, support)
    return of_error(*clustered(batch, support, getattr(model, "lam", 0.0), states), level)


def of_error(estimate: Array, error: Array, freedom: Array, level: float) -> Interval:
    """The estimates ± Student's quantile times their errors."""
    reach = stdtrit(freedom, 0.5 + level / 2) * error
    return Interval(estimate, error, estimate - reach, estimate + reach, level)


def clustered(batch: Batch, support: Array, lam: float, states: Array | None) -> tuple[Array, Array, Array]:
    """LSTD's V at the states (φ_S), or its mean over the first ones: estimates, standard errors, degrees of freedom."""
    rows = selected_rows(td(lam), batch, support)
    scale, cluster = lengths(rows[0]), clusters(batch.start)
    phi, psi, e = (part / scale for part in rows)
    G, order = e.T @ (phi - psi), np.flatnonzero(np.diff(cluster, prepend=-1))  # clusters are runs of rows
    theta = np.linalg.lstsq(G, e.T @ batch.reward, rcond=None)[0]
    errors = batch.reward - (phi - psi) @ theta
    scores = np.add.reduceat(e * errors[:, None], order) @ np.linalg.pinv(G).T
    if states is None:
        begins = np.diff(episode_of(batch.start), prepend=-1)
        first, n = begins @ phi, begins.sum()
        estimate = np.array([first @ theta / n])
        beside = np.add.reduceat(begins * (phi @ theta - estimate), order)
        moved = (scores @ first + beside)[:, None] / n
    else:
        estimate, moved = states / scale @ theta, scores @ (states / scale).T
    return estimate, *clustered_error(powers(len(order) * moved.T), len(order), len(support) - 1)


def _states(model: BaseTD, at: Any, support: Array) -> Array:
    """φ_S of the states asked about, with the constant of the intercept."""
    rows: Any = at if sp.issparse(at) else np.atleast_2d(at)
    if rows.shape[1] != model.n_features_in_:
        raise ValueError(f"at has {rows.shape[1]} columns but the model has {model.n_features_in_} features")
    kept = dense(rows[:, support[support < model.n_features_in_]])
    return np.hstack([kept, np.ones((len(kept), len(support) - kept.shape[1]))])


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

    def plot(self, ax: Any = None) -> Any:
        """The weights with their intervals; returns the axes."""
        rows = list(zip(self.feature, self.weight, zip(self.low, self.high, strict=True), strict=True))
        return plots.forest(rows, ax, ours=len(rows), label="change in value per standard deviation")


@renamed
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
        Level of the intervals.
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
    batch = model._batch(X, y, X_next, **log, reset=False)
    kept = np.flatnonzero(model.support_)
    constant = np.arange(len(model.support_), batch.n_features)  # the intercept's column, if there is one
    weights = np.eye(len(kept), len(kept) + len(constant))  # V "at" these states is the weight of each feature
    columns = np.concatenate([kept, constant])
    found = of_error(*clustered(batch, columns, getattr(model, "lam", 0.0), weights), level)
    spread = dense(batch.phi[:, kept]).std(axis=0)
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
    without_a_fit = isinstance(model, SparseTDSelect) and model.choice == "elimination" and model.groups is None
    chosen = []
    for half in halves(int(cluster[-1]) + 1, n_resamples, rng):
        rows = batch[np.flatnonzero(half[cluster])]
        if without_a_fit:
            chosen.append(np.isin(np.arange(d), model.selected(rows)))
        else:
            again = clone(model).fit(rows.phi[:, :d], rows.reward, rows.phi_next[:, :d], **rows.columns)
            chosen.append(again.support_)
    return np.mean(chosen, axis=0) if chosen else np.full(d, np.nan)
