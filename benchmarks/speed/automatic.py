"""Automatic steps on sparse rows: flat in d, against steps by hand and against rows laid out densely."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.speed.measure import Contender, Report, compare
from benchmarks.speed.sparse import NNZ
from sparsetd import ROTD, TDC
from sparsetd.system import Batch

MODELS = {"TDC": TDC, "ROTD": ROTD, "ROTD with l1": lambda **step: ROTD(rho_theta=1e-3, rho_w=1e-3, **step)}


def rows(d: int, n: int, *, sparse: bool = True) -> Batch:
    """A trajectory of rows of ones at random places."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, d, (n + 1) * NNZ, dtype=np.int32)
    pointers = np.arange(0, len(indices) + 1, NNZ, dtype=np.int32)
    X = sp.csr_array((np.ones(len(indices)), indices, pointers), shape=(n + 1, d))
    phi = X if sparse else X.toarray()
    ones = np.ones(n)
    return Batch(phi[:n], phi[1:], rng.normal(size=n), 0.95 * ones, ones, ones == 0, ones)


def steps(model: Any, batch: Batch) -> Any:
    """The solver's own loop: neither the checks of `fit` nor its result, which costs O(d) once."""
    table, penalty, solver = model._parts()
    state = solver.init(table, batch.n_features, np.float64)
    return lambda: solver.update(state, batch, table, penalty)


def times(batch: Batch, repeats: int, **step: float) -> dict[str, float]:
    """Seconds of CPU per row of every model."""
    return compare([Contender(k, steps(m(**step), batch), len(batch)) for k, m in MODELS.items()], repeats)


def run(report: Report, repeats: int, share: float) -> None:
    report.title(f"Automatic steps, {NNZ} non-zeros per row (µs of CPU per row)")
    columns = {}
    for d in (10**4, 10**5, 10**6):
        batch = rows(d, int(20_000 * share))
        columns[f"CSR, d = {d:,}"] = times(batch, repeats)
    columns["by hand, CSR, d = 1,000,000"] = times(batch, repeats, step_size=0.01)
    columns["dense, d = 1,000,000"] = times(rows(10**6, 3, sparse=False), 2)
    narrow = rows(1000, int(5_000 * share), sparse=False)
    columns["dense, d = 1,000"] = times(narrow, repeats)
    columns["by hand, dense, d = 1,000"] = times(narrow, repeats, step_size=0.01)
    cells = [[name, *(f"{1e6 * column[name]:,.2f}" for column in columns.values())] for name in MODELS]
    report.table(["", *columns], cells)
