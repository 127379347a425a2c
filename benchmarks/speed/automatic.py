"""What automatic steps cost over steps by hand, and what `fit` and `partial_fit` cost over their kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.speed.measure import Contender, Report, compare
from benchmarks.speed.sparse import NNZ
from sparsetd import ROTD, TDC
from sparsetd.system import Batch

MODELS: dict[str, Any] = {  # with the same averages, whichever way the step is set
    "TDC": lambda **step: TDC(average="suffix", **step),
    "ROTD": ROTD,
    "ROTD with l1": lambda **step: ROTD(rho_theta=1e-3, rho_w=1e-3, **step),
}
SIZES = {"dense": (10, 100, 1000, 6561), "CSR": (10**4, 10**5, 10**6)}
PAID = {"dense": (100, 1365), "CSR": (10**4, 10**5)}
AROUND = "`fit` also checks its input, makes the state and writes down the history and the result"
NUMBERS = 12_000_000  # of a dense log


def rows(kind: str, d: int, share: float) -> Batch:
    """A trajectory: rows of ones at random places, or of Gaussian numbers and about unit length."""
    rng, n = np.random.default_rng(0), int((100_000 if kind == "CSR" else max(NUMBERS // d, 300)) * share)
    if kind == "dense":
        phi = rng.normal(size=(n + 1, d)) / np.sqrt(d)
        return _batch(phi[:n], phi[1:].copy(), rng)
    indices = rng.integers(0, d, (n + 1) * NNZ, dtype=np.int32)
    pointers = np.arange(0, len(indices) + 1, NNZ, dtype=np.int32)
    X = sp.csr_array((np.ones(len(indices)), indices, pointers), shape=(n + 1, d))
    return _batch(X[:n], X[1:], rng)


def _batch(phi: Any, phi_next: Any, rng: np.random.Generator) -> Batch:
    ones = np.ones(phi.shape[0])
    return Batch(phi, phi_next, rng.normal(size=len(ones)), 0.95 * ones, ones, ones == 0, ones)


def kernel(model: Any, batch: Batch) -> Callable[[], Any]:
    """The solver's own loop: neither the checks of `fit` nor its state and result, which cost O(d) once."""
    table, penalty, solver = model.triple()
    state = solver.init(table, batch.n_features, np.float64)
    return lambda: solver.update(state, batch, table, penalty)


def run(report: Report, repeats: int, share: float) -> None:
    report.title(f"Automatic steps against steps by hand, the same averages ({NNZ} non-zeros per CSR row)")
    cells = []
    for kind, sizes in SIZES.items():
        for d in sizes:
            batch = rows(kind, d, share)
            for name, model in MODELS.items():
                both = {"auto": model(), "hand": model(step_size=0.01)}
                cost = compare([Contender(k, kernel(m, batch), len(batch)) for k, m in both.items()], repeats)
                ratio = cost["auto"] / cost["hand"]
                cells.append([name, kind, f"{d:,}", *(f"{1e9 * c:,.0f} ns" for c in cost.values()), f"{ratio:.2f}"])
                goal, why = _goal(name, kind, d), _limit(name, kind, d)
                report.reach(f"{name}, {kind}, d = {d:,}: automatic / by hand", ratio, "≤", goal, why)
    report.table(["", "rows", "d", "automatic", "by hand", "ratio"], cells)
    _public(report, repeats, share)


def _goal(name: str, kind: str, d: int) -> float:
    if "l1" in name:
        return 2.0
    return 1.2 if kind == "CSR" else 1.5 if d >= 1000 else 2.7


def _limit(name: str, kind: str, d: int) -> str:
    """What an automatic step cannot do without, where that is most of its price."""
    if "l1" in name and kind == "CSR":
        return "a step forms the point of every coordinate of the row three times, by hand only once"
    if kind == "CSR":
        return "φᵀφ' of a row needs two more visits of its entries, half of what a step by hand needs at all"
    return "the scalars of an automatic step take about 120 ns a row, whatever d" if d <= 100 else ""


def _public(report: Report, repeats: int, share: float) -> None:
    report.title("The public API against its kernel (ROTD, step by hand)")
    cells, goals = [], {"fit": 1.25, "partial_fit": 1.25, "fit without X_next": 1.4}
    for kind, sizes in PAID.items():
        for d in sizes:
            batch, model = rows(kind, d, share), ROTD(step_size=0.01)
            log = {"X": batch.phi, "y": batch.reward, "discount": batch.discount}
            calls = {
                "kernel": kernel(model, batch),
                "fit": lambda m=model, log=log, b=batch: m.fit(**log, X_next=b.phi_next),
                "partial_fit": lambda log=log, b=batch: ROTD(step_size=0.01).partial_fit(**log, X_next=b.phi_next),
                "fit without X_next": lambda m=model, log=log: m.fit(log["X"], log["y"]),
            }
            cost = compare([Contender(name, call, len(batch)) for name, call in calls.items()], repeats)
            ratios = {name: cost[name] / cost["kernel"] for name in goals}
            cells.append([kind, f"{d:,}", f"{1e9 * cost['kernel']:,.0f} ns", *(f"{r:.2f}" for r in ratios.values())])
            for name, ratio in ratios.items():
                report.reach(f"{kind}, d = {d:,}: {name} / kernel", ratio, "≤", goals[name], AROUND)
    report.table(["rows", "d", "kernel", *goals], cells)
