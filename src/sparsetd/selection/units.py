"""Small systems are solved with columns of unit length: what counts as singular must not depend on units."""

from __future__ import annotations

import numpy as np

from sparsetd.system import Array


def lengths(phi: Array) -> Array:
    """Root mean square of every column, 1 for a column of zeros."""
    size = np.sqrt(np.einsum("ij,ij->j", phi, phi) / max(len(phi), 1))
    return np.asarray(np.where(size > 0, size, 1.0))
