"""`evaluate` on a log in memory and in shards: CPU time and peak memory, each in a process of its own.

    python -m benchmarks.shards                        250,000 rows and four times as many, 50 features
    python -m benchmarks.shards --rows 1000000

Ratios are of CPU times of one run, so that they mean the same on another machine. `sums` is the pass that forms the
sums of all features (by fold, by group, and for the logged behaviour), per row, beside decoding the same files with
pyarrow and one matrix product of the same size.
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
from sparsetd.evaluation import evaluate
from sparsetd.transitions import read, shards
what, path = sys.argv[1:3]
if what == "memory":
    log = read(path)
elif what == "sums":
    from sparsetd.evaluation.moments import Ask, Moments, as_logged
    from sparsetd.evaluation.opened import opened
    log = opened(path, None, 0.99, None, None, None, None).rows
begun = time.process_time()
if what == "decode":
    import pyarrow.parquet as pq
    for part in shards(path):
        [column.to_numpy() for column in pq.read_table(part.path, use_threads=False).columns]
elif what == "sums":
    group = np.arange(len(log.episodes)) % 5
    log.answer(Ask(Moments.of, (5,), (group,)), Ask(Moments.of).on(as_logged))
else:
    value = evaluate(log if what == "memory" else path).value
cpu = time.process_time() - begun
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())  # not `ru_maxrss`: that counts the parent
print(json.dumps([cpu, int(peak[1]) / 2**20]))
"""


def measured(what: str, path: Path) -> tuple[float, float]:
    """CPU seconds, and the peak memory of the process in GiB."""
    command = [sys.executable, "-c", CHILD, what, str(path)]
    cpu, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(cpu), float(peak)


def write(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """The log as one file, and in shards."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sparsetd.sharding import shard

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
            found |= {"memory": measured("memory", log)} if rows == n else {}
        peaks[rows] = found["shards"][1]
        for what, (cpu, peak) in found.items():
            print(f"{rows:10,d} rows  {what:8s} {cpu:7.2f} CPU s  {rows / cpu:12,.0f} rows/s  peak {peak:5.2f} GiB")
        if rows == n:
            print(f"shards against memory: {found['shards'][0] / found['memory'][0]:.2f} of the CPU time, ", end="")
            print(f"{found['shards'][1] / found['memory'][1]:.2f} of the memory")
    print(f"four times the rows: {peaks[4 * n] / peaks[n]:.2f} times the memory")


if __name__ == "__main__":
    main()
