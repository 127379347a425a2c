"""One feature per state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from sparsetd.features.base import Array, positive_integer, refuse_too_many


class Tabular(TransformerMixin, BaseEstimator):
    """Map every state to a feature of its own: a table of values, for states that are few and numbered.

    φ_i(s) = 1 if s = i, else 0, for states numbered 0, 1, …; several integer columns are numbered jointly.

    Parameters
    ----------
    n_states : int, sequence of int or None
        Number of states (of every column); learned in `fit` as the greatest number seen plus one where None.
    sparse_output : bool
        CSR rows with a single one, instead of dense rows.

    Attributes
    ----------
    n_states_ : tuple of int
        Number of states of every column.

    Examples
    --------
    >>> from sparsetd.features import Tabular
    >>> table = Tabular().fit([[0], [2]])
    >>> table.transform([[2], [0]])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    >>> Tabular(n_states=(2, 2)).fit([[0, 0]]).get_feature_names_out(['row', 'col']).tolist()
    ['row_0,col_0', 'row_0,col_1', 'row_1,col_0', 'row_1,col_1']
    """

    def __init__(self, n_states: int | Sequence[int] | None = None, *, sparse_output: bool = False) -> None:
        self.n_states = n_states
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the number of states where it was not given."""
        X = _states(validate_data(self, X, dtype=None))
        if self.n_states is None:
            self.n_states_ = tuple(int(k) + 1 for k in X.max(axis=0))
        else:
            self.n_states_ = tuple(positive_integer("n_states", k) for k in np.atleast_1d(self.n_states))
        if len(self.n_states_) != X.shape[1]:
            raise ValueError(
                f"`n_states` must have one entry for each of {X.shape[1]} columns, but it is {self.n_states}."
            )
        self._restore()
        return self

    def _restore(self) -> None:
        with np.errstate(over="ignore"):
            count = np.prod([float(positive_integer("n_states", k)) for k in self.n_states_])
        refuse_too_many(float(count), "aggregate states, or use tile coding")

    def transform(self, X: Any) -> Any:
        """The rows of the identity matrix that belong to the states."""
        check_is_fitted(self)
        X = _states(validate_data(self, X, dtype=None, reset=False))
        unknown = np.greater_equal(X, self.n_states_).any(axis=1)
        if unknown.any():
            row = int(np.argmax(unknown))
            raise ValueError(
                f"`X` holds state {X[row].tolist()} in row {row}, beyond n_states = {list(self.n_states_)}."
            )
        index, n, d = np.ravel_multi_index(tuple(X.T), self.n_states_), len(X), int(np.prod(self.n_states_))
        rows = sp.csr_array((np.ones(n), index, np.arange(n + 1)), shape=(n, d))
        return rows if self.sparse_output else rows.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """`name_i` for state i; `a_i,b_j` for joint states."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        labels = [",".join(f"{n}_{i}" for n, i in zip(names, s, strict=True)) for s in np.ndindex(self.n_states_)]
        return np.array(labels, dtype=object)


def _states(X: Array) -> Array:
    states = np.asarray(X, dtype=np.float64) if X.dtype == object else X
    bad = ((states < 0) | (states != np.rint(states))).any(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"`X` must hold states 0, 1, …, but row {row} holds {states[row].tolist()}: number the states."
        )
    return states.astype(np.int64)
