"""The basis that is built from raw columns: the columns themselves, hinges of their ranks, and products of them.

A value is seldom a straight line in lactate or in waiting time. So every column x with more than two values also gets

    z = Φ⁻¹(rank of x), between −2.5 and 2.5        its score: skew, units and outliers stop mattering
    (z − k)₊ for a few knots k                      "lactate above 2.1"
    z₊w₊, z₊w₋, z₋w₊, z₋w₋ with another score w     "lactate high × age low"
    the same of three scores                        "lactate high × age low × dose high", where there is room
    pairs with (z − ⅔)₊ and (−z − ⅔)₊               "lactate very high × age low", where there is room
    (z − k)₊ for knots between                      where there is still room: in long logs of few columns

A column with two values (a category's dummy) stays as it is, and enters products as an indicator. Knots are quantiles
of the rows seen in `fit`. Beyond the least and the greatest of these rows z stays constant, so that no function of it
grows outside the range of the log. The raw columns come first: what was right already stays among the candidates, and
a ridge on the rest shrinks towards it (`selection.shrinkage`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import chain, combinations, product
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from sparsetd.features.maps import Array, positive_integer
from sparsetd.logs import Transitions
from sparsetd.system import recurrence

BOUND = 2.5  # of the size of a score
BLOCK = 8_192  # rows whose functions are made at a time
N_QUANTILES = 200  # of a column: its score is interpolated between them
ROWS_EACH = 10  # rows that every column of ψ needs
EPISODES_EACH, FINE_EACH = 4, 12  # episodes needed for every added function, and for every one if products are rare …
FINE_ROWS = 150  # … or this many rows for every function, which few long episodes can have
LARGEST = 160  # functions beside the raw columns …
LARGE, MANY = 50_000, 20  # … a third of them for this many rows or columns, a fifth for both: sums grow with the square
SIDES = (1, -1, 2, -2)
FAR = 2 / 3  # score from which a column is "very high", or "very low" below its negative
MOST_PAIRED, MOST_TRIPLED = 60, 12  # columns whose products are considered
SINGLES = 0.6  # share of the functions that those of one column may take if not all find room


@dataclass(frozen=True)
class Function:
    """A function of the basis: of one column (`knot`: a hinge; None: the column itself), or a product of sides.

    `columns` are the columns that it is made of. A side of a column is +1 for z₊ and −1 for z₋, +2 and −2 for the same
    beyond ⅔; the indicator of a column with two values has side +1.
    """

    columns: tuple[int, ...]
    knot: float | None = None
    sides: tuple[int, ...] = ()


@dataclass(eq=False, repr=False)
class Basis(TransformerMixin, BaseEstimator):
    """Add hinges and products to raw columns, so that a linear value can bend: for tables of mixed columns.

    The raw columns come first; hinges and products are made of the scores of their ranks.

    Parameters
    ----------
    n_knots : int
        Hinges of a column with many values, beside its score; more if all products find room.
    max_functions : int
        The most functions to add to the raw columns. If not all find room, the first columns of `order` get theirs.
    max_fine : int
        Functions that depend on few rows are added only up to this total: products of three columns, then products of
        the far ends of two, then hinges between the knots.
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
    centre_ : array (n_columns,)
        Mean of the upper side of every column over the rows of `fit`.
    others_ : array (n_functions, n_columns)
        Mean over these rows of what multiplies the side of a column in a product; 0 elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import Basis
    >>> lactate = np.linspace(0.5, 9.0, 200)
    >>> female = np.arange(200) % 2
    >>> basis = Basis(n_knots=2).fit(np.column_stack([lactate, female]))
    >>> len(basis.functions_), int(basis.owners_.sum(axis=1).max())
    (18, 2)
    >>> basis.get_feature_names_out(['lactate', 'female'])[:4].tolist()
    ['lactate', 'female', 'lactate by rank', 'lactate above 3.33']
    """

    _: KW_ONLY
    n_knots: int = 5
    max_functions: int = 160
    max_fine: int = 80
    order: Sequence[int] | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the scores and lay out the functions."""
        if self.max_functions < 0:
            raise ValueError(f"`max_functions` must not be negative, but it is {self.max_functions}.")
        return self._laid_out(self._scored(X))

    def _scored(self, X: Any) -> list[Array]:
        """Learn the scores; returns those of the rows, column by column."""
        X = validate_data(self, X, dtype=np.float64)
        points = [_points(column) for column in X.T]
        self.values_, self.scores_ = ([point[i] for point in points] for i in range(2))
        return [self._score_or_share(column, j) for j, column in enumerate(X.T)]

    def _laid_out(self, scores: list[Array]) -> Self:
        """Lay out the functions of columns with these scores."""
        columns = range(len(scores))
        beside = self._beside(columns if self.order is None else self.order)
        built = self._built(scores.__getitem__, len(scores[0]), beside)
        varies = np.ptp(built, axis=1) > 0  # two dummies may never be 1 together
        self.functions_ = [Function((j,)) for j in columns] + [
            f for f, kept in zip(beside, varies, strict=True) if kept
        ]
        self.owners_ = np.array([[j in f.columns for j in columns] for f in self.functions_])
        self.centre_ = np.array([self._side(z, j, 1).mean() for j, z in enumerate(scores)])
        self.others_ = self._others(scores)
        return self

    def _others(self, scores: list[Array]) -> Array:
        """The mean of every product without the side of each of its columns."""
        side = cache(lambda j, which: self._side(scores[j], j, which))
        mean = cache(lambda *sides: np.prod([side(*each) for each in sides], axis=0).mean())
        out = np.zeros(self.owners_.shape)
        for i, f in enumerate(self.functions_):
            sides = list(zip(f.columns, f.sides, strict=False))  # a function of one column has no sides
            for own in sides:
                out[i, own[0]] = mean(*(other for other in sides if other != own))
        return out

    def transform(self, X: Any) -> Array:
        """Compute the functions ψ of every row, the raw columns first."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        out = np.empty((len(X), len(self.functions_)))
        out[:, : X.shape[1]] = X
        self._fill(out)
        return out

    def extend(self, rows: Array, after: Array, ended: Array) -> None:
        """Write ψ beside the raw columns of rows and of their successors, which stand in the first columns of both.

        Most successors are the state of the next row: these are known. A row that `ended` is its own successor.
        """
        d, p = self.n_features_in_, len(self.functions_)
        self._fill(rows)
        after[ended, :p] = rows[ended, :p]
        known = np.append((after[:-1, :d] == rows[1:, :d]).all(axis=1), False)
        after[:-1][known[:-1], d:p] = rows[1:][known[:-1], d:p]
        other = np.flatnonzero(~known & ~ended)
        unknown = after[other, :p]
        self._fill(unknown)
        after[other, :p] = unknown

    def _fill(self, rows: Array) -> None:
        """Write ψ beside the raw columns, which are the first of `rows`."""
        d, p = self.n_features_in_, len(self.functions_)
        for begin in range(0, len(rows), BLOCK):  # what is made of a block of rows stays near the processor
            some = rows[begin : begin + BLOCK]
            score = cache(lambda j, some=some: self._score_or_share(some[:, j], j))
            some[:, d:p] = self._built(score, len(some), self.functions_[d:]).T

    def _built(self, score: Callable[[int], Array], n: int, functions: Sequence[Function]) -> Array:
        """Hinges and products of n rows with the scores of each column: a line for each function."""
        side = cache(lambda j, which: self._side(score(j), j, which))
        out = np.empty((len(functions), n))
        for f, line in zip(functions, out, strict=True):
            if f.sides:
                first, second, *others = map(side, f.columns, f.sides)
                np.multiply(first, second, out=line)
                for other in others:
                    line *= other
            else:
                np.maximum(score(f.columns[0]) - f.knot, 0.0, out=line)
        return out

    def rank_score(self, column: Array, j: int) -> Array:
        """z of some values of column j."""
        return np.interp(column, self.values_[j], self.scores_[j])

    def profile(self, j: int, values: Array) -> Array:
        """ψ with column j at each of these values, averaged over the other columns: θᵀψ is the shape of the value.

        Raw columns other than j, and functions that column j has no part in, are 0: they only move the level.
        """
        z, out = self._score_or_share(values, j), np.zeros((len(values), len(self.functions_)))
        for i in np.flatnonzero(self.owners_[:, j]):
            f = self.functions_[i]
            if f.sides:
                own = f.sides[f.columns.index(j)]
                out[:, i] = self._side(z, j, own) * self.others_[i, j]
            else:
                out[:, i] = values if f.knot is None else np.maximum(z - f.knot, 0.0)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The columns' names, then "lactate above 2.1" and "lactate high × age low"."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array([self._name(f, names) for f in self.functions_], dtype=object)

    def _name(self, f: Function, names: Array) -> str:
        if f.sides:
            ends = {1: " high", -1: " low", 2: " very high", -2: " very low"}
            sides = zip(f.columns, f.sides, strict=True)
            return " × ".join(str(names[j]) + ("" if self._flat(j) else ends[side]) for j, side in sides)
        j = f.columns[0]
        if f.knot is None:
            return str(names[j])
        if f.knot <= -BOUND:
            return f"{names[j]} by rank"
        return f"{names[j]} above {np.interp(f.knot, self.scores_[j], self.values_[j]):.3g}"

    def _flat(self, j: int) -> bool:
        return len(self.values_[j]) <= 2

    def _score_or_share(self, column: Array, j: int) -> Array:
        """z of some values of column j; the indicator of the greater value where it has two."""
        if not self._flat(j):
            return self.rank_score(column, j)
        low, high = self.values_[j][0], self.values_[j][-1]
        return np.asarray(np.clip((column - low) / (high - low if high > low else 1.0), 0.0, 1.0))

    def _side(self, z: Array, j: int, side: int) -> Array:
        """One side of the score of column j; an indicator has only one side."""
        beyond = FAR if abs(side) > 1 else 0.0
        return z if self._flat(j) else np.asarray(np.maximum(np.sign(side) * z - beyond, 0.0))

    def _beside(self, order: Sequence[int]) -> list[Function]:
        """The functions beside the raw columns: of one column each, then products, as many as there is room for."""
        some = [j for j in order if len(self.values_[j]) > 1]
        curved = [j for j in some if not self._flat(j)]
        n_knots, room = positive_integer("n_knots", self.n_knots), self.max_functions
        singles = [self._singles(j, n_knots) for j in curved]
        out = _fitting(singles, room if sum(map(len, singles)) <= SINGLES * room else int(SINGLES * room))
        pairs, triples = _sets(some[:MOST_PAIRED], 2), _sets(some[:MOST_TRIPLED], 3)
        out += _fitting((self._products(*pair) for pair in pairs), room - len(out))
        of_three = (self._products(*triple) for triple in triples)
        far = (self._products(*pair, fine=True) for pair in pairs)
        between = (
            [one for one in self._singles(j, 2 * k + 1) if one not in self._singles(j, k)]
            for k in (n_knots, 2 * n_knots + 1)
            for j in curved
        )
        return out + _fitting(chain(of_three, far, between), min(room, self.max_fine) - len(out))

    def _singles(self, j: int, k: int) -> list[Function]:
        """The score of column j, and its hinges at k knots."""
        scores = self.scores_[j]
        inner = scores[1:-1] if len(scores) <= k + 2 else ndtri(np.arange(1, k + 1) / (k + 1))
        knots = inner[(inner > scores[0]) & (inner < scores[-1])]
        return [Function((j,), -BOUND), *(Function((j,), float(knot)) for knot in knots)]

    def _products(self, *columns: int, fine: bool = False) -> list[Function]:
        """Products of the sides of some columns; the fine ones are those with a side beyond ⅔."""
        sides = [SIDES[:1] if self._flat(j) else SIDES for j in columns]
        return [Function(columns, None, every) for every in product(*sides) if (max(map(abs, every)) > 1) == fine]


def automatic(log: Transitions, gamma: float) -> Basis | None:
    """The basis of a log: as many functions as its first rows and episodes afford; None where they afford none.

    If not all columns find room, those come first whose score, or its size, is most correlated with rewards or returns.
    """
    X, n, episodes = log.observation, len(log), log.n_episodes
    if sp.issparse(X) or X.ndim != 2:
        return None
    d = X.shape[1]
    most = LARGEST // 5 if n >= LARGE and d > MANY else LARGEST // 3 if n >= LARGE or d > MANY else LARGEST
    room = min(n // ROWS_EACH - d, episodes // EPISODES_EACH, most)
    if room < 1:
        return None
    found = Basis(max_functions=room, max_fine=min(room, max(episodes // FINE_EACH, n // FINE_ROWS)))
    scores = found._scored(X)
    found.set_params(order=_promising(found, scores, log, gamma))._laid_out(scores)
    return found if len(found.functions_) > d else None


def _promising(basis: Basis, scores: list[Array], log: Transitions, gamma: float) -> list[int]:
    """The columns by the largest correlation of z or |z| with the reward or with the return from there on."""
    goes_on = np.append(log.episode[1:] == log.episode[:-1], False)
    ahead = recurrence(gamma * goes_on[::-1], log.reward[::-1, None])[::-1, 0]
    strength = np.zeros(log.observation.shape[1])
    with np.errstate(all="ignore"):  # a constant column has no correlation
        for j, column in enumerate(log.observation.T):
            z = basis.rank_score(column, j) if basis._flat(j) else scores[j]
            correlation = np.corrcoef([z, np.abs(z), log.reward, ahead])[:2, 2:]
            strength[j] = np.nan_to_num(np.abs(correlation)).max()
    return [int(j) for j in np.argsort(-strength, kind="stable")]


def _sets(columns: list[int], size: int) -> list[tuple[int, ...]]:
    """All sets of so many columns, those of the first columns first."""
    places = sorted(combinations(range(len(columns)), size), key=lambda places: places[::-1])
    return [tuple(columns[place] for place in own) for own in places]


def _fitting(groups: Iterable[list[Function]], room: int) -> list[Function]:
    """The functions of the first groups, as many whole groups as there is room for."""
    out: list[Function] = []
    for group in groups:
        if len(out) + len(group) > room:
            break
        out += group
    return out


def _points(column: Array) -> tuple[Array, Array]:
    """Values of a column and their scores: all values if they are few, quantiles if they are many."""
    ordered = np.sort(column)
    values = np.unique(ordered)
    if len(values) > N_QUANTILES:
        # Values of rows: one between two rows would be counted on either side of a row by rounding, hence by unit.
        values = np.unique(np.quantile(ordered, np.linspace(0, 1, N_QUANTILES + 1), method="nearest"))
    below, upto = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return values, np.clip(ndtri((below + upto) / (2 * len(ordered))), -BOUND, BOUND)
