"""Can the answer be trusted? `python -m benchmarks trust` from the root of the repository.

    python -m benchmarks trust --set build --cells "clinic/*" --logs 10 --n-jobs 2 --out rows.jsonl
    python -m benchmarks trust --list                 names the cells and what is wrong with them
    python -m benchmarks trust --logs 0 --out F       only prints the table of rows that F holds

Each cell is a problem whose answer is known exactly, at one setting. For each of its logs `evaluate` is asked, and LSTD
too, with the features it kept ("selected") and with all of them ("all"). The first logs of each cell are asked again
with the episodes in another order and with the columns in other units (10⁻⁶ to 10⁶). `--out` keeps a line for every
log: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import sys
from fnmatch import fnmatch
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.trust.run import read, run
from benchmarks.trust.sets import SETS, cells_of
from benchmarks.trust.table import codes, table
from benchmarks.trust.write import write


def main() -> int:
    options = _options()
    cells = {name: c for name, c in cells_of(options.set).items() if any(fnmatch(name, p) for p in options.cells)}
    if not cells:
        sys.exit(f"no cell of the set {options.set} matches {options.cells}; --list names them")
    if options.list:
        print("\n".join(f"{name:55s} {cell.trouble or 'well posed'}" for name, cell in cells.items()))
        return 0
    if options.logs:
        which, asked_again = list(cells.values()), (options.probes, options.boosted, options.kernel)
        rows = run(options.set, which, options.logs, options.n_jobs, options.out, *asked_again)
    else:
        rows = read(options.out)
    text, found = table(rows, cells)
    print(text, end="\n\n")
    if options.codes:
        print(codes(rows), end="\n\n")
    for sentence, reached in found:
        print(f"{'reached    ' if reached else 'NOT REACHED'}  {sentence}")
    if options.write:
        write(options.set, rows, text, found)
    return 0


def _options() -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks trust", description=__doc__, formatter_class=layout)
    parser.add_argument("--set", choices=tuple(SETS), default="build", help="which cells (default: build)")
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN", help="only cells whose names match")
    parser.add_argument("--logs", type=int, default=40, metavar="N", help="logs of each cell (default: 40)")
    parser.add_argument("--probes", type=int, default=3, metavar="N", help="logs of each that are asked again (3)")
    parser.add_argument("--boosted", type=int, default=10, metavar="N", help="logs of each for boosted trees too (10)")
    parser.add_argument("--kernel", type=int, metavar="N", help="logs of each for the kernel basis too (all)")
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rows as JSON lines; what it holds is not run again")
    parser.add_argument("--codes", action="store_true", help="also list which cautions stand in what share of the logs")
    parser.add_argument("--write", action="store_true", help="put the table into docs/trust.md")
    parser.add_argument("--list", action="store_true", help="name the cells and stop")
    options = parser.parse_args()
    if options.logs == 0 and options.out is None:
        parser.error("--logs 0 prints the rows of a file: name it with --out")
    return options


if __name__ == "__main__":
    sys.exit(main())
