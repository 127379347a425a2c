"""`ValueFunction`: a feature map and an estimator, spoken to in the language of reinforcement learning."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from sparsetd.estimators.validation import refuse_states
from sparsetd.features.featurize import feature_names, featurize, fit_features, state_features
from sparsetd.logs import Policy, Transitions, action_probabilities
from sparsetd.logs.checks import finite, numbers
from sparsetd.logs.partition import fingerprints
from sparsetd.logs.schema import in_order, names_in
from sparsetd.system import Array, Batch

CENTRED = (
    "every feature has mean 0 and {0} has no constant, so the value of a mean state is 0, whatever the rewards are: "
    "set fit_intercept=True, or add a column of ones"
)


class ValueFunction(BaseEstimator):
    """Learn a value function of observations, with any feature map and any estimator of this library.

    V(s) = θ·φ(s), or Q(s, a) = θ_a·φ(s) when fitted for a policy.

    Without a policy `fit` learns the state values of the target the log's ratios stand for (of the behaviour itself
    where none were logged). With a policy π it learns π's action values, from which `q`, `act` and `value` follow.
    Estimators see only rows of φ and φ'; that a terminated row has no future is settled before, in `featurize`.

    Parameters
    ----------
    features : transformer or None
        Any scikit-learn transformer of observations; None takes the observation as it is.
    estimator : estimator of this library
        Its `gamma` is the discount.

    Attributes
    ----------
    features_, estimator_ : the fitted copies
    feature_names_ : array of str
        Name of every coefficient.
    feature_names_in_ : array of str or None
        Names of the observed columns, where the log had names: data is matched with them by name.
    policy_ : callable or None
    n_actions_ : int or None
        Number of actions (None for state values).
    learnt_from_ : array of int
        Fingerprints of the episodes that action values were learnt from: `evaluate` refuses to judge on these.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import LSTD, ValueFunction, read
    >>> log = read({'observation': np.eye(3), 'reward': [0.0, 0.0, 1.0], 'terminated': [0, 0, 1]})
    >>> ValueFunction(None, LSTD(gamma=0.5)).fit(log).value(np.eye(3)).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    def __init__(self, features: Any, estimator: Any) -> None:
        self.features = features
        self.estimator = estimator

    def fit(self, transitions: Transitions, policy: Policy | None = None) -> Self:
        """Fit the feature map to the states of the log, then the estimator to their features.

        Centred features, as of `StandardScaler`, have no constant among them: then the estimator needs `fit_intercept`.
        """
        self._begin(transitions)
        return self._learn(transitions, policy, self.estimator_.fit)

    def partial_fit(self, transitions: Transitions, policy: Policy | None = None) -> Self:
        """Learn from more rows of a stream; the first call fits the feature map. The policy may change in between."""
        if not hasattr(self, "estimator_"):
            self._begin(transitions)
        return self._learn(transitions, policy, self.estimator_.partial_fit)

    def value(self, observation: Any) -> Any:
        """V(s), or Σ_a π(a|s) Q(s, a): one number per observation."""
        check_is_fitted(self)
        s, single = self._observations(observation)
        if self.policy_ is None:
            values = self.estimator_.predict(state_features(self.features_, s))
        else:
            values = np.sum(action_probabilities(self.policy_, s, names=self._names) * self._q(s), axis=1)
        return values[0] if single else values

    def q(self, observation: Any) -> Any:
        """Q(s, ·): one row of `n_actions_` numbers per observation."""
        check_is_fitted(self)
        if self.n_actions_ is None:
            raise ValueError("`q` and `act` need action values: fit with `policy`, the policy whose Q is wanted.")
        s, single = self._observations(observation)
        values = self._q(s)
        return values[0] if single else values

    def act(self, observation: Any) -> Any:
        """argmax_a Q(s, a), the first of equals."""
        best = np.argmax(self.q(observation), axis=-1)
        return int(best) if np.ndim(best) == 0 else best

    def _begin(self, transitions: Any) -> None:
        if not isinstance(transitions, Transitions):
            what = f"a value function learns from Transitions, not from a {type(transitions).__name__}"
            raise TypeError(f"{what}: pass `read(…)`, or give rows of features to the estimator itself")
        self.features_ = fit_features(transitions, self.features)
        self.estimator_ = clone(self.estimator)
        self.learnt_from_ = np.empty(0, dtype=np.uint64)
        self.n_observed_ = transitions.observation.shape[1]
        names = transitions.names
        self.feature_names_in_ = None if names is None else np.array(names, dtype=object)

    def _learn(self, transitions: Transitions, policy: Policy | None, fit: Any) -> Self:
        transitions = transitions.with_columns(self._names)
        batch = featurize(transitions, self.features_, self.estimator_.gamma, policy)
        if fit == self.estimator_.fit and not self.estimator_.fit_intercept and _are_centred(batch):
            warnings.warn(CENTRED.format(self.estimator_), stacklevel=3)
        columns = batch.columns | {"ratio": self._ratio(batch.ratio, policy)}
        fit(batch.phi, batch.reward, batch.phi_next, **columns)
        self.policy_, self.n_actions_ = policy, None
        if policy is not None:  # what follows these values must not be judged on the same episodes
            self.n_actions_ = batch.phi.shape[1] // state_features(self.features_, transitions.observation[:1]).shape[1]
            self.learnt_from_ = np.union1d(self.learnt_from_, fingerprints(transitions))
        self.feature_names_ = feature_names(self.features_, transitions, self.n_actions_)
        return self

    @property
    def feature_names_(self) -> Array:
        return _numbered(len(self.estimator_.coef_)) if self.names_ is None else self.names_

    @feature_names_.setter
    def feature_names_(self, names: Array) -> None:
        """A hashed log has a million columns, x0, x1, …, whose names would fill the file of a model."""
        own = np.asarray(names, dtype=object)
        self.names_ = None if np.array_equal(own, _numbered(len(own))) else own

    def _ratio(self, ratio: Array, policy: Policy | None) -> Array:
        """π/μ as the estimator may use it.

        The action of an action value is given, so only old traces are corrected. The trace of GQ does just that. The
        trace of a state-value method would weight the row itself: at λ = 0 the ratio is left out (this is LSTD-Q, TDC
        on φ(s, a), …), at λ > 0 the trace would be wrong unless π is the behaviour.
        """
        if policy is None:
            refuse_states(self.estimator_, ratio)
            return ratio
        table = self.estimator_.triple()[0]
        if table.trace == "action" or np.all(ratio == 1.0):
            return ratio
        if table.lam > 0 or table.trace == "emphatic":
            raise ValueError(
                f"`policy` is not the behaviour, and the trace of {type(self.estimator_).__name__} corrects state "
                "values only: use GQ or ROGQ, or an estimator without a trace (lam=0)."
            )
        return np.ones(len(ratio))

    def _q(self, s: Array) -> Array:
        theta = self.estimator_.coef_.reshape(self.n_actions_, -1)
        return np.asarray(state_features(self.features_, s) @ theta.T + self.estimator_.intercept_)

    @property
    def _names(self) -> Any:
        return getattr(self, "feature_names_in_", None)  # files of older versions have none

    def _observations(self, observation: Any) -> tuple[Array, bool]:
        """Rows (n, p), and whether it was a single observation: p numbers (p > 1), or one number where p = 1.

        The columns of a frame are matched by name with those of the fit.
        """
        p = self.n_observed_
        if sp.issparse(observation):  # a feature that no row of the fit had has no weight
            wide = sp.csr_array(observation, dtype=np.float64, copy=True)
            wide.resize((wide.shape[0], p))
            return wide, False
        s = numbers("observation", observation)
        single = s.ndim == 0 or (s.ndim == 1 and p > 1)
        rows = s.reshape(1, -1) if single else s.reshape(len(s), -1)
        rows = in_order(rows, names_in(observation, one_row=single), self._names)
        if rows.shape[1] != p:
            raise ValueError(f"`observation` must have {p} columns as in `fit`, but row 0 has {rows.shape[1]}.")
        finite("observation", rows)
        return rows, single


def _numbered(n: int) -> Array:
    """The names of columns that have none."""
    return np.array([f"x{j}" for j in range(n)], dtype=object)


def _are_centred(batch: Batch) -> bool:
    """Whether all features have mean 0 to rounding over the states that a feature map was fitted to, and some vary."""
    if batch.is_sparse:
        return False
    total = batch.phi.sum(axis=0) + batch.phi_next.sum(axis=0)
    spread = len(batch) * batch.phi.std(axis=0)
    return bool(spread.any() and (np.abs(total) <= 1e-6 * spread).all())
