"""The columns of A that a working set W needs: computed once, kept while they are small, and compressed.

For m = 2 only lengths matter, so a tall block may be replaced by its triangular factor, which is built from a few rows
at a time:

    [A_W  b] = Q R      ⇒      ‖A_W x − b‖₂ = ‖R_W x − R_b‖₂        (|W| + 1 rows instead of kd)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import qr

from sparsetd.solvers.mean import Linear, gathered
from sparsetd.system import Array

KEEP_BELOW = 4 * 10**7  # numbers (320 MB): larger blocks are streamed, not stored


@dataclass
class Columns:
    """A[:, index], growing; `values` is None while the block is too large to keep."""

    A: Linear
    index: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: Array | None = None

    def extend(self, index: Array) -> int:
        """Adds the coordinates that are not there yet, and says how many; those that are keep their places."""
        new = np.setdiff1d(index, self.index)
        total = self.A.size * (len(self.index) + len(new))
        if total > KEEP_BELOW:
            self.values = None
        elif len(new):
            block = gathered(self.A, new)
            self.values = block if self.values is None else np.column_stack([self.values, block])
        self.index = np.append(self.index, new)
        return len(new)

    def triangular(self) -> Array:
        """R of [A_W  b] = Q R."""
        b = self.A.b[:, None]
        if self.values is not None:
            return _triangle(np.column_stack([self.values, b]))
        R = np.empty((0, len(self.index) + 1))
        for rows, values in self.A.columns(self.index, chunk=max(KEEP_BELOW // (20 * len(self.index)), 1000)):
            block = np.column_stack([values, b[rows]])
            R = _triangle(np.vstack([R, block[block.any(axis=1)]]))
        return R


def _triangle(block: Array) -> Array:
    if len(block) <= block.shape[1]:
        return block
    return np.asarray(qr(block, mode="r", check_finite=False, overwrite_a=True)[0][: block.shape[1]])
