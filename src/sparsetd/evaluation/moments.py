"""The sums over a log from which a linear value function follows, however the log is cut into parts.

    A = Σ_t ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = Σ_t ρ_t r_t φ_t      C = Σ_t φ_t φ_tᵀ      c = Σ_i φ(s_{i,0})

φ ends with a constant 1. Sums of two parts add up to the sums of both, and every group of episodes (a fold) has sums of
its own, so that what a fit without a group needs is a subtraction away. For other units φ → Tφ no row is read again:
A → TATᵀ, b → Tb, C → TCTᵀ, c → Tc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.evaluation.asks import Ask, answers
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.evened import compiled, evened
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array, Batch

MAX_COLUMNS = 5_000
BLOCK = 2**18  # numbers of φ in a piece: what is made of them stays near the processor
MANY = 8  # pieces from which the compiled loop pays for its start
LEAST = 2_048  # rows of a piece, however many columns: adding up sums must stay cheaper than forming them


@dataclass(frozen=True, eq=False)
class Part:
    """Whole episodes with dense columns φ, φ' (the constant is not among them); `units` are those of its pieces."""

    batch: Batch
    episodes: Episodes
    ids: Array = field(default_factory=lambda: np.empty(0))
    units: Units | None = None

    @classmethod
    def of(cls, batch: Batch, episodes: Episodes, columns: Array | None = None) -> Part:
        """The part on these columns of φ, dense; on all of them by default."""
        every = np.arange(batch.n_features) if columns is None else columns
        return cls(replace(batch, phi=chosen(batch.phi, every), phi_next=chosen(batch.phi_next, every)), episodes)

    @cached_property
    def states(self) -> Array:
        """[φ 1] of every row."""
        return with_ones(self.batch.phi)

    @cached_property
    def changes(self) -> Array:
        """[φ 1] − γ[φ' 1] of every row."""
        change = with_ones(self.batch.phi_next) * -self.batch.discount[:, None]
        change += self.states
        return np.asarray(change)

    def with_ratio(self, ratio: Array) -> Part:
        """The same rows for another target policy."""
        part = replace(self, batch=replace(self.batch, ratio=ratio), episodes=replace(self.episodes, ratio=ratio))
        part.__dict__.update({k: v for k, v in vars(self).items() if k in ("states", "changes")})
        return part

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

    def answer(self, *asked: Ask) -> list[Any]:
        """What is asked of a log that has one part."""
        along = [array for ask in asked for array in ask.along]
        return answers(self, *along, tuple(ask.plan() for ask in asked)).values

    def pieces(self) -> Iterator[tuple[Part, slice]]:
        """Blocks of whole episodes, and which episodes they are. A block is gone when the next one is asked for."""
        width = self.batch.n_features + 1
        cuts = np.flatnonzero(np.diff(self.episodes.last // max(BLOCK // width, LEAST))) + 1
        if not len(cuts):
            yield self.whole(), slice(0, len(self.episodes))
            return
        begins, ends = np.append(0, cuts), np.append(cuts, len(self.episodes))
        longest = (self.episodes.last[ends - 1] - self.episodes.first[begins]).max() + 1
        room = np.empty((3, longest, width))  # fresh memory would cost more than what is written to it
        fill = compiled if len(begins) >= MANY else evened
        for begin, end in zip(begins, ends, strict=True):
            yield self.some(slice(begin, end)).whole(room, fill), slice(begin, end)

    def some(self, members: slice) -> Part:
        """Some of the episodes."""
        rows = slice(self.episodes.first[members][0], self.episodes.last[members][-1] + 1)
        return Part(self.batch[rows], self.episodes.some(members), self.ids[members], self.units)


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
    def of(cls, part: Part, group: Array | None = None, n_groups: int = 1, into: Moments | None = None) -> Moments:
        """The sums of a part, its episodes belonging to the given groups, added to those of `into`."""
        total = cls.zero(n_groups, part.batch.n_features + 1) if into is None else into
        for piece, members in part.pieces():
            own = np.zeros(len(piece.episodes), dtype=np.intp) if group is None else group[members]
            total._take(piece, own, n_groups)
        return total

    @classmethod
    def zero(cls, n_groups: int, d: int) -> Moments:
        square, flat, count = (n_groups, d, d), (n_groups, d), np.zeros(n_groups, dtype=np.intp)
        return cls(np.zeros(square), np.zeros(flat), np.zeros(square), np.zeros(flat), count, count.copy())

    def _take(self, part: Part, group: Array, n_groups: int) -> None:
        of_row, first = group[part.episodes.of], part.states[part.episodes.first]
        for k, rows in _members(of_row, n_groups):
            states = part.states[rows]
            weighted = part.batch.ratio[rows, None] * states
            self.A[k] += weighted.T @ part.changes[rows]
            self.C[k] += states.T @ states  # of one array: BLAS forms half of it
            self.b[k] += weighted.T @ part.batch.reward[rows]
            self.start[k] += first[group == k].sum(axis=0)
        self.n_rows[:] += np.bincount(of_row, minlength=n_groups)
        self.n_episodes[:] += np.bincount(group, minlength=n_groups)

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def centre_and_spread(self) -> tuple[Array, Array]:
        """Mean and standard deviation of every column but the constant, over all rows."""
        total = self.total()
        C = total.C[0] / total.n_rows[0]
        return C[-1, :-1], np.sqrt(np.maximum(np.diag(C)[:-1] - C[-1, :-1] ** 2, 0.0))

    def spread(self) -> Array:
        return self.centre_and_spread()[1]

    def total(self, keep: Array | None = None) -> Moments:
        """One group of the groups that are kept, all of them by default."""
        some = slice(None) if keep is None else keep
        return Moments(*(getattr(self, name)[some].sum(axis=0)[None] for name in self.__dataclass_fields__))

    def merged(self, n: int) -> Moments:
        """Every n groups that follow one another as one."""
        entries = (getattr(self, name) for name in self.__dataclass_fields__)
        return Moments(*(e.reshape(len(e) // n, n, *e.shape[1:]).sum(axis=1) for e in entries))

    def on(self, columns: Array) -> Moments:
        """The sums of some columns."""
        square = (slice(None), columns[:, None], columns)
        return replace(self, A=self.A[square], C=self.C[square], b=self.b[:, columns], start=self.start[:, columns])

    def units(self, pilot: Units) -> Units:
        """Mean and spread of the columns, from the sums in some other units."""
        mean, spread = self.centre_and_spread()
        own = pilot.shift + pilot.scale * mean
        return Units.of_spread(own, own, (pilot.scale * spread) ** 2)

    def in_units(self, old: Units, new: Units) -> Moments:
        """The sums of the same rows in other units."""
        scale, shift = np.append(old.scale / new.scale, 1.0), np.append((old.shift - new.shift) / new.scale, 0.0)

        def mapped(rows: Array) -> Array:
            """Tφ = scale·φ + shift·1 of what its last axis counts."""
            return np.asarray(rows * scale + rows[..., -1:] * shift)

        A, C = (np.swapaxes(mapped(np.swapaxes(mapped(square), 1, 2)), 1, 2) for square in (self.A, self.C))
        return replace(self, A=A, C=C, b=mapped(self.b), start=mapped(self.start))

    def as_logged(self, plain: Array) -> Moments:
        """The sums of all groups for the logged behaviour, from those of `plain_sums`."""
        return replace(self.total(), A=plain[None, :, :-1], b=plain[None, :, -1])


def sums(*group: Array, n: int = 1) -> Ask:
    """Asks for the sums of n groups of episodes."""
    return Ask(Moments.of, (n,) if group else (), group, into=True)


def plain_sums() -> Ask:
    """Asks for [Σφ(φ − γφ')ᵀ, Σrφ]: the sums whose target is the logged behaviour, but for those it shares."""
    return Ask(_plain_sums)


def _plain_sums(part: Part) -> Array:
    return np.column_stack([part.states.T @ part.changes, part.states.T @ part.batch.reward])


def pilot_units(phi: Array) -> Units:
    """Units from some rows: a constant column is centred at its very value, so that it stays constant."""
    scale = np.asarray(phi.std(axis=0, dtype=np.float64))
    return Units(np.where(scale > 0, scale, 1.0), np.asarray(phi[0], dtype=np.float64), False)


def on_columns(part: Part, columns: Array) -> Part:
    """A view: some of the columns of φ."""
    view, with_constant = Part.of(part.batch, part.episodes, columns), np.append(columns, part.batch.n_features)
    if "changes" in vars(part):
        view.__dict__.update(states=part.states[:, with_constant], changes=part.changes[:, with_constant])
    return view


def as_logged(part: Part) -> Part:
    """A view: the same rows with the logged behaviour as the target."""
    return part.with_ratio(np.ones(len(part.batch)))


def _members(group: Array, n_groups: int) -> list[tuple[int, Array | slice]]:
    """The groups that are present with their rows; slices where these are together, which saves a copy."""
    if n_groups == 1:
        return [(0, slice(None))]
    present = np.unique(group)
    if (group[1:] >= group[:-1]).all():
        ends = np.searchsorted(group, present, side="right")
        return [(int(k), slice(a, b)) for k, a, b in zip(present, [0, *ends[:-1]], ends, strict=True)]
    return [(int(k), np.flatnonzero(group == k)) for k in present]


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
