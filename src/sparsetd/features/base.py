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


def refuse_too_many(count: float, remedy: str) -> None:
    """Refuse a layout whose size has exploded with the number of dimensions."""
    if count > MAX_FEATURES:
        raise ValueError(f"This would make {count:.3g} features, more than {MAX_FEATURES:,}: {remedy}.")


def positive_integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, but it is {value!r}.")
    return int(value)
