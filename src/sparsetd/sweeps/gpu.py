"""The "cuda" backend: settings become jobs of the GPU kernel, many settings and seeds in one launch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from sparsetd.solvers import PowerDecay
from sparsetd.solvers.stream import Streaming
from sparsetd.sweeps.cuda import Job, inputs_of, stream
from sparsetd.sweeps.results import Row
from sparsetd.sweeps.tasks import Prediction, Setting, labelled, pieces
from sparsetd.system import Array

RUNS = 2**16  # in one launch: enough to fill any device
WEIGHTS = 2**30  # numbers that one launch may bring back


def job_of(model: Any) -> Job:
    """The estimator as numbers, or an error that says what the GPU cannot do."""
    table, penalty, solver = model.triple()
    has_kernel = isinstance(solver, Streaming) and solver.family != "coins" and not solver.dual_damping
    if not has_kernel:
        raise _cannot(model, f"the solver {type(solver).__name__}")
    averaging, by_hand = solver.family == "averaging", solver.step_size is not None
    trial, bounded = averaging or solver.extragradient, bool(np.isfinite(solver.radius))
    shrinkage = penalty.shrinkage(table.n_blocks)
    cannot = {
        f"the penalty {type(penalty).__name__}, which is not separable": shrinkage is None,
        "fit_norm='inf', whose dual ball is that of the l1 norm": solver.fit_norm == "inf",
        "a mirror map with p other than 2": solver.p != 2.0,
        "the counts of zeros that RDATD reports": averaging and solver.sparse,
        "an intercept or unpenalised features": model.fit_intercept or len(model.unpenalized),
        "a radius together with automatic or extragradient steps": bounded and (trial or not by_hand),
    }
    for what, holds in cannot.items():
        if holds:
            raise _cannot(model, what)
    l1, l2 = shrinkage
    rule: Any = "averaging" if averaging else "fixed" if by_hand else "distance"
    ball: Any = {1: "box", 2: "l2"}.get(solver.fit_norm, "none")
    constants = {"step": _step(model, solver)} if by_hand else {"start": solver.start, "cap": solver.cap}
    return Job(
        table, rule, ball, trial, l1=l1, l2=l2, average=solver.average, radius=solver.radius,
        passes=int(getattr(model, "n_passes", 1)), **constants,
    )  # fmt: skip


def _step(model: Any, solver: Any) -> tuple[float, float, float]:
    step = solver.step_size
    if isinstance(step, PowerDecay):
        return float(step.scale), float(step.horizon), float(step.power)
    if callable(step):
        raise _cannot(model, "a step_size that is a function of your own (a number or PowerDecay is fine)")
    return float(step), 1.0, 0.0


def _cannot(model: Any, what: str) -> ValueError:
    return ValueError(f"backend='cuda' cannot run {type(model).__name__} with {what}: use backend='cores'")


def run_pieces(
    task: Any, settings: list[Setting], pieces_of: list[tuple[int, list[int]]], todo: list[int], dtype: str
) -> Iterator[tuple[int, list[Row]]]:
    """The pieces one after the other, as many in one launch as the device takes."""
    if not isinstance(task, Prediction) or len(task.errors) != 1:
        raise ValueError(
            "backend='cuda' measures predictions by one named metric: use backend='cores' for anything else"
        )
    jobs = [job_of(task.learner(s)) for s in settings]
    weights = task.source.n_features * max(task.curve, 1) * task.together
    at_once = max(1, min(RUNS // task.together, WEIGHTS // weights))
    for first in range(0, len(todo), at_once):
        together = todo[first : first + at_once]
        found = _launch(task, jobs, [pieces_of[i] for i in together], dtype)
        for i in together:
            seed, which = pieces_of[i]
            yield i, labelled([settings[k] for k in which], seed, [found[seed, k] for k in which])


def _launch(
    task: Prediction, jobs: list[Job], parts: list[tuple[int, list[int]]], dtype: str
) -> dict[tuple[int, int], Row]:
    """Every wanted (seed, setting), one launch for each kind of job."""
    out: dict[tuple[int, int], Row] = {}
    seeds = sorted({seed for seed, _ in parts})
    wanted = sorted({k for _, which in parts for k in which}, key=lambda k: (repr(jobs[k].kind), k))
    batches = [task.data(seed) for seed in seeds]
    for _, group in groupby(wanted, lambda k: repr(jobs[k].kind)):
        members = list(group)
        chosen = [jobs[k] for k in members]
        cuts = pieces(len(batches[0]), chosen[0].passes, max(task.curve, 1))  # as `Prediction.run` measures
        points = np.cumsum([rows.stop - rows.start for rows, _ in cuts]).tolist()
        inputs = inputs_of(chosen, batches, np.dtype(dtype), task.initial)
        theta, taken = stream(chosen, inputs, points, np.dtype(dtype))
        rows = _rows(task, np.asarray(theta, dtype=np.float64), taken, points[-1])
        out |= {(seed, k): rows[i * len(members) + j] for i, seed in enumerate(seeds) for j, k in enumerate(members)}
    return out


def _rows(task: Prediction, theta: Array, taken: Array, all_rows: int) -> list[Row]:
    runs, points, d = theta.shape
    (name,), flat = task.metrics, theta.reshape(-1, d)
    curves = task.errors[name](flat).reshape(runs, points)
    status = np.where(taken < all_rows, "diverged", "finished")
    curve = [c.tolist() if task.curve else [] for c in curves]
    return [
        {name: float(c[-1]), "status": str(s), "transitions": all_rows, "curve": v}
        for c, s, v in zip(curves, status, curve, strict=True)
    ]
