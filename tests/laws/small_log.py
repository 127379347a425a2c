"""Small logs to try the laws on, and what the laws are written with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import isfunction, signature
from types import ModuleType
from typing import Any
from unittest import SkipTest

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsetd.system import Array

Law = Callable[[Any], None]


@dataclass(frozen=True)
class Log:
    """The arguments of `fit`, as columns."""

    X: Any
    y: Any
    X_next: Any
    ratio: Any
    discount: Any
    start: Any

    def __getitem__(self, rows: Any) -> Log:
        return Log(*(None if column is None else column[rows] for column in vars(self).values()))

    def but(self, **columns: Any) -> Log:
        """The same log with other columns."""
        return replace(self, **columns)

    def with_features(self, change: Callable[[Any], Any]) -> Log:
        """The same log with X and X_next changed alike."""
        return self.but(X=change(self.X), X_next=change(self.X_next))

    @property
    def keywords(self) -> dict[str, Any]:
        return {"ratio": self.ratio, "discount": self.discount, "start": self.start}


def log(n: int = 48, d: int = 4, seed: int = 0) -> Log:
    """An off-policy log of several episodes: some terminate, some are cut short, ratios vary around 1."""
    rng = np.random.default_rng(seed)
    start = np.zeros(n, dtype=bool)
    start[:: n // 6] = True
    discount = np.full(n, 0.8)
    discount[np.flatnonzero(start[1:])[::2]] = 0.0
    X, X_next = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    return Log(X, X @ rng.normal(size=d) + rng.normal(size=n), X_next, rng.uniform(0.2, 1.8, n), discount, start)


def concerns(condition: bool) -> None:
    """Skip a law that says nothing about the estimator at hand."""
    if not condition:
        raise SkipTest("this law does not concern the estimator")


def laws_of(module: ModuleType) -> tuple[Law, ...]:
    """Return every public function of a file; one that also asks for `rows` gets a fresh small log."""
    own = [f for f in vars(module).values() if isfunction(f) and f.__module__ == module.__name__]
    return tuple(_on_a_log(f) for f in own if not f.__name__.startswith("_"))


def _on_a_log(law: Callable[..., None]) -> Law:
    return wraps(law)(lambda estimator: law(estimator, log())) if "rows" in signature(law).parameters else law


def fitted(estimator: Any, rows: Log, **parameters: Any) -> Any:
    """Fit a copy. What a law says of the result does not depend on whether it converged."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return clone(estimator).set_params(**parameters).fit(rows.X, rows.y, rows.X_next, **rows.keywords)


def streamed(estimator: Any, rows: Log, cuts: tuple[int, ...]) -> Any:
    """Give a copy the rows in pieces."""
    model = clone(estimator)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        for first, last in zip((0, *cuts), (*cuts, len(rows.y)), strict=True):
            piece = rows[first:last]
            model.partial_fit(piece.X, piece.y, piece.X_next, **piece.keywords)
    return model


def numbers(model: Any) -> list[Array]:
    """Return all that was learnt, as float arrays."""
    arrays = [model.coef_, model.coef_last_, np.array([model.intercept_])]
    return arrays + [a for a in (model.aux_, model.dual_) if a is not None]


def assert_same(one: Any, other: Any, what: str) -> None:
    """Raise unless the two models are equal to the last bit."""
    for a, b in zip(numbers(one), numbers(other), strict=True):
        assert np.array_equal(a, b), f"{what}: coefficients differ by up to {np.abs(a - b).max():.1e}"


def assert_close(one: Any, other: Any, what: str, tolerance: float = 1e-9) -> None:
    """Raise unless the two value functions are equal up to rounding."""
    scale = 1.0 + np.abs(one.coef_).max()
    gap = np.abs(one.coef_ - other.coef_).max() / scale
    assert gap <= tolerance, f"{what}: coefficients differ by {gap:.1e}"
