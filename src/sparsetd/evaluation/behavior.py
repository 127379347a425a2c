"""No propensities were logged? Estimate the behaviour policy from the actions themselves.

    μ̂(a|s) ∝ ((1 − ε) p_{−k}(a|s) + ε f(a))^{1/T}        with p_{−k} fitted without the episodes of the row's fold k

Cross-fitting keeps a flexible classifier from memorising the logged action, which would make every ratio wrong. Folds
are whole episodes, since rows of one episode are alike. The temperature T is one number, chosen to minimise the
held-out log loss: T > 1 softens an over-confident classifier. Probabilities below `floor` are raised to it and counted,
because a ratio divides by them. Mixing in the frequencies f of the actions (ε, also chosen on held-out loss) keeps a
classifier that answers with exact zeros, a forest for instance, from ruling out what happened.

A smooth classifier also gives some probability to what nobody ever did, and then the estimated ratios look as if the
log covered the target. So a tree divides the situations of one half of the episodes into those in which people acted
alike, and the other half shows which actions were taken there at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparsetd._tools.lazy_names import renamed
from sparsetd.features.basis import Basis
from sparsetd.logs import Transitions
from sparsetd.logs.partition import cuts, hashed, parts_between
from sparsetd.logs.policy import is_whole
from sparsetd.system import Array

N_BINS = 10
SITUATIONS = 32  # groups of rows at most in which people acted alike
ROWS_EACH = 25  # rows of a situation for every action: with fewer, a rare action could be absent by chance
SCREENED = 10_000  # rows in which bends and products are looked for
BENDS, MOST_BENDS = 100, 12  # bends and products that are tried, and that are taken at most
STANDS_OUT = 4.0  # standard errors of a correlation that does not stand out by chance among so many
SLACK = 1e-3  # gradient at which their fit ends: far below the chance in the actions
HARDLY_EVER = 0.02  # an action that has at most this part of an equal share counts as never taken
SALT = "behavior"


@dataclass(frozen=True, eq=False)
class BehaviorPolicy:
    """Hold the estimated behaviour policy at every row of a log, and how good the estimate is.

    Every row has μ̂(·|s) from a classifier that was fitted without the row's episode.

    Attributes
    ----------
    table : array (n, n_actions)
    temperature, mixing : float
        T and ε.
    log_loss, log_loss_uncalibrated, log_loss_marginal : float
        Held-out −log μ̂(a|s), before calibration, and of the action frequencies alone (what knowing s must beat).
    calibration_error : float
        Mean |confidence − frequency| over ten bins of the confidence in the most probable action.
    n_floored : int
        Rows whose probability was raised to the floor.
    taken : array (n, n_actions)
        Whether people took an action in situations like that of the row.
    model : Calibrated
        The classifiers, for other rows of the same log.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import prepare
    >>> from sparsetd.evaluation import estimate_behavior
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> raw = {"x": x, "action": x + rng.normal(size=300) > 0, "reward": x}
    >>> found = estimate_behavior(prepare(raw, bandit=True).transitions)
    >>> found.log_loss < found.log_loss_marginal
    True
    >>> found.table.shape, found.n_floored
    ((300, 2), 0)
    """

    table: Array
    temperature: float
    mixing: float
    log_loss: float
    log_loss_uncalibrated: float
    log_loss_marginal: float
    calibration_error: float
    n_floored: int
    taken: Array
    model: Calibrated

    @property
    def floor(self) -> float:
        return self.model.floor

    def apply(self, log: Transitions) -> Transitions:
        """The same log with `behavior_prob` filled in."""
        return _filled(log, self.table, _actions(log), self.floor)

    def summary(self, of_many: bool = False) -> str:
        """A sentence about the estimate and its quality; `of_many`: it was made from the first rows only."""
        better = "better" if self.log_loss < self.log_loss_marginal else "no better"
        some = f" of the first {len(self.table):,} rows" if of_many else ""
        raised = f", and {self.n_floored} probabilities were raised to {self.floor:g}" if self.n_floored else ""
        return (
            f"The log does not say how probable its actions were, so this was estimated from the logged actions{some} "
            f"(the behaviour policy). On unseen episodes the estimate predicts actions {better} than their "
            f"frequencies do (log loss {self.log_loss:.3f} against {self.log_loss_marginal:.3f}; lower is better). Its "
            f"probabilities differ from the observed shares by {self.calibration_error:.1%} on average{raised}."
        )


@renamed
def estimate_behavior(
    log: Transitions, classifier: Any = None, *, features: Any = None, n_folds: int = 5, floor: float = 1e-3
) -> BehaviorPolicy:
    """Estimate the policy that chose the logged actions, cross-fitted and calibrated.

    Parameters
    ----------
    log : Transitions
        With integer actions.
    classifier : scikit-learn classifier, optional
        Anything with `predict_proba`. The default is a standardised logistic regression of the columns, with the bends
        and products of them that the actions follow.
    features : array or sparse matrix (n, d), optional
        The inputs of the classifier; the observations by default.
    n_folds : int
        Number of folds of episodes.
    floor : float
        Least probability: smaller ones are raised to it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import prepare
    >>> from sparsetd.evaluation import estimate_behavior
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> raw = {"x": x, "action": x + rng.normal(size=300) > 0, "reward": x}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = estimate_behavior(log)
    >>> bool(found.table[x > 0, 1].mean() > found.table[x < 0, 1].mean())
    True
    >>> bool(np.allclose(found.table.sum(axis=1), 1))
    True
    """
    action, X = _actions(log), log.observation if features is None else features
    if not 0 < floor < 1:
        raise ValueError(f"`floor` must lie strictly between 0 and 1, but it is {floor}.")
    if log.n_episodes < n_folds:
        raise ValueError(
            f"`n_folds` is {n_folds}, but the log has {log.n_episodes} episodes: pass fewer folds or more data."
        )
    hashes = hashed(log.ids(), SALT)
    n_actions, begins = int(action.max()) + 1, cuts(hashes, n_folds)
    # Rows go in the order of the hashes: the order of the log then changes nothing, not even the rounding.
    order = np.argsort(np.repeat(hashes, np.diff(log._bounds())), kind="stable")
    action, X, fold = action[order], X[order], _folds(log, begins)[order]
    frequencies = np.bincount(action, minlength=n_actions) / len(action)
    of = fold, n_folds, n_actions
    fits, raw = _fitted(classifier, X, action, *of)
    basis = None
    if classifier is None and features is None and not sp.issparse(X):
        basis = _bent(X[:SCREENED], action[:SCREENED], raw[:SCREENED])
    if basis is not None:
        others, bent = _fitted(None, basis.transform(X), action, *of, SLACK)
        better = _log_loss(bent, action) < _log_loss(raw, action)
        fits, raw, basis = (others, bent, basis) if better else (fits, raw, None)
    # −Σ log((1 − ε) p + ε f) is convex in ε; at least a millionth is mixed in.
    taken = raw[np.arange(len(action)), action]
    mixing = _least(lambda e: _loss((1 - e) * taken + e * frequencies[action]), 1e-6, 1.0)
    logs = np.log((1 - mixing) * raw + mixing * frequencies)
    # The loss is convex in 1/T, which is searched on T ∈ [1/20, 20].
    temperature = float(np.exp(_least(lambda s: _log_loss(_tempered(logs, float(np.exp(s))), action), -3.0, 3.0)))
    known = Calibrated(fits, begins, frequencies, mixing, temperature, floor, log.action_names, basis)
    table = known.calibrated(raw)
    # The confidence in the most probable action against how often it is right, over ten bins of equal count.
    confidence, right = table.max(axis=1), table.argmax(axis=1) == action
    bins = np.array_split(np.argsort(confidence, kind="stable"), N_BINS)
    gaps = [len(b) * abs(confidence[b].mean() - right[b].mean()) for b in bins if len(b)]
    return BehaviorPolicy(
        table=table[np.argsort(order)],
        temperature=temperature,
        mixing=mixing,
        log_loss=_log_loss(table, action),
        log_loss_uncalibrated=_log_loss(raw, action),
        log_loss_marginal=_log_loss(np.broadcast_to(frequencies, raw.shape), action),
        calibration_error=float(sum(gaps) / len(action)),
        n_floored=int((table[np.arange(len(action)), action] < floor).sum()),
        taken=_taken(X, action, fold % 2 == 0, n_actions)[np.argsort(order)],
        model=known,
    )


def _fitted(
    classifier: Any, X: Any, action: Array, fold: Array, n_folds: int, n_actions: int, tol: float = 1e-4
) -> tuple[tuple[_Fit, ...], Array]:
    """The fits without each fold, and p(·|s) of every row from the fit without its fold."""
    model, folds = _Logistic(tol) if classifier is None else classifier, range(n_folds)
    with config_context(assume_finite=classifier is None, skip_parameter_validation=classifier is None):
        fits = tuple(_Fit.of(model, X, action, np.flatnonzero(fold != k), n_actions) for k in folds)
        return fits, _held_out(fits, X, fold)


def _taken(X: Any, action: Array, first: Array, n_actions: int) -> Array:
    """Whether each action was taken in situations like that of each row, more often than hardly ever.

    Each half of the rows is counted in the leaves of a tree that was fitted to the other half. Sparse rows have too
    many columns for a tree.
    """
    out = np.ones((len(action), n_actions), dtype=bool)
    for half in () if sp.issparse(X) else (first, ~first):
        least = {"max_leaf_nodes": SITUATIONS, "min_samples_leaf": ROWS_EACH * n_actions}
        tree = DecisionTreeClassifier(random_state=0, **least).fit(X[~half], action[~half])
        leaf = tree.apply(X[half])
        counts = np.zeros((tree.tree_.node_count, n_actions))
        np.add.at(counts, (leaf, action[half]), 1.0)
        equal = counts.sum(axis=1, keepdims=True) / n_actions
        unclear = equal < ROWS_EACH / 2
        out[half] = (unclear | (counts > HARDLY_EVER * equal))[leaf]
    return out


class _Logistic:
    """The standardised logistic regression, without a pipeline, whose checks of small inputs take half of the time."""

    def __init__(self, tol: float) -> None:
        self.tol = tol

    def fit(self, X: Any, action: Array) -> _Logistic:
        self.scaler = StandardScaler().fit(X)
        self.model = LogisticRegression(max_iter=1000, tol=self.tol).fit(self.scaler.transform(X), action)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, X: Any) -> Array:
        return np.asarray(self.model.predict_proba(self.scaler.transform(X)))


def _bent(X: Array, action: Array, table: Array) -> Basis | None:
    """The bends and products of the columns that go with what a straight model misses, 1{a} − p(a|s); None without any.

    People follow thresholds, and look at one column only where another is high.
    """
    basis, d = Basis(max_functions=min(BENDS, len(X) // ROWS_EACH)).fit(X), X.shape[1]
    bent, straight = basis.transform(X)[:, d:], np.column_stack([np.ones(len(X)), StandardScaler().fit_transform(X)])
    bent -= straight @ np.linalg.lstsq(straight, bent, rcond=None)[0]
    missed = (action[:, None] == np.arange(table.shape[1])) - table
    spread = np.sqrt((missed**2).T @ bent**2)
    scores = np.divide(np.abs(missed.T @ bent), spread, where=spread > 0, out=np.zeros(spread.shape))
    best = scores.max(axis=0, initial=0.0)
    first = np.argsort(-best, kind="stable")[:MOST_BENDS]
    chosen = [basis.functions_[d + j] for j in np.sort(first[best[first] > STANDS_OUT])]
    if not chosen:
        return None
    basis.functions_ = [*basis.functions_[:d], *chosen]
    return basis


@dataclass(frozen=True, eq=False)
class _Fit:
    """A classifier fitted to some rows (None where they have one action); an unseen action gets a pseudo-count."""

    model: Any
    classes: Array
    unseen: float
    n_actions: int

    @classmethod
    def of(cls, model: Any, X: Any, action: Array, train: Array, n_actions: int) -> _Fit:
        seen, unseen = np.unique(action[train]), 1.0 / (len(train) + n_actions)
        if len(seen) == 1:
            return cls(None, seen, unseen, n_actions)
        fitted = (_Logistic(model.tol) if isinstance(model, _Logistic) else clone(model)).fit(X[train], action[train])
        return cls(fitted, np.asarray(fitted.classes_), unseen, n_actions)

    def table(self, X: Any) -> Array:
        """p(·|s) of every row."""
        table = np.full((X.shape[0], self.n_actions), self.unseen)
        table[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(X)
        table = np.maximum(table, np.finfo(float).tiny)  # a logarithm is taken of it later
        return np.asarray(table / table.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Calibrated:
    """μ̂(·|s) for any episodes. The hash of an episode's id finds the classifier that did not learn from it.

    `basis` has the bends and products that were added to the columns; None if there are none.
    """

    fits: tuple[_Fit, ...]
    begins: Array
    frequencies: Array
    mixing: float
    temperature: float
    floor: float
    action_names: Any
    basis: Basis | None = None

    def calibrated(self, raw: Array) -> Array:
        return _tempered(np.log((1 - self.mixing) * raw + self.mixing * self.frequencies), self.temperature)

    def apply(self, log: Transitions) -> Transitions:
        """A log with `behavior_prob` filled in."""
        return _filled(log, self._table(log, log.observation), self._codes(log), self.floor)

    def table(self, log: Transitions, observation: Any, n_actions: int) -> Array:
        """μ̂(·|s) of the log's rows, or of their successors, with a column for each action of the log."""
        own, known = log.action_names, self.action_names
        number = list(range(n_actions))
        if own is not None and known is not None:
            number = [known.index(a) if a in known else -1 for a in own]
        padded = np.pad(self._table(log, observation), ((0, 0), (0, max(1, n_actions - len(self.frequencies)))))
        return np.asarray(padded[:, number])

    def _table(self, log: Transitions, observation: Any) -> Array:
        rows = observation if self.basis is None else self.basis.transform(observation)
        return self.calibrated(_held_out(self.fits, rows, _folds(log, self.begins)))

    def _codes(self, log: Transitions) -> Array:
        """The actions as they were numbered when the classifiers were fitted."""
        action, own, known = _actions(log), log.action_names, self.action_names
        if own is not None and known is not None:
            number = {name: k for k, name in enumerate(known)}
            action = np.array([number.get(name, len(known)) for name in own], dtype=np.intp)[action]
        if action.max(initial=0) >= len(self.frequencies):
            raise ValueError(
                "The log has an action that is not among the rows from which the behaviour policy was estimated (the "
                "first shards): log `behavior_prob`, or shuffle the episodes with `sparsetd shard`."
            )
        return action


def _filled(log: Transitions, table: Array, action: Array, floor: float) -> Transitions:
    picked = table[np.arange(len(log)), action]
    return replace(log, behavior_prob=np.maximum(picked, floor), ratio=None)


def _folds(log: Transitions, begins: Array) -> Array:
    """The fold of every row."""
    return np.repeat(parts_between(begins, hashed(log.ids(), SALT)), np.diff(log._bounds()))


def _held_out(fits: Sequence[_Fit], X: Any, fold: Array) -> Array:
    """p(·|s) of every row from the fit without its fold."""
    table = np.empty((X.shape[0], fits[0].n_actions))
    for k in np.unique(fold):
        rows = np.flatnonzero(fold == k)
        table[rows] = fits[k].table(X[rows])
    return table


def _actions(log: Transitions) -> Array:
    action = log.action
    if action is None or action.size != len(log) or not is_whole(action):
        raise ValueError(
            "`action` must be a column of integers 0, 1, … to estimate the behaviour policy: log the actions."
        )
    return action.reshape(-1).astype(np.int64, copy=False)


def _tempered(logs: Array, temperature: float) -> Array:
    logits = logs / temperature
    soft = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(soft / soft.sum(axis=1, keepdims=True))


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    return float(minimize_scalar(loss, bounds=(low, high), method="bounded").x)


def _log_loss(table: Array, action: Array) -> float:
    return _loss(table[np.arange(len(action)), action])


def _loss(taken: Array) -> float:
    """The mean of −log p of the logged actions."""
    return float(-np.log(np.maximum(taken, np.finfo(float).tiny)).mean())
