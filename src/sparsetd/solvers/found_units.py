"""The units that a stream finds for its features, so that automatic steps do not depend on the units of the data.

    φ̃_j = (φ_j − μ_j φ_c)/s_j        θ_j = θ̃_j/s_j        θ_c = θ̃_c − Σ_j μ_j θ_j

s_j is the root mean square of the entries of column j that are not zero, so that indicators keep their 1. c is a column
that has always been 1, the intercept; where there is one and the rows are dense, columns whose mean exceeds twice their
standard deviation are centred, and then s_j is that deviation. The map is linear, so it holds for φ, φ' and traces.

Columns of similar size are left as they are. Otherwise the stream goes over to new units and begins afresh from x_0. It
looks again after 16, 32, 64, … rows, which makes the result independent of how the stream is cut. If a size has changed
by a factor of 1.3, or a mean by a tenth of a standard deviation, it goes over again. After its first thousand rows it
goes on from where it is, and its steps begin afresh only if the change is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.solvers.compiled.compile import kernel
from sparsetd.system import Array

FIRST = 16  # rows before the first look
UNEVEN = 8.0  # units are changed if one column is this many times as large as another
SURE = 8  # non-zero entries that a size is measured from; from fewer it would be a guess
CHANGED = 1.3  # units are corrected if a size has changed by this factor
MOVED = 0.1  # or if a mean has moved by this many standard deviations
OFF_CENTRE = 2.0  # a column is centred if its mean is this many standard deviations away from zero


# Rows of `moments`: how often a column was not zero, Σφ and Σφ².
COUNT, SUM, SQUARES = range(3)
ALL, EVERY = 256, 16  # the first 256 rows are all looked at, then every 16th


@kernel
def observe(moments: Array, phi: Array, looked: Array) -> None:
    """Look at some of the dense rows."""
    for i in looked:
        for j in range(phi.shape[1]):
            a = float(phi[i, j])
            moments[COUNT, j] += a != 0.0
            moments[SUM, j] += a
            moments[SQUARES, j] += a * a


@kernel
def observe_sparse(moments: Array, phi: Any, looked: Array, row: Array) -> None:
    """`observe` for CSR rows, which may name a column twice: the entries of a column are added up first.

    `row` is room for three numbers of every entry of a row: the sum of a column, its count until now, and the column.
    The count's own place holds −1 − (the place in `row`) meanwhile, so that no array as long as all columns is needed.
    """
    values, indices, indptr = phi
    for i in looked:
        n = 0
        for place in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[place])
            count = moments[COUNT, j]
            if count < 0.0:
                row[np.int64(-1.0 - count), 0] += values[place]
            else:
                row[n, 0], row[n, 1], row[n, 2] = values[place], count, j
                moments[COUNT, j] = -1.0 - n
                n += 1
        for at in range(n):
            a, j = row[at, 0], np.uint64(row[at, 2])
            moments[COUNT, j] = row[at, 1] + (a != 0.0)
            moments[SUM, j] += a
            moments[SQUARES, j] += a * a


@dataclass
class FoundUnits:
    """The moments seen so far and the units in use: none of them while `scale` is None; `constant` < 0 without c."""

    moments: Array
    rows: int = 0
    scale: Array | None = None
    shift: Array | None = None
    constant: int = -1

    def observe(self, phi: Any, t: int) -> None:
        """Look at rows from number t of the stream on."""
        dense = isinstance(phi, np.ndarray)
        numbers = np.arange(t, t + len(phi if dense else phi.indptr[1:]))
        looked = np.flatnonzero((numbers < ALL) | (numbers % EVERY == 0))
        self.rows += len(looked)
        if dense:
            return observe(self.moments, phi, looked)
        longest = int(np.diff(phi.indptr).max(initial=0))
        return observe_sparse(self.moments, tuple(phi), looked, np.empty((longest, 3)))

    def is_due(self, t: int) -> bool:
        """Return whether sizes are looked at after t rows: at powers of two, and not before O(d) pays for itself."""
        return t >= max(FIRST, self.moments.shape[1] // 64) and t & (t - 1) == 0

    def until_due(self, t: int) -> int:
        return max(FIRST, 1 << t.bit_length()) - t

    def found(self, sparse: bool, absolute: bool) -> FoundUnits | None:
        """Better units than those in use, or None. `absolute`: a common size of all columns counts as well."""
        count, seen = self.moments[COUNT], self.moments[COUNT] > 0
        scale = np.sqrt(np.divide(self.moments[SQUARES], count, out=np.ones(len(count)), where=seen))
        constant, shift = (-1, np.zeros(len(count))) if sparse else self._centre(scale)
        sure = count >= SURE
        sizes = np.append(scale[sure], 1.0 if absolute else [])
        uneven = len(sizes) > 0 and bool(sizes.max() > UNEVEN * sizes.min())
        if not (uneven or shift.any() or self.scale is not None):
            return None
        scale[~seen] = np.exp(np.mean(np.log(scale[seen])))
        new = FoundUnits(self.moments, self.rows, scale, shift, constant)
        return new if new.differs(self, CHANGED, MOVED) else None

    def _centre(self, scale: Array) -> tuple[int, Array]:
        """The constant column and the means to take off; their columns get the standard deviation as their scale."""
        count, total, squares = self.moments
        ones = np.flatnonzero((count == self.rows) & (total == self.rows) & (squares == self.rows))
        mean, shift = total / self.rows, np.zeros(len(count))
        if not len(ones):
            return -1, shift
        deviation = np.sqrt(np.maximum(squares / self.rows - mean**2, 0.0))
        # A spread of less than 1e-7 of the mean is rounding of the squares: such a column counts as constant.
        off = (np.abs(mean) > OFF_CENTRE * deviation) & (deviation > 1e-7 * np.abs(mean))
        scale[off], shift[off] = deviation[off], mean[off]
        return int(ones[0]), shift

    def differs(self, other: FoundUnits, factor: float, deviations: float) -> bool:
        """Whether a size differs by more than this factor, or a mean by more than so many standard deviations."""
        if self.scale is None or other.scale is None or self.constant != other.constant:
            return True
        sure = self.moments[COUNT] >= SURE
        ratio = np.abs(np.log(self.scale[sure] / other.scale[sure]))
        moved = np.abs(self.shift - other.shift) > deviations * self.scale  # type: ignore[operator]
        return bool(np.any(ratio > np.log(factor)) or moved.any())

    # --- the map ----------------------------------------------------------------------------------------------------

    def rows_in(self, phi: Any) -> Any:
        """Rows in these units."""
        if self.scale is None or self.shift is None:
            return phi
        if not isinstance(phi, np.ndarray):
            phi = phi.alone()
            return phi._replace(values=phi.values / self.scale[phi.indices])
        kind = phi.dtype
        if self.constant >= 0:
            phi = phi - phi[:, self.constant, None] * self.shift.astype(kind)
        return np.ascontiguousarray(phi / self.scale.astype(kind))

    def coefficients(self, x: Array) -> Array:
        """x (k, d) of these units in the units of the rows."""
        if self.scale is None or self.shift is None:
            return x
        out = x / self.scale
        if self.constant >= 0:
            out[:, self.constant] -= out @ self.shift
        return np.asarray(out, dtype=x.dtype)

    def coefficients_in(self, x: Array) -> Array:
        """The inverse of `coefficients`."""
        out = x * self.scale
        if self.constant >= 0:
            out[:, self.constant] += x @ self.shift
        return np.asarray(out, dtype=x.dtype)

    def trace_out(self, e: Array) -> Array:
        """A row of these units in the units of the rows."""
        if self.scale is None or self.shift is None:
            return e
        out = e * self.scale
        return out if self.constant < 0 else out + out[..., self.constant, None] * self.shift
