"""The sums over a log from which a linear value function follows, however the log is cut into parts.

    A = Σ_t ρ_t φ_t (φ_t − γφ'_t)ᵀ      b = Σ_t ρ_t r_t φ_t      C = Σ_t φ_t φ_tᵀ      c = Σ_i φ(s_{i,0})

φ ends with a constant 1. Sums of two parts add up to the sums of both, and every group of episodes (a fold) has sums of
its own, so that what a fit without a group needs is a subtraction away. For other units φ → Tφ no row is read again:
A → TATᵀ, b → Tb, C → TCTᵀ, c → Tc. A smaller basis is a slice: `on(columns)`. Policies share C and c, so these are
summed once (`Shared`), and A and b for each policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparsetd.evaluation.parts import Part
from sparsetd.evaluation.reading import Ask
from sparsetd.selection.moments import runs_of, weighted_products
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array

TRACE = 1e-7  # what is added to the mean square of a column with a ridge


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums of every group of episodes; the first axis counts the groups."""

    A: Array
    b: Array
    C: Array
    start: Array
    n_rows: Array
    n_episodes: Array
    n_clusters: Array

    @classmethod
    def of(cls, part: Part, group: Array | None = None, n_groups: int = 1) -> Moments:
        """The sums of the pieces of a part, its episodes belonging to the given groups."""
        own = np.zeros(len(part.episodes), dtype=np.intp) if group is None else group
        shared, system = None, None
        for piece, members in part.pieces():
            shared = Shared.of(piece, own[members], n_groups, into=shared)
            system = _system(piece, own[members], n_groups, into=system)
        assert shared is not None
        assert system is not None
        return shared.with_system(system)

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

    def ridged(self, ridge: Array | None) -> Moments:
        """The sums with NΛ added to A, Λ the ridge of every column: each group takes its share.

        A trace of it in C keeps functions that depend on one another from counting as redundant: the ridge settles
        them.
        """
        if ridge is None:
            return self
        n = self.n_rows[:, None, None]
        return replace(self, A=self.A + n * np.diag(ridge), C=self.C + n * np.diag(TRACE * (ridge > 0)))

    def on(self, columns: Array) -> Moments:
        """The sums of some columns of φ, the constant among them where it is named."""
        square = (slice(None), columns[:, None], columns)
        return replace(self, A=self.A[square], C=self.C[square], b=self.b[:, columns], start=self.start[:, columns])

    def units(self, pilot: Units) -> Units:
        """Mean and spread of the columns, from the sums in some other units."""
        mean, spread = self.centre_and_spread()
        own = pilot.shift + pilot.scale * mean
        return Units.of_spread(own, own, (pilot.scale * spread) ** 2)

    def in_units(self, old: Units, new: Units) -> Moments:
        """The sums of the same rows in other units."""

        def mapped(rows: Array) -> Array:
            return in_other_units(rows, old, new)

        A, C = (np.swapaxes(mapped(np.swapaxes(mapped(square), 1, 2)), 1, 2) for square in (self.A, self.C))
        return replace(self, A=A, C=C, b=mapped(self.b), start=mapped(self.start))


@dataclass(frozen=True, eq=False)
class Shared:
    """What all policies share: C, c and the counts of every group."""

    C: Array
    start: Array
    counts: Array  # rows, episodes, clusters

    @classmethod
    def of(cls, part: Part, group: Array, n_groups: int, into: Shared | None = None) -> Shared:
        d, e = part.batch.n_features + 1, part.episodes
        total = into or cls(np.zeros((n_groups, d, d)), np.zeros((n_groups, d)), np.zeros((3, n_groups), dtype=np.intp))
        of_row, first = group[e.of], part.states[e.first]
        for k, rows in runs_of(of_row, n_groups):
            states = part.states[rows]
            total.C[k] += states.T @ states  # of one array: BLAS forms half of it
            total.start[k] += first[group == k].sum(axis=0)
        for count, groups in zip(total.counts, (of_row, group, group[e.clusters]), strict=True):
            count += np.bincount(groups, minlength=n_groups)
        return total

    def __add__(self, other: Shared) -> Shared:
        return Shared(self.C + other.C, self.start + other.start, self.counts + other.counts)

    def with_system(self, system: Array) -> Moments:
        """The sums of a policy, [A b] being its own: of every group, or of all of them together."""
        own = self if len(system) == len(self.C) else self.merged()
        return Moments(system[:, :, :-1], system[:, :, -1], own.C, own.start, *own.counts)

    def merged(self) -> Shared:
        """All groups as one."""
        return Shared(self.C.sum(axis=0)[None], self.start.sum(axis=0)[None], self.counts.sum(axis=1)[:, None])


def shared_sums(group: Array, n: int) -> Ask:
    """Asks for what all policies share, of n groups of episodes."""
    return Ask(Shared.of, (n,), (group,), into=True)


def system_sums(*group: Array, n: int = 1) -> Ask:
    """Asks for [A b] of n groups of episodes, of all of them together by default."""
    return Ask(_system, (n,) if group else (), group, into=True)


def sums(*group: Array, n: int = 1) -> Ask:
    """Asks for the sums of n groups of episodes."""
    return Ask(Moments.of, (n,) if group else (), group)


def _system(part: Part, group: Array | None = None, n_groups: int = 1, into: Array | None = None) -> Array:
    """[A b] of every group, added to `into`."""
    d = part.batch.n_features + 1
    total = np.zeros((n_groups, d, d + 1)) if into is None else into
    of_row = np.zeros(len(part.batch), dtype=np.intp) if group is None else group[part.episodes.of]
    weighted_products(part.states, part.changes, part.batch.reward, part.batch.ratio, of_row, total)
    return total


def in_other_units(rows: Array, old: Units, new: Units) -> Array:
    """Tφ = scale·φ + shift·1 of what the last axis counts, which ends with the constant."""
    scale, shift = np.append(old.scale / new.scale, 1.0), np.append((old.shift - new.shift) / new.scale, 0.0)
    return np.asarray(rows * scale + rows[..., -1:] * shift)
