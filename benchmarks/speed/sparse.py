"""RO-TD on sparse rows: flat in d, linear in the non-zeros, how close to what memory allows, exact in a long run.

Times are those of `ROTD.fit`, what a user calls; the solver without the estimator stands beside it as the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from sparsetd import ROTD
from sparsetd.operators import tdc
from sparsetd.penalties import L1
from sparsetd.solvers import PrimalDual
from sparsetd.solvers.lazy import Rows, aligned_zeros
from sparsetd.system import Batch

ALPHA, ETA, GAMMA = 0.01, 0.5, 0.95
NNZ = 32
ZEROED = (
    "0.7 GB of lines and results have to be handed out by the system, zeroed and written once, which takes longer than "
    "the rows do"
)
SEARCHED = (
    "the step at which a coordinate fell to zero is known in closed form for constant steps only; for others it is "
    "looked up in a history that no cache near the core holds"
)


def rho(d: int) -> tuple[float, float]:
    """(ρ_w, ρ_θ): a small part of what a relevant feature correlates with the reward, or all would be 0 at large d."""
    return 0.04 * NNZ / d, 0.1 * NNZ / d


class Stream:
    """Rows of `nnz` ones at random places: the worst case for memory. On a trajectory φ' is the next row."""

    def __init__(self, d: int, n: int, *, nnz: int = NNZ, trajectory: bool = True) -> None:
        rng = np.random.default_rng(0)
        self.d, self.n, self.nnz = d, n, nnz
        self.phi = self._rows(rng, n + 1)
        shifted = Rows(self.phi.values, self.phi.indices, self.phi.indptr[1:])
        self.phi_next = shifted if trajectory else self._rows(rng, n)
        weights = rng.normal(size=d) * (rng.random(d) < 0.01)
        self.reward = weights[self.phi.indices[: n * nnz].reshape(n, nnz)].sum(axis=1) + 0.1 * rng.normal(size=n)

    def _rows(self, rng: np.random.Generator, n: int) -> Rows:
        indices = rng.integers(0, self.d, n * self.nnz, dtype=np.int32)
        return Rows(np.ones(n * self.nnz), indices, np.arange(0, n * self.nnz + 1, self.nnz))

    def matrices(self) -> tuple[sp.csr_array, sp.csr_array]:
        """φ and φ' as a user has them."""
        shape, end = (self.n, self.d), self.n + 1
        first, then = self.phi, self.phi_next
        start, short = then.indptr[0], np.int32  # as SciPy makes them itself
        phi = sp.csr_array((first.values, first.indices, first.indptr[:end].astype(short)), shape, copy=False)
        arrays = then.values[start:], then.indices[start:], (then.indptr[:end] - start).astype(short)
        return phi, sp.csr_array(arrays, shape, copy=False)

    def fit(self, **settings: Any) -> Any:
        """`ROTD.fit` on these rows."""
        rho_w, rho_theta = rho(self.d)
        given = {"step_size": ALPHA, "eta": ETA, "gamma": GAMMA, "rho_w": rho_w, "rho_theta": rho_theta} | settings
        phi, phi_next = self.matrices()
        return lambda: ROTD(**given).fit(phi, self.reward, phi_next)

    def solver(self, *, decaying: bool = False) -> Solver:
        return Solver(self, decaying)


class Solver:
    """The solver of `ROTD` without the estimator around it: the bare kernel, and a state that stays."""

    def __init__(self, stream: Stream, decaying: bool) -> None:
        ones, (rho_w, rho_theta) = np.ones(stream.n), rho(stream.d)
        self.table, self.penalty = tdc(eta=ETA), L1(rho_theta=rho_theta, rho_w=rho_w)
        self.method = PrimalDual((lambda t: 0.1 / np.sqrt(1.0 + t)) if decaying else ALPHA)
        self.batch = Batch(*stream.matrices(), stream.reward, GAMMA * ones, ones, ones == 0.0, ones)
        self.state = self.method.init(self.table, stream.d)

    def __call__(self) -> None:
        self.method.update(self.state, self.batch, self.table, self.penalty)


@njit(nogil=True)
def touch_lines(line, indices, indptr):
    """Read and write one number of every line of φ': what any method that changes these coordinates has to pay."""
    for t in range(len(indptr) - 1):
        for i in range(indptr[t], indptr[t + 1]):
            line[indices[i], 0] += 1.0


def flatness(report: Report, repeats: int, share: float) -> None:
    report.title(f"ROTD.fit, {NNZ} non-zeros per row, l2 ball, constant step (time per transition)")
    rows, cost = [], {}
    for d in (10**4, 10**5, 10**6, 10**7):
        n = int(200_000 * share)
        times: dict[str, float] = {}
        for kind in ("trajectory", "independent"):
            stream = Stream(d, n, trajectory=kind == "trajectory")
            line = aligned_zeros(d, 8)
            pair = [Contender(kind, stream.fit(), n)]
            if kind == "trajectory":
                pair.append(Contender("kernel", stream.solver(), n))
                rows_touched = stream.phi_next.indices, stream.phi_next.indptr
                pair.append(Contender("lines", lambda line=line, rows=rows_touched: touch_lines(line, *rows), n))
            times |= compare(pair, repeats if d < 10**7 else 3)
        cost[d] = times
        ceiling = times["lines"] / times["kernel"]
        shown = [nanoseconds(times[kind]) for kind in ("trajectory", "independent", "kernel", "lines")]
        rows.append([f"{d:,}", *shown, f"{ceiling:.0%}"])
        if d >= 10**6:
            why = "with the average of y a coordinate has a second line, for its generation"
            report.reach(f"sparse, d = {d:,}: share of the random-line ceiling", ceiling, "≥", 0.4, why)
    report.table(
        ["d", "trajectory", "independent rows", "bare kernel, trajectory", "touching the lines only", "share"], rows
    )
    for kind, goal in (("trajectory", 4.0), ("independent", 6.0)):
        ratio = cost[10**7][kind] / cost[10**4][kind]
        report.reach(f"sparse, {kind}: time at d = 10⁷ / 10⁴", ratio, "≤", goal, ZEROED)
    report.reach("sparse, d = 10⁴: fit / kernel", cost[10**4]["trajectory"] / cost[10**4]["kernel"], "≤", 1.25)


def variants(report: Report, repeats: int, share: float) -> None:
    report.title("ROTD.fit at d = 10⁵: what changes the cost")
    n = int(50_000 * share)
    base, rows = Stream(10**5, n), []
    contenders = [Contender("as above", base.fit(), n)]
    contenders.append(Contender("step 0.1/√t", base.fit(step_size=lambda t: 0.1 / np.sqrt(1.0 + t)), n))
    contenders.append(Contender("automatic steps", base.fit(step_size="auto"), n))
    contenders.append(Contender("without a penalty", base.fit(rho_w=0.0, rho_theta=0.0), n))
    contenders.append(
        Contender("without a penalty, automatic", base.fit(rho_w=0.0, rho_theta=0.0, step_size="auto"), n)
    )
    for nnz in (8, 16, 64):
        other = Stream(10**5, n, nnz=nnz)
        contenders.append(Contender(f"{nnz} non-zeros", other.fit(), n))
    times = compare(contenders, repeats)
    for name, value in times.items():
        rows.append([name, nanoseconds(value), f"{value / times['as above']:.2f}"])
    report.table(["", "time per transition", "ratio"], rows)
    report.reach("sparse: step 0.1/√t / constant step", times["step 0.1/√t"] / times["as above"], "≤", 2.0, SEARCHED)


def exactness(report: Report, share: float) -> None:
    """Lazy against a dense loop in compiled code, over millions of steps."""
    report.title("Exactness after a long run (d = 200, 8 non-zeros, largest difference relative to the largest entry)")
    n, rows = int(2_000_000 * share), []
    stream = Stream(200, n, nnz=8)
    for decaying in (False, True):
        run = stream.solver(decaying=decaying)
        run()
        run.state.settle()
        found = run.state.x, run.state.y, run.state.totals.x, run.state.totals.y
        alpha = 0.1 / np.sqrt(1.0 + np.arange(n)) if decaying else np.full(n, ALPHA)
        exact = [np.zeros((2, 200)) for _ in range(4)]
        dense_loop(stream.phi.indices, 8, stream.reward, alpha, rho(200), *exact)
        errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, exact, strict=True)]
        rows.append(["0.1/√t" if decaying else "constant", *(f"{e:.1e}" for e in errors)])
        report.reach(f"sparse, {rows[-1][0]}: error after {n:,} steps", max(errors), "≤", 1e-10)
    report.table(["step", "x", "y", "Σ α x", "Σ α y"], rows)


@njit(nogil=True)
def dense_loop(indices, nnz, reward, alpha, rho, x, y, x_sum, y_sum):
    """RO-TD on rows of ones, coordinate by coordinate."""
    k, d = x.shape
    phi, psi = np.zeros(d), np.zeros(d)
    for t in range(len(reward)):
        a = alpha[t]
        phi[:], psi[:] = 0.0, 0.0
        for i in range(nnz):
            phi[indices[t * nnz + i]] += 1.0
            psi[indices[(t + 1) * nnz + i]] += GAMMA
        pw = pt = qt = p1 = p2 = q2 = 0.0
        for j in range(d):
            pw, pt, qt = pw + phi[j] * x[0, j], pt + phi[j] * x[1, j], qt + psi[j] * x[1, j]
            p1, p2, q2 = p1 + phi[j] * y[0, j], p2 + phi[j] * y[1, j], q2 + psi[j] * y[1, j]
        delta, norm = reward[t] + qt - pt, 0.0
        for j in range(d):
            for b in range(k):
                x_sum[b, j] += a * x[b, j]
                y_sum[b, j] += a * y[b, j]
            w = x[0, j] - a * (ETA * p1 + q2) * phi[j]
            theta = x[1, j] - a * (ETA * p1 + p2) * (phi[j] - psi[j])
            x[0, j] = w - min(max(w, -a * rho[0]), a * rho[0])
            x[1, j] = theta - min(max(theta, -a * rho[1]), a * rho[1])
            y[0, j] += a * ETA * (pw - delta) * phi[j]
            y[1, j] += a * (pw * psi[j] - delta * phi[j])
            norm += y[0, j] ** 2 + y[1, j] ** 2
        if norm > 1.0:
            y /= np.sqrt(norm)


def run(report: Report, repeats: int, share: float) -> None:
    flatness(report, repeats, share)
    variants(report, repeats, share)
    exactness(report, share)
