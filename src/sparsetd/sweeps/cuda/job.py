"""The inputs of the kernel: a setting as numbers, the constants that a group of settings is compiled with, and rows.

The features of the rows are padded to the width of a block, and their columns are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sparsetd.system import Array, Batch, Table, TraceCarry, dense, trace_weights

RULES = {"fixed": 0, "distance": 1, "averaging": 2}
BALLS = {"none": 0, "box": 1, "l2": 2}
Division = tuple[int, int, int, bool, int]
SUMS = {"none": 0, "all": 1, "suffix": 2}


@dataclass(frozen=True, eq=False)
class Job:
    """Operator × penalty × rule, all as numbers.

    Parameters
    ----------
    table : Table
        The operator's (M, m).
    rule : {"fixed", "distance", "averaging"}
        Steps by hand, distance over gradients, or dual averaging.
    dual : {"none", "l2", "box"}
        The unit ball of the dual y; "none" is the stochastic iteration without one.
    trial : bool
        Extragradient steps.
    step : (scale, horizon, power)
        α_t = scale/(1 + t/horizon)^power of steps by hand.
    l1, l2 : arrays, one number per block
        h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖².
    start, cap : float
        Constants of the automatic rules.
    """

    table: Table
    rule: Literal["fixed", "distance", "averaging"] = "fixed"
    dual: Literal["none", "l2", "box"] = "none"
    trial: bool = False
    step: tuple[float, float, float] = (0.01, 1.0, 0.0)
    l1: Array = field(default_factory=lambda: np.zeros(2))
    l2: Array = field(default_factory=lambda: np.zeros(2))
    average: Literal["none", "all", "suffix"] = "none"
    radius: float = np.inf
    start: float = 1.0
    cap: float = np.inf
    passes: int = 1

    @property
    def kind(self) -> tuple[Any, ...]:
        """Everything that must agree for two jobs to share a kernel."""
        bounded, traced = bool(np.isfinite(self.radius)), self.table.lam > 0
        return (self.table.n_blocks, self.rule, self.dual, self.trial, self.average, self.passes, bounded, traced)

    def numbers(self, n_features: int, limit: float) -> Array:
        """The kernel's row of constants."""
        k = self.table.n_blocks
        dual_radius = np.sqrt(k * n_features) if self.dual == "box" else 1.0
        rest = [self.radius, dual_radius, self.start, self.cap, np.linalg.norm(self.table.M), limit]
        blocks = (self.table.damping, self.l1[-k:], self.l2[-k:])
        return np.concatenate([self.table.M.ravel(), self.table.m, *blocks, self.step, rest])


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for: `defines` puts the `constants` in front of the CUDA source.

    `apart` counts the numbers of a run in shared memory (y, the averages and, with KEEP 2, φ' of the row).
    """

    job: Job
    apart: int
    constants: dict[str, Any]

    @property
    def width(self) -> int:
        """Features with their padding."""
        return int(self.constants["THREADS"] * self.constants["PER"])

    def defines(self) -> str:
        return "".join(f"#define {name} {value}\n" for name, value in self.constants.items())


def shape_of(
    jobs: list[Job], n_features: int, actions: int, dtype: Any, origin: bool, threads: int | None = None
) -> Shape:
    """The constants for jobs of one kind, with as many threads as the registers allow."""
    first, itemsize = jobs[0], np.dtype(dtype).itemsize
    blocks, traced, saddle = first.table.n_blocks, first.table.lam > 0, first.dual != "none"
    adaptive, bounded = first.rule != "fixed", bool(np.isfinite(first.radius))
    used = np.any([job.table.M != 0 for job in jobs], axis=0)
    damped = any(job.table.damping.any() for job in jobs)
    columns, moved = used.any(axis=0), used.any(axis=1) | np.any([job.table.m != 0 for job in jobs], axis=0)
    x = columns.copy()
    if damped and adaptive:
        x[:3] = True  # ‖g + damping·w‖² needs the products of w with the whole row
    y = used.any(axis=1) if saddle else np.zeros_like(x)
    need_x, need_y = _mask(x, first), _mask(y, first)
    apart = actions * (blocks * saddle + SUMS[first.average])
    words = ((blocks + traced) * actions, apart, actions)
    size, per, keep, shared, resident = _divide(n_features, words, itemsize // 4, threads)
    sums = need_x.bit_count() + need_y.bit_count() + (first.dual == "l2") + bounded
    sums += adaptive * (1 + damped + 3 * traced)
    padded = max(2, 1 << (sums - 1).bit_length())  # the sums that a step needs, rounded up to a power of two
    constants = {
        "REAL": "double" if itemsize == 8 else "float", "THREADS": size, "PER": per, "ACTIONS": actions,
        "BLOCKS": blocks, "DUAL": int(saddle), "BALL": BALLS[first.dual],
        "RULE": RULES[first.rule], "MIRROR": int(first.trial),
        "KEEP": keep, "SHARED": int(shared), "RESIDENT": resident,
        "TRACE": int(traced), "DAMPED": int(damped), "RADIUS": int(bounded),
        "ORIGIN": int(origin), "L1": int(any(job.l1.any() for job in jobs)),
        "L2": int(any(job.l2.any() for job in jobs)), "SUM": SUMS[first.average],
        "PATTERN": f"{_bits(used.ravel())}ull", "NEED_X": f"{need_x}u", "NEED_Y": f"{need_y}u",
        "LIVE_X": f"{_mask(columns if y.any() else moved, first)}u", "LIVE_Y": f"{_mask(moved, first)}u",
        "DECAY": int(any(job.step[2] for job in jobs)), "PADDED": padded,
    }  # fmt: skip
    in_shared = shared * size * per * (apart + (keep == 2))
    return Shape(first, in_shared, constants)


def _divide(n_features: int, words: tuple[int, int, int], size: int, threads: int | None) -> Division:
    """(threads, elements of each, KEEP of the kernel, y and averages in shared memory?, blocks on a multiprocessor).

    A multiprocessor has 65,536 registers, and a thread needs about thirty beside its elements. Several blocks hide each
    other's waiting: where two fit with their rows, that is fastest; where not, y and the averages move to shared memory
    and, if there is room, φ' of the row with them (`python -m benchmarks gpu tune` measures the alternatives).
    """
    state, row, vector = words[0] + words[1], 4, 4 * size * n_features
    shared = 0 < vector * words[1] <= 220_000 and n_features * state * size > 57_344
    state -= shared * words[1]
    wanted = threads or _threads(n_features, min(104 // (state + row), 12))
    keep = int(not shared and wanted * 40 + n_features * (state + row) * size <= 32_768)
    if not keep:
        wanted = threads or _threads(n_features, min(96 // (state * size), 13))
        each = 28 + -(-n_features // wanted) * (state + row) * size
        keep = int(not shared and each <= 150 and wanted > 256)
    if shared and words[2] == 1 and vector * (words[1] + 1) <= 220_000:
        keep = 2
    per = -(-n_features // wanted)
    registers = min(255, max(72, 28 + per * (state + row * (keep == 1)) * size))
    return wanted, per, keep, shared, max(1, min(16, 65_536 // (wanted * registers)))


def _threads(n_features: int, each: int) -> int:
    return min(1024, 32 * -(-n_features // (32 * max(1, each))))


def _bits(flags: Array) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(flags))


def _mask(needed: Array, job: Job) -> int:
    """Products by block and direction; without a trace vector those with e are multiples of those with φ."""
    wanted = needed.reshape(-1, 3).copy()
    if job.table.lam == 0:
        wanted[:, 0] |= wanted[:, 2]
        wanted[:, 2] = False
    return _bits(wanted.ravel())


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
    return replace(batch, start=start)
