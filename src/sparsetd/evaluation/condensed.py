"""A log of any size as d + 1 rows, for every estimator that needs no more of it than its mean system.

    XᵀX = p C/N        Xᵀ(X − X') = p A/N        Xᵀy = p b/N        p = d + 1 rows

With C/N = RᵀR these are X = √p R, X' = X − √p R⁻ᵀA/N and y = √p R⁻ᵀ b/N. The means over these p rows are those over all
N, so `LSTD`, `SparseTD`, `sparse_td_path`, `LSTDL1`, `DantzigLSTD` and `LARSTD` find on them what they find on the log.
What looks at single rows or episodes (stochastic methods, elimination, folds, intervals) does not: `evaluate` gives the
features that matter, their frequencies and the intervals of a log in shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.engines import Engine, forget
from sparsetd.evaluation.moments import Moments, sums
from sparsetd.evaluation.opened import opened
from sparsetd.system import Array

EMPTY = 1e-12  # share of the largest eigenvalue of C below which a direction is empty


@dataclass(frozen=True, eq=False)
class Condensed:
    """Rows with the mean system of a log: `estimator.fit(rows.X, rows.y, rows.X_next, discount=rows.discount)`.

    Columns are centred and scaled to unit variance by the log's own `mean` and `scale`. The last one is the constant:
    fit without an intercept.
    """

    X: Array
    y: Array
    X_next: Array
    names: tuple[str, ...]
    mean: Array
    scale: Array
    n_rows: int

    @property
    def discount(self) -> Array:
        """1 for every row: that of the log is in X'."""
        return np.ones(len(self.y))


def condense(
    source: Any,
    target: Any = None,
    *,
    gamma: float = 0.99,
    features: Any = None,
    engine: Engine | None = None,
    checkpoint: str | None = None,
) -> Condensed:
    """The mean system of a log in memory or in shards, as rows; parameters as in `evaluate`."""
    log = opened(source, target, gamma, features, None, engine, checkpoint)
    (found,) = log.rows.answer(sums())
    units = found.units(log.units)
    X, y, after = _rows(found.in_units(log.units, units))
    if checkpoint is not None:
        forget(checkpoint)
    names = (*map(str, log.names), "constant")
    return Condensed(X, y, after, names, units.shift, units.scale, int(found.n_rows[0]))


def _rows(moments: Moments) -> tuple[Array, Array, Array]:
    n, p = moments.n_rows[0], moments.b.shape[1]
    size, basis = np.linalg.eigh(moments.C[0] / n)
    size, kept = np.sqrt(np.maximum(size, 0.0)), size > EMPTY * size[-1]
    X = np.sqrt(p) * (size * kept)[:, None] * basis.T
    back = np.sqrt(p) * np.divide(basis.T, size[:, None], where=kept[:, None], out=np.zeros((p, p))) / n
    return X, back @ moments.b[0], X - back @ moments.A[0]
