"""The state of a stream between two chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparsetd.solvers.compiled.rules import REACH, RECORD, ROWS, SCALE
from sparsetd.solvers.found_units import OFF_CENTRE, UNEVEN, FoundUnits
from sparsetd.system import Array, TraceCarry

FEW = 2**14  # features: so many are as near in their own order as in that in which they come
# Features at a time when all are visited: so many that a call for each part does not matter, and rows of so many
# numbers do not begin at the same place of a page (see `apart`).
SWEEP = 2**15 + 40
LAYOUT = 10  # version of the layout of lazy states: a pickle may hold another one
EARLY = 1024  # a change of units within so many rows forgets everything learned in the bad units


@dataclass
class Totals:
    """Σ α_i x_i and Σ α_i y_i with the sum of their weights."""

    x: Array
    y: Array | None
    weight: float = 0.0

    def clear(self) -> None:
        self.x[:], self.weight = 0.0, 0.0
        if self.y is not None:
            self.y[:] = 0.0


@dataclass
class Places:
    """Where the features of sparse rows are kept: in the order in which they came, so that memory follows these alone.

    `of` is 1 + the place of a feature, or 0 where it has none yet; `names` are the features in the order of their
    places. Without entries there are no places: all features are in their own order.
    """

    of: Array
    names: Array
    count: int = 0

    @classmethod
    def none(cls, n_features: int = 0) -> Places:
        """Places for so many features; all are free."""
        return cls(np.zeros((n_features, 1), np.int32), np.zeros(n_features, np.int32))

    def __bool__(self) -> bool:
        return len(self.names) > 0

    def find(self, features: Array) -> Array:
        """The places of distinct features, which get one if they have none."""
        if not self:
            return features
        new = features[self.of[features, 0] == 0]
        first, self.count = self.count, self.count + len(new)
        self.names[first : self.count], self.of[new, 0] = new, np.arange(first + 1, self.count + 1)
        return np.asarray(self.of[features, 0] - 1)

    def spread(self, v: Array) -> Array:
        """An array by places as one by features, in which those without a place are all alike."""
        if not self:
            return v
        out = np.empty_like(v)
        out[...] = v[..., -1:]
        out[..., self.names[: self.count]] = v[..., : self.count]
        return out


@dataclass
class StreamState:
    """Everything a stream must remember between two chunks; `update` advances it in place.

    `record` holds the statistics that rules look at, `pending` the scales that x and y still have to be multiplied by,
    `more` what one solver alone needs. Where features have `places`, all arrays by features are in their order.
    """

    x: Array
    y: Array | None
    u: Array | None
    trace: Array | None
    origin: Array
    totals: Totals
    earlier: Totals
    record: Array = field(default_factory=lambda: np.zeros(RECORD))
    pending: Array = field(default_factory=lambda: np.ones(2))
    carry: TraceCarry = field(default_factory=TraceCarry)
    t: int = 0
    diverged: bool = False
    lazy: dict[str, Any] | None = None
    more: dict[str, Array] = field(default_factory=dict)
    units: FoundUnits | None = None
    places: Places = field(default_factory=Places.none)

    @property
    def primal(self) -> Array:
        """x with its pending projection applied, in the units of the rows; O(d)."""
        if not self._moved:
            return self._in_rows(self.pending[0] * self.x)
        x = np.zeros(self.x.shape, self.x.dtype)
        for at, part in self.parts():
            write(x, at, part.primal)
        return x

    @property
    def dual(self) -> Array | None:
        """y with its pending projection applied, in the units of the rows."""
        self.settle()
        return None if self.y is None else self._in_rows(self.pending[1] * self.y)

    def _in_rows(self, v: Array) -> Array:
        """Weights in the units and in the order of the rows."""
        return self.places.spread(self.in_units(np.asarray(v, dtype=self.x.dtype)))

    def in_units(self, v: Array) -> Array:
        """Weights in the units of the rows."""
        return v if self.units is None else self.units.coefficients(v)

    @property
    def _moved(self) -> bool:
        """Whether the iterates live elsewhere than in the dense arrays and have moved since those were filled."""
        return self.lazy is not None and self.lazy["settled"] != self.t

    def parts(self, alone: bool = False) -> Iterator[tuple[Any, StreamState]]:
        """Features and the state of these in plain arrays, some at a time; what is left out is zero.

        It may be the state of θ `alone`, without w and y.
        """
        if self.units is not None and self.units.constant >= 0:  # the means of all features go into the intercept
            self.settle()
        state = self._each(lambda v: v[-1:], y=None, units=self.units) if alone else self
        if not (self._moved or self.places):
            return iter([(slice(None), state)])
        return ((self.places.names[at] if self.places else at, part) for at, part in state._parts())

    def _each(self, of: Callable[[Array], Array], **others: Any) -> StreamState:
        """A copy with `of` every array that has a number for each feature, and with `others`."""

        def changed(v: Any) -> Any:
            return of(v) if isinstance(v, np.ndarray) else v

        named = {name: changed(getattr(self, name)) for name in ("x", "y", "trace", "origin")}
        totals, earlier = (Totals(of(sums.x), changed(sums.y), sums.weight) for sums in (self.totals, self.earlier))
        more = {name: of(values) for name, values in self.more.items()}
        units = self.units and replace(self.units, **{name: changed(v) for name, v in vars(self.units).items()})
        return replace(self, **(named | {"totals": totals, "earlier": earlier, "more": more, "units": units} | others))

    @property
    def count(self) -> int:
        """How many features there are, or have a place."""
        return self.places.count if self.places else self.x.shape[1]

    def _parts(self) -> Iterator[tuple[slice, StreamState]]:
        for first in range(0, self.count, SWEEP):
            at = slice(first, min(first + SWEEP, self.count))
            yield at, lazily().columns(self, at) if self._moved else self.columns(at)

    def columns(self, at: slice) -> StreamState:
        """The state of some features as the dense arrays hold it."""
        return self._each(lambda v: v[..., at], trace=None, lazy=None, places=Places.none())

    def settle(self) -> None:
        """Fill the dense arrays, if the iterates live elsewhere and have moved since; O(d)."""
        if self.lazy is None or not self._moved:
            return
        for at, part in self._parts():
            self.x[:, at], self.totals.x[:, at] = part.x, part.totals.x
            if self.y is not None and self.totals.y is not None:
                self.y[:, at], self.totals.y[:, at] = part.y, part.totals.y
            for name, values in part.more.items():
                self.more[name][:, at] = values
        if self.trace is not None:
            self.trace[0] = lazily().trace(self)
        self.lazy["settled"] = self.t

    def rotate_sums(self) -> None:
        """Make the weighted sums the earlier ones, and begin new ones."""
        if self.lazy is not None:
            lazily().take_sums(self)
        self.earlier, self.totals = self.totals, self.earlier
        if "share" in self.more:
            self.more["earlier_share"], self.more["share"] = self.more["share"], np.zeros(self.x.shape, self.x.dtype)
        if self.lazy is None:
            self.totals.clear()
        else:  # new sums begin in the lines; what the dense arrays hold is overwritten when they are filled
            self.totals.weight, self.lazy["settled"] = 0.0, -1

    def settled(self) -> StreamState:
        """A copy of the state in plain arrays and with features in their own order, as a file holds it."""
        self.settle()
        return self._each(self.places.spread, lazy=None, places=Places.none())

    def enter(self) -> None:
        """Keep features in the order in which they come, from the first row on, unless they are few."""
        d = self.x.shape[1]
        if self.places or self.t > 0 or d <= FEW:
            return
        self.places, vectors = Places.none(d), [v for v in (self.x, self.y, self.origin) if v is not None]
        if any(v.any() for v in vectors[:2]):  # those that are not zero are known already
            known = np.flatnonzero(np.any([v.any(axis=0) for v in vectors], axis=0))
            self.places.find(known)
            for v in vectors:
                v[:, : len(known)], v[:, len(known) :] = v[:, known], 0.0

    def rest(self) -> None:
        """Go on in the dense arrays."""
        self.settle()
        self.lazy = None

    def leave(self) -> None:
        """Go on in the dense arrays, with features in their own order."""
        self.rest()
        if self.places:
            vars(self).update(vars(self.settled()))

    def apply_pending(self) -> None:
        """Multiply x and y by their pending scales."""
        for v, scale in zip((self.x, self.y), self.pending, strict=True):
            if v is not None and scale != 1.0:
                v[:] = scale * v
        self.pending[:] = 1.0

    def change_units(self, new: FoundUnits) -> None:
        """Go over to new units: while it is early from x_0, later from where x is.

        Gradients in very different units say nothing about the steps, which then begin afresh like the averages.
        """
        old, early = self.units or new, self.t < EARLY
        self.rest()
        self.apply_pending()
        if early:
            self.x[:] = self.origin
        for v in (self.x, self.origin, self.y, *vars(self.totals).values(), *vars(self.earlier).values()):
            if isinstance(v, np.ndarray):
                v[:] = new.coefficients_in(old.coefficients(v))
        if self.trace is not None:
            self.trace[:] = new.rows_in(old.trace_out(self.trace).astype(self.x.dtype))
        if early or new.differs(old, UNEVEN, OFF_CENTRE):
            self._forget(0.0 if early else self.record[[ROWS, SCALE]])
        self.record[REACH] = max(self.record[REACH], np.linalg.norm(self.x - self.origin))
        self.units = new

    def _forget(self, rows_and_scale: Any) -> None:
        """Drop y, the averages and all statistics except these two."""
        self.record[:] = 0.0
        self.record[[ROWS, SCALE]] = rows_and_scale
        self.totals.clear()
        self.earlier.clear()
        if self.y is not None:
            self.y[:] = 0.0


def lazily() -> Any:
    """The module of lazy states, loaded when one is there: dense rows need none of its kernels."""
    from sparsetd.solvers import lazy

    return lazy


def write(out: Array, at: Any, values: Any) -> None:
    """out[..., at] = values, for a slice or the names of features."""
    for whole, part in zip(np.atleast_2d(out), np.atleast_2d(values), strict=True):
        if isinstance(at, slice):
            whole[at] = part
        else:
            lazily().law.scatter(whole[:, None], at, part)


def room_for_a_step() -> tuple[Array, Array, Array, Array]:
    """Room for the folded table, for the rows of a plan, for the Gram matrix of a row, and for what was folded."""
    return np.zeros((6, 7)), np.zeros((6, 12)), np.zeros(6), np.full(3, np.nan)


def apart(n_rows: int, n_features: int, dtype: Any) -> Array:
    """Zeros whose rows begin on cache lines, each five lines further into a page of 4096 bytes than the one before.

    A vector register across two lines costs half as much again, and a store at the same place of a page as a load of
    another row makes the load wait: with all rows at one place a step takes twice as long.
    """
    item = np.dtype(dtype).itemsize
    lines_of_row = -(-n_features * item // 64)
    stride = (lines_of_row + (5 - lines_of_row) % 64) * 64 // item
    return aligned_zeros(n_rows, stride, dtype)[:, :n_features]


def aligned_zeros(n_rows: int, width: int, dtype: Any = np.float64) -> Array:
    """Zeros (n_rows, width) that begin on a cache line, so that 8 numbers of float64 are one line of 64 bytes."""
    size, per_line = n_rows * width, 64 // np.dtype(dtype).itemsize
    memory = np.zeros(size + per_line, dtype)
    skip = -memory.ctypes.data % 64 // memory.itemsize
    return memory[skip : skip + size].reshape(n_rows, width)
