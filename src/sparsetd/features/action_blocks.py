"""φ(s, a): the state's features in the block of the action, zeros elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from sparsetd.features.base import Array, positive_integer


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
    return sp.csr_array(sp.hstack([scale_rows(phi, w[:, a]) for a in range(w.shape[1])], format="csr"))


def scale_rows(rows: sp.csr_array, weights: Array) -> sp.csr_array:
    """diag(w) · rows with nothing stored where w = 0; a matrix product would leave the columns unsorted."""
    scaled = sp.csr_array(rows, copy=True)
    scaled.data *= np.repeat(weights, np.diff(scaled.indptr))
    scaled.eliminate_zeros()
    return scaled


def indicator(action: Array, n_actions: int) -> Array:
    """Rows of the identity matrix: one per action."""
    return np.asarray(np.eye(n_actions)[action])


class ActionBlocks(TransformerMixin, BaseEstimator):
    """Turn rows of a state and an action into features of both, as a transformer for pipelines.

    φ(s, a) of rows [s…, a]: the last column is the action 0, 1, …, and the others go to `features`.

    Parameters
    ----------
    features : transformer or None
        Feature map of the state (None: the state itself).
    n_actions : int or None
        Learned in `fit` as the greatest action seen plus one where None.

    Examples
    --------
    >>> from sparsetd.features import ActionBlocks, Tabular
    >>> rows = [[0, 0], [1, 1], [0, 1]]
    >>> blocks = ActionBlocks(Tabular()).fit(rows)
    >>> blocks.get_feature_names_out(['ward', 'drug']).tolist()
    ['ward_0[a=0]', 'ward_1[a=0]', 'ward_0[a=1]', 'ward_1[a=1]']
    >>> blocks.transform(rows)
    array([[1., 0., 0., 0.],
           [0., 0., 0., 1.],
           [0., 0., 1., 0.]])
    """

    def __init__(self, features: Any = None, *, n_actions: int | None = None) -> None:
        self.features = features
        self.n_actions = n_actions

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the state's feature map, and count the actions where their number was not given."""
        X = check_array(X, ensure_min_features=2)
        self.features_: Any = None if self.features is None else clone(self.features).fit(X[:, :-1], y)
        seen = int(X[:, -1].max()) + 1
        self.n_actions_ = seen if self.n_actions is None else positive_integer("n_actions", self.n_actions)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """φ(s, a) of every row."""
        check_is_fitted(self)
        X = check_array(X, ensure_min_features=2)
        state, action = X[:, :-1], X[:, -1]
        bad = (action < 0) | (action >= self.n_actions_) | (action != np.rint(action))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"The last column of `X` must be an action below {self.n_actions_}, but row {row} holds {action[row]}."
            )
        phi = state if self.features is None else self.features_.transform(state)
        return action_blocks(phi, indicator(action.astype(np.int64), self.n_actions_))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The state's names, each followed by the action in brackets."""
        check_is_fitted(self)
        names = [f"x{i}" for i in range(self.n_features_in_)] if input_features is None else list(input_features)
        state = names[:-1]
        if self.features is not None:
            state = list(self.features_.get_feature_names_out(state))
        return block_names(state, self.n_actions_)


def block_names(names: list[str], n_actions: int, action_names: Sequence[str] | None = None) -> Array:
    """Names of the columns of `action_blocks`: block after block."""
    known = action_names is not None and len(action_names) == n_actions
    actions = action_names if known else [f"a={a}" for a in range(n_actions)]
    return np.array([f"{name}[{a}]" for a in actions or () for name in names], dtype=object)
