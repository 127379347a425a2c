"""A scorer that is right inside a pipeline."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metadata_routing import MetadataRequest

from sparsetd.estimators.base import is_lost, projected_share, share_explained
from sparsetd.estimators.validation import column, nearest
from sparsetd.logs.checks import flags
from sparsetd.system import Batch

Criterion = Literal["mspbe", "bellman"]


class TDScorer:
    """Score a fitted estimator or pipeline on held-out rows, for `GridSearchCV` and its like.

    1 − MSPBE(V)/MSPBE(0), or 1 − Σ(ρδ)²/Σ(ρr)², of a fitted estimator or pipeline on held-out rows.

    A scikit-learn pipeline passes `X_next` to its last step's `score` without transforming it. This scorer calls the
    whole pipeline on X and X_next instead, and takes the projection on the features that its last step sees. In
    `GridSearchCV` with metadata routing on, it is asked for X_next, ratio, discount and start by default. A fit that
    diverged, or whose values cannot be right, has the score −∞, with a warning.

    Parameters
    ----------
    gamma : float or None
        The discount, unless `discount` gives one per row. None is that of the estimator; name it where a search varies
        it, because scores of different discounts cannot be compared.
    criterion : {"mspbe", "bellman"}
        The projected Bellman error needs no double samples; the plain one is cheaper, works without features, and in
        noisy problems favours functions that are too smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD
    >>> from sparsetd.estimators import TDScorer
    >>> from sparsetd.problems import random_walk
    >>> rows = random_walk(gamma=0.9).trajectory(1000, np.random.default_rng(0))
    >>> log = {'discount': rows.discount, 'start': rows.start}
    >>> model = LSTD(gamma=0.9).fit(rows.phi, rows.reward, rows.phi_next, **log)
    >>> round(TDScorer(gamma=0.9)(model, rows.phi, rows.reward, rows.phi_next, **log), 2)
    1.0
    """

    def __init__(self, gamma: float | None = None, criterion: Criterion = "mspbe") -> None:
        if criterion not in ("mspbe", "bellman"):
            raise ValueError(nearest("criterion", criterion, ("mspbe", "bellman")))
        self.gamma = gamma
        self.criterion = criterion

    def get_metadata_routing(self) -> MetadataRequest:
        """The columns that a search must pass on to this scorer, for scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        for name in ("X_next", "ratio", "discount", "start"):
            request.score.add_request(param=name, alias=True)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any, X_next: Any = None, ratio: Any = None, discount: Any = None,
        start: Any = None,
    ) -> float:  # fmt: skip
        """The score of `estimator` on the rows (X, y, X_next)."""
        if X_next is None:
            raise TypeError(
                "TDScorer did not get X_next, the successors of the rows: a search passes it on after "
                "sklearn.set_config(enable_metadata_routing=True) and `set_fit_request(X_next=True)` of the estimator"
            )
        from sklearn.pipeline import Pipeline  # 40 ms that a fit need not wait for

        steps = isinstance(estimator, Pipeline)
        learner = estimator[-1] if steps else estimator
        if is_lost(learner):
            return -math.inf
        reward = np.asarray(y, dtype=np.float64)
        n = len(reward)
        gamma = learner.gamma if self.gamma is None else self.gamma
        gammas = column("discount", discount, n, default=gamma, high=1.0)
        ratios = column("ratio", ratio, n)
        value, after = estimator.predict(X), estimator.predict(X_next)
        if self.criterion == "bellman":
            delta = reward + gammas * after - value
            return share_explained(float(np.sum((ratios * delta) ** 2)), float(np.sum((ratios * reward) ** 2)))
        features = estimator[:-1].transform(X) if steps and len(estimator) > 1 else X
        rows = features if sp.issparse(features) else np.asarray(features, dtype=np.float64)
        batch = Batch(rows, rows, reward, gammas, ratios, flags("start", start, n), np.ones(n))
        return projected_share(batch, value, after)
