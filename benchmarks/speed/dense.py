"""Dense RO-TD: the library against a NumPy loop and against a kernel written for this one method; what scales it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from sparsetd.estimators import ROTD, fit_stream
from sparsetd.estimators.fit_stream import _blocks
from sparsetd.operators import tdc
from sparsetd.penalties import L1
from sparsetd.solvers import PrimalDual
from sparsetd.system import Batch

ALPHA, ETA, GAMMA, RHO_W, RHO_THETA = 0.01, 0.5, 0.95, 0.002, 0.005
SETTINGS = 8
SHORT = "the log is short: twelve points of history and the result cost about a millisecond, whatever the rows"
BETWEEN = (
    "what lies between two passes is a table of 6 × 7 numbers instead of six constants, and rows and products are "
    "checked; at d = 100 that is a third of a step"
)
SHARED = "a `fit` reads its rows only once, so there is less to share than the goal supposed"
SIZES = {100: 20_000, 1365: 2_000, 6561: 500}
GOALS = {100: 100.0, 1365: 14.0, 6561: 8.0}
LARGER_GOALS = {100: 120.0, 1365: 16.0, 6561: 8.0}  # with AVX2; with AVX-512 it is 200, 23 and 11


def stream(d: int, n: int, dtype: Any = np.float64) -> Batch:
    rng = np.random.default_rng(0)
    phi = (rng.normal(size=(n + 1, d)) / np.sqrt(d)).astype(dtype)
    ones = np.ones(n)
    return Batch(phi[:-1], phi[1:].copy(), rng.normal(size=n), GAMMA * ones, ones, np.zeros(n, bool), ones)


def library(batch: Batch) -> Any:
    """A call that takes the batch into the state of the library's RO-TD."""
    table, penalty, solver = tdc(eta=ETA), L1(rho_theta=RHO_THETA, rho_w=RHO_W), PrimalDual(step_size=ALPHA)
    state = solver.init(table, batch.n_features, batch.phi.dtype)
    return lambda: solver.update(state, batch, table, penalty)


def public(batch: Batch) -> Any:
    """What a user calls for the same."""
    model = ROTD(gamma=GAMMA, eta=ETA, step_size=ALPHA, rho_theta=RHO_THETA, rho_w=RHO_W, average="all")
    return lambda: model.fit(batch.phi, batch.reward, batch.phi_next)


def numpy_loop(batch: Batch, rows: int) -> Any:
    """The same iteration as one would write it in NumPy, O(d) per step."""
    d = batch.n_features
    x = [np.zeros((2, d)) for _ in range(4)]

    def soft(v: Any, threshold: float) -> Any:
        return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)

    def call() -> None:
        (w, theta), (y1, y2), x_sum, y_sum = x
        for t in range(rows):
            phi, psi, r = batch.phi[t], GAMMA * batch.phi_next[t], batch.reward[t]
            x_sum += ALPHA * np.stack([w, theta])
            y_sum += ALPHA * np.stack([y1, y2])
            delta = r + psi @ theta - phi @ theta
            g_w = ETA * (phi @ y1) * phi + (psi @ y2) * phi
            g_theta = (ETA * (phi @ y1) + phi @ y2) * (phi - psi)
            g1 = ETA * ((phi @ w) - delta) * phi
            g2 = (phi @ w) * psi - delta * phi
            w, theta = soft(w - ALPHA * g_w, ALPHA * RHO_W), soft(theta - ALPHA * g_theta, ALPHA * RHO_THETA)
            y1, y2 = y1 + ALPHA * g1, y2 + ALPHA * g2
            norm = np.sqrt(y1 @ y1 + y2 @ y2)
            if norm > 1.0:
                y1, y2 = y1 / norm, y2 / norm
        x[0], x[1] = np.stack([w, theta]), np.stack([y1, y2])

    return call


@njit(nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def specialised(phi, phi_next, reward, w, th, y1, y2, w_sum, th_sum, y1_sum, y2_sum, alpha, eta, gamma, rho_w, rho_t):
    """RO-TD and nothing else, one pass per row: the fastest kernel that we know how to write by hand."""
    n, d, one = len(reward), len(w), w.dtype.type(1)
    a, scale = w.dtype.type(alpha), one
    tw, tt = w.dtype.type(alpha * rho_w), w.dtype.type(alpha * rho_t)
    pw = pt = qt = p1 = p2 = q2 = w.dtype.type(0)
    for t in range(-1, n):
        cw = ct = c1 = c2f = c2g = gg = w.dtype.type(0)
        before = scale
        if t >= 0:
            g = w.dtype.type(gamma)
            delta = w.dtype.type(reward[t]) + g * qt - pt
            cw = -a * w.dtype.type(eta * p1 + g * q2)
            ct = -a * w.dtype.type(eta * p1 + p2)
            c1 = a * w.dtype.type(eta) * (pw - delta)
            c2f, c2g, gg = -a * delta, a * pw * g, -g * ct
        weight = a if t >= 0 else w.dtype.type(0)
        shrink_w, shrink_t = (tw, tt) if t >= 0 else (w.dtype.type(0), w.dtype.type(0))
        f, h, f2, h2 = phi[max(t, 0)], phi_next[max(t, 0)], phi[min(t + 1, n - 1)], phi_next[min(t + 1, n - 1)]
        pw = pt = qt = p1 = p2 = q2 = norm = w.dtype.type(0)
        for j in range(d):
            fj, hj, f2j, h2j = f[j], h[j], f2[j], h2[j]
            w_sum[j] += weight * w[j]
            v = w[j] + cw * fj
            v -= min(max(v, -shrink_w), shrink_w)
            w[j] = v
            pw += v * f2j
            th_sum[j] += weight * th[j]
            v = th[j] + ct * fj + gg * hj
            v -= min(max(v, -shrink_t), shrink_t)
            th[j] = v
            pt += v * f2j
            qt += v * h2j
            v = before * y1[j]
            y1_sum[j] += weight * v
            v += c1 * fj
            y1[j] = v
            p1 += v * f2j
            norm += v * v
            v = before * y2[j]
            y2_sum[j] += weight * v
            v += c2f * fj + c2g * hj
            y2[j] = v
            p2 += v * f2j
            q2 += v * h2j
            norm += v * v
        scale = one / np.sqrt(norm) if norm > one else one
        p1, p2, q2 = scale * p1, scale * p2, scale * q2
    for j in range(d):
        y1[j] *= scale
        y2[j] *= scale


def by_hand(batch: Batch) -> Any:
    """The same, with its state on cache lines like that of the library."""
    empty = PrimalDual().init(tdc(), batch.n_features, batch.phi.dtype)
    state = (*empty.x, *empty.y, *empty.totals.x, *empty.totals.y)
    constants = (ALPHA, ETA, GAMMA, RHO_W, RHO_THETA)
    return lambda: specialised(batch.phi, batch.phi_next, batch.reward, *state, *constants)


def agreement() -> float:
    """Largest relative difference of θ and of y₂ between the library and the hand-written kernel after 300 rows."""
    batch = stream(50, 300)
    table, penalty, solver = tdc(eta=ETA), L1(rho_theta=RHO_THETA, rho_w=RHO_W), PrimalDual(step_size=ALPHA)
    state = solver.init(table, 50)
    solver.update(state, batch, table, penalty)
    hand = [np.zeros(50) for _ in range(8)]
    specialised(batch.phi, batch.phi_next, batch.reward, *hand, ALPHA, ETA, GAMMA, RHO_W, RHO_THETA)
    pairs = (state.primal[1], hand[1]), (state.dual[1], hand[3])
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def against_numpy(report: Report, repeats: int, share: float) -> None:
    report.title("Dense RO-TD, float64, both averages")
    report.say(f"library and hand-written kernel differ by {agreement():.1e} in θ and y, relatively, after 300 rows\n")
    rows = []
    for d, n in SIZES.items():
        batch, loop = stream(d, int(n * share)), max(20, n // 40)
        times = compare(
            [
                Contender("library", library(batch), len(batch)),
                Contender("by hand", by_hand(batch), len(batch)),
                Contender("NumPy", numpy_loop(batch, loop), loop),
                Contender("fit", public(batch), len(batch)),
            ],
            repeats,
        )
        ratio, generic = times["NumPy"] / times["library"], times["library"] / times["by hand"]
        called = times["NumPy"] / times["fit"]
        shown = [nanoseconds(times[k]) for k in times]
        rows.append([f"{d:,}", *shown, f"{ratio:.1f}", f"{called:.1f}", f"{generic:.2f}"])
        report.reach(f"dense, d = {d}: NumPy loop / kernel", ratio, "≥", LARGER_GOALS[d])
        report.reach(f"dense, d = {d}: NumPy loop / `ROTD.fit`", called, "≥", GOALS[d], SHORT)
        report.reach(f"dense, d = {d}: generic table / hand-written kernel", generic, "≤", 1.25, BETWEEN)
    ratios = ["NumPy / library", "NumPy / `ROTD.fit`", "library / by hand"]
    report.table(["d", "library", "by hand", "NumPy loop", "`ROTD.fit`", *ratios], rows)


def precision(report: Report, repeats: int, share: float) -> None:
    report.title("Dense RO-TD, float32 against float64")
    rows = []
    for d in (1365, 6561):
        n = int(SIZES[d] * share)
        times = compare(
            [Contender(str(np.dtype(t)), library(stream(d, n, t)), n) for t in (np.float32, np.float64)], repeats
        )
        ratio = times["float64"] / times["float32"]
        rows.append([f"{d:,}", *(nanoseconds(times[k]) for k in times), f"{ratio:.2f}"])
        report.reach(f"dense, d = {d}: float64 / float32", ratio, "≥", 1.8)
    report.table(["d", "float32", "float64", "ratio"], rows)


def together(report: Report, repeats: int, share: float) -> None:
    """K settings of ρ_θ, one fit after the other against one pass over the rows."""
    report.title(f"{SETTINGS} settings: separate `fit`s against one `fit_stream` (per row and setting)")
    rows = []
    for d in (1365, 6561):
        batch = stream(d, int(1.5 * SIZES[d] * share))
        log = {"X": batch.phi, "y": batch.reward, "X_next": batch.phi_next}

        def separately(log: Any = log) -> None:
            for model in settings():
                model.fit(**log)

        n = SETTINGS * len(batch)
        contenders = [
            Contender("separate", separately, n),
            Contender("together", lambda log=log: fit_stream(settings(), [log]), n),
            Contender("separate, kernel alone", in_turns(batch, [slice(None)]), n),
            Contender("together, kernel alone", in_turns(batch, _blocks(batch)), n),
        ]
        times = compare(contenders, repeats)
        ratios = [times[f"separate{part}"] / times[f"together{part}"] for part in ("", ", kernel alone")]
        shown = [nanoseconds(time) for time in times.values()]
        rows.append([f"{d:,}", *shown[:2], f"{ratios[0]:.2f}", *shown[2:], f"{ratios[1]:.2f}"])
        report.reach(f"dense, d = {d}: {SETTINGS} settings in one pass / separately", ratios[0], "≥", 1.25, SHARED)
    report.table(["d", "fits", "fit_stream", "ratio", "kernel: log by log", "kernel: block by block", "ratio"], rows)


def settings() -> list[ROTD]:
    rhos = 1e-5 * np.arange(1, SETTINGS + 1)  # some features stay
    return [ROTD(gamma=GAMMA, eta=ETA, step_size=ALPHA, rho_theta=rho, rho_w=RHO_W, average="all") for rho in rhos]


def in_turns(batch: Batch, blocks: list[slice]) -> Any:
    """A call in which every setting takes a block of rows before the next block."""
    table, penalty, solver = tdc(eta=ETA), L1(rho_theta=RHO_THETA, rho_w=RHO_W), PrimalDual(step_size=ALPHA)
    states = [solver.init(table, batch.n_features) for _ in range(SETTINGS)]
    parts = [batch[block] for block in blocks]

    def call() -> None:
        for part in parts:
            for state in states:
                solver.update(state, part, table, penalty)

    return call


def two_threads(report: Report, repeats: int, share: float) -> None:
    """Wall time: the only figure that needs two idle cores, so the shortest of many short runs.

    The CPU time of a thread tells the two ways to fall short apart: it grows if the threads wait for memory together,
    and does not if there was no core for the second.
    """
    report.title("Two settings over the same rows: one thread against two (wall time)")
    batch = stream(1365, int(4_000 * share))
    calls, runs = [library(batch) for _ in range(2)], 4 * repeats
    alone, both = zip(*([together_in(threads, calls) for threads in (1, 2)] for _ in range(runs)), strict=True)
    ratio = min(wall for wall, _ in alone) / min(wall for wall, _ in both)
    work = min(cpu for _, cpu in both) / min(cpu for _, cpu in alone)
    report.say(f"shortest of {runs} runs each: {ratio:.2f} times faster (other work on the machine shows here)")
    report.say(f"CPU time of both, two threads against one: {work:.2f}")
    report.reach("two nogil threads over two settings", ratio, "≥", 1.8, "both cores have to be idle otherwise")


def together_in(threads: int, calls: list[Any]) -> tuple[float, float]:
    """Seconds of wall and of CPU that the calls take in so many threads."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: None, calls))  # the threads are there
        begun = time.perf_counter(), time.process_time()
        list(pool.map(lambda call: call(), calls))
        return time.perf_counter() - begun[0], time.process_time() - begun[1]


def run(report: Report, repeats: int, share: float) -> None:
    against_numpy(report, repeats, share)
    precision(report, repeats, share)
    together(report, repeats, share)
    two_threads(report, repeats, share)
