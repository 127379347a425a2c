"""The sums over a log from which a linear value function follows, however the log is cut into parts.

    A = Σ_t ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = Σ_t ρ_t r_t φ_t      C = Σ_t φ_t φ_tᵀ      c = Σ_i φ(s_{i,0})

φ ends with a constant 1. Sums of two parts add up to the sums of both, and every group of episodes (a fold) has sums of
its own, so that what a fit without a group needs is a subtraction away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.evaluation.episodes import Episodes
from sparsetd.solvers.saddle import Units
from sparsetd.solvers.saddle.units import mean_squares
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000
View = tuple[Callable[..., "Part"], tuple[Any, ...]]
BLOCK = 2**22  # numbers of φ that are handled at a time: what is made of them stays near the processor


@dataclass(frozen=True, eq=False)
class Ask:
    """Σ f(part, *along, *args) over the parts of a log; where `joined`, arrays one below the other in place of the sum.

    `along` are arrays with an entry for every episode or every row of the log, of which a part gets its own; `views`
    say what is first made of the part.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...] = ()
    along: tuple[Array, ...] = ()
    views: tuple[View, ...] = ()
    joined: bool = False

    def on(self, view: Callable[..., Part], *args: Any) -> Ask:
        """The same of the log whose parts are view(part, *args)."""
        return replace(self, views=(*self.views, (view, args)))


@dataclass(frozen=True, eq=False)
class Part:
    """Whole episodes with dense columns φ, φ' (the constant is not among them)."""

    batch: Batch
    episodes: Episodes
    ids: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, batch: Batch, episodes: Episodes, columns: Array | None = None) -> Part:
        """The part on these columns of φ, dense; on all of them by default."""
        every = np.arange(batch.n_features) if columns is None else columns
        return cls(replace(batch, phi=chosen(batch.phi, every), phi_next=chosen(batch.phi_next, every)), episodes)

    def with_ratio(self, ratio: Array) -> Part:
        """The same rows for another target policy."""
        return Part(replace(self.batch, ratio=ratio), replace(self.episodes, ratio=ratio))

    def answer(self, *asked: Ask) -> list[Any]:
        """What is asked of a log that has one part."""
        return [ask.f(self.seen(ask.views), *ask.along, *ask.args) for ask in asked]

    def seen(self, views: tuple[View, ...]) -> Part:
        part = self
        for view, args in views:
            part = view(part, *args)
        return part

    def rows(self, some: slice) -> tuple[Array, Array]:
        """φ and φ − γφ' of some rows, with the constant."""
        batch = self.batch
        phi = _with_constant(batch.phi[some])
        return phi, phi - batch.discount[some, None] * _with_constant(batch.phi_next[some])

    def blocks(self) -> list[slice]:
        step = max(BLOCK // (self.batch.n_features + 1), 256)
        return [slice(low, min(low + step, len(self.batch))) for low in range(0, len(self.batch), step)]


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of every group of episodes; the first axis counts the groups."""

    A: Array
    b: Array
    C: Array
    start: Array
    n_rows: Array
    n_episodes: Array

    @classmethod
    def of(cls, part: Part, group: Array | None = None, n_groups: int = 1) -> Moments:
        """The sums of a part, its episodes belonging to the given groups."""
        episodes, d = part.episodes, part.batch.n_features + 1
        of_episode = np.zeros(len(episodes), dtype=np.intp) if group is None else group
        of_row = of_episode[episodes.of]
        A, C, b = np.zeros((n_groups, d, d)), np.zeros((n_groups, d, d)), np.zeros((n_groups, d))
        for some in part.blocks():
            phi, change = part.rows(some)
            weighted = part.batch.ratio[some, None] * phi
            for k, own in _members(of_row[some], n_groups):
                A[k] += weighted[own].T @ change[own]
                C[k] += phi[own].T @ phi[own]
                b[k] += weighted[own].T @ part.batch.reward[some][own]
        first = _with_constant(part.batch.phi[episodes.first])
        start = np.stack([first[of_episode == k].sum(axis=0) for k in range(n_groups)])
        counts = (np.bincount(g, minlength=n_groups) for g in (of_row, of_episode))
        return cls(A, b, C, start, *counts)

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def spread(self) -> Array:
        """Standard deviation of every column but the constant, over all rows."""
        total = self.total()
        C = total.C[0] / total.n_rows[0]
        return np.sqrt(np.maximum(np.diag(C)[:-1] - C[-1, :-1] ** 2, 0.0))

    def total(self, keep: Array | None = None) -> Moments:
        """One group of the groups that are kept, all of them by default."""
        some = slice(None) if keep is None else keep
        return Moments(*(getattr(self, name)[some].sum(axis=0)[None] for name in self.__dataclass_fields__))

    def on(self, columns: Array) -> Moments:
        """The sums of some columns."""
        square = (slice(None), columns[:, None], columns)
        return replace(self, A=self.A[square], C=self.C[square], b=self.b[:, columns], start=self.start[:, columns])


@dataclass(frozen=True, eq=False)
class Spread:
    """Number, means and sums of squares about the means of the columns of φ; those of two parts can be added."""

    n: int
    mean: Array
    squares: Array

    @classmethod
    def of(cls, phi: Array) -> Spread:
        mean = phi.mean(axis=0, dtype=np.float64)
        return cls(len(phi), mean, len(phi) * mean_squares(phi, mean))

    def __add__(self, other: Spread) -> Spread:
        n, apart = self.n + other.n, other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * (self.n * other.n / n)
        return Spread(n, self.mean + apart * (other.n / n), squares)

    def units(self) -> Units:
        return Units.of_spread(self.mean, self.mean, self.squares / self.n)


def on_columns(part: Part, columns: Array) -> Part:
    """A view: some of the columns of φ."""
    return Part.of(part.batch, part.episodes, columns)


def as_logged(part: Part) -> Part:
    """A view: the same rows with the logged behaviour as the target."""
    return part.with_ratio(np.ones(len(part.batch)))


def _members(group: Array, n_groups: int) -> list[tuple[int, Array | slice]]:
    """The groups that are present with their rows; a slice where there is only one, which saves a copy."""
    if n_groups == 1:
        return [(0, slice(None))]
    return [(int(k), np.flatnonzero(group == k)) for k in np.unique(group)]


def chosen(phi: Array | sp.csr_array, columns: Array) -> Array:
    """The chosen columns, dense; all of a dense φ are itself."""
    if len(columns) > MAX_COLUMNS:
        raise ValueError(
            f"`features` leaves {len(columns)} columns, above the limit of {MAX_COLUMNS}: use a stronger penalty."
        )
    every = not sp.issparse(phi) and np.array_equal(columns, np.arange(phi.shape[1]))
    some: Any = phi if every else phi[:, columns]
    return some.toarray() if sp.issparse(some) else np.asarray(some, dtype=np.float64)


def _with_constant(dense: Array) -> Array:
    return np.hstack([dense, np.ones((dense.shape[0], 1))])
