"""From a Parquet file to a fitted model: the rate against the same rows in memory, and the memory it takes.

A file is passed several times, as one long log: what a fit does once (allocate, and write out d weights) is part of
its time, as it is for a user, but small. One thread decodes the next batch while another trains. Where a second core is
idle the busier of the two sets the rate, and where there is none both together do; both are CPU time, which means the
same on a busy machine. Wall time does not: there two threads get more of the machine than the one of the kernel alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.speed.measure import Contender, Report, Seconds, all_clocks, nanoseconds
from benchmarks.speed.sparse import ALPHA, ETA, GAMMA, NNZ, rho
from sparsetd.logs import Transitions
from sparsetd.operators import tdc
from sparsetd.penalties import L1
from sparsetd.solvers import PrimalDual
from sparsetd.system import Batch, rows_of

D = 2**18
RHO = rho(D)
PASSES = 4
BOUNDED = f"""
import sys, warnings
warnings.simplefilter("ignore")
from sparsetd.estimators.fit_stream import fit_stream
from sparsetd.estimators.rotd import ROTD
from sparsetd.logs import read_batches
model = ROTD(gamma={GAMMA}, eta={ETA}, step_size={ALPHA}, rho_w={RHO[0]}, rho_theta={RHO[1]})
fit_stream(model, (batch for _ in range(int(sys.argv[2])) for batch in read_batches(sys.argv[1], n_features={D})))
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


def kernel(batches: list[Transitions]) -> Callable[[], object]:
    """The lazy kernel alone on the rows of all batches, with the averages that ROTD keeps."""
    matrix = sp.vstack([batch.observation for batch in batches], format="csr")
    n = matrix.shape[0] - 1
    phi, phi_next = (rows_of(matrix, part) for part in (slice(0, n), slice(1, n + 1)))
    reward, ones = np.concatenate([batch.reward for batch in batches])[:n], np.ones(n)
    rows = Batch(phi, phi_next, reward, GAMMA * ones, ones, ones == 0.0, ones)
    table, penalty, solver = tdc(eta=ETA), L1(rho_theta=RHO[1], rho_w=RHO[0]), PrimalDual(ALPHA)
    state = solver.init(table, D)
    return lambda: solver.update(state, rows, table, penalty)


def peak(path: Path, n: int, rows: int) -> tuple[int, float]:
    """How many rows a fresh process took from the file, passed again and again, and its largest memory in MB."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", BOUNDED, str(path), str(int(np.ceil(rows / n)))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    taken, megabytes = done.stdout.split()
    return int(taken), float(megabytes)


def run(report: Report, repeats: int, share: float) -> None:
    from sparsetd.estimators.fit_stream import fit_stream
    from sparsetd.estimators.rotd import ROTD
    from sparsetd.logs import read_batches

    n = int(500_000 * share)
    model = ROTD(gamma=GAMMA, eta=ETA, step_size=ALPHA, rho_w=RHO[0], rho_theta=RHO[1])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        path = Path(folder) / "log.parquet"
        write(path, n)

        def log() -> Iterator[Transitions]:
            return chain.from_iterable(read_batches(path, n_features=D) for _ in range(PASSES))

        batches = list(read_batches(path, n_features=D))
        times = all_clocks(
            [
                Contender("the kernel alone, rows in memory", kernel(batches), n),
                Contender("reading only", lambda: sum(map(len, log())), PASSES * n),
                Contender("fit, rows in memory", lambda: fit_stream(model, PASSES * batches), PASSES * n),
                Contender("fit, rows from the file", lambda: fit_stream(model, log()), PASSES * n),
            ],
            max(2, repeats - 2),
        )
        rows, megabytes = peak(path, n, int(10_000_000 * share))
    report.title(f"ROTD from Parquet: {PASSES * n:,} rows of {NNZ} indices, d = 2¹⁸, batches of 65,536")
    alone = times["the kernel alone, rows in memory"]
    head = ["", "CPU of the busier thread", "rate", "CPU of both threads", "rate", "wall time", "rate"]
    clocks = "busier", "cpu", "wall"
    lines = [[name, *(cell for clock in clocks for cell in _cells(alone, t, clock))] for name, t in times.items()]
    report.table(head, lines)
    report.say(
        "\nPer row; rates against the kernel alone. One thread reads ahead of the one that trains: the busier of them"
    )
    report.say("sets the rate where a second core is idle, both together where there is none.")
    report.say(f"\nmost memory while {rows:,} rows went through: {megabytes:,.0f} MB, libraries included")
    whole, rate = times["fit, rows from the file"], "rate against the kernel alone"
    why = "a row is read, decoded and checked in a third of the time of its step, and two threads share the memory"
    report.reach(f"Parquet, a second core idle: {rate}", alone.busier / whole.busier, "≥", 0.8, why)
    report.reach(f"Parquet, one core: {rate}", alone.cpu / whole.cpu, "≥", 0.8, why)
    report.reach(f"Parquet: GB for {rows:,} transitions", megabytes / 1024, "≤", 1.0)


def _cells(alone: Seconds, one: Seconds, clock: str) -> tuple[str, str]:
    return nanoseconds(getattr(one, clock)), f"{getattr(alone, clock) / getattr(one, clock):.0%}"
