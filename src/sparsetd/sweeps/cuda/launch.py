"""Compile for a group of jobs, launch, and bring the weights back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from sparsetd._tools.memory import require
from sparsetd.sweeps.cuda.job import Inputs, Job, Shape, shape_of
from sparsetd.system import Array

LARGEST = 16_384  # features of one block of actions
SPARE = 0.9  # share of the device's free memory that a launch may take


def stream(
    jobs: Sequence[Job],
    inputs: Inputs,
    points: Sequence[int],
    dtype: Any = np.float32,
    *,
    threads: int | None = None,
    state: tuple[Any, Any] | None = None,
) -> tuple[Array, Array]:
    """θ as reported after `points` rows, (runs, points, actions·d), and the rows taken before a run diverged.

    All jobs must be of one `kind`. With arrays of CuPy in `inputs` the weights stay on the device. `state`, the vectors
    (runs, 2k + 3, actions, width) and the 13 scalars of every run on the device, is advanced in place, so that the next
    call goes on where this one ended.
    """
    d = int(inputs.phi.shape[2])
    if d > LARGEST:
        raise ValueError(f"the GPU keeps at most {LARGEST} features in registers, not {d}: use backend='cores'")
    shape = shape_of(list(jobs), d, inputs.actions, dtype, inputs.origin is not None, threads)
    limit = 1e100 if shape.constants["REAL"] == "double" else 1e30
    tables = np.stack([job.numbers(inputs.actions * d, limit) for job in jobs])
    return launch(shape, tables, inputs, list(points), jobs[0].passes, state)


def launch(
    shape: Shape, tables: Array, inputs: Inputs, points: list[int], passes: int, state: tuple[Any, Any] | None
) -> tuple[Any, Any]:
    cp = cupy()
    real = cp.float64 if shape.constants["REAL"] == "double" else cp.float32
    d, n, runs = inputs.phi.shape[2], inputs.n_rows, len(inputs.job)
    _check_room(cp, shape, inputs, len(points), np.dtype(real).itemsize)
    action = cp.zeros(1, cp.int32) if inputs.action is None else _numbers(cp, inputs.action, cp.int32)
    gram = cp.zeros(3) if shape.job.rule == "fixed" else _numbers(cp, inputs.gram(cp.get_array_module(inputs.phi)))
    origin, many = cp.zeros(1, real), 0
    if inputs.origin is not None:
        origin = _padded(cp, cp.asarray(inputs.origin).reshape(-1, inputs.actions, d), shape.width, real)
        many = len(origin)
    found = cp.full((runs, len(points), inputs.actions, shape.width), cp.nan, real)
    taken = cp.zeros(runs, cp.int32)
    where = [_numbers(cp, v, cp.int32) for v in (inputs.job, inputs.data, inputs.trace, inputs.policy, points)]
    kind = real if shape.job.rule == "fixed" else cp.float64  # of the kernel's scalars
    columns = [_numbers(cp, v, kind) for v in (inputs.fresh, inputs.old, inputs.ahead)]
    moving = (
        _padded(cp, inputs.phi, shape.width, real),
        _padded(cp, inputs.phi_next, shape.width, real),
        _numbers(cp, inputs.reward, kind),
        action,
        gram,
        *columns,
        _numbers(cp, tables),
        origin,
        *where,
    )
    numbers = (np.int32(n), np.int32(passes), np.int32(len(points)), np.int32(many))
    arguments = (*moving, *numbers, found, taken, *(state or (np.intp(0), np.intp(0))))
    kernel, room = compiled("stream", shape.defines()), shape.apart * np.dtype(real).itemsize
    kernel.max_dynamic_shared_size_bytes = room
    kernel((runs,), (shape.constants["THREADS"],), arguments, shared_mem=room)
    weights = found[..., :d].reshape(runs, len(points), -1)
    if isinstance(inputs.phi, np.ndarray):
        return cp.asnumpy(weights), cp.asnumpy(taken)
    return weights, taken


def source(name: str = "stream", package: str = "sparsetd.sweeps.cuda") -> str:
    """The CUDA text `name`.cu of a package."""
    return files(package).joinpath(f"{name}.cu").read_text()


@cache
def compiled(name: str, defines: str, package: str = "sparsetd.sweeps.cuda") -> Any:
    """The compiled function of one shape; CuPy keeps it on disk for the next process."""
    return cupy().RawModule(code=defines + source(name, package), options=("--std=c++17",)).get_function(name)


def cupy() -> Any:
    """CuPy, if it is installed and finds a device; otherwise an error in one sentence."""
    try:
        import cupy as cp
    except ImportError:
        raise ImportError(
            'backend="cuda" needs CuPy: pip install cupy-cuda12x (or cupy-cuda13x); cores need nothing'
        ) from None
    try:
        cp.cuda.runtime.getDeviceCount()
    except cp.cuda.runtime.CUDARuntimeError:
        raise RuntimeError("backend='cuda' found no NVIDIA GPU on this machine: use backend='cores'") from None
    return cp


def _check_room(cp: Any, shape: Shape, inputs: Inputs, points: int, size: int) -> None:
    sets, n, d = inputs.phi.shape
    wanted = size * shape.width * (2 * sets * n + len(inputs.job) * points * inputs.actions)
    wanted += size * d * sets * n * (0 if shape.job.rule == "fixed" else 6)
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    remedy = "run fewer settings, seeds or curve points at once, or use backend='cores'"
    require(wanted, "what the GPU would hold", remedy, SPARE * free)


def _numbers(cp: Any, values: Any, kind: Any = np.float64) -> Any:
    return cp.ascontiguousarray(cp.asarray(values), dtype=kind)


def _padded(cp: Any, array: Any, width: int, real: Any) -> Any:
    out = cp.zeros((*array.shape[:-1], width), real)
    out[..., : array.shape[-1]] = cp.asarray(array)
    return out
