"""What the feature maps share: the box of states they cover, and names for the columns that come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

Array = NDArray[Any]
Bound = float | Sequence[float] | None

MAX_FEATURES = 10_000_000
MAX_INPUTS = 100_000


class BoxFeatures(TransformerMixin, BaseEstimator):
    """A feature map of states scaled to the unit box: u = (s − low) / (high − low).

    `low` and `high` are numbers, one per dimension, or None: then they are the least and greatest values seen in `fit`.
    """

    low: Bound
    high: Bound

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the bounds that were not given, and lay out the features."""
        X = validate_data(self, X, dtype=np.float64)
        self.low_ = _bound("low", self.low, X.min(axis=0))
        self.high_ = _bound("high", self.high, X.max(axis=0))
        learned = self.low is None or self.high is None
        wrong = self.high_ < self.low_ if learned else self.high_ <= self.low_
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"`high` must exceed `low`, but in column {i} low={self.low_[i]} and high={self.high_[i]}."
            )
        self._lay_out()
        return self

    def transform(self, X: Any) -> Any:
        """φ(s) of every row."""
        check_is_fitted(self)
        return self._features(self._unit(validate_data(self, X, dtype=np.float64, reset=False)))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """One name per feature, made of the observation's names."""
        check_is_fitted(self)
        return np.array(self._names(list(_check_feature_names_in(self, input_features))), dtype=object)

    def _unit(self, X: Array) -> Array:
        span = self.high_ - self.low_
        return (X - self.low_) / np.where(span > 0, span, 1.0)

    def _restore(self) -> None:
        """What is derived from the parameters and the bounds is computed again, not stored: a file may say anything."""
        p = self.n_features_in_
        if type(p) is not int or not 1 <= p <= MAX_INPUTS or not np.shape(self.low_) == np.shape(self.high_) == (p,):
            raise ValueError("the bounds are not those of the columns.")
        self._lay_out()

    def _lay_out(self) -> None:
        raise NotImplementedError

    def _features(self, u: Array) -> Any:
        raise NotImplementedError

    def _names(self, names: list[str]) -> list[str]:
        raise NotImplementedError


def _bound(name: str, given: Bound, learned: Array) -> Array:
    if given is None:
        return learned
    bound = np.asarray(given, dtype=np.float64)
    if bound.ndim > 1 or (bound.ndim == 1 and bound.shape != learned.shape):
        raise ValueError(f"`{name}` must be a number or {len(learned)} numbers, one per column, but it is {given!r}.")
    if not np.isfinite(bound).all():
        raise ValueError(f"`{name}` must be finite, but it is {given!r}: give the range of the states you expect.")
    return np.broadcast_to(bound, learned.shape).copy()


def power(points: int, p: int) -> float:
    """pointsᵖ, infinite where no float can hold it."""
    with np.errstate(over="ignore"):
        return float(np.float64(points) ** p)


def refuse_too_many(count: float, remedy: str, each: int = 1) -> None:
    """Refuse a layout that keeps `each` numbers per feature and whose size has exploded with the dimensions."""
    if not count * each <= MAX_FEATURES:
        size = f"{count:.3g} features" if each == 1 else f"{count:.3g} features of {each} numbers each"
        raise ValueError(f"This would make {size}, more than {MAX_FEATURES:,} numbers: {remedy}.")


def positive_integer(name: str, value: Any) -> int:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 1 <= value < 2**63 or int(value) != value:
        raise ValueError(f"`{name}` must be a positive integer, but it is {value!r}.")
    return int(value)
