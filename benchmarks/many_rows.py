"""`evaluate` of very many rows: a million of 50 features (seed 0) in 20 shards, which are read again and again.

    python -m benchmarks many-rows --millions 20 --dask       two workers of a cluster, one killed in every reading
    python -m benchmarks many-rows --millions 100             two processes

Prints the seconds of every reading, the value, and the peak memory of the driver and of the largest worker. The copies
make the log's cautions meaningless, but for the one that names them.
"""

from __future__ import annotations

import argparse
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from sparsetd.evaluation import evaluate
from sparsetd.logs import shards
from sparsetd.logs.engines import Engine, Processes

# In a process of its own, whose memory does not count.
WRITE = "import sys; from pathlib import Path; from benchmarks.shards import write; write(Path(sys.argv[1]), 1_000_000)"


def peak(pid: int) -> float:
    """The largest memory that a process has had, in GiB; 0 if it is gone."""
    with suppress(OSError, TypeError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) / 2**20 if found else 0.0
    return 0.0


def children() -> list[int]:
    """All descendants of this process."""
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

    def __init__(self, engine: Engine, disturb: Callable[[], Any]) -> None:
        self.engine, self.disturb, self.largest = engine, disturb, 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.largest = max([self.largest, *map(peak, children())])
            time.sleep(1)

    def reduce(self, work: Any, tasks: Any) -> Any:
        begun = time.time()
        self.disturb()
        out = self.engine.reduce(work, tasks)
        print(f"reading of {len(tasks)} shards: {time.time() - begun:.0f} s", flush=True)
        return out


@contextmanager
def cluster() -> Iterator[tuple[Engine, Callable[[], Any]]]:
    """Two workers of Dask, and what kills one of them a few seconds later."""
    from distributed import Client, LocalCluster

    from sparsetd.logs.dask import Dask

    def kill() -> None:
        os.kill(random.choice(list(client.run(os.getpid).values())), signal.SIGKILL)

    quiet: dict[str, Any] = {"dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as local, Client(local) as client:
        yield Dask(client), lambda: threading.Timer(random.uniform(3, 8), kill).start()


@contextmanager
def processes() -> Iterator[tuple[Engine, Callable[[], Any]]]:
    yield Processes(2), lambda: None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=20)
    parser.add_argument("--dask", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, cluster() if args.dask else processes() as (engine, disturb):
        subprocess.run([sys.executable, "-c", WRITE, name], check=True)
        parts = shards(Path(name, "shards")) * args.millions
        watched, begun = Watched(engine, disturb), time.time()
        result = evaluate(parts, engine=watched)
        print(f"{args.millions},000,000 rows: {time.time() - begun:.0f} s, value {result.value!r}")
        print(f"peak: driver {peak(os.getpid()):.2f} GiB, largest worker {watched.largest:.2f} GiB")


if __name__ == "__main__":
    main()
