"""Whether fitted values can be right: |V| ≤ max|r|/(1 − γ) holds for every policy, and ten times that is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd.system import Array, Batch, rows_of

VANISHING = 1e-150  # the square of a smaller number is 0 in float64
TIMES = 10.0  # values larger than this many times the bound are suspicious
PROBES, PROBE_ROWS, PROBE_NUMBERS = 16, 64, 2**14  # blocks of rows that are looked at, and their sizes


@dataclass(frozen=True)
class Watch:
    """The largest reward and discount of the rows taken so far, and some of these rows, to look at values there."""

    reward: float = 0.0
    discount: float = 0.0
    probes: tuple[Any, ...] = ()

    def after(self, batch: Batch, stops: Sequence[int] = ()) -> Watch:
        """The watch after more rows; the last few before each stop are kept until the end of the call."""
        rows = max(1, min(PROBE_ROWS, PROBE_NUMBERS * len(batch) // max(batch.n_entries, 1), len(batch)))
        probes = [rows_of(batch.phi, slice(max(stop - rows, 0), stop)) for stop in stops or [len(batch)]]
        reward = max(self.reward, float(np.abs(batch.reward).max(initial=0.0)))
        discount = max(self.discount, float(batch.discount.max(initial=0.0)))
        return Watch(reward, discount, (*self.probes, *probes)[-PROBES:])

    def rested(self) -> Watch:
        """The watch without rows: these belong to the caller and must not be kept."""
        return replace(self, probes=())

    def complaint(self, coef: Array, start: Array | None) -> str:
        """A complaint about these weights, as the end of a sentence about the method; "" if all is well."""
        if not (np.isfinite(coef.sum()) or np.isfinite(coef).all()):  # the sum alone tells nearly always
            return "ended with weights that are not finite: rescale features that are extremely small or large"
        if self._vanish():
            return "saw only features whose squares are zero to a computer: rescale them"
        bound = self.reward / (1.0 - self.discount) if self.discount < 1.0 else np.inf
        if start is not None:
            bound = max(bound, self._largest(start))
        value = self._largest(coef)
        if not 0.0 < TIMES * bound < value:
            return ""
        return (
            f"predicts values of up to {value:.3g} on rows whose rewards and discounts allow {bound:.3g} at most: try "
            "a smaller step_size, step_size='auto', or a stronger penalty"
        )

    def _vanish(self) -> bool:
        """Whether some features are not zero, but all of them are tiny. The first larger one settles it."""
        largest = 0.0
        for rows in self.probes:
            numbers = rows.data if sp.issparse(rows) else rows
            largest = max(largest, float(np.abs(numbers).max(initial=0.0)))
            if largest >= VANISHING:
                return False
        return largest > 0.0

    def _largest(self, coef: Array) -> float:
        return max((float(np.abs(rows @ coef).max(initial=0.0)) for rows in self.probes), default=0.0)
