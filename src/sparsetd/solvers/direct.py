"""The lazy state of the common case: no traces, extragradients, ridge, damping or penalty factors.

    begin → update → materialise        as in `sparse`, with the kernels of `direct_kernels`

Four vectors share one cache line of a coordinate, and a step treats them as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetd.solvers import direct_kernels as kernels
from sparsetd.system import Table

Array = NDArray[Any]
GUIDE = 4097
SWEEP = 2**13  # coordinates at a time when all are visited: what the second cache holds
# A new generation of y begins before the sums of y can no longer resolve the terms added to them, or before overflow.
RESTART = {True: 2.0**-10, False: 2.0**-200}


@dataclass
class DirectState:
    """The lines of all coordinates and the rule that advances them."""

    lines: kernels.Lines
    rule: kernels.Rule

    @property
    def n_steps(self) -> int:
        return int(self.lines.counter[kernels.STEPS])

    def materialise(self) -> tuple[Array, Array, Array, Array]:
        """(x, y, Σ ω x, Σ ω y), each of shape (k, d), or without rows where there is no y or no such sum is kept."""
        k, n_vectors, n_sums = self.rule.n_blocks, self.rule.n_vectors, int(self.rule.fixed[kernels.SUMMED].sum())
        d, state = len(self.lines.line), (self.lines.state, self.lines.past, tuple(self.rule))
        values, sums = np.empty((n_vectors, d)), np.empty((n_sums, d))
        for first in range(0, d, SWEEP):
            block = np.empty((min(SWEEP, d - first), 8))
            kernels.evaluate(*state, first, block)
            values[:, first : first + SWEEP] = block[:, :n_vectors].T
            sums[:, first : first + SWEEP] = block[:, kernels.SUMS : kernels.SUMS + n_sums].T
        return values[:k], values[k:], sums[:k], sums[k:]

    def update(self, phi: Any, phi_next: Any, columns: dict[str, Array], limit: float = 1e100) -> int:
        """Advance by rows and return how many were taken before a product left ±`limit`."""
        names, done = ("reward", "discount", "fresh", "alpha", "weight"), 0
        numbers = [np.ascontiguousarray(columns[name], dtype=np.float64) for name in names]
        state = self.lines.state, self.lines.past, self.rule.bound, tuple(self.rule)
        while True:
            rows = _from(phi, done), _from(phi_next, done)
            done += int(kernels.run(*state, *rows, *(column[done:] for column in numbers), limit))
            if done == len(numbers[0]) or not self._flush_is_due:
                return done
            self._flush()

    @property
    def _flush_is_due(self) -> bool:
        counter = self.lines.counter
        full = counter[kernels.GENERATION] + 1 >= len(self.lines.scale)
        return bool(full or counter[kernels.SINCE_FLUSH] >= self.rule.horizon)

    def _flush(self) -> None:
        """Replace every line by its plain value and sum."""
        lines, rule = self.lines, self.rule
        kernels.evaluate(lines.state, lines.past, tuple(rule), 0, lines.line)
        (lines.line if rule.slot else lines.born)[:, rule.slot] = 0.0
        lines.number[kernels.NORM] = np.sum(np.square(lines.line[:, rule.n_blocks : rule.n_vectors]))
        _begin_afresh(lines)


def begin(
    line: Array,
    table: Table,
    values: Array,
    sums: Array,
    l1: Array,
    ball: int,
    constant: float,
    horizon: int,
    generations: int,
) -> DirectState:
    """A state of the given vectors (x, y) and of the sums that are kept; `constant` is the step, or 0 if it varies.

    `line` is memory for it, zeros of shape (d, 8) that begin on a cache line.
    """
    n_vectors, d = values.shape
    rule = _rule(table, l1, n_vectors, len(sums), ball, constant, horizon)
    searched = len(sums) > 0 and constant == 0.0
    lines = kernels.Lines(
        line=line,
        born=np.zeros((0 if rule.slot else d, 1)),
        scalar=np.zeros((7, 4)),
        counter=np.zeros(5, dtype=np.int64),
        number=np.zeros(2),
        scale=np.zeros((generations, 4)),
        mass=np.zeros((generations, 4)),
        room=np.zeros((21, 4)),
        history=np.zeros((horizon + 1 if searched else 0, 3)),
        guide=np.zeros(GUIDE if searched else 0, dtype=np.int64),
        fallen=np.zeros(512 if searched else 0, dtype=np.int64),
    )
    line[:, :n_vectors], line[:, kernels.SUMS : kernels.SUMS + len(sums)] = values.T, sums.T
    lines.number[kernels.NORM] = np.sum(np.square(values[table.n_blocks :]))
    _begin_afresh(lines)
    return DirectState(lines, rule)


def _rule(
    table: Table, l1: Array, n_vectors: int, n_sums: int, ball: int, constant: float, horizon: int
) -> kernels.Rule:
    k, lane = table.n_blocks, np.arange(4)
    rho = np.zeros(4)
    rho[:k] = l1
    penalised, summed, dual = rho > 0, lane < n_sums, (k <= lane) & (lane < n_vectors)
    per = np.divide(1.0, rho * constant, out=np.full(4, 1e300), where=rho * constant > 0)
    unit, half = np.where(penalised, constant, 1.0) * summed, 0.5 * rho * constant**2 * summed
    return kernels.Rule(
        ball=ball,
        n_blocks=k,
        n_vectors=n_vectors,
        horizon=horizon,
        slot=kernels.OWN_SLOT if n_sums < 4 else 0,
        restart=RESTART[n_sums > k],
        table=_tabulate(table, n_vectors > k),
        fixed=np.array([rho, penalised, summed, dual, per, unit, half], dtype=np.float64),
    )


def _tabulate(table: Table, saddle: bool) -> Array:
    """The step as a table [power of `fresh`, direction, product, vector], which the kernels want as (3, 18, 4).

    Weights of φ and ψ: M u − r m for x, or Mᵀ u_y for x and −(M u_x − r m) for y, where u are the products of φ and ψ
    with the four vectors and e = fresh · φ. The ninth product is the reward.
    """
    k, out = table.n_blocks, np.zeros((3, 2, 9, 4))
    shift, sign = (k, -1.0) if saddle else (0, 1.0)
    for (b, q), weight in np.ndenumerate(np.reshape(table.m, (k, 3))):
        out[q // 2, q % 2, 8, shift + b] -= sign * weight
    for (b, q, c, r), entry in np.ndenumerate(np.reshape(table.M, (k, 3, k, 3))):
        out[q // 2 + r // 2, q % 2, 4 * (r % 2) + c, shift + b] += sign * entry
        if saddle:
            out[q // 2 + r // 2, r % 2, 4 * (q % 2) + k + b, c] += entry
    return out.reshape(3, 18, 4)


def _begin_afresh(lines: kernels.Lines) -> None:
    """Scalars, history and generations of a state whose lines hold plain values."""
    lines.scalar[:] = 0.0
    lines.scalar[kernels.F] = lines.scale[0] = 1.0
    lines.mass[0] = lines.history[:1] = 0.0
    lines.counter[[kernels.SINCE_FLUSH, kernels.GENERATION, kernels.OLDEST, kernels.GUIDED]] = 0
    lines.number[kernels.WIDTH] = 0.0


def _from(rows: Any, first: int) -> tuple[Array, np.uint64, Array, Array]:
    """Rows from `first` on: values, how far apart they are (0: all are 1), indices, indptr."""
    plain = len(rows.values) == 0
    return np.ones(1) if plain else rows.values, np.uint64(not plain), rows.indices, rows.indptr[first:]
