"""A log of very many rows, from unsorted files through `shard` to `evaluate`, on a cluster that loses workers.

    python -m benchmarks many-rows --millions 100             two Dask workers, one of them killed in every reading
    python -m benchmarks many-rows --millions 10 --engine processes
    python -m benchmarks many-rows --millions 1 --engine here     in this process, with the CPU seconds

The log has 20 columns unless `--columns` says otherwise (seed 0). Every file holds half of the rows of two neighbouring
blocks, shuffled: episodes are torn apart and cross files. An episode ends after each row with probability 0.1, and the
reward is x₀ + a/2 + noise, so that the value of a policy that takes action 1 with probability 0.7 is known:
0.35/(1 − 0.9γ).

Prints seconds, CPU seconds and microseconds per row of every stage, the value beside
the truth, and the peak memory of the driver and of the largest worker. With `--folder` the files stay there, and a run
that was stopped goes on with those it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sparsetd.evaluation import evaluate
from sparsetd.logs.engines import Engine, Processes, Serial

BLOCK, GAMMA, ENDS, TARGET = 1_000_000, 0.9, 0.1, 0.7

# In a process of its own, so that its memory and time can be told apart from those of the driver.
SHARD = """
import json, re, sys, time
from sparsetd.logs.sharding import shard
begun, cpu = time.time(), time.process_time()
manifest = shard([sys.argv[1]], sys.argv[2])
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print(json.dumps([time.time() - begun, time.process_time() - cpu, int(peak[1]) / 2**20, len(manifest["shards"])]))
"""


def block(number: int, n_columns: int, curved: bool) -> dict[str, Any]:
    """Return the shuffled rows of whole episodes whose ids no other block has."""
    rng = np.random.default_rng([0, number])
    end = rng.random(BLOCK) < ENDS
    end[-1] = True
    first = np.append(0, np.flatnonzero(end)[:-1] + 1)
    episode = np.cumsum(np.append(False, end[:-1]))
    step = np.arange(BLOCK) - first[episode]
    x = rng.standard_normal((n_columns, BLOCK), dtype=np.float32)
    action = rng.integers(0, 2, BLOCK)
    reward = (np.sin(3 * x[0]) if curved else x[0]) + 0.5 * action + rng.standard_normal(BLOCK)
    columns = {f"obs_{j}": column for j, column in enumerate(x)}
    columns |= {"episode": episode + number * BLOCK, "step": step, "action": action, "reward": reward}
    columns |= {"terminated": end, "behavior_prob": np.full(BLOCK, 0.5)}
    columns["target_prob"] = np.where(action == 1, TARGET, 1 - TARGET)
    order = rng.permutation(BLOCK)
    return {name: column[order] for name, column in columns.items()}


def write(folder: Path, n_blocks: int, n_columns: int, curved: bool) -> None:
    """Write the files of the log that are not there yet: half a block in one file and half in the next."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = lru_cache(maxsize=2)(lambda number: pa.table(block(number, n_columns, curved)))
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n_blocks + 1):
        path, unfinished = folder / f"{number:04d}.parquet", folder.parent / "unfinished.parquet"
        if path.exists():
            continue
        parts = [table(number - 1)[BLOCK // 2 :]] if number else []
        parts += [table(number)[: BLOCK // 2]] if number < n_blocks else []
        pq.write_table(pa.concat_tables(parts), unfinished, row_group_size=2**17)
        unfinished.rename(path)


def peak(pid: int) -> float:
    """Return the largest memory that a process has had, in GiB; 0 if it is gone."""
    with suppress(OSError, TypeError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) / 2**20 if found else 0.0
    return 0.0


def children() -> list[int]:
    """Return all descendants of this process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


class Watched:
    """An engine whose readings are timed; before each of them `disturb` is called."""

    def __init__(self, engine: Engine, disturb: Callable[[], Any], n_rows: int) -> None:
        self.engine, self.disturb, self.n_rows, self.largest = engine, disturb, n_rows, 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.largest = max([self.largest, *map(peak, children())])
            time.sleep(1)

    def reduce(self, work: Any, tasks: Any) -> Any:
        begun = time.time()
        self.disturb()
        out = self.engine.reduce(work, tasks)
        took = time.time() - begun
        print(f"reading of {len(tasks)} shards: {took:.0f} s, {1e6 * took / self.n_rows:.2f} µs a row", flush=True)
        return out


@contextmanager
def cluster() -> Iterator[tuple[Engine, Callable[[], Any]]]:
    """Start two workers of Dask, and hand back what kills one of them a few seconds later."""
    from distributed import Client, LocalCluster

    from sparsetd.logs.dask import Dask

    def kill() -> None:
        alive = list(client.run(os.getpid).values())
        if alive:  # both may be on their way back from earlier kills
            os.kill(random.choice(alive), signal.SIGKILL)

    quiet: dict[str, Any] = {"dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as local, Client(local) as client:
        yield Dask(client), lambda: threading.Timer(random.uniform(3, 8), kill).start()


@contextmanager
def processes() -> Iterator[tuple[Engine, Callable[[], Any]]]:
    yield Processes(2), lambda: None


@contextmanager
def here() -> Iterator[tuple[Engine, Callable[[], Any]]]:
    yield Serial(), lambda: None


ENGINES = {"dask": cluster, "processes": processes, "here": here}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=10)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--curved", action="store_true", help="the reward has sin(3x₀) in the place of x₀")
    parser.add_argument("--engine", choices=ENGINES, default="dask")
    parser.add_argument("--raw", action="store_true", help="evaluate the columns as they are, without a basis")
    parser.add_argument("--folder", help="where the files go and stay (default: a temporary folder)")
    args = parser.parse_args()
    n_rows = args.millions * BLOCK
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as name:
        raw, parts = Path(name, "raw"), Path(name, "shards")
        write(raw, args.millions, args.columns, args.curved)
        said = subprocess.run(
            [sys.executable, "-c", SHARD, str(raw), str(parts)], check=True, capture_output=True, text=True
        ).stdout
        took, cpu, most, n_shards = json.loads(said)
        print(f"shard: {took:.0f} s, {cpu:.0f} CPU s, {1e6 * cpu / n_rows:.2f} µs a row; {n_shards} shards, ", end="")
        print(f"peak {most:.2f} GiB", flush=True)
        with ENGINES[args.engine]() as (engine, disturb):
            how: dict[str, Any] = {"features": None} if args.raw else {}
            watched, begun, cpu = Watched(engine, disturb, n_rows), time.time(), time.process_time()
            result = evaluate(str(parts), "target_prob", gamma=GAMMA, engine=watched, **how)
            truth, (low, high) = TARGET * 0.5 / (1 - (1 - ENDS) * GAMMA), result.interval
            spent = f", {time.process_time() - cpu:.1f} CPU s" if args.engine == "here" else ""
            print(f"evaluate {n_rows:,} rows: {time.time() - begun:.0f} s{spent}")
            print(f"value {result.value!r} ({low:.5f} to {high:.5f}); the truth is {truth:.5f}")
            print(f"peak: driver {peak(os.getpid()):.2f} GiB, largest worker {watched.largest:.2f} GiB")


if __name__ == "__main__":
    main()
