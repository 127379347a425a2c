"""A policy is a callable from observations (n, p) to the probabilities π(·|s) of discrete actions (n, n_actions).

The observations are an array whose columns can also be taken by name: `s["lactate"]`. Where the log knows the names of
the actions, a policy may answer with one name per row. A fitted scikit-learn classifier is a policy as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array, reason, refuse, rowwise
from sparsetd.logs.names import in_order

Policy = Callable[[Array], Any]


class Observations(np.ndarray[Any, Any]):
    """Rows of numbers whose columns have names: `s["lactate"]` is `s[:, 3]`, `s.to_frame()` a pandas frame."""

    names: tuple[str, ...] = ()

    def __array_finalize__(self, origin: Any) -> None:
        self.names = getattr(origin, "names", ())

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return np.asarray(self)[key]
        if key not in self.names:
            raise KeyError(f"no column {key!r} is observed: there are {', '.join(self.names) or 'no names'}")
        return np.asarray(self)[:, self.names.index(key)]

    def to_frame(self) -> Any:
        import pandas

        return pandas.DataFrame(np.asarray(self), columns=list(self.names))


class SparseObservations(sp.csr_array):
    """CSR rows of which a policy may ask how many there are, as it does with dense ones."""

    def __len__(self) -> int:
        return int(self.shape[0])


def named(rows: Any, names: Sequence[str] | None) -> Any:
    """What a policy is shown: the rows, whose columns can be taken by name where they are dense."""
    if sp.issparse(rows):
        return SparseObservations(rows)
    view = np.asarray(rows).view(Observations)
    view.names = () if names is None else tuple(names)
    return view


def action_probabilities(
    policy: Policy,
    observation: Array,
    name: str = "policy",
    names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
) -> Array:
    """π(·|s) of every row as (n, n_actions), checked: finite, non-negative, each row summing to one.

    A policy that knows the columns it was learnt from (`feature_names_in_`) gets those, out of the columns `names`.
    """
    n = observation.shape[0]
    wanted = getattr(policy, "feature_names_in_", None)
    rows = in_order(observation, names, wanted)
    if hasattr(policy, "predict_proba"):
        table = _classified(policy, rows, name, action_names)
    else:
        known = names if names is None or wanted is None else list(wanted)
        table = _numbers(_spelt_out(policy(named(rows, known)), action_names), name)
    if table.ndim != 2 or len(table) != n:
        raise ValueError(
            f"`{name}` must map {n} observations to shape ({n}, n_actions), but it returned shape {table.shape}: "
            "return one row of action probabilities per observation."
        )
    refuse(name, rowwise(~np.isfinite(table)), table, "finite", "return numbers between 0 and 1")
    refuse(name, rowwise(table < 0), table, "non-negative", "return numbers between 0 and 1")
    sums = table.sum(axis=1)
    remedy = "return the probabilities of all actions, not scores or logits"
    refuse(name, np.abs(sums - 1) > 1e-6, table, "a distribution (sum 1)", remedy)
    return table


def _classified(classifier: Any, rows: Array, name: str, action_names: Sequence[str] | None) -> Array:
    """A classifier's probabilities, its classes put in the order of the actions; classes may be numbers or names."""
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"`{name}` is a {type(classifier).__name__} that was not fitted: fit it to the actions first.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # they are in order
        found = np.asarray(classifier.predict_proba(rows))
    codes = [_code(label, action_names, name) for label in classifier.classes_.tolist()]
    table = np.zeros((len(found), max(max(codes) + 1, len(action_names or ()))))
    table[:, codes] = found
    return table


def _code(label: Any, action_names: Sequence[str] | None, name: str) -> int:
    if action_names is not None and str(label) in action_names:
        return list(action_names).index(str(label))
    if isinstance(label, str) or label != int(label) or label < 0:
        known = "it has no names of actions" if action_names is None else f"its actions are {', '.join(action_names)}"
        raise ValueError(f"`{name}` chooses {label!r}, which the log does not know: {known}.")
    return int(label)


def _spelt_out(answer: Any, action_names: Sequence[str] | None) -> Any:
    """One name of an action per row as rows of probabilities; any other answer as it is."""
    array = answer if action_names is None else np.asarray(answer)
    if action_names is None or array.ndim != 1 or array.dtype.kind not in "UO":
        return answer
    return np.eye(len(action_names))[[_code(str(label), action_names, "policy") for label in array]]


def _numbers(answer: Any, name: str) -> Array:
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must return numbers, but its answer is not an array of them ({reason(error)}): "
            "return one row of action probabilities per observation."
        ) from None


def discrete(action: Array | None, n_actions: int, name: str = "policy") -> Array:
    """The logged actions, checked to be integers that a policy of `n_actions` actions knows."""
    if action is None or action.ndim != 1 or action.dtype.kind != "i":
        raise ValueError(f"`{name}` needs a column `action` of integers 0, 1, …: pass the index of each logged action.")
    bad = (action < 0) | (action >= n_actions)
    refuse("action", bad, action, f"between 0 and {n_actions - 1}", f"renumber them like the columns of `{name}`")
    return action


def chosen(table: Array, action: Array) -> Array:
    """π(a|s) of the logged actions, out of the rows π(·|s)."""
    return np.asarray(table[np.arange(len(action)), action])
