"""No propensities were logged? Estimate the behaviour policy from the actions themselves.

    μ̂(a|s) ∝ ((1 − ε) p_{−k}(a|s) + ε f(a))^{1/T}        with p_{−k} fitted without the episodes of the row's fold k

Cross-fitting keeps a flexible classifier from memorising the logged action (which would drive every ratio to the
wrong value), and folds are whole episodes, since rows of one episode are alike. The temperature T is one number,
chosen to minimise the held-out log loss: T > 1 softens an over-confident classifier. Probabilities below `floor` are
raised to it and counted, because a ratio divides by them. Mixing in the frequencies f of the actions (ε, also chosen on
held-out loss) keeps a classifier that answers with exact zeros, such as a forest, from ruling out what then happened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsetd.system import Array
from sparsetd.transitions import Transitions

N_BINS = 10


@dataclass(frozen=True, eq=False)
class BehaviorPolicy:
    """Held-out estimate of μ(·|s) at every row of a log, and how good it is.

    Attributes
    ----------
    table : array (n, n_actions)
    temperature, mixing : float
        T and ε.
    log_loss, log_loss_uncalibrated, log_loss_marginal : float
        Held-out −log μ̂(a|s), before calibration, and of the action frequencies alone (what knowing s must beat).
    calibration_error : float
        Mean |confidence − frequency| over ten bins of the logged action's probability classes.
    n_floored : int
        Rows whose probability was raised to the floor.
    """

    table: Array
    temperature: float
    mixing: float
    log_loss: float
    log_loss_uncalibrated: float
    log_loss_marginal: float
    calibration_error: float
    n_floored: int
    floor: float

    def apply(self, log: Transitions) -> Transitions:
        """The same log with `behavior_prob` filled in."""
        picked = self.table[np.arange(len(log)), _actions(log)]
        return replace(log, behavior_prob=np.maximum(picked, self.floor), ratio=None)

    def summary(self) -> str:
        """What was estimated and how good it is, in a sentence."""
        better = "better" if self.log_loss < self.log_loss_marginal else "no better"
        raised = f", and {self.n_floored} probabilities were raised to {self.floor:g}" if self.n_floored else ""
        return (
            f"The behaviour policy was estimated from the logged actions: it predicts them {better} than their "
            f"frequencies do (held-out log loss {self.log_loss:.3f} against {self.log_loss_marginal:.3f}), its "
            f"confidence is off by {self.calibration_error:.1%} on average{raised}."
        )


def estimate_behavior(
    log: Transitions, classifier: Any = None, *, features: Any = None, n_splits: int = 5, floor: float = 1e-3
) -> BehaviorPolicy:
    """Cross-fitted, calibrated behaviour policy.

    Parameters
    ----------
    log : Transitions
        With integer actions.
    classifier : scikit-learn classifier, optional
        Anything with `predict_proba`; a standardised logistic regression by default.
    features : array or sparse matrix (n, d), optional
        What the classifier sees; the observations by default.
    """
    action, X = _actions(log), log.observation if features is None else features
    if not 0 < floor < 1:
        raise ValueError(f"`floor` must lie strictly between 0 and 1, but it is {floor}.")
    if log.n_episodes < n_splits:
        raise ValueError(
            f"`n_splits` is {n_splits}, but the log has {log.n_episodes} episodes: pass fewer folds or more data."
        )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)) if classifier is None else classifier
    raw = _cross_fit(model, X, action, log.parts(n_splits, "behavior"))
    frequencies = np.bincount(action, minlength=raw.shape[1]) / len(action)
    mixing = _best_mixing(raw, frequencies, action)
    mixed = (1 - mixing) * raw + mixing * frequencies
    temperature = _best_temperature(mixed, action)
    table = _tempered(mixed, temperature)
    return BehaviorPolicy(
        table=table,
        temperature=temperature,
        mixing=mixing,
        log_loss=_log_loss(table, action),
        log_loss_uncalibrated=_log_loss(raw, action),
        log_loss_marginal=_log_loss(np.broadcast_to(frequencies, raw.shape), action),
        calibration_error=_calibration_error(table, action),
        n_floored=int((table[np.arange(len(action)), action] < floor).sum()),
        floor=floor,
    )


def _actions(log: Transitions) -> Array:
    if log.action is None or log.action.ndim != 1 or log.action.dtype.kind != "i":
        raise ValueError(
            "`action` must be a column of integers 0, 1, … to estimate the behaviour policy: log the actions."
        )
    return log.action


def _cross_fit(model: Any, X: Any, action: Array, fold: Array) -> Array:
    """p(·|s) of every row from a model fitted on the other folds; an action unseen there gets one pseudo-count."""
    table = np.zeros((len(action), int(action.max()) + 1))
    for k in np.unique(fold):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        table[test] = 1.0 / (len(train) + table.shape[1])
        if len(seen := np.unique(action[train])) == 1:
            table[np.ix_(test, seen)] = 1.0
        else:
            fitted = clone(model).fit(X[train], action[train])
            table[np.ix_(test, fitted.classes_)] = fitted.predict_proba(X[test])
    table = np.maximum(table, np.finfo(float).tiny)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _tempered(table: Array, temperature: float) -> Array:
    logits = np.log(table) / temperature
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(soft / soft.sum(axis=1, keepdims=True))


def _best_mixing(table: Array, frequencies: Array, action: Array) -> float:
    """The minimiser of −Σ log((1 − ε) p + ε f), which is convex in ε; at least a millionth."""
    found = minimize_scalar(
        lambda e: _log_loss((1 - e) * table + e * frequencies, action), bounds=(1e-6, 1.0), method="bounded"
    )
    return float(found.x)


def _best_temperature(table: Array, action: Array) -> float:
    """The minimiser of a convex function of 1/T; searched on T ∈ [1/20, 20]."""
    found = minimize_scalar(
        lambda s: _log_loss(_tempered(table, float(np.exp(s))), action), bounds=(-3.0, 3.0), method="bounded"
    )
    return float(np.exp(found.x))


def _log_loss(table: Array, action: Array) -> float:
    picked = table[np.arange(len(action)), action]
    return float(-np.log(np.maximum(picked, np.finfo(float).tiny)).mean())


def _calibration_error(table: Array, action: Array) -> float:
    """Mean |confidence − accuracy| of the most probable action, over ten bins of equal count."""
    confidence, right = table.max(axis=1), table.argmax(axis=1) == action
    bins = np.array_split(np.argsort(confidence, kind="stable"), N_BINS)
    gaps = [len(b) * abs(confidence[b].mean() - right[b].mean()) for b in bins if len(b)]
    return float(sum(gaps) / len(action))
