"""Whole episodes with their features, and how several policies see the same rows.

A part holds φ and φ' of its rows once. Policies differ in the ratios ρ = π/μ and in nothing else, so `under(k)` is the
same part with the ratios of the k-th policy; without it the ratios are those of the logged behaviour, 1.

What is summed needs the rows in common units, as [φ 1], [φ' 1] and [φ 1] − γ[φ' 1]. These are made piece by piece, so
that a piece stays near the processor. Compiled, one pass takes a sixth of NumPy's time, but Numba takes a quarter of a
second to wake up: it is asked only where there are many pieces. Both do the same operations and give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd._tools.jit import njit
from sparsetd.evaluation.episodes import Episodes
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000
BLOCK = 2**18  # numbers of φ in a piece: what is made of them stays near the processor
MANY = 8  # pieces from which the compiled loop pays for its start
LEAST = 2_048  # rows of a piece, however many columns: adding up sums must stay cheaper than forming them


def evened(phi: Array, phi_next: Array, shift: Array, factor: Array, discount: Array, room: Array) -> None:
    """Fill the three matrices of `room` with (φ − shift)·factor and a constant 1, the same of φ', and the changes."""
    for rows, out in zip((phi, phi_next), room, strict=False):
        np.subtract(rows, shift, out=out[:, :-1])
        out[:, :-1] *= factor
        out[:, -1] = 1.0
    np.multiply(room[1], -discount[:, None], out=room[2])
    room[2] += room[0]


@njit(cache=True, nogil=True)
def compiled(phi: Array, phi_next: Array, shift: Array, factor: Array, discount: Array, room: Array) -> None:
    """Do the same as `evened` in one pass."""
    n, d = phi.shape
    for i in range(n):
        states, after, changes, gamma = room[0, i], room[1, i], room[2, i], discount[i]
        for j in range(d):
            now, then = (phi[i, j] - shift[j]) * factor[j], (phi_next[i, j] - shift[j]) * factor[j]
            states[j], after[j], changes[j] = now, then, now - gamma * then
        states[d] = after[d] = 1.0
        changes[d] = 1.0 - gamma


@dataclass(frozen=True, eq=False)
class Part:
    """Whole episodes with columns φ, φ' (the constant is not among them); `units` are those of its pieces.

    `ratios` has a row for every policy; `base` is the part whose rows in units this one shares.
    """

    batch: Batch
    episodes: Episodes
    ids: Array = field(default_factory=lambda: np.empty(0))
    units: Units | None = None
    ratios: Array | None = None
    base: Part | None = None

    @classmethod
    def of(cls, batch: Batch, episodes: Episodes, columns: Array | None = None, ratios: Array | None = None) -> Part:
        """The part on these columns of φ, dense; on all of them by default."""
        every = np.arange(batch.n_features) if columns is None else columns
        dense = replace(batch, phi=chosen(batch.phi, every), phi_next=chosen(batch.phi_next, every))
        return cls(dense, episodes, ratios=ratios)

    @cached_property
    def states(self) -> Array:
        """[φ 1] of every row."""
        return with_ones(self.batch.phi) if self.base is None else self.base.states

    @cached_property
    def changes(self) -> Array:
        """[φ 1] − γ[φ' 1] of every row."""
        if self.base is not None:
            return self.base.changes
        change = with_ones(self.batch.phi_next) * -self.batch.discount[:, None]
        change += self.states
        return np.asarray(change)

    def with_ratio(self, ratio: Array) -> Part:
        """The same rows for another target policy."""
        batch, episodes = replace(self.batch, ratio=ratio), self.episodes.with_ratio(ratio)
        return replace(self, batch=batch, episodes=episodes, base=self)

    @cached_property
    def _seen(self) -> dict[int, Part]:
        return {}

    def under(self, k: int) -> Part:
        """The same rows for the k-th policy."""
        if k not in self._seen:
            assert self.ratios is not None
            self._seen[k] = self.with_ratio(self.ratios[k])
        return self._seen[k]

    def in_units(self, units: Units) -> Part:
        return replace(self, units=units)

    def whole(self, room: Array | None = None, fill: Callable[..., None] = evened) -> Part:
        """All rows in the units of the pieces; they lie in `room` if it is given."""
        if self.units is None or self.batch.is_sparse:
            return self if self.units is None else replace(self, batch=self.units.applied(self.batch), units=None)
        n, d = self.batch.phi.shape
        own = np.empty((3, n, d + 1)) if room is None else room[:, :n]
        rows, units = (np.ascontiguousarray(part) for part in (self.batch.phi, self.batch.phi_next)), self.units
        fill(*rows, units.shift, 1.0 / units.scale, self.batch.discount, own)
        states, after, changes = own
        part = replace(self, batch=replace(self.batch, phi=states[:, :-1], phi_next=after[:, :-1]), units=None)
        part.__dict__.update(states=states, changes=changes)
        return part

    def pieces(self) -> Iterator[tuple[Part, slice]]:
        """Blocks of whole clusters, and which episodes they are. A block is gone when the next one is asked for."""
        width, episodes = self.batch.n_features + 1, self.episodes
        ends = np.append(episodes.clusters[1:], len(episodes))  # the episode after each cluster
        cuts = ends[:-1][np.diff(episodes.last[ends - 1] // max(BLOCK // width, LEAST)) > 0]
        if not len(cuts):
            yield self.whole(), slice(0, len(episodes))
            return
        begins, ends = np.append(0, cuts), np.append(cuts, len(episodes))
        longest = (episodes.last[ends - 1] - episodes.first[begins]).max() + 1
        room = np.empty((3, longest, width))  # fresh memory would cost more than what is written to it
        fill = compiled if len(begins) >= MANY else evened
        for begin, end in zip(begins, ends, strict=True):
            yield self.some(slice(begin, end)).whole(room, fill), slice(begin, end)

    def some(self, members: slice) -> Part:
        """Some of the episodes, in whole clusters."""
        rows = slice(self.episodes.first[members][0], self.episodes.last[members][-1] + 1)
        ratios = None if self.ratios is None else self.ratios[:, rows]
        return Part(self.batch[rows], self.episodes.some(members), self.ids[members], self.units, ratios)

    def only(self, members: Array) -> Part:
        """The episodes of a mask."""
        rows = np.flatnonzero(members[self.episodes.of])
        ratios = None if self.ratios is None else self.ratios[:, rows]
        part = Part(self.batch[rows], self.episodes.only(members), self.ids[:0], self.units, ratios)
        if "changes" in vars(self) or self.base is not None:
            part.__dict__.update(states=self.states[rows], changes=self.changes[rows])
        return part


def under(part: Part, k: int) -> Part:
    """A view: the rows for the k-th policy."""
    return part.under(k)


def on_columns(part: Part, columns: Array) -> Part:
    """A view: some of the columns of φ."""
    view, with_constant = Part.of(part.batch, part.episodes, columns), np.append(columns, part.batch.n_features)
    if "changes" in vars(part) or part.base is not None:
        view.__dict__.update(states=part.states[:, with_constant], changes=part.changes[:, with_constant])
    return view


def chosen(phi: Array | sp.csr_array, columns: Array) -> Array:
    """The chosen columns, dense; all of a dense φ are itself."""
    if len(columns) > MAX_COLUMNS:
        raise ValueError(
            f"`features` leaves {len(columns)} columns, above the limit of {MAX_COLUMNS}: use a stronger penalty."
        )
    every = not sp.issparse(phi) and np.array_equal(columns, np.arange(phi.shape[1]))
    some: Any = phi if every else phi[:, columns]
    return some.toarray() if sp.issparse(some) else np.asarray(some, dtype=np.float64)


def with_ones(phi: Array) -> Array:
    """[φ 1]."""
    out = np.ones((phi.shape[0], phi.shape[1] + 1))
    out[:, :-1] = phi
    return out


def pilot_units(phi: Array) -> Units:
    """Units from some rows: a constant column is centred at its very value, so that it stays constant."""
    scale = np.asarray(phi.std(axis=0, dtype=np.float64))
    return Units(np.where(scale > 0, scale, 1.0), np.asarray(phi[0], dtype=np.float64), False)
