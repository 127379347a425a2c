"""A fit of 200,000 sparse rows at d = 10⁷ beside one at d = 10⁴: how much more it costs to have many features.

    python -m benchmarks.wide [--repeats N] [--only WORD]

Rows have 32 numbers at random places, so that 4.7 of 10 million features occur. Both sizes are fitted in turns, in one
process per method whose kernels were loaded before; a line shows the medians of their CPU times and of the ratio within
a turn. Memory of 10⁷ features comes afresh from the system in every fit: its share, system time, stands beside the sum.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsetd import ROTD, TDC

N, NNZ, FEW, MANY = 200_000, 32, 10**4, 10**7
L1 = {"rho_theta": 0.002, "rho_w": 0.005}
METHODS: dict[str, Any] = {
    "TDC": TDC(gamma=0.9, step_size=0.005),
    "TDC automatic": TDC(gamma=0.9),
    "ROTD l1": ROTD(gamma=0.9, step_size=0.005, **L1),
    "ROTD automatic": ROTD(gamma=0.9),
    "ROTD automatic l1": ROTD(gamma=0.9, **L1),
}


def rows(d: int) -> tuple[Any, Any]:
    """Rows and rewards."""
    rng = np.random.default_rng(0)
    indices, values = rng.integers(0, d, N * NNZ, dtype=np.int32), rng.normal(size=N * NNZ) / np.sqrt(NNZ)
    ends = np.arange(0, N * NNZ + 1, NNZ, dtype=np.int32)  # as SciPy makes them itself
    return sp.csr_array((values, indices, ends), shape=(N, d)), rng.normal(size=N)


def seconds(model: Any, given: tuple[Any, Any]) -> tuple[float, float]:
    """CPU seconds of a fit, and those of the system among them."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    model.fit(*given)
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return after.ru_utime - before.ru_utime + system, system


def measure(name: str, repeats: int) -> None:
    """Print the line of one method."""
    warnings.simplefilter("ignore")
    few, many = rows(FEW), rows(MANY)
    seconds(METHODS[name], (few[0][:1000], few[1][:1000]))
    turns = np.array([(*seconds(METHODS[name], few), *seconds(METHODS[name], many)) for _ in range(repeats)])
    (small, _, large, system), ratio = np.median(turns, axis=0), np.median(turns[:, 2] / turns[:, 0])
    print(f"{name:20s}{small:10.3f}{large:10.3f}{system:10.3f}{ratio:8.2f}{turns[0, 2]:10.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="methods whose name contains this")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure, args.repeats)
    print(f"{'seconds of CPU time':20s}{'d = 10⁴':>10s}{'d = 10⁷':>10s}{'(system)':>10s}{'ratio':>8s}{'first':>10s}")
    for name in (name for name in METHODS if args.only in name):
        command = [sys.executable, "-m", "benchmarks.wide", "--measure", name, "--repeats", str(args.repeats)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
