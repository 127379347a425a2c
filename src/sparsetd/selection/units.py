"""Small systems are solved with columns of unit length: what counts as singular must not depend on units."""

from __future__ import annotations

import numpy as np

from sparsetd.system import Array


def lengths(phi: Array) -> Array:
    """Root mean square of every column, 1 for a column of zeros."""
    return lengths_of(np.einsum("ij,ij->j", phi, phi) / max(len(phi), 1))


def lengths_of(mean_squares: Array) -> Array:
    """The same from the mean squares of the columns."""
    return np.asarray(np.sqrt(np.where(mean_squares > 0, mean_squares, 1.0)))
