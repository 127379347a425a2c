"""Speed, in ratios: `python -m benchmarks speed` from the root of the repository.

    python -m benchmarks speed                       everything: about ten minutes, best on an idle machine
    python -m benchmarks speed --only dense start    only these parts
    python -m benchmarks speed --quick               a quarter of the rows, fewer repeats: to see that it runs
    python -m benchmarks speed --write               also write benchmarks/README.md and benchmarks/figures

The parts:

    dense     the dense kernel against NumPy and against a kernel written by hand; float32; two threads
    start     from the start of a process to the first fit, with a cold and a warm cache
    sparse    the lazy kernel: flat in d, linear in the non-zeros, how near to what memory allows, exact
    automatic automatic steps against steps by hand, and `fit` against its kernel
    peers     the lazy kernel against scikit-learn, Vowpal Wabbit, river, PyTorch and NumPy on the same rows
    scaling   time against d and against the non-zeros, with slopes; figures where matplotlib is installed
    disk      a fit from a Parquet file against the kernel alone, and the memory it takes

Tables go to stdout, progress to stderr. The last table lists every figure next to its goal: reached or not reached.
Every figure is a ratio of CPU times of one run (the start: seconds), so that it means the same on another machine.
Peers that are not installed are left out and named: pip install "sparsetd[bench]" torch==2.13.0
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.speed import automatic, dense, disk, peers, scaling, sparse, start
from benchmarks.speed.measure import Report
from benchmarks.speed.readme import write

HERE = Path(__file__).parents[1]
PARTS = ("dense", "start", "sparse", "automatic", "peers", "scaling", "disk")


def main() -> None:
    options = _options()
    repeats = 3 if options.quick else 5
    share = options.share or (0.25 if options.quick else 1.0)
    report, begun = Report(), time.perf_counter()
    for number, part in enumerate(options.only, start=1):
        seconds = time.perf_counter() - begun
        print(f"[{number}/{len(options.only)}] {part}, after {seconds:.0f} s", file=sys.stderr, flush=True)
        if part == "dense":
            dense.run(report, repeats, share)
        elif part == "start":
            start.run(report, 1 if options.quick else 3)
        elif part == "sparse":
            sparse.run(report, repeats, share)
        elif part == "automatic":
            automatic.run(report, repeats, share)
        elif part == "peers":
            peers.run(report, repeats, share)
        elif part == "scaling":
            scaling.run(report, repeats, share, options.figures)
        else:
            disk.run(report, repeats, share)
    report.verdicts()
    print(f"done in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    if options.write:
        write(HERE / "README.md", report, share)


def _options() -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks speed", description=__doc__, formatter_class=layout)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="parts to run")
    parser.add_argument("--quick", action="store_true", help="three repeats instead of five, and --share 0.25")
    parser.add_argument("--share", type=float, metavar="S", help="use this share of the rows, between 0.05 and 1")
    parser.add_argument("--write", action="store_true", help="put tables and figures where the repository keeps them")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw the figures of `scaling` here")
    options = parser.parse_args()
    if options.share is not None and not 0.05 <= options.share <= 1.0:
        parser.error(f"--share is {options.share:g}; give a number between 0.05 and 1")
    if options.write and options.only is not PARTS:
        parser.error("--write replaces the whole page, so it needs all parts: leave out --only")
    if options.write:
        options.figures = HERE / "figures"
    if options.figures is not None and importlib.util.find_spec("matplotlib") is None:
        parser.error('figures need matplotlib: pip install "sparsetd[plots]"')
    return options


if __name__ == "__main__":
    main()
