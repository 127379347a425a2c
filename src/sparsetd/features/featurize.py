"""From transitions to rows of φ and φ', of states or of states and actions: the only place that reads `terminated`.

φ(s, a) holds the state's features in the block of the action, and zeros elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from sparsetd.logs import Policy, Transitions
from sparsetd.logs.checks import joined, refuse
from sparsetd.logs.policy import chosen, discrete
from sparsetd.system import Array, Batch, scaled


def action_blocks(phi: Any, weights: ArrayLike) -> Any:
    """Put the state's features in the block of the action, scaled by its weight.

    Row by row w ⊗ φ(s): block a holds w_a φ(s). Dense in, dense out; sparse in, CSR out.

    With w the indicator of an action this is φ(s, a); with w = π(·|s) it is the expectation φ̄(s) = Σ_a π(a|s) φ(s, a).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import action_blocks
    >>> phi = np.array([[1.0, 5.0], [1.0, 7.0]])
    >>> action_blocks(phi, np.eye(2)[[0, 1]])
    array([[1., 5., 0., 0.],
           [0., 0., 1., 7.]])
    >>> action_blocks(phi, [[0.5, 0.5], [0.0, 1.0]])
    array([[0.5, 2.5, 0.5, 2.5],
           [0. , 0. , 1. , 7. ]])
    """
    w = np.asarray(weights, dtype=phi.dtype)
    if not sp.issparse(phi):
        return (w[:, :, None] * phi[:, None, :]).reshape(len(w), -1)
    return sp.csr_array(sp.hstack([scaled(w[:, a], phi) for a in range(w.shape[1])], format="csr"))


def featurize(
    transitions: Transitions,
    features: Any,
    gamma: float | Array,
    policy: Policy | None = None,
    *,
    sparse: bool | None = None,
    clear: bool = True,
) -> Batch:
    """Turn a log into rows of features, of states or (given a policy) of states and actions.

    The result has the rows φ and φ' and the columns that go with them, for estimators, metrics and sweeps.

    State values:   φ(s), φ(s'), ratio = π(a|s)/μ(a|s) as logged (1 where it was not).

    Action values:  φ(s, a) and the expectation φ̄(s') = Σ_a π(a|s') φ(s', a) under `policy`, so the next action needs no
    correction; ratio = π(a|s)/μ(a|s) with π from `policy` enters only through the trace. Without a logged
    `behavior_prob` (or `ratio`) it is 1: right for λ = 0 and for data of the policy itself.

    The discount is γ, and 0 where a row *terminated*; there φ' is zero too. A *truncated* row keeps γ: it bootstraps.

    Parameters
    ----------
    transitions : Transitions
    features : fitted transformer, or None for the observation itself
    gamma : float, or array with one discount per row
    policy : callable, optional
        From observations (n, p) to action probabilities (n, n_actions).
    sparse : bool, optional
        CSR or dense rows; None keeps what the transformer returns.
    clear : bool
        False leaves φ' of terminated rows as it is, which saves a copy where their discount of 0 says enough.

    Examples
    --------
    >>> from sparsetd import Transitions
    >>> from sparsetd.features import Tabular, featurize
    >>> log = Transitions.from_arrays([[0], [1]], [0.0, 1.0], [[1], [1]], terminated=[False, True])
    >>> rows = featurize(log, Tabular().fit([[0], [1]]), gamma=0.9)
    >>> rows.phi_next
    array([[0., 1.],
           [0., 0.]])
    >>> rows.discount
    array([0.9, 0. ])
    """
    n, ended = len(transitions), transitions.terminated
    given = np.asarray(gamma, dtype=np.float64)
    if given.shape not in ((), (n,)):
        raise ValueError(f"`gamma` must be a number or {n} numbers, one per row, but its shape is {given.shape}.")
    discount = np.broadcast_to(given, (n,))
    refuse("gamma", ~((discount >= 0) & (discount <= 1)), discount, "between 0 and 1", "pass a discount")
    phi = state_features(features, transitions.observation, sparse)
    phi_next = _successor_features(transitions, features, phi, sparse)
    ratio = transitions.importance_ratio()
    if policy is not None:
        pi = transitions.probabilities(policy)
        action = discrete(transitions.action, pi.shape[1])
        phi = action_blocks(phi, np.eye(pi.shape[1])[action])
        phi_next = action_blocks(phi_next, transitions.probabilities(policy, successors(transitions)))
        if transitions.behavior_prob is not None:
            ratio = chosen(pi, action) / transitions.behavior_prob
    if clear and sp.issparse(phi_next):
        phi_next = scaled(~ended, phi_next)
    elif clear:
        phi_next = phi_next.copy()
        phi_next[ended] = 0.0
    discount = np.where(ended, 0.0, discount)
    return Batch(phi, phi_next, transitions.reward, discount, ratio, transitions.start, np.ones(n))


def state_features(features: Any, observation: Array, sparse: bool | None = None) -> Any:
    """φ(s) of every row as a float array or CSR."""
    rows: Any = observation if features is None else features.transform(observation)
    if sp.issparse(rows):
        rows = sp.csr_array(rows)
    else:
        rows = np.asarray(rows)
        rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if sparse is None or sparse == sp.issparse(rows):
        return rows
    return sp.csr_array(rows) if sparse else rows.toarray()


def _successor_features(transitions: Transitions, features: Any, phi: Any, sparse: bool | None) -> Any:
    """φ(s') of every row; φ(s) where the row terminated. Most successors are the next row's state: those are known."""
    s, after, ended = transitions.observation, transitions.next_observation, transitions.terminated
    if features is None:
        return state_features(None, after, sparse)
    if sp.issparse(phi) or sp.issparse(s) or s.ndim != 2:
        return state_features(features, successors(transitions), sparse)
    phi_next = np.roll(phi, -1, axis=0)
    phi_next[ended] = phi[ended]
    unknown = ~ended & np.append((after[:-1] != s[1:]).any(axis=1), True)
    if unknown.any():
        phi_next[unknown] = state_features(features, after[unknown], sparse)
    return phi_next


def fit_features(transitions: Transitions, features: Any) -> Any:
    """A fitted copy of `features` that has seen every state it will be asked for: s, and s' where not terminated."""
    if features is None:
        return None
    return clone(features).fit(joined([transitions.observation, transitions.next_observation[~transitions.terminated]]))


def feature_names(features: Any, transitions: Transitions, n_actions: int | None = None) -> Array:
    """Names of the columns of φ, made of the observation's names (x0, x1, … without); f0, f1, … if the map has none.

    Those of state and action name the features in the block of each action, block after block.
    """
    names = transitions.labels()
    if features is not None:
        try:
            names = list(features.get_feature_names_out(names))
        except AttributeError:  # a function of scikit-learn's `FunctionTransformer`, also within a pipeline
            width = state_features(features, transitions.observation[:1]).shape[1]
            names = [f"f{j}" for j in range(width)]
    if n_actions is not None:
        known = transitions.action_names or ()
        actions = known if len(known) == n_actions else [f"a={a}" for a in range(n_actions)]
        names = [f"{name}[{a}]" for a in actions for name in names]
    return np.array(names, dtype=object)


def successors(transitions: Transitions) -> Array:
    """The successors s', or s where a row terminated: the state logged there may be one that no feature map knows."""
    s, after, ended = transitions.observation, transitions.next_observation, transitions.terminated
    if sp.issparse(s):
        return sp.vstack([s, after], format="csr")[np.arange(len(ended)) + np.where(ended, 0, len(ended))]
    return np.where(ended[:, None], s, after)
