"""Numbers to compute with: neither NaN nor infinite, nor so large that products of a few of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]

# Products of a few such numbers are still finite, and their sums too. In NumPy's own type: one of Python's would be
# rounded to infinity beside an array of float32, and nothing is above that.
LARGEST = np.float64(1e100)


def immoderate(values: Array) -> Mask:
    """Return which entries are NaN, infinite, or so large that products of them are."""
    return ~np.asarray(np.abs(values) <= LARGEST)


def all_moderate(values: Array) -> bool:
    """Whether no entry is immoderate, without a mask of them: a sum of squares tells, unless all of them are large."""
    if values.dtype.kind == "i":
        return True
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.vdot(flat, flat) <= LARGEST**2) or not immoderate(values).any()
