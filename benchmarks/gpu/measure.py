"""The GPU backend on a real device: `python -m benchmarks gpu` from the root of the repository.

    python -m benchmarks gpu agreement         every operator, penalty, ball, rule and average against the CPU solvers
    python -m benchmarks gpu speed             setting-steps per second, against a kernel for RO-TD alone and JAX
    python -m benchmarks gpu control           policy iteration on mountain car, steps per second
    python -m benchmarks gpu tune              the same for other divisions of the work into threads

It needs CuPy and an NVIDIA GPU; JAX is left out where it is missing. Times are medians of five launches, after one.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd import operators
from sparsetd.sweeps.cuda import Inputs, Job, inputs_of, job, stream
from sparsetd.sweeps.cuda.launch import source

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))


def say(*words: Any) -> None:
    print(*words, flush=True)


# --- agreement ------------------------------------------------------------------------------------------------------


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(min(16, os.cpu_count() or 1), multiprocessing.get_context("spawn"))


BOUNDS = {"float64": 1e-9, "float32": 1e-3}


def agreement() -> None:
    """Worst relative difference of θ by estimator and precision; one process a core, since compiling is slow."""
    from gpu.cases import estimators

    cases = [(i, dtype) for dtype in BOUNDS for i in range(len(estimators()))]
    worst, failed = dict[tuple[str, str], float](), 0
    with processes() as pool:
        for name, dtype, error, agrees, told in pool.map(agrees_on, cases):
            worst[name, dtype] = max(worst.get((name, dtype), 0.0), error)
            failed += not agrees
            if not agrees:
                say("DISAGREES", told, dtype, error)
    for (name, dtype), error in sorted(worst.items()):
        say(f"agreement {name:10s} {dtype} {error:.1e}")
    say(f"agreement: {failed} of {len(cases)} cases beyond 1e-9 (float64) or 1e-3 (float32)")


def agrees_on(case: tuple[int, str]) -> tuple[str, str, float, bool, str]:
    from gpu.cases import estimators, rows
    from sparsetd.sweeps.gpu import job_of

    model, dtype, batch = estimators()[case[0]], np.dtype(case[1]), rows()
    made = job_of(model)
    points = [9, len(batch) * made.passes]
    found, taken = stream([made], inputs_of([made], [batch], dtype, model.coef_init), points, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
        model.fit(batch.phi.astype(dtype), batch.reward, batch.phi_next.astype(dtype), **columns)
    error = float(np.abs(found[0, -1] - model.coef_).max() / np.abs(model.coef_).max())
    same = abs(int(taken[0]) - model.n_iter_) <= (dtype == np.float32)
    lost = model.status_ == "diverged" and dtype == np.float32  # what is left is rounding
    return (
        type(model).__name__,
        dtype.name,
        0.0 if lost else error,
        same and (lost or error < BOUNDS[dtype.name]),
        str(model),
    )


def compiled(sources: list[str]) -> None:
    """Put the compiled code of all sources into CuPy's cache on disk, a process for every core."""
    with processes() as pool:
        list(pool.map(compile_one, sources))


def compile_one(source: str) -> None:
    import contextlib

    import cupy as cp

    with contextlib.suppress(Exception):  # what does not compile says so when it is used
        cp.RawModule(code=source, options=("--std=c++17",)).get_function("stream")


# --- speed ----------------------------------------------------------------------------------------------------------


def problem(d: int, n: int, runs: int, dtype: Any) -> tuple[list[Job], Inputs]:
    """RO-TD with as many settings as runs, on one random log that lives on the device."""
    import cupy as cp

    rng = np.random.default_rng(0)
    phi = rng.normal(size=(1, n + 1, d)) / np.sqrt(d)
    alphas, rhos = np.geomspace(1e-3, 1e-1, runs), np.geomspace(1e-5, 1e-2, runs)
    jobs = [
        Job(operators.tdc(1.0 + k % 7), dual="l2", step=(a, 1.0, 0.0), l1=np.array([r, 2 * r]), average="all")
        for k, (a, r) in enumerate(zip(alphas, rhos, strict=True))
    ]
    zeros, index = np.zeros(runs, np.int32), np.arange(runs, dtype=np.int32)
    columns = (rng.normal(size=(1, n)), np.full((1, n, 1), 0.95), np.ones((1, n)), np.zeros((1, n)))
    rows = [cp.asarray(v, dtype) for v in (phi[:, :-1], phi[:, 1:])]
    return jobs, Inputs(*rows, *map(cp.asarray, columns), *map(cp.asarray, (index, zeros, zeros, zeros)))


def seconds(call: Any, repeats: int = 5) -> float:
    import cupy as cp

    call()
    cp.cuda.Device().synchronize()
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        cp.cuda.Device().synchronize()
        took.append(time.perf_counter() - began)
    return float(np.median(took))


def rate(d: int, n: int, runs: int, dtype: Any, threads: int | None = None) -> float:
    """Million setting-steps a second, everything but the first copy of the log included."""
    jobs, inputs = problem(d, n, runs, dtype)
    numbers = launched(jobs, inputs, n, dtype, threads)
    return runs * n / seconds(numbers) / 1e6


def launched(jobs: list[Job], inputs: Inputs, n: int, dtype: Any, threads: int | None) -> Any:
    """A call of the kernel whose constants are ready: thousands of small tables take Python longer than the GPU."""
    import importlib

    module = importlib.import_module("sparsetd.sweeps.cuda.launch")
    shape = job.shape_of(jobs, inputs.phi.shape[2], 1, dtype, False, threads)
    limit = 1e100 if shape.constants["REAL"] == "double" else 1e30
    tables = np.stack([j.numbers(inputs.phi.shape[2], limit) for j in jobs])
    return lambda: module.launch(shape, tables, inputs, [n], 1, None)


SIZES = ((128, 3000, 8192), (1365, 3000, 4096), (6561, 1000, 1056))


def speed() -> None:
    for (d, n, runs), dtype in itertools.product(SIZES, (np.float32, np.float64)):
        say(f"speed d={d} K={runs} {np.dtype(dtype).name}: {rate(d, n, runs, dtype):.1f} M setting-steps/s")
    by_hand()
    random_walk()
    try:
        jax()
    except ImportError:
        say("jax is not installed here")


def by_hand() -> None:
    """The generic table against RO-TD alone, with the same threads; the results are compared too."""
    import cupy as cp

    d, n, runs = 1365, 3000, 4096
    jobs, inputs = problem(d, n, runs, np.float32)
    shape = job.shape_of(jobs, d, 1, np.float32, False)
    source = (HERE / "rotd.cu").read_text()
    best = (np.inf, "")
    for threads, resident in (
        (shape.constants["THREADS"], shape.constants["RESIDENT"]),
        (128, 3),
        (128, 4),
        (160, 3),
        (192, 3),
        (256, 2),
        (256, 3),
    ):
        per = -(-d // threads)
        defines = f"#define THREADS {threads}\n#define PER {per}\n#define RESIDENT {resident}\n"
        kernel = cp.RawModule(code=defines + source, options=("--std=c++17",)).get_function("rotd")
        rows = [cp.zeros((n, threads * per), np.float32) for _ in range(2)]
        for row, given in zip(rows, (inputs.phi, inputs.phi_next), strict=True):
            row[:, :d] = given[0]
        columns = [cp.asarray(v.ravel(), np.float32) for v in (inputs.reward, inputs.ahead, inputs.fresh)]
        numbers = [
            [j.step[0] for j in jobs],
            [j.table.M[0, 0] for j in jobs],
            [j.l1[1] for j in jobs],
            [j.l1[0] for j in jobs],
        ]
        found = cp.zeros((runs, threads * per), np.float32)
        arguments = (*rows, *columns, *(cp.asarray(v, np.float32) for v in numbers), np.int32(n), found)
        took = seconds(lambda k=kernel, t=threads, a=arguments: k((runs,), (t,), a))
        say(f"by hand: {threads} threads, {resident} resident: {runs * n / took / 1e6:.1f} M/s")
        best = min(best, (took, f"{threads}/{resident}"))
    generic = launched(jobs, inputs, n, np.float32, None)
    theta = generic()[0][:, 0]
    gap = float(cp.abs(theta - found[:, :d]).max() / cp.abs(theta).max())
    took = seconds(generic)
    say(f"by hand: generic / best by hand = {took / best[0]:.3f} (goal ≤ 1.15); θ differs by {gap:.1e}")


def random_walk() -> None:
    """4,096 settings with 30 seeds on the random walk, from nothing to all errors."""
    from sparsetd.problems import random_walk as walk

    began = time.perf_counter()
    mdp = walk()
    batches = [mdp.trajectory(1000, np.random.default_rng(seed)) for seed in range(30)]
    jobs = [
        Job(operators.tdc(eta), step=(a, 1.0, 0.0))
        for a, eta in itertools.product(np.geomspace(1e-4, 1, 64), np.geomspace(0.01, 16, 64))
    ]
    inputs = inputs_of(jobs, batches, np.float32)
    theta, _ = stream(jobs, inputs, list(range(100, 1001, 100)), np.float32)
    gap = mdp.b - theta @ mdp.A.T
    error = np.sqrt(np.einsum("rpi,ij,rpj->rp", gap, np.linalg.pinv(mdp.C), gap))
    took = time.perf_counter() - began
    best = np.nanmin(error[:, -1])
    say(f"random walk: {len(error):,} runs of 1,000 rows in {took:.2f} s (goal < 10); best error {best:.4f}")


def jax() -> None:
    """The same iteration in JAX: scan over rows, vmap over settings."""
    import jax
    import jax.numpy as jnp

    for d, n, runs in ((1365, 300, 4096), (6561, 100, 1056)):
        rng = np.random.default_rng(0)
        phi = jnp.asarray(rng.normal(size=(n + 1, d)) / np.sqrt(d), jnp.float32)
        reward = jnp.asarray(rng.normal(size=n), jnp.float32)

        def one(alpha: Any, rho: Any, phi: Any = phi, reward: Any = reward, d: int = d) -> Any:
            def step(carry: Any, row: Any) -> Any:
                w, theta, y1, y2, total = carry
                f, g, r = row
                c, soft = 0.95, lambda v, t: v - jnp.clip(v, -t, t)
                delta, wf = r + c * g @ theta - f @ theta, f @ w
                new_w = soft(w - alpha * (f * (y1 @ f) + f * (c * g @ y2)), alpha * 2 * rho)
                new_theta = soft(theta - alpha * (f - c * g) * ((y1 + y2) @ f), alpha * rho)
                y1, y2 = y1 + alpha * (wf - delta) * f, y2 + alpha * (c * wf * g - delta * f)
                norm = jnp.maximum(1.0, jnp.sqrt(y1 @ y1 + y2 @ y2))
                return (new_w, new_theta, y1 / norm, y2 / norm, total + alpha * theta), None

            zero = jnp.zeros(d, jnp.float32)
            return jax.lax.scan(step, (zero,) * 5, (phi[:-1], phi[1:], reward))[0][4]

        settings = jnp.geomspace(1e-3, 1e-1, runs), jnp.geomspace(1e-5, 1e-2, runs)
        run = jax.jit(jax.vmap(one))
        run(*settings).block_until_ready()
        took = []
        for _ in range(3):
            began = time.perf_counter()
            run(*settings).block_until_ready()
            took.append(time.perf_counter() - began)
        say(f"jax d={d} K={runs}: {runs * n / np.median(took) / 1e6:.1f} M setting-steps/s")


CHOICES = {  # threads, how rows are kept, y and averages in shared memory, blocks resident
    SIZES[0]: [(32, 1, 0, 16), (64, 1, 0, 8), (64, 1, 0, 12), (128, 1, 0, 6)],
    SIZES[1]: [(128, 1, 0, 3), (128, 1, 0, 4), (192, 1, 0, 2), (128, 0, 1, 5), (128, 1, 1, 5), (192, 1, 1, 4)],
    (1365, 3000, 2048): [
        (128, 1, 0, 2),
        (192, 1, 0, 1),
        (352, 1, 0, 1),
        (192, 1, 1, 2),
        (128, 0, 1, 4),
        (192, 0, 1, 3),
    ],
    SIZES[2]: [
        *((512, 1, 0, 1), (512, 0, 1, 2), (480, 0, 1, 2), (416, 0, 1, 2), (640, 1, 1, 1), (608, 1, 1, 1)),
        *((416, 1, 1, 1), (832, 0, 1, 1), (1024, 0, 1, 1)),
    ],
    (6561, 1000, 528): [*((t, 2, 1, 1) for t in (384, 448, 512, 608)), *((t, 0, 1, 1) for t in (384, 512, 736))],
}


def tune() -> None:
    """Other divisions of the work; half as many runs stand for float64."""
    plain = job._divide
    kinds = {size: np.float64 if size[2] in (528, 2048) else np.float32 for size in CHOICES}
    given = {size: problem(*size, kinds[size]) for size in CHOICES}
    made = [(size, choice, given[size]) for size in CHOICES for choice in CHOICES[size]]

    def chosen(size: Any, choice: Any) -> None:
        (d, _, _), (t, k, s, r) = size, choice
        job._divide = lambda *_: (t, -(-d // t), k, bool(s), r)

    sources = []
    for size, choice, (jobs, _) in made:
        chosen(size, choice)
        sources.append(job.shape_of(jobs, size[0], 1, kinds[size], False).defines() + source())
    compiled(sources)
    for size, choice, (jobs, inputs) in made:
        chosen(size, choice)
        (d, n, runs), (t, k, s, r) = size, choice
        told = f"tune {np.dtype(kinds[size]).name} d={d} threads={t} keep={k} shared={s} resident={r}"
        try:
            say(f"{told}: {runs * n / seconds(launched(jobs, inputs, n, kinds[size], None), 3) / 1e6:.1f} M/s")
        except Exception as trouble:  # a division that does not fit is an answer too
            say(f"{told}: {type(trouble).__name__}")
    job._divide = plain


def control() -> None:
    """Policy iteration on mountain car: RO-TD, TDC and TD with 4,095 weights, three action blocks of 1,365."""
    import cupy as cp

    from reproduction import mountain_car_world as car
    from reproduction.cuda import mountain_car

    logs = [car.collect(np.random.default_rng(k), 15, 200) for k in range(4)]
    data = mountain_car.samples(cp, logs, [1.0] * 4, [False] * 4, ["step"] * 4)
    runs = 4 * 132
    for name, made in {
        "RO-TD": Job(operators.tdc(1.0), dual="l2", step=(0.001, 1.0, 0.0), l1=np.array([0.2, 0.01]), average="all"),
        "TDC": Job(operators.tdc(1.0), step=(0.001, 1.0, 0.0)),
        "TD": Job(operators.td(), step=(0.001, 1.0, 0.0)),
    }.items():
        plain = job._divide
        for threads in (None, 256, 352, 480, 704):
            if threads:
                job._divide = lambda d, w, s, _, t=threads, plain=plain: plain(d, w, s, t)
            go = lambda made=made: mountain_car.policy_iteration(  # noqa: E731
                [made], np.zeros(runs, int), data, np.full(runs, 0.95), n_iter=2, warm=False
            )
            try:
                took = seconds(go, 1)
                say(f"control {name} threads={threads}: {runs * 6000 / took / 1e6:.1f} M steps of 4,095 weights/s")
            except Exception as trouble:
                say(f"control {name} threads={threads}: {type(trouble).__name__}")
            job._divide = plain


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"agreement": agreement, "speed": speed, "tune": tune, "control": control}
    parser.add_argument("parts", nargs="+", choices=parts)
    for part in parser.parse_args().parts:
        parts[part]()
