"""From a Parquet file to a fitted model: the rate against the same rows in memory, and the memory it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.speed.measure import Contender, Report, compare, nanoseconds
from benchmarks.speed.sparse import ALPHA, ETA, GAMMA, NNZ, rho
from sparsetd.operators import tdc
from sparsetd.solvers import lazy, sparse
from sparsetd.solvers.sparse_kernels import Rows

D = 2**18
RHO = rho(D)
BOUNDED = f"""
import sys, warnings
warnings.simplefilter("ignore")
from sparsetd.estimators.fit_stream import fit_stream
from sparsetd.estimators.rotd import ROTD
from sparsetd.transitions.sparse_parquet import sparse_parquet
model = ROTD(gamma={GAMMA}, eta={ETA}, step_size={ALPHA}, rho_w={RHO[0]}, rho_theta={RHO[1]})
fit_stream(model, (batch for _ in range(int(sys.argv[2])) for batch in sparse_parquet(sys.argv[1], {D})))
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
print(model.n_iter_, int(peak.split()[1]) / 1024)
"""


def write(path: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    flat = rng.integers(0, D, n * NNZ, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, n * NNZ + 1, NNZ, dtype=np.int32)), pa.array(flat))
    table = pa.table({"indices": lists, "reward": rng.normal(size=n)})
    pq.write_table(table, path, use_dictionary=False, row_group_size=2**16)


def kernel(batches: list[dict[str, Any]]) -> Callable[[], object]:
    """The lazy kernel alone on the rows of all batches, with the averages that ROTD keeps."""
    matrix = sp.vstack([batch["X"] for batch in batches], format="csr")
    n = matrix.shape[0] - 1
    whole = lazy.rows(matrix)
    phi, phi_next = (Rows(whole.values, whole.indices, part) for part in (whole.indptr[:-1], whole.indptr[1:]))
    reward, ones, zeros = np.concatenate([batch["y"] for batch in batches])[:n], np.ones(n), np.zeros((2, D))
    state = sparse.begin(sparse.Setting(False, 2, RHO, (0.0, 0.0), ALPHA), tdc(eta=ETA), zeros, zeros, zeros, zeros)
    columns = {"reward": reward, "discount": GAMMA * ones, "fresh": ones, "fading": 0.0 * ones}
    return lambda: state.update(phi, phi_next, columns | {"alpha": ALPHA * ones, "weight": ALPHA * ones})


def run(report: Report, repeats: int, share: float) -> None:
    from sparsetd.estimators.fit_stream import fit_stream
    from sparsetd.estimators.rotd import ROTD
    from sparsetd.transitions.sparse_parquet import sparse_parquet

    warnings.simplefilter("ignore")
    n = int(500_000 * share)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write(path, n)
        batches = list(sparse_parquet(path, D))
        model = ROTD(gamma=GAMMA, eta=ETA, step_size=ALPHA, rho_w=RHO[0], rho_theta=RHO[1])
        times = compare(
            [
                Contender("the kernel alone, rows in memory", kernel(batches), n),
                Contender("reading only", lambda: sum(len(b["y"]) for b in sparse_parquet(path, D)), n),
                Contender("fit, rows in memory", lambda: fit_stream(model, batches), n),
                Contender("fit, rows from the file", lambda: fit_stream(model, sparse_parquet(path, D)), n),
            ],
            max(2, repeats - 2),
        )
        passes = int(np.ceil(10_000_000 * share / n))
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-c", BOUNDED, str(path), str(passes)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    rows, megabytes = done.stdout.split()
    report.title(f"ROTD from Parquet: {n:,} rows of {NNZ} indices, d = 2¹⁸, batches of 65,536")
    report.table(["", "time per row"], [[name, nanoseconds(value)] for name, value in times.items()])
    report.say(f"\nmost memory while {int(rows):,} rows went through: {float(megabytes):,.0f} MB, libraries included")
    whole = times["fit, rows from the file"]
    report.reach("Parquet: rate against the kernel alone", times["the kernel alone, rows in memory"] / whole, "≥", 0.8)
    report.say(f"\nrate against `fit_stream` on the same rows in memory: {times['fit, rows in memory'] / whole:.0%}")
    report.reach(f"Parquet: GB for {int(rows):,} transitions", float(megabytes) / 1024, "≤", 1.0)
