"""The basis that is built from raw columns: the columns themselves, hinges of their ranks, and products of two of them.

A value is seldom a straight line in lactate or in waiting time. So every column x with more than two values also gets

    z = Φ⁻¹(rank of x), between −2.5 and 2.5        its score: skew, units and outliers stop mattering
    (z − k)₊ for a few knots k                      "lactate above 2.1"
    z₊w₊, z₊w₋, z₋w₊, z₋w₋ with another score w     "lactate high × age low"

A column with two values (a category's dummy) stays as it is, and enters products as an indicator. Knots are quantiles
of the rows seen in `fit`. Beyond the least and the greatest of these z stands still, so that no function of it grows
outside the range of the log. The raw columns come first: what was right already stays among the candidates, and a ridge
on the rest shrinks towards it (`selection.shrinkage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from sparsetd.features.base import Array, positive_integer

BOUND = 2.5  # of a score
N_QUANTILES = 200  # of a column, between which its score is interpolated
SINGLES = 0.6  # share of the functions that functions of one column may take where not all find room


@dataclass(frozen=True)
class Function:
    """A function of the basis: of one column (`knot`: a hinge; None: the column itself), or a product of two sides.

    `columns` are the columns that it is made of. A side of a column is +1 for z₊ and −1 for z₋; the indicator of a
    column with two values has side +1.
    """

    columns: tuple[int, ...]
    knot: float | None = None
    sides: tuple[int, ...] = ()


class Basis(TransformerMixin, BaseEstimator):
    """Raw columns, hinges of their rank scores, and products of pairs of columns.

    Parameters
    ----------
    n_knots : int
        Hinges of a column with many values, beside its score.
    max_functions : int
        Functions beside the raw columns. Where not all find room, the columns of `order` go first.
    order : sequence of int, optional
        Columns, the most promising first; as they come by default.

    Attributes
    ----------
    functions_ : list of Function
        One for every column that `transform` returns.
    owners_ : boolean array (n_functions, n_columns)
        Which columns a function is made of.
    values_, scores_ : lists of arrays
        The points between which the score of each column is interpolated.
    centre_ : array (n_columns, 2)
        Means of z₊ and z₋ (of the indicator and 0 for a column with two values) over the rows of `fit`.
    """

    def __init__(self, *, n_knots: int = 5, max_functions: int = 160, order: Sequence[int] | None = None) -> None:
        self.n_knots = n_knots
        self.max_functions = max_functions
        self.order = order

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the scores and lay out the functions."""
        X = validate_data(self, X, dtype=np.float64)
        if self.max_functions < 0:
            raise ValueError(f"`max_functions` must not be negative, but it is {self.max_functions}.")
        points = [_points(column) for column in X.T]
        self.values_ = [values for values, _ in points]
        self.scores_ = [scores for _, scores in points]
        order = range(X.shape[1]) if self.order is None else self.order
        self.functions_ = [Function((j,)) for j in range(X.shape[1])] + self._beside(order)
        self.owners_ = np.zeros((len(self.functions_), X.shape[1]), dtype=bool)
        for i, function in enumerate(self.functions_):
            self.owners_[i, list(function.columns)] = True
        self.centre_ = np.array([[side.mean() for side in self._sides(X[:, j], j)] for j in range(X.shape[1])])
        return self

    def transform(self, X: Any) -> Array:
        """ψ of every row: the raw columns first."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        used = {j for f in self.functions_[X.shape[1] :] for j in f.columns}
        scores = {j: self.rank_score(X[:, j], j) for j in used}
        sides = {j: self._sides(X[:, j], j) for f in self.functions_ if f.sides for j in f.columns}
        out = np.empty((len(X), len(self.functions_)))
        for i, f in enumerate(self.functions_):
            if f.sides:
                (a, b), (s, t) = f.columns, f.sides
                np.multiply(sides[a][s < 0], sides[b][t < 0], out=out[:, i])
            elif f.knot is None:
                out[:, i] = X[:, f.columns[0]]
            else:
                np.maximum(scores[f.columns[0]] - f.knot, 0.0, out=out[:, i])
        return out

    def rank_score(self, column: Array, j: int) -> Array:
        """z of some values of column j."""
        return np.interp(column, self.values_[j], self.scores_[j])

    def profile(self, j: int, values: Array) -> Array:
        """ψ with column j at each of these values, averaged over the other columns: θᵀψ is the shape of the value.

        Raw columns other than j, and functions that column j has no part in, are 0: they only move the level.
        """
        own = dict(zip((1, -1), self._sides(values, j), strict=True))
        out = np.zeros((len(values), len(self.functions_)))
        for i in np.flatnonzero(self.owners_[:, j]):
            f = self.functions_[i]
            if f.sides:
                here = f.columns.index(j)
                other, side = f.columns[1 - here], f.sides[1 - here]
                out[:, i] = own[f.sides[here]] * self.centre_[other, int(side < 0)]
            else:
                out[:, i] = values if f.knot is None else np.maximum(self.rank_score(values, j) - f.knot, 0.0)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The columns' names, then "lactate above 2.1" and "lactate high × age low"."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array([self._name(f, names) for f in self.functions_], dtype=object)

    def _name(self, f: Function, names: Array) -> str:
        if f.sides:
            return " × ".join(self._side_name(j, side, names) for j, side in zip(f.columns, f.sides, strict=True))
        j = f.columns[0]
        if f.knot is None:
            return str(names[j])
        if f.knot <= -BOUND:
            return f"{names[j]} by rank"
        return f"{names[j]} above {np.interp(f.knot, self.scores_[j], self.values_[j]):.3g}"

    def _side_name(self, j: int, side: int, names: Array) -> str:
        return str(names[j]) if self._flat(j) else f"{names[j]} {'high' if side > 0 else 'low'}"

    def _flat(self, j: int) -> bool:
        return len(self.values_[j]) <= 2

    def _sides(self, column: Array, j: int) -> tuple[Array, Array]:
        """z₊ and z₋ of some values of column j; the indicator of the greater one, and zeros, where it has two."""
        if self._flat(j):
            low, high = self.values_[j][0], self.values_[j][-1]
            return np.clip((column - low) / (high - low if high > low else 1.0), 0.0, 1.0), np.zeros(len(column))
        z = self.rank_score(column, j)
        return np.maximum(z, 0.0), np.maximum(-z, 0.0)

    def _beside(self, order: Sequence[int]) -> list[Function]:
        """The functions beside the raw columns: of one column each, then products, as many as there is room for."""
        some = [j for j in order if len(self.values_[j]) > 1]
        singles = [self._singles(j) for j in some if not self._flat(j)]
        room = self.max_functions
        out = _fitting(singles, room if sum(map(len, singles)) <= SINGLES * room else int(SINGLES * room))
        pairs = (self._products(some[a], some[b]) for b in range(len(some)) for a in range(b))
        return out + _fitting(pairs, room - len(out))

    def _singles(self, j: int) -> list[Function]:
        k, scores = positive_integer("n_knots", self.n_knots), self.scores_[j]
        inner = scores[1:-1] if len(scores) <= k + 2 else ndtri(np.arange(1, k + 1) / (k + 1))
        knots = inner[(inner > scores[0]) & (inner < scores[-1])]
        return [Function((j,), -BOUND), *(Function((j,), float(knot)) for knot in knots)]

    def _products(self, a: int, b: int) -> list[Function]:
        sides = [(1,) if self._flat(j) else (1, -1) for j in (a, b)]
        return [Function((a, b), None, both) for both in product(*sides)]


def _fitting(groups: Iterable[list[Function]], room: int) -> list[Function]:
    """The functions of the first groups, as many whole groups as there is room for."""
    out: list[Function] = []
    for group in groups:
        if len(out) + len(group) > room:
            break
        out += group
    return out


def _points(column: Array) -> tuple[Array, Array]:
    """Values of a column and their scores: all of a few values, quantiles of many."""
    ordered = np.sort(column)
    values = np.unique(ordered)
    if len(values) > N_QUANTILES:
        values = np.unique(np.quantile(ordered, np.linspace(0, 1, N_QUANTILES + 1)))
    below, upto = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return values, np.clip(ndtri((below + upto) / (2 * len(ordered))), -BOUND, BOUND)
