"""`fit_shards`: a `ValueFunction` from a log in shards that need not fit in memory.

A method that learns row by row takes the shards one after the other, the next one being decoded while it learns; how
they are cut changes nothing. A method that solves the mean system gets it from one reading (`condense`), which has the
means and scales for standardised features too. Other feature maps are fitted on the first shards, 50,000 rows. What
needs all rows at once gets them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from sparsetd.estimators import ValueFunction, fit_stream
from sparsetd.evaluation.choice import FORMED
from sparsetd.evaluation.condensed import Condensed, condense, why_rows
from sparsetd.evaluation.reading import sample
from sparsetd.features.featurize import feature_names, featurize, state_features
from sparsetd.logs import Shard, Transitions, concatenate, shards
from sparsetd.logs.engines import Engine
from sparsetd.logs.reading import read_ahead


def fit_shards(
    model: ValueFunction,
    source: Any,
    *,
    engine: Engine | None = None,
    checkpoint: str | None = None,
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
    warm_start : bool
        A model that was fitted before goes on learning, with the features it has. Its method must learn row by row.

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
        fit_stream(model.estimator_, read_ahead(_batches(parts, model)), checkpoint=checkpoint)
    elif why_rows(model.estimator_) is None and width <= FORMED and not sp.issparse(first.observation):
        how: dict[str, Any] = {"engine": engine, "checkpoint": checkpoint, "gamma": model.estimator_.gamma}
        scaled = isinstance(model.features, StandardScaler)
        how |= {"standardize": scaled, "features": None if scaled else model.features}
        rows = condense(parts, **how)
        model.estimator_ = rows.fitted(model.estimator_)
        model.features_ = _scaler(rows) if scaled else model.features_
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
                "rows a fixed number of columns with `buckets` (--buckets on the command line)."
            )
        batch = featurize(log, model.features_, model.estimator_.gamma)
        columns = {name: getattr(batch, name) for name in ("ratio", "discount", "start", "interest")}
        yield {"X": batch.phi, "y": batch.reward, "X_next": batch.phi_next, **columns}


def _scaler(rows: Condensed) -> StandardScaler:
    """The standardisation of the condensed features."""
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_, scaler.var_ = rows.units.shift, rows.units.scale, rows.units.scale**2
    scaler.n_features_in_, scaler.n_samples_seen_ = len(rows.names), rows.n_rows
    return scaler
