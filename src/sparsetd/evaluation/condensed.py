"""A log of any size becomes d + 1 rows, for every method that needs only its mean system.

    XᵀX = p C/N        Xᵀ(X − X') = p A/N        Xᵀy = p b/N        p = d + 1 rows

With C/N = RᵀR these are X = √p QR, X' = X − √p QR⁻ᵀA/N and y = √p QR⁻ᵀb/N for any rotation Q; the one taken here makes
the constant a column of ones, so that means over these p rows are means over all N. On them `LSTD`, `SparseTD` and its
path, `LSTDL1`, `DantzigLSTD`, `LARSTD`, `LCPTD` and `OMPTD` find what they find on the log. Each random half has other
rows, from the sums of its groups of episodes. Elimination and intervals need single rows or episodes, so they read the
log once more.

`fit_shards` makes a `ValueFunction` of a log in shards that need not fit in memory. A method that learns row by row
takes the shards one after the other, and the next one is decoded while it learns; the sizes of the shards change
nothing. A method that solves the mean system gets it from one reading (`condense`), which also has the means and scales
for standardised features. Other feature maps are fitted on the first shards, 50,000 rows. A method that needs all rows
at once gets them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from sparsetd._tools.lazy_names import renamed
from sparsetd.estimators import SparseTD, ValueFunction, fit_stream
from sparsetd.estimators.validation import refuse_states
from sparsetd.evaluation.choice import FORMED, choose_on
from sparsetd.evaluation.episodes import Groups
from sparsetd.evaluation.linear import LinearValue, score_powers, sums_of
from sparsetd.evaluation.reading import Ask, Opened, Part, Settings, answer, open_log, sample
from sparsetd.features.featurize import feature_names, featurize, state_features
from sparsetd.logs import Shard, Transitions, concatenate, shards
from sparsetd.logs.engines import Engine
from sparsetd.logs.reading import read_ahead
from sparsetd.selection import Interval, SparsePath, SparseTDSelect, StabilitySelection
from sparsetd.selection.episodes import clustered_error
from sparsetd.selection.intervals import of_error
from sparsetd.selection.moments import Moments
from sparsetd.selection.path import path_on
from sparsetd.selection.stability import drawn_halves, of_halves
from sparsetd.solvers.saddle import Units
from sparsetd.storage.cache import SECONDS, Cache
from sparsetd.system import Array, Batch

EMPTY = 1e-12  # share of the largest eigenvalue of C below which a direction is empty
ROW_BY_ROW = ("RALP",)  # batch methods that need more than the mean system


@dataclass(frozen=True, eq=False)
class Condensed:
    """Hold the sums of a log by groups of its episodes, from which estimators can be fitted again and again.

    Each method does on the whole log what the function of the same name does on rows. The features are in `units`, with
    mean 0 and variance 1. Penalties apply in these units, or in those of the log if `standardize` is False.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, SparseTD, Transitions
    >>> from sparsetd.evaluation import condense
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> log = Transitions.from_arrays(X, X[:, 0], terminated=np.ones(100, dtype=bool))
    >>> sums = condense(log)
    >>> sums.n_rows, len(sums.names)
    (100, 3)
    >>> bool(np.allclose(sums.fit(LSTD()).coef_, [1, 0, 0], atol=1e-3))
    True
    >>> np.flatnonzero(sums.fit(SparseTD(rho_theta=0.1)).coef_).tolist()
    [0]
    """

    log: Opened
    moments: Moments
    units: Units
    gamma: float
    standardize: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.log.names))

    @property
    def n_rows(self) -> int:
        return int(self.moments.n_rows.sum())

    def fit(self, estimator: Any) -> Any:
        """A fitted copy of an estimator, with coefficients for the features as the log has them."""
        model = self.fitted(estimator)
        if self.standardize:
            model.coef_, model.coef_last_ = self.units.back(model.coef_), self.units.back(model.coef_last_)
            model.intercept_ -= float(model.coef_ @ self.units.shift) if model.fit_intercept else 0.0
            model.aux_ = model.dual_ = None  # they would be in other units than the coefficients
        return model

    def fitted(self, estimator: Any) -> Any:
        """A fitted copy of an estimator, for features in the units in which they are penalised."""
        model = self._posed(clone(estimator))
        batch = self.batch(intercept=model.fit_intercept)
        table, penalty, solver, factor = model._begin(batch)
        if model._streams:
            raise ValueError(f"{type(model).__name__} learns row by row: use `fit_stream`, or `fit_shards`.")
        if isinstance(model, SparseTDSelect):
            kept = choose_on(self.log.rows.in_units(self.units), self.moments).support
            solver = replace(solver, kept=np.append(kept, len(self.names)))  # with the constant
        model._take(batch, (table, penalty, solver, factor))
        model._finish((table, penalty, solver, factor))
        if hasattr(model, "rank_"):  # LSTD counts rows
            model.n_iter_ = self.n_rows
        del model._state  # no stream may go on from here: a new row would weigh as much as one of these few
        return model

    def path(
        self, *, rhos: Sequence[float] | None = None, n_rhos: int = 50, eps: float = 1e-2, **parameters: Any
    ) -> SparsePath:
        """`sparse_td_path`, with an intercept; coefficients as in `fitted`."""
        model = self._posed(SparseTD(gamma=self.gamma, fit_intercept=True, **parameters))
        return path_on(model, self.batch(), rhos, n_rhos, eps)

    def stability_selection(
        self,
        *,
        threshold: float = 0.75,
        max_false: float = 1.0,
        n_resamples: int = 50,
        random_state: int | None = None,
        n_jobs: int | None = None,
        **parameters: Any,
    ) -> StabilitySelection:
        """`stability_selection`, its halves made of whole groups of episodes."""
        model = self._posed(SparseTD(gamma=self.gamma, fit_intercept=True, **parameters))
        masks = drawn_halves(np.arange(len(self.moments.n_rows)), n_resamples, np.random.default_rng(random_state))
        halves = [(self.batch(mask > 0), None) for mask in masks]
        return of_halves(model, halves, threshold, max_false, n_jobs, np.array(self.names))

    def value_interval(self, model: Any, *, at: Any = None, level: float = 0.95) -> Interval:
        """`value_interval` with the sandwich, on the features that a fitted model selected; one reading of the log.

        `at` are features as the log has them; None asks for the mean of V over the first states.
        """
        check_is_fitted(model)
        columns = np.append(np.flatnonzero(model.support_), len(self.names))
        linear, states = LinearValue.solve(self.moments.on(columns)), None
        if at is not None:
            rows = (np.atleast_2d(np.asarray(at, dtype=np.float64)) - self.units.shift) / self.units.scale
            states = np.column_stack([rows, np.ones(len(rows))])[:, columns]
        estimate = np.array([linear.value]) if states is None else states @ linear.theta
        ask = Ask(score_powers, (linear, states)).under(0).on(Part.on, columns[:-1])
        power = answer(self.log.rows.in_units(self.units), power=ask).power
        return of_error(estimate, *clustered_error(power, linear.n_episodes, len(columns) - 1), level)

    def batch(self, keep: Array | None = None, intercept: bool = True) -> Batch:
        """The rows of all groups, or of those in `keep`; with `intercept` the last column is the constant."""
        moments = self.moments.total(keep)
        n, p = moments.n_rows[0], moments.b.shape[1]
        # An eigenbasis instead of a Cholesky factor: C may be singular, and empty directions must drop out.
        size, basis = np.linalg.eigh(moments.C[0] / n)
        size, kept = np.sqrt(np.maximum(size, 0.0)), size > EMPTY * size[-1]
        X = np.sqrt(p) * (size * kept)[:, None] * basis.T
        back = np.sqrt(p) * np.divide(basis.T, size[:, None], where=kept[:, None], out=np.zeros((p, p))) / n
        v = X[:, -1] - 1.0  # the last column has the length √p: it is reflected onto that of ones
        reflected = v * (2.0 / max(v @ v, np.finfo(float).tiny))
        X, y, change = (
            rows - np.multiply.outer(reflected, v @ rows) for rows in (X, back @ moments.b[0], back @ moments.A[0])
        )
        X[:, -1] = 1.0  # exactly: the reflection leaves rounding there
        after = X - change
        scale = np.ones(len(self.names)) if self.standardize else self.units.scale
        shift = scale * self.units.shift / self.units.scale
        if not (self.standardize and intercept):  # centring the features without an intercept would change the model
            for rows in (X, after):
                rows[:, :-1] = rows[:, :-1] * scale + rows[:, -1:] * shift
        if not intercept:
            X, after = X[:, :-1], after[:, :-1]
        one, first = np.ones(len(y)), np.arange(len(y)) == 0
        return Batch(X, after, y, one, one, first, one)

    def _posed(self, model: Any) -> Any:
        """The estimator; an error if it cannot be fitted to these sums."""
        name = type(model).__name__
        if model.gamma != self.gamma:
            raise ValueError(f"{name} has gamma={model.gamma}, but the log was condensed with gamma={self.gamma}.")
        if (why := why_rows(model)) is not None:
            raise ValueError(f"{why}: `read` the log.")
        model.n_features_in_ = len(self.names)
        return model


def why_rows(model: Any) -> str | None:
    """Why a batch estimator needs the rows of a log; None if the sums are enough."""
    name = type(model).__name__
    if getattr(model, "lam", 0.0):
        return f"{name} with lam={model.lam:g} needs the trace of every row"
    if name in ROW_BY_ROW:
        return f"{name} needs single rows"
    plain = not isinstance(model, SparseTDSelect) or (
        model.choice == "elimination" and model.groups is None and model.fit_intercept and not model.unpenalized
    )
    return None if plain else "SparseTDSelect needs single rows unless it chooses by elimination, with an intercept"


@renamed
def condense(
    source: Any,
    target: Any = None,
    *,
    gamma: float = 0.99,
    features: Any = None,
    standardize: bool = True,
    engine: Engine | None = None,
    checkpoint: str | None = None,
) -> Condensed:
    """Read a log once, in memory or in shards, and keep the sums that linear methods need.

    The parameters are those of `evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, Transitions
    >>> from sparsetd.evaluation import condense
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> log = Transitions.from_arrays(X, X[:, 0], terminated=np.ones(100, dtype=bool))
    >>> sums = condense(log)
    >>> np.abs(sums.fit(LSTD()).coef_).round(3).tolist()
    [1.0, 0.0, 0.0]
    """
    log = open_log(source, {"target": target}, Settings(gamma, features, engine=engine, checkpoint=checkpoint))
    if len(log.names) > FORMED or log.rows.is_sparse:
        raise ValueError(f"A log is condensed to sums over all pairs of up to {FORMED:,} dense features: use fewer.")
    groups = Groups.of(log.hashes, len(log.log), 2)
    found = sums_of(log.rows, groups.group, groups.n, 0)
    units = found.units(log.units)
    Cache(checkpoint).clear()
    return Condensed(log, found.in_units(log.units, units), units, gamma, standardize)


def fit_shards(
    model: ValueFunction,
    source: Any,
    *,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    seconds_per_save: float = SECONDS,
    warm_start: bool = False,
) -> ValueFunction:
    """Fit a model of state values to a log in shards, which may be larger than memory, and return it.

    Parameters
    ----------
    model : ValueFunction
    source : path, or sequence of Shard
        A folder of shards (see `sparsetd shard`), or any source of `shards`.
    engine, checkpoint
        As in `evaluate`.
    seconds_per_save : float
        Seconds between two checkpoints of a method that learns row by row.
    warm_start : bool
        Go on with a model that was fitted before, with the features it has. Its method must learn row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, Transitions, ValueFunction
    >>> from sparsetd.evaluation import fit_shards
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> log = Transitions.from_arrays(X, X[:, 0], terminated=np.ones(100, dtype=bool))
    >>> model = fit_shards(ValueFunction(None, LSTD()), log)
    >>> bool(np.allclose(model.value(X), X[:, 0], atol=1e-3))
    True
    """
    parts = shards(source)
    first = sample(parts, sparse=True)
    if not warm_start:
        model._begin(first)
    elif not by_rows(model.estimator_):
        raise ValueError(
            f"{type(model.estimator_).__name__} solves for all rows at once and cannot go on: fit it anew."
        )
    first = first.with_columns(model._names)
    width = state_features(model.features_, first.observation[:1]).shape[1]
    if by_rows(model.estimator_):
        kept: dict[str, Any] = {"checkpoint": checkpoint, "seconds_per_save": seconds_per_save}
        fit_stream(model.estimator_, read_ahead(_batches(parts, model)), **kept)
    elif why_rows(model.estimator_) is None and width <= FORMED and not sp.issparse(first.observation):
        how: dict[str, Any] = {"engine": engine, "checkpoint": checkpoint, "gamma": model.estimator_.gamma}
        scaled = isinstance(model.features, StandardScaler)
        how |= {"standardize": scaled, "features": None if scaled else model.features}
        rows = condense(parts, **how)
        model.estimator_ = rows.fitted(model.estimator_)
        if scaled:
            model.features_, scale = StandardScaler(), rows.units.scale
            fitted = {"mean_": rows.units.shift, "scale_": scale, "var_": scale**2}
            vars(model.features_).update(fitted, n_features_in_=len(rows.names), n_samples_seen_=rows.n_rows)
    else:
        return model.fit(concatenate([part.read(sparse=True) for part in parts]))
    model.policy_ = model.n_actions_ = None
    model.feature_names_ = feature_names(model.features_, first)
    return model


def by_rows(estimator: Any) -> bool:
    """Return whether an estimator learns row by row."""
    table, _, solver = estimator.triple()
    return hasattr(solver.init(table, 1, np.float64), "primal")


def _batches(parts: Sequence[Shard], model: ValueFunction) -> Iterator[Mapping[str, Any]]:
    """The features of every shard, as batches of a stream."""
    width = model.n_observed_
    for part in parts:
        log: Transitions = part.read(sparse=True).with_columns(model._names)
        if log.observation.shape[1] != width:
            raise ValueError(
                f"{part.path} has {log.observation.shape[1]} features and the first shards have {width}: give sparse "
                "rows one number of columns, `n_features` (--n-features), or fold them with `buckets` (--buckets)."
            )
        batch = featurize(log, model.features_, model.estimator_.gamma)
        refuse_states(model.estimator_, batch.ratio)
        columns = {name: getattr(batch, name) for name in ("ratio", "discount", "start", "interest")}
        yield {"X": batch.phi, "y": batch.reward, "X_next": batch.phi_next, **columns}
