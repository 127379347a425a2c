"""What the door costs: CPU seconds and peak memory of a log on its way from files to whole episodes.

    python -m benchmarks door                    2,000,000 rows of Parquet, 500,000 with ids of text, 500,000 of CSV
    python -m benchmarks door --rows 200000      a tenth of it
    python -m benchmarks door --code ../old/src  the same files read by another version, in turn

Rows are shuffled over ten files. Every figure is the median of fresh processes, old and new in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FEATURES, LENGTH, FILES = 50, 20, 10
CHILD = """
import json, re, sys, time
from pathlib import Path
what, path, out = sys.argv[1:]
try:
    from sparsetd.logs.sharding import shard
    from sparsetd.logs import read, read_batches, shards
except ImportError:
    from sparsetd.sharding import shard
    from sparsetd.transitions import read, read_batches, shards
begun = time.process_time()
if what == "shard":
    n = shard([path], out)["rows"]
elif what == "episodes":
    n = sum(len(part.read()) for part in shards(path))
elif what == "read":
    n = len(read(path))
else:
    n = sum(map(len, read_batches(path)))
cpu = time.process_time() - begun
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print(json.dumps([cpu, int(peak[1]) / 2**10, n]))
"""


def write(folder: Path, n_rows: int, kind: str) -> Path:
    """A log of episodes of 20 rows; as Parquet in any order over ten files, as CSV sorted in one."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    rng, n = np.random.default_rng(0), n_rows // LENGTH * LENGTH
    x, mu = rng.normal(size=(n, FEATURES)), rng.uniform(0.3, 0.8, n)
    columns = {f"obs_{j}": x[:, j] for j in range(FEATURES)}
    columns |= {"episode": np.arange(n) // LENGTH, "step": np.arange(n) % LENGTH, "reward": rng.normal(size=n)}
    columns |= {"terminated": np.arange(n) % LENGTH == LENGTH - 1, "action": rng.integers(0, 2, n), "behavior_prob": mu}
    table = pa.table(columns)
    if kind == "csv":
        pa.csv.write_csv(table, folder / "log.csv")
        return folder / "log.csv"
    if kind == "text":
        table = table.set_column(
            table.column_names.index("episode"), "episode", table.column("episode").cast(pa.string())
        )
    order = rng.permutation(n)
    path = folder / kind
    path.mkdir()
    for k in range(FILES):
        pq.write_table(table.take(pa.array(order[k::FILES])), path / f"part-{k}.parquet")
    return path


def measured(code: str, what: str, path: Path) -> tuple[float, float]:
    """CPU seconds and the peak of the process in MiB."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        env = {**os.environ, "PYTHONPATH": code, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", CHILD, what, str(path), str(Path(folder) / "out")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    cpu, peak, _ = json.loads(done.stdout)
    return float(cpu), float(peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--code", help="the src of another version")
    args = parser.parse_args()
    versions = {"here": str(Path(__file__).parents[1] / "src")} | ({"other": args.code} if args.code else {})
    tasks = [("parquet", "shard", 1.0), ("text", "shard", 0.25), ("csv", "batches", 0.25), ("csv", "shard", 0.25)]
    for kind, what, share in tasks:
        rows = int(args.rows * share)
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), rows, kind)
            found = {name: [] for name in versions}
            for _ in range(args.repeats):
                for name, code in versions.items():
                    found[name].append(measured(code, what, path))
        for name, several in found.items():
            cpu, peak = (statistics.median(one) for one in zip(*several, strict=True))
            print(
                f"{rows:10,d} × {FEATURES} {kind:8s} {what:8s} {name:6s} {cpu:7.2f} CPU s  {peak:6.0f} MiB", flush=True
            )


if __name__ == "__main__":
    main()
