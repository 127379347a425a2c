"""A policy says what is done in a state: the probabilities π(·|s) of discrete actions (n, n_actions).

It is a function of the observations, whose columns can also be taken by name, `s["lactate"]`; a fitted scikit-learn
classifier of actions; a rule in words (see `rules`); or, for the rows of one log, an array. Function and array may also
give one action per row: its name where the log knows names, or its code 0, 1, …
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array, explained, refuse, rowwise, show
from sparsetd.logs.schema import in_order

Policy = Callable[[Array], Any]
MOST_ACTIONS = 1_000_000  # a larger code is most likely a mistake, and its table would not fit into memory


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
    """CSR rows with a length, so that a policy can call `len(s)` as it does with dense rows."""

    def __len__(self) -> int:
        return int(self.shape[0])


def named(rows: Any, names: Sequence[str] | None) -> Any:
    """The rows as a policy sees them; columns of dense rows can be taken by name."""
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
    n_actions: int = 0,
) -> Array:
    """Ask a policy for the probabilities of all actions at every row, and check them.

    The answer π(·|s) has the shape (n, n_actions). It is finite and non-negative, and every row sums to one.

    A policy that knows the columns it was learnt from (`feature_names_in_`) gets only those of the columns `names`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.logs import action_probabilities
    >>> observation = np.array([[-1.0], [2.0]])
    >>> rule = lambda s: np.column_stack([s[:, 0] < 0, s[:, 0] >= 0])
    >>> action_probabilities(rule, observation).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    table, rest = shares(policy, observation, name, names, action_names, n_actions)
    if rest.any():
        leaves = f"The rule {show(str(policy))} leaves row {int(np.argmax(rest > 0))} as was done"
        remedy = "end it with 'else ACTION', or pass it to `evaluate` or `compare`, which estimate what was done"
        raise ValueError(f"{leaves}, which is not known here: {remedy}.")
    return table


def shares(
    policy: Any,
    observation: Any,
    name: str = "policy",
    names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    n_actions: int = 0,
) -> tuple[Array, Array]:
    """Ask any policy for its table (n, n_actions) and rest (n,), π(·|s) = table(s) + rest(s) μ(·|s), and check them.

    Only a rule in words leaves a rest to the behaviour μ. `n_actions` is the least width of the table where neither
    names nor probabilities say how many actions there are.
    """
    n = observation.shape[0]
    wanted = getattr(policy, "feature_names_in_", None)
    rows = in_order(observation, names, wanted)
    if hasattr(policy, "shares"):
        return policy.shares(rows, names, action_names, n_actions)
    if hasattr(policy, "predict_proba"):
        table = _classified(policy, rows, name, action_names)
    else:
        known = names if names is None or wanted is None else list(wanted)
        answer = policy(named(rows, known)) if callable(policy) else policy
        answer = _spelt_out(answer, action_names, n_actions, name)
        said = f"`{name}` must return numbers, but its answer is not an array of them"
        with explained(said, "return one row of action probabilities per observation", (TypeError, ValueError)):
            table = np.asarray(answer, dtype=np.float64)
    if table.ndim != 2 or len(table) != n:
        shapes = f"map {n} observations to shape ({n}, n_actions), but it returned shape {table.shape}"
        raise ValueError(f"`{name}` must {shapes}: return one row of action probabilities per observation.")
    refuse(name, rowwise(~np.isfinite(table)), table, "finite", "return numbers between 0 and 1")
    refuse(name, rowwise(table < 0), table, "non-negative", "return numbers between 0 and 1")
    sums = table.sum(axis=1)
    remedy = "return the probabilities of all actions, not scores or logits"
    refuse(name, np.abs(sums - 1) > 1e-6, table, "a distribution (sum 1)", remedy)  # float32 sums are that rough
    return table, np.zeros(n)


def _classified(classifier: Any, rows: Array, name: str, action_names: Sequence[str] | None) -> Array:
    """The probabilities of a classifier, in the order of the actions; its classes may be numbers or names."""
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"`{name}` is a {type(classifier).__name__} that was not fitted: fit it to the actions first.")
    with warnings.catch_warnings():
        # The columns were put in the classifier's order above, so its warning about missing names would mislead.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        found = np.asarray(classifier.predict_proba(rows))
    codes = [_code(label, action_names, name) for label in classifier.classes_.tolist()]
    table = np.zeros((len(found), max(max(codes) + 1, len(action_names or ()))))
    table[:, codes] = found
    return table


def _code(label: Any, action_names: Sequence[str] | None, name: str) -> int:
    """The code of an action. A text is always a name and a number always a code, even if names look like numbers."""
    if isinstance(label, str):
        if action_names is not None and label in action_names:
            return list(action_names).index(label)
        known = "it has no names of actions" if action_names is None else f"its actions are {', '.join(action_names)}"
        raise ValueError(f"`{name}` chooses {label!r}, which the log does not know: {known}.")
    if not 0 <= label < (MOST_ACTIONS if action_names is None else len(action_names)) or label != int(label):
        many = "integers 0, 1, …" if action_names is None else f"0 to {len(action_names) - 1}, or names as text"
        raise ValueError(f"`{name}` chooses {label!r}, which is no code of an action: codes are {many}.")
    return int(label)


def _spelt_out(answer: Any, action_names: Sequence[str] | None, n_actions: int, name: str) -> Any:
    """Turn one action per row, by name or by code, into rows of probabilities; leave any other answer alone."""
    try:
        array = np.asarray(answer)
        array = np.asarray(array.tolist()) if array.dtype.kind in "OT" else array
    except ValueError:  # rows of different lengths: the caller's check names them
        return answer
    decimal = array.dtype.kind == "f" and not is_whole(array)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "biufU" or decimal:
        return answer
    labels, place = np.unique(array, return_inverse=True)
    codes = np.array([_code(label, action_names, name) for label in labels.tolist()])
    width = len(action_names) if action_names is not None else max(n_actions, int(codes.max()) + 1)
    return np.eye(width)[codes[place]]


def is_whole(values: Array) -> bool:
    """Return whether all numbers are whole. 1.0 counts, since actions are often stored as floats."""
    return bool(np.isfinite(values).all() and (values == np.rint(values)).all())


def discrete(action: Array | None, n_actions: int, name: str = "policy") -> Array:
    """Check that the logged actions are whole numbers below `n_actions`, and return them as integers."""
    if action is not None and action.dtype.kind == "f" and action.size == len(action) and is_whole(action):
        action = action.reshape(-1).astype(np.int64)
    if action is None or action.ndim != 1 or action.dtype.kind != "i":
        raise ValueError(f"`{name}` needs a column `action` of integers 0, 1, …: pass the index of each logged action.")
    bad = (action < 0) | (action >= n_actions)
    refuse("action", bad, action, f"between 0 and {n_actions - 1}", f"renumber them like the columns of `{name}`")
    return action


def chosen(table: Array, action: Array) -> Array:
    """π(a|s) of the logged actions, taken from the rows π(·|s)."""
    return np.asarray(table[np.arange(len(action)), action])
