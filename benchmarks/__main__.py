"""Speed, in ratios: `python -m benchmarks` from the root of the repository.

    python -m benchmarks                       everything; minutes, best on an idle machine
    python -m benchmarks dense start           only these parts: dense start sparse peers disk
    python -m benchmarks --quick               fewer rows and repeats
    python -m benchmarks --write               also put the tables into benchmarks/README.md

Peers that are not installed are left out: pip install scikit-learn vowpalwabbit river.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.speed import dense, disk, peers, sparse, start
from benchmarks.speed.measure import Report
from benchmarks.speed.readme import write

PARTS = ("dense", "start", "sparse", "peers", "disk")


def main() -> None:
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=layout)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    repeats, share = (3, 0.25) if options.quick else (5, 1.0)
    report = Report()
    if "dense" in options.parts:
        dense.run(report, repeats, share)
    if "start" in options.parts:
        start.run(report, 1 if options.quick else 3)
    if "sparse" in options.parts:
        sparse.run(report, repeats, share)
    if "peers" in options.parts:
        peers.run(report, repeats, share)
    if "disk" in options.parts:
        disk.run(report, repeats, share)
    report.verdicts()
    if options.write:
        write(Path(__file__).parent / "README.md", report)


if __name__ == "__main__":
    main()
