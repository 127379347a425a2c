"""Every answer a second way: with SPARSETD_VERIFY=1 (and always in the tests) a mismatch is an error.

v = Σ_t ω_t ρ_t r_t        Σ_t ρ_t δ_t φ_t = 0
"""

from __future__ import annotations

import os

import numpy as np

from sparsetd.evaluation.asks import Ask
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.moments import Part
from sparsetd.system import Array

TOLERANCE = 1e-6


def wanted() -> bool:
    """Whether answers are to be verified."""
    return os.environ.get("SPARSETD_VERIFY", "") not in ("", "0")


def second_way(model: LinearValue) -> Ask:
    """Asks for what `verify` needs."""
    return Ask(_second_way, (model,))


def verify(model: LinearValue, sums: Array) -> None:
    """The value from the implied weights, and the equations that θ solves, from the rows."""
    if not wanted() or not model.determined():
        return
    value, value_size, errors, errors_size = map(float, sums)
    compare("the value from implied weights", value, model.value, value_size)
    compare("the weighted TD errors", errors, 0.0, errors_size)


def _second_way(part: Part, model: LinearValue) -> Array:
    """Σωρr and Σωρδ, each with the sum of the sizes of its terms."""
    direction, rewards = model.weights(part), part.batch.ratio * part.batch.reward
    scores = part.batch.ratio * model.errors(part)
    size = np.abs(direction)
    return np.array(
        [direction @ rewards, size @ np.abs(rewards), direction @ scores, size @ (np.abs(rewards) + np.abs(scores))]
    )


def compare(what: str, found: float, expected: float, size: float) -> None:
    """Raise where two ways to one number disagree by more than rounding of terms of this size."""
    if abs(found - expected) > TOLERANCE * max(size, abs(expected), np.finfo(float).tiny):
        raise RuntimeError(
            f"Verification failed: {what} is {found!r}, but {expected!r} was computed another way. Please report this."
        )
