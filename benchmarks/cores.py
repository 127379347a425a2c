"""How well a sweep uses two cores: `python -m benchmarks cores` from the root of the repository.

The same sweep (TDC and RO-TD on the random walk, 64 settings each) with one worker and with two, in turns:

    efficiency = seconds with one worker / (2 · seconds with two)

Other work on the machine makes that meaningless, so the processor's seconds are counted too: what one worker takes over
what two take together, times how evenly the two are busy. On an idle machine both agree. A worker that starts imports
the library first; the next sweep of the same process finds it ready.
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from sparsetd import ROTD, TDC
from sparsetd.problems import random_walk
from sparsetd.sweeps import sweep

GRID = {"step_size": np.geomspace(1e-3, 1, 16).tolist(), "eta": [0.1, 1.0, 4.0, 16.0]}
TICK = os.sysconf("SC_CLK_TCK")


class Took(NamedTuple):
    """Seconds on the wall, and of the processor: in every worker, and in this process."""

    wall: float
    workers: list[float]
    own: float

    @property
    def cpu(self) -> float:
        return sum(self.workers) + self.own


def busy() -> dict[int, float]:
    """Seconds of the processor that every child of this process has used."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == os.getpid():
            found[int(name)] = (int(fields[11]) + int(fields[12])) / TICK
    return found


def timed(jobs: int, seeds: int) -> Took:
    before, own, wall = busy(), time.process_time(), time.perf_counter()
    sweep([TDC(), ROTD()], GRID, random_walk(), n_runs=seeds, n_rows=2000, n_jobs=jobs, backend="cores")
    took = time.perf_counter() - wall, time.process_time() - own
    spent = [cpu - before.get(pid, 0.0) for pid, cpu in busy().items()]
    return Took(took[0], sorted(s for s in spent if s > 0.2), took[1])


def efficiency(one: Took, two: Took) -> tuple[float, float]:
    """(by the clock, by the processor)."""
    even = sum(two.workers) / (2 * max(two.workers))
    return one.wall / (2 * two.wall), one.cpu / two.cpu * even


def show(label: str, one: Took, two: Took) -> None:
    wall, cpu = efficiency(one, two)
    each = " and ".join(f"{s:.1f}" for s in two.workers)
    print(
        f"{label}: one worker {one.wall:.1f} s ({one.cpu:.1f} of the processor), two {two.wall:.1f} s ({each} in the "
        f"workers, {two.own:.1f} here): efficiency {wall:.3f} by the clock, {cpu:.3f} by the processor",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cores")
    parser.add_argument("--seeds", type=int, default=24, help="runs of each setting; 24 take about 20 s on one core")
    parser.add_argument("--rounds", type=int, default=3)
    options: Any = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    timed(1, 1)
    first = timed(2, options.seeds)
    pairs = [(timed(1, options.seeds), timed(2, options.seeds)) for _ in range(options.rounds)]
    show("workers that start", pairs[0][0], first)
    for one, two in pairs:
        show("workers that are there", one, two)
    by_cpu = median(efficiency(one, two)[1] for one, two in pairs)
    print(f"median by the processor: {by_cpu:.3f} (goal ≥ 0.95: {'reached' if by_cpu >= 0.95 else 'not reached'})")


if __name__ == "__main__":
    main()
