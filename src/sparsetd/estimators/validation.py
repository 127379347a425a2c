"""Checks of the rows and parameters that come in: every one says what is wrong, where, and what to do."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.logs import checks
from sparsetd.logs.schema import meant_by
from sparsetd.system import Array, Batch, dense, rows_of, scaled


def column(name: str, values: Any, n: int, *, default: float = 1.0, high: float = np.inf) -> Array:
    """One finite number per row in [0, high]; `default` for every row where None was given."""
    if values is None:
        return np.full(n, default)
    array = checks.column(name, values, n).astype(np.float64, copy=False)
    allowed = f"in [0, {high:g}]" if np.isfinite(high) else "at least 0"
    checks.refuse(name, (array < 0) | (array > high), array, allowed, "correct the row or drop it")
    return np.asarray(array)


def nearest(name: str, value: Any, known: Iterable[Any]) -> str:
    """A sentence about an unknown name, with the nearest known one."""
    options = list(known)
    meant = meant_by(str(value), [str(o) for o in options])
    hint = "" if meant is None else f"did you mean {meant!r}? "
    return f"{name}={value!r} is not known; {hint}choose from {', '.join(repr(o) for o in options)}"


Rule = tuple[Callable[[float], bool], str]  # which numbers are allowed, and how they are called

UNIT: Rule = (lambda v: 0.0 <= v <= 1.0, "a number in [0, 1]")
POSITIVE: Rule = (lambda v: 0.0 < v < np.inf, "a positive finite number")
NOT_NEGATIVE: Rule = (lambda v: 0.0 <= v < np.inf, "a finite number of at least 0")
COUNT: Rule = (lambda v: v >= 1 and v == int(v), "a whole number of at least 1")
STEP = "a positive number, or a function from step indices to steps, or 'auto'"

# One rule per public hyper-parameter, whichever estimators have it; None stands for "not used" where it is a default.
NUMBERS: dict[str, Rule] = {
    **dict.fromkeys(("gamma", "lam", "l1_ratio", "rho_share"), UNIT),
    **dict.fromkeys(("alpha", "beta", "rho_theta", "rho_w"), NOT_NEGATIVE),
    **dict.fromkeys(("budget", "eta", "hint", "wealth"), POSITIVE),
    **dict.fromkeys(("max_features", "max_steps", "n_passes"), COUNT),
    "step_size": (POSITIVE[0], STEP),
    "radius": (lambda v: v > 0, "a positive number"),
    "p": (lambda v: 1 < v < np.inf, "a number greater than 1"),
    "support_tol": (lambda v: 0 <= v < 1, "a number in [0, 1)"),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "projected": (True, False),
    "choice": ("elimination", "best", "one_standard_error"),
    "average": ("all", "suffix", "none"),
    "fit_norm": (1, 2, "inf", "rmspbe"),
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Apply the rule of every hyper-parameter that has one."""
    for name, value in parameters.items():
        known = CHOICES.get(name, ())
        if known and value is not None and not any(type(value) is type(o) and value == o for o in known):
            raise ValueError(nearest(name, value, known))
        schedule = name == "step_size" and (callable(value) or (isinstance(value, str) and value == "auto"))
        if name in NUMBERS and value is not None and not schedule:
            _check_number(name, value, *NUMBERS[name])


def _check_number(name: str, value: Any, accept: Callable[[float], bool], wanted: str) -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not accept(float(value)):
        raise ValueError(f"{name}={value!r} must be {wanted}")


# --- rows -----------------------------------------------------------------------------------------------------------


def weighted(batch: Batch, sample_weight: Any) -> Batch:
    """Rows scaled by √weight: then both Σ δφ and Σ φφᵀ count each row as often as its weight says."""
    if sample_weight is None:
        return batch
    root = np.sqrt(column("sample_weight", sample_weight, len(batch)))
    phi, phi_next = scaled(root, batch.phi), scaled(root, batch.phi_next)
    return replace(batch, phi=phi, phi_next=phi_next, reward=root * batch.reward)


def refuse_states(model: Any, ratio: Array) -> None:
    """GQ and its like have their action given: of states they would learn the values of the behaviour."""
    if model.triple()[0].trace == "action" and np.any(ratio != 1.0):
        raise ValueError(
            f"{type(model).__name__} learns values of actions, and no ratio corrects those of states: "
            "name the policy that is asked about (`policy=` of `ValueFunction.fit`, or --target), or take TDC or ROTD"
        )


def check_target(y: Any) -> None:
    """The row of a bad reward; everything else about y is scikit-learn's to say."""
    reward = np.asarray(y)
    if reward.dtype.kind == "f" and reward.ndim == 1:
        checks.finite("y", reward)


def is_plain(model: Any, X: Any, y: Any = None, reset: bool = False) -> bool:
    """Whether scikit-learn would hand X and y back as they are, once the target is checked.

    Its look at them, which asks for every kind of frame, takes longer than a short fit.
    """
    if type(X) is not np.ndarray or hasattr(model, "feature_names_in_"):
        return False
    rows = X.dtype in (np.float64, np.float32) and X.ndim == 2 and X.size > 0
    target = y is None or (type(y) is np.ndarray and y.dtype == np.float64 and y.shape == X.shape[:1])
    return rows and target and (reset or bool(X.shape[1] == model.n_features_in_))


class Following:
    """The successors of dense rows by position. Slices share the memory of φ, except the one with the very last row."""

    def __init__(self, phi: Array) -> None:
        self.phi = phi

    def __getitem__(self, rows: slice) -> Array:
        first, stop, _ = rows.indices(len(self.phi))
        if stop < len(self.phi):
            return np.asarray(self.phi[first + 1 : stop + 1])
        return np.concatenate([self.phi[first + 1 :], self.phi[-1:]])  # what follows the last row counts for nothing


def following(phi: Any, views: bool) -> Any:
    """The next rows; what follows the last row, and every row before a start, is terminal."""
    if not sp.issparse(phi):
        return Following(phi) if views else Following(phi)[:]
    after = rows_of(phi, slice(1, phi.shape[0]))  # shares the memory of φ
    arrays = after.data, after.indices, np.append(after.indptr, after.indptr[-1:])
    return sp.csr_array(arrays, shape=phi.shape, copy=False)


def like(rows: Any, phi: Any) -> Any:
    """The rows in the container and type of φ, so that one kernel serves both."""
    if not sp.issparse(phi):
        return dense(rows, phi.dtype)
    return (rows if sp.issparse(rows) else sp.csr_array(rows)).astype(phi.dtype, copy=False)


def in_container(batch: Batch, sparse: bool) -> Batch:
    """The batch with dense or with CSR features, itself where it has them already."""
    if batch.is_sparse == sparse:
        return batch
    kind = sp.csr_array if sparse else dense
    return replace(batch, phi=kind(batch.phi), phi_next=kind(batch.phi_next))


def with_constant(phi: Any) -> Any:
    """[φ 1], dense or sparse, in the type of φ."""
    return beside(phi, np.ones((phi.shape[0], 1), dtype=phi.dtype))


def beside(rows: Any, columns: Array) -> Any:
    """Rows with more columns to their right, in the container of the rows."""
    if sp.issparse(rows):
        return sp.hstack([rows, sp.csr_array(columns)], format="csr")
    return np.hstack([rows, columns])
