"""`evaluate` on a log in memory and in shards: CPU time and peak memory, each in a process of its own.

    python -m benchmarks shards                        250,000 rows and four times as many, 50 features
    python -m benchmarks shards --rows 1000000

Ratios are of CPU times of one run, so that they mean the same on another machine. `sums` is the pass that forms the
sums of all features (of 40 groups of episodes, and for the logged behaviour), per row, beside decoding the same files
with pyarrow. `wide` are the sums of 1,000 features beside one matrix product for each of them, `noise` is `evaluate` of
5,000 rows with 1,000 columns of noise, and `two` compares the wall-clock time of one process with that of two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

FEATURES, ROWS_PER_SHARD = 50, 50_000

CHILD = """
import json, re, sys, time
import numpy as np
from sparsetd.logs.engines import Processes
from sparsetd.evaluation import evaluate
from sparsetd.evaluation.linear import policy_sums, sums_of
from sparsetd.evaluation.reading import Settings, answer, open_log
from sparsetd.logs import Transitions, read, shards
what, path = sys.argv[1:3]
other = 0.0
def drawn(n, d):
    rng, end = np.random.default_rng(0), np.arange(n) % 20 == 19
    X = rng.normal(size=(n, d))
    return Transitions.from_arrays(X, X[:, 0] + rng.normal(size=n), terminated=end, ratio=rng.exponential(size=n))
if what == "memory":
    log = read(path)
elif what == "sums":
    log = open_log(path, {"target": None}, Settings(0.99, None)).rows
elif what == "wide":
    log = open_log(drawn(20_000, 1_000), {"target": None}, Settings(0.99, None)).rows
elif what == "noise":
    log = drawn(5_000, 1_000)
if what == "two":
    evaluate(path, engine=Processes(2))
    watch = time.time()
    evaluate(path)
    other = time.time() - watch
    watch = time.time()
    evaluate(path, engine=Processes(2))
    cpu = time.time() - watch
else:
    begun = time.process_time()
    if what == "decode":
        import pyarrow.parquet as pq
        for part in shards(path):
            [column.to_numpy() for column in pq.read_table(part.path, use_threads=False).columns]
    elif what == "sums":
        group = np.arange(log.sizes.sum()) // 25 % 40
        answer(log, sums=policy_sums(group, 40, (0, None)))
    elif what == "wide":
        sums_of(log, policy=0)
    else:
        value = evaluate(path if what == "shards" else log).value
    cpu = time.process_time() - begun
if what == "wide":
    X, Y = np.random.default_rng(0).normal(size=(2, 20_000, 1_001))
    begun = time.process_time()
    X.T @ Y, X.T @ X
    other = time.process_time() - begun
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())  # not `ru_maxrss`: that counts the parent
print(json.dumps([cpu, int(peak[1]) / 2**20, other]))
"""


def measured(what: str, path: Path) -> tuple[float, float, float]:
    """CPU seconds, the peak memory of the process in GiB, and the seconds of what it is compared with, if anything."""
    command = [sys.executable, "-c", CHILD, what, str(path)]
    cpu, peak, other = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(cpu), float(peak), float(other)


def write(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """The log as one file, and in shards."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sparsetd.logs.sharding import shard

    rng, length = np.random.default_rng(0), 20
    n = n_rows // length * length
    x = rng.normal(size=(n, FEATURES))
    mu = rng.uniform(0.3, 0.8, n)
    columns: dict[str, Any] = {f"obs_{j}": x[:, j] for j in range(FEATURES)}
    columns |= {"episode": np.repeat(np.arange(n // length), length), "reward": x[:, 0] + rng.normal(size=n)}
    columns |= {"behavior_prob": mu, "target_prob": np.clip(mu + rng.uniform(-0.1, 0.1, n), 0, 1)}
    columns |= {"terminated": np.arange(n) % length == length - 1, "action": rng.integers(0, 2, n)}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    shard([folder / "log.parquet"], folder / "shards", n_shards=max(2, n // ROWS_PER_SHARD))
    return folder / "log.parquet", folder / "shards"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=250_000)
    n = parser.parse_args().rows
    peaks = {}
    for rows in (n, 4 * n):
        with tempfile.TemporaryDirectory() as name:
            log, parts = write(Path(name), rows)
            found = {what: measured(what, parts) for what in ("shards", "sums", "decode")}
            found |= {what: measured(what, log) for what in ("memory",) if rows == n}
            two = measured("two", parts)
        peaks[rows] = found["shards"][1]
        for what, (cpu, peak, _) in found.items():
            print(f"{rows:10,d} rows  {what:8s} {cpu:7.2f} CPU s  {rows / cpu:12,.0f} rows/s  peak {peak:5.2f} GiB")
        if rows == n:
            print(f"shards against memory: {found['shards'][0] / found['memory'][0]:.2f} of the CPU time, ", end="")
            print(f"{found['shards'][1] / found['memory'][1]:.2f} of the memory")
    print(f"two processes: {two[2] / two[0]:.2f} times as fast as one (wall clock)")
    wide, noise = measured("wide", Path()), measured("noise", Path())
    print(f"1,000 features: {wide[0]:.2f} CPU s for the sums, {wide[0] / wide[2]:.2f} times two matrix products")
    print(f"1,000 columns of noise, 5,000 rows: {noise[0]:.2f} CPU s")
    print(f"four times the rows: {peaks[4 * n] / peaks[n]:.2f} times the memory")


if __name__ == "__main__":
    main()
