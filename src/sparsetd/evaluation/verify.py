"""Every answer a second way: with SPARSETD_VERIFY=1 (and always in the tests) a mismatch is an error.

v = Σ_t ω_t ρ_t r_t        Σ_t ρ_t δ_t φ_t = 0
"""

from __future__ import annotations

import os

import numpy as np

from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Part

TOLERANCE = 1e-6


def wanted() -> bool:
    """Whether answers are to be verified."""
    return os.environ.get("SPARSETD_VERIFY", "") not in ("", "0")


def verify(model: LinearValue, part: Part) -> None:
    """Recompute the value from the implied weights, and the equations that θ solves from the rows."""
    if not wanted() or not model.determined():
        return
    terms = model.weights(part) * part.batch.ratio * part.batch.reward
    compare("the value from implied weights", float(terms.sum()), model.value, float(np.abs(terms).sum()))
    scores = part.batch.ratio * model.errors(part)
    size = np.abs(part.batch.ratio * part.batch.reward) + np.abs(scores)
    direction = model.weights(part)
    compare("the weighted TD errors", float(direction @ scores), 0.0, float(np.abs(direction) @ size))


def compare(what: str, found: float, expected: float, size: float) -> None:
    """Raise where two ways to one number disagree by more than rounding of terms of this size."""
    if abs(found - expected) > TOLERANCE * max(size, abs(expected), np.finfo(float).tiny):
        raise RuntimeError(
            f"Verification failed: {what} is {found!r}, but {expected!r} was computed another way. Please report this."
        )
