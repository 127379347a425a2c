"""Whether fitted values can be right: min(r, 0)/(1 − γ) ≤ V ≤ max(r, 0)/(1 − γ) holds for every policy.

A value of ten times the larger bound is an error. A median value far outside of both is an error, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.system import Array, Batch, rows_of

VANISHING = 1e-150  # the square of a smaller number is 0 in float64
TIMES = 10.0  # values larger than this many times the bound are suspicious
BEYOND = 0.5  # a median outside of the bounds by this share of the distance between them is suspicious, too
PROBES, PROBE_ROWS, PROBE_NUMBERS = 16, 64, 2**14  # blocks of rows that are looked at, and their sizes


@dataclass(frozen=True)
class Watch:
    """The range of rewards and the largest discount of the rows so far, and some of these rows, to see values there."""

    low: float = 0.0
    high: float = 0.0
    discount: float = 0.0
    probes: tuple[Any, ...] = ()

    def after(self, batch: Batch, stops: Sequence[int] = ()) -> Watch:
        """The watch after more rows; the last few before each stop are kept until the end of the call."""
        rows = max(1, min(PROBE_ROWS, PROBE_NUMBERS * len(batch) // max(batch.n_entries, 1), len(batch)))
        probes = [rows_of(batch.phi, slice(max(stop - rows, 0), stop)) for stop in stops or [len(batch)]]
        low, high = float(batch.reward.min(initial=self.low)), float(batch.reward.max(initial=self.high))
        discount = float(batch.discount.max(initial=self.discount))
        return Watch(low, high, discount, (*self.probes, *probes)[-PROBES:])

    def rested(self) -> Watch:
        """The watch without rows: these belong to the caller and must not be kept."""
        return replace(self, probes=())

    def complaint(self, coef: Array, start: Array | None) -> str:
        """A complaint about these weights, as the end of a sentence about the method; "" if all is well."""
        if not (np.isfinite(coef.sum()) or np.isfinite(coef).all()):  # the sum alone tells nearly always
            return "ended with weights that are not finite: rescale features that are extremely small or large"
        if self._vanish():
            return "saw only features whose squares are zero to a computer: rescale them"
        if not (self.probes and self.discount < 1.0):
            return ""
        values = np.concatenate([np.ravel(rows @ coef) for rows in self.probes])
        begun = 0.0 if start is None else max(float(np.abs(rows @ start).max(initial=0.0)) for rows in self.probes)
        low, high = min(self.low / (1.0 - self.discount), -begun), max(self.high / (1.0 - self.discount), begun)
        median, largest, margin = float(np.median(values)), float(np.abs(values).max()), BEYOND * (high - low)
        if 0.0 < TIMES * max(-low, high) < largest:
            wrong = (
                f"values of up to {largest:.3g} on rows whose rewards and discounts allow {max(-low, high):.3g} at most"
            )
        elif margin > 0.0 and not low - margin <= median <= high + margin:
            wrong = f"values around {median:.3g} on rows whose rewards and discounts allow {low:.3g} to {high:.3g}"
        else:
            return ""
        return f"predicts {wrong}: try a smaller step_size, step_size='auto', or a stronger penalty"

    def _vanish(self) -> bool:
        """Whether some features are not zero, but all of them are tiny. The first larger one settles it."""
        largest = 0.0
        for rows in self.probes:
            numbers = rows.data if sp.issparse(rows) else rows
            largest = max(largest, float(np.abs(numbers).max(initial=0.0)))
            if largest >= VANISHING:
                return False
        return largest > 0.0
