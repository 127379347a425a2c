"""Rows as the kernel reads them: features padded to the width of a block, columns in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.sweeps.cuda.job import Job
from sparsetd.system import Array, Batch, TraceCarry, dense, trace_weights


@dataclass
class Inputs:
    """Data sets of equal length, and for each run which of them, which job, trace and policy it uses.

    `phi` and `phi_next` are (sets, n, d), `reward` and `action` (sets, n), `ahead` (policies, n, actions) holds
    γ_t π(a|s'_t), `fresh` and `old` (traces, n) the weights of the trace; the rest are indices, one per run.
    `origin` is x_0's θ, for all runs or one each. Arrays may live on the host or on the device.
    """

    phi: Any
    phi_next: Any
    reward: Any
    ahead: Any
    fresh: Any
    old: Any
    job: Any
    data: Any
    trace: Any
    policy: Any
    action: Any = None
    origin: Any = None

    @property
    def n_rows(self) -> int:
        return int(self.phi.shape[1])

    @property
    def actions(self) -> int:
        return int(self.ahead.shape[2])

    def gram(self, xp: Any) -> Any:
        """φ·φ, φ·(φ − φ') and ‖φ − φ'‖² of every row, in float64."""
        phi, change = self.phi.astype(xp.float64), self.phi.astype(xp.float64) - self.phi_next
        pairs = ((phi, phi), (phi, change), (change, change))
        return xp.stack([xp.einsum("snd,snd->sn", a, b) for a, b in pairs], axis=-1)


def inputs_of(jobs: Sequence[Job], batches: Sequence[Batch], dtype: Any, origin: Array | None = None) -> Inputs:
    """Every job on every batch, batch by batch. A pass begins with a start, as `fit` has it."""
    begun = [_begun(batch) for batch in batches]
    tables = list({(job.table.lam, job.table.trace): job.table for job in jobs}.values())
    kinds = [(table.lam, table.trace) for table in tables]
    weights = [trace_weights(table, batch, TraceCarry()) for table in tables for batch in begun]
    which = np.array([kinds.index((job.table.lam, job.table.trace)) for job in jobs])
    data, job = np.divmod(np.arange(len(batches) * len(jobs)), len(jobs))
    return Inputs(
        np.stack([dense(b.phi, dtype) for b in begun]),
        np.stack([dense(b.phi_next, dtype) for b in begun]),
        np.stack([b.reward for b in begun]),
        np.stack([b.discount[:, None] for b in begun]),
        np.stack([fresh for fresh, _ in weights]),
        np.stack([old for _, old in weights]),
        job,
        data,
        which[job] * len(batches) + data,
        data,
        origin=origin,
    )


def _begun(batch: Batch) -> Batch:
    start = batch.start.copy()
    start[:1] = True
    columns = (batch.reward, batch.discount, batch.ratio, start, batch.interest)
    return Batch(batch.phi, batch.phi_next, *columns)
