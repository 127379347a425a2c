"""benchmarks/README.md: what the command does, and the tables that it printed last."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

import numba
import numpy as np

from benchmarks.speed.measure import Report

HEAD = """# Benchmarks

    python -m benchmarks speed --write

measures speed and writes this page (`--help` lists the parts). Every figure is a ratio of CPU times taken in one
process and one run, contenders in turns, medians of repeats; absolute times are for orientation and per transition.
Peers are called as their users call them, with the same rows, step and penalty where they have one; they do less work
per row than RO-TD (one feature vector, one weight vector, no φ'), and the table says how much less. RO-TD is
`ROTD.fit` as a user calls it, which checks its input; where the bare kernel is meant, the table says so.

The other files here measure other things, each with its own help: `against.py` (another checkout; its
last table is [against.md](against.md)), `walk.py` (the files that a fit calls), `quality.py`,
`evaluation.py`, `automatic_steps.py`,
`corruption.py`, `crash.py`, `shards.py`, `many_rows.py`, and `trust/`, which asks whether the answers can be trusted.
"""


def write(path: Path, report: Report, share: float) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    machine = (
        f"\nLatest run: {date.today().isoformat()}, {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}; load average {load:.1f} "
        f"at the end (above 1 other work was running beside the measurement){_partly(share)}.\n"
    )
    path.write_text(HEAD + machine + "\n".join(report.lines) + "\n", encoding="utf-8")


def _partly(share: float) -> str:
    return "" if share == 1.0 else f"; only {share:.0%} of the rows, so that every figure is noisier than it need be"
