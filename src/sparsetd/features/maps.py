"""Feature maps of states, as scikit-learn transformers.

Fourier      cosine waves (Konidaris, Osentoski and Thomas, 2011)      Polynomial   monomials of the scaled state
RBFGrid      Gaussian bumps on regular grids of several resolutions    TileCoding   several shifted grids
Tabular      one feature per state

All but the last scale the state to the box that they cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from math import exp, lgamma
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from sparsetd.logs.checks import refuse
from sparsetd.logs.partition import mixed
from sparsetd.system import Array as Array

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
        """Compute the features φ(s) of every row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        span = self.high_ - self.low_
        return self._features((X - self.low_) / np.where(span > 0, span, 1.0))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """One name per feature, made of the observation's names."""
        check_is_fitted(self)
        return np.array(self._names(list(_check_feature_names_in(self, input_features))), dtype=object)

    def _restore(self) -> None:
        """Compute again what follows from parameters and bounds; a file may say anything, so it is not trusted."""
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


@dataclass(eq=False, repr=False)
class Fourier(BoxFeatures):
    """Map a state to cosine waves of several frequencies: a basis for smooth values in few dimensions.

    φ_c(s) = cos(π c·u) for every c ∈ {0, …, order}ᵖ, with u the state scaled (and clipped) to the unit box.

    Konidaris et al. give coefficient c the step size α / ‖c‖₂ (and α for c = 0): the factors are `step_scale_`.
    Dividing the *feature* by √‖c‖ has the same effect on a TD step, where φ enters twice (once in the step, once in the
    value); that is `scaled=True`. With a penalty the two differ: the coefficient of a scaled feature is larger.

    Parameters
    ----------
    order : int
        Highest frequency per dimension; (order + 1)ᵖ features.
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    coupling : int or None
        Keep only the c with at most this many non-zero entries: a basis that grows polynomially with the dimension.
    scaled : bool
        Whether features are divided by √‖c‖.

    Attributes
    ----------
    frequencies_ : array (n_features, p)
        The vectors c.
    step_scale_ : array (n_features,)
        1 / ‖c‖₂, and 1 for c = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import Fourier
    >>> states = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> waves = Fourier(order=1).fit(states)
    >>> waves.get_feature_names_out(['x', 'v']).tolist()
    ['1', 'cos(pi*(v))', 'cos(pi*(x))', 'cos(pi*(x+v))']
    >>> waves.transform(states).round(6)
    array([[ 1.,  1.,  1.,  1.],
           [ 1., -1., -1.,  1.]])
    """

    order: int = 3
    _: KW_ONLY
    low: Bound = None
    high: Bound = None
    coupling: int | None = None
    scaled: bool = False

    def _lay_out(self) -> None:
        order, p = positive_integer("order", self.order), self.n_features_in_
        coupling = p if self.coupling is None else positive_integer("coupling", self.coupling)
        refuse_too_many(power(order + 1, p), f"lower `order` for {p} dimensions", each=p)
        c = np.indices((order + 1,) * p).reshape(p, -1).T.copy()
        self.frequencies_ = c[(c > 0).sum(axis=1) <= coupling]
        norm = np.linalg.norm(self.frequencies_, axis=1)
        self.step_scale_ = 1.0 / np.where(norm > 0, norm, 1.0)

    def _features(self, u: Array) -> Array:
        phi = np.cos(np.pi * (np.clip(u, 0.0, 1.0) @ self.frequencies_.T))
        return phi * np.sqrt(self.step_scale_) if self.scaled else phi

    def _names(self, names: list[str]) -> list[str]:
        out = []
        for c in self.frequencies_:
            terms = [name if k == 1 else f"{k}*{name}" for k, name in zip(c, names, strict=True) if k]
            out.append(f"cos(pi*({'+'.join(terms)}))" if terms else "1")
        return out


@dataclass(eq=False, repr=False)
class Polynomial(BoxFeatures):
    """Map a state to all products of its numbers up to a degree: a basis for values that curve gently.

    All monomials Π_j v_j^{k_j} with Σ_j k_j ≤ degree of the state scaled to v ∈ [−1, 1]ᵖ.

    Scaling keeps high powers of the same size as low ones, without which the least-squares systems are hopelessly
    conditioned. scikit-learn's `PolynomialFeatures` does the rest.

    Parameters
    ----------
    degree : int
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    constant : bool
        Whether the first feature is the constant 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import Polynomial
    >>> states = np.array([[0.0, 10.0], [4.0, 30.0]])
    >>> powers = Polynomial(degree=2).fit(states)
    >>> powers.get_feature_names_out(['x', 'v']).tolist()
    ['1', 'x', 'v', 'x^2', 'x v', 'v^2']
    >>> powers.transform([[3.0, 20.0]])
    array([[1.  , 0.5 , 0.  , 0.25, 0.  , 0.  ]])
    """

    degree: int = 2
    _: KW_ONLY
    low: Bound = None
    high: Bound = None
    constant: bool = True

    def _lay_out(self) -> None:
        degree, p = positive_integer("degree", self.degree), self.n_features_in_
        count = lgamma(p + degree + 1) - lgamma(p + 1) - lgamma(degree + 1)  # the logarithm of (p + degree over p)
        refuse_too_many(exp(min(count, 700)), f"lower `degree` for {p} dimensions")
        self._powers = PolynomialFeatures(degree, include_bias=self.constant).fit(self.low_[None])

    def _features(self, u: Array) -> Array:
        return self._powers.transform(2.0 * u - 1.0)

    def _names(self, names: list[str]) -> list[str]:
        return list(self._powers.get_feature_names_out(names))


@dataclass(eq=False, repr=False)
class RBFGrid(BoxFeatures):
    """Map a state to Gaussian bumps on grids of several resolutions: a basis for local detail in few dimensions.

    φ_c(s) = exp(−½ ‖(u − c) / (width · spacing)‖²) for every centre c of every grid, and a constant.

    u is the state scaled to the unit box. A grid of g points per dimension has gᵖ centres from edge to edge, spaced by
    1/(g − 1). The default grids give 4 + 16 + 64 + 256 + 1024 + 1 = 1365 features in two dimensions, the paper's
    mountain-car basis (its width is not printed; `width` is the Gaussian's standard deviation in units of the spacing).

    Parameters
    ----------
    grids : sequence of int
        Points per dimension of each grid.
    width : float
        Standard deviation of a bump, as a multiple of its grid's spacing.
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    constant : bool
        Whether the last feature is the constant 1.

    Attributes
    ----------
    centers_ : array (n_bumps, p)
        Centres in the units of the observation.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd.features import RBFGrid
    >>> bumps = RBFGrid(grids=(2, 3), low=0.0, high=1.0).fit(np.zeros((1, 1)))
    >>> bumps.get_feature_names_out(['x']).tolist()
    ['rbf2(x:0)', 'rbf2(x:1)', 'rbf3(x:0)', 'rbf3(x:1)', 'rbf3(x:2)', '1']
    >>> bumps.transform([[0.5]]).round(2)
    array([[0.88, 0.88, 0.61, 1.  , 0.61, 1.  ]])
    """

    grids: Sequence[int] = (2, 4, 8, 16, 32)
    _: KW_ONLY
    width: float = 1.0
    low: Bound = None
    high: Bound = None
    constant: bool = True

    def _lay_out(self) -> None:
        p = self.n_features_in_
        grids = [positive_integer("grids", g) for g in self.grids]
        if not self.width > 0:
            raise ValueError(f"`width` must be positive, but it is {self.width!r}.")
        refuse_too_many(sum(power(g, p) for g in grids), f"use fewer or coarser grids in {p} dimensions", each=p)
        self._axes = [np.linspace(0, 1, g) if g > 1 else np.array([0.5]) for g in grids]
        # All points of a grid in p dimensions, the last coordinate running fastest.
        unit = np.vstack([axis[np.indices((len(axis),) * p).reshape(p, -1).T] for axis in self._axes])
        self.centers_ = self.low_ + unit * (self.high_ - self.low_)

    def _features(self, u: Array) -> Array:
        """A Gaussian of several dimensions is a product of one-dimensional ones: exp is taken g·p, not gᵖ, times."""
        ones, blocks = np.ones((len(u), 1)), []
        for axis in self._axes:
            spacing, bumps = 1.0 / max(len(axis) - 1, 1), ones
            one_dim = np.exp(-0.5 * ((u[:, :, None] - axis) / (self.width * spacing)) ** 2)
            for j in range(u.shape[1]):
                bumps = (bumps[:, :, None] * one_dim[:, j, None, :]).reshape(len(u), -1)
            blocks.append(bumps)
        return np.hstack([*blocks, ones] if self.constant else blocks)

    def _names(self, names: list[str]) -> list[str]:
        out = []
        for axis in self._axes:
            for index in product(range(len(axis)), repeat=len(names)):
                where = ",".join(f"{name}:{i}" for name, i in zip(names, index, strict=True))
                out.append(f"rbf{len(axis)}({where})")
        return [*out, "1"] if self.constant else out


@dataclass(eq=False, repr=False)
class TileCoding(BoxFeatures):
    """Map a state to the tiles it lies in, one of each shifted grid: sparse rows, for values that are rough.

    φ_i(s) = 1 if s lies in tile i, else 0: a CSR row with exactly `n_tilings` ones.

    Tiling t is shifted in dimension j by ((2j + 1) t mod n_tilings) / n_tilings of a tile (Miller and Glanz, 1996), to
    spread the corners better than equal shifts. States outside the box are clipped to it. Every tiling has
    its own columns, also when hashed: two tilings never collide, so rows stay binary and sorted.

    Parameters
    ----------
    n_tilings : int
    n_tiles : int or sequence of int
        Tiles per dimension (a shifted tiling needs one more to cover the box).
    low, high : float, sequence or None
        The box; learned in `fit` where None.
    hash_size : int or None
        Total number of columns the tiles are hashed to; None gives every tile its own.

    Attributes
    ----------
    n_features_out_ : int

    Examples
    --------
    >>> from sparsetd.features import TileCoding
    >>> tiles = TileCoding(n_tilings=4, n_tiles=8, low=[0, 0], high=[1, 1]).fit([[0.0, 0.0]])
    >>> rows = tiles.transform([[0.2, 0.7], [0.9, 0.1]])
    >>> rows.shape
    (2, 324)
    >>> rows.sum(axis=1)
    array([4., 4.])
    """

    n_tilings: int = 8
    n_tiles: int | Sequence[int] = 8
    _: KW_ONLY
    low: Bound = None
    high: Bound = None
    hash_size: int | None = None

    def _lay_out(self) -> None:
        t, p = positive_integer("n_tilings", self.n_tilings), self.n_features_in_
        refuse_too_many(t, "use fewer tilings", each=p)
        given = [self.n_tiles] * p if np.ndim(self.n_tiles) == 0 else list(np.ravel(self.n_tiles))
        if len(given) != p:
            raise ValueError(f"`n_tiles` must be a number or {p} numbers, one per column, but it is {self.n_tiles!r}.")
        self._tiles = np.array([positive_integer("n_tiles", g) for g in given])
        shift = np.outer(np.arange(t), 2 * np.arange(p) + 1) % t
        self._shift = shift / t
        with np.errstate(over="ignore"):
            cells = np.prod(self._tiles + 1.0)
        if self.hash_size is not None:
            per_tiling = positive_integer("hash_size", self.hash_size) // t
            if per_tiling == 0:
                raise ValueError(f"`hash_size` must be at least n_tilings = {t}, but it is {self.hash_size}.")
            if t * per_tiling > np.iinfo(np.int32).max:
                raise ValueError(f"`hash_size` must be below 2**31, but it is {self.hash_size}.")
        refuse_too_many(float(t * cells if self.hash_size is None else 0), "hash them with `hash_size`")
        self._per_tiling = int(cells) if self.hash_size is None else per_tiling
        self.n_features_out_ = t * self._per_tiling

    def _features(self, u: Array) -> sp.csr_array:
        n, t = len(u), len(self._shift)
        scaled = np.clip(u, 0.0, 1.0) * self._tiles
        cell = np.floor(scaled[:, None, :] + self._shift).astype(np.int64)
        if self.hash_size is None:
            tile = np.ravel_multi_index(tuple(np.moveaxis(cell, 2, 0)), tuple(self._tiles + 1))
        else:  # SplitMix64 over the coordinates, a different stream for every tiling
            h = np.broadcast_to(mixed(np.arange(t, dtype=np.uint64)), (n, t))
            for j in range(cell.shape[2]):
                h = mixed(h ^ cell[:, :, j].astype(np.uint64))
            tile = (h % np.uint64(self._per_tiling)).astype(np.int64)
        indices = (tile + np.arange(t) * self._per_tiling).ravel().astype(np.int32)
        indptr = np.arange(0, n * t + 1, t, dtype=np.int32)
        return sp.csr_array((np.ones(n * t), indices, indptr), shape=(n, self.n_features_out_))

    def _names(self, names: list[str]) -> list[str]:  # noqa: ARG002
        return [f"tile{i // self._per_tiling}_{i % self._per_tiling}" for i in range(self.n_features_out_)]


@dataclass(eq=False, repr=False)
class Tabular(TransformerMixin, BaseEstimator):
    """Give every state its own feature: a table of values, for states that are few and numbered.

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

    n_states: int | Sequence[int] | None = None
    _: KW_ONLY
    sparse_output: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn the number of states, unless it was given."""
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
        """Compute a one for the state of every row, and zeros elsewhere."""
        check_is_fitted(self)
        X = _states(validate_data(self, X, dtype=None, reset=False))
        unknown = np.greater_equal(X, self.n_states_).any(axis=1)
        refuse("X", unknown, X, f"below n_states = {list(self.n_states_)}", "raise `n_states`")
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
    refuse("X", bad, states, "states 0, 1, …", "number the states")
    return states.astype(np.int64)
