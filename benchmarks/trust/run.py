"""Many logs of many cells, over processes; every row is written at once, and a run that is started again goes on."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.trust.ask import Row, judged
from benchmarks.trust.case import Cell
from benchmarks.trust.sets import ENTROPY, cells_of

Task = tuple[str, int]


def run(
    which: str,
    cells: list[Cell],
    logs: int,
    n_jobs: int,
    out: Path | None,
    probes: int,
    boosted: int = 0,
    kernel: int | None = None,
) -> list[Row]:
    """`logs` logs of every cell; the first `probes` of each are asked again, permuted and rescaled.

    Of a cell that has rivals, boosted trees are asked about the first `boosted` logs and the kernel about the first
    `kernel`, all of them by default. All cells go on together: a run that is stopped has as many logs of each.
    """
    done = read(out)
    have = {(row["cell"], row["log"]) for row in done}
    tasks = [(cell.name, k) for k in range(logs) for cell in cells if (cell.name, k) not in have]
    work = partial(_one, which, (probes, boosted, logs if kernel is None else kernel))
    for count, row in enumerate(_rows(work, tasks, n_jobs), start=1):
        done.append(row)
        if out is not None:
            _append(out, row)
        print(f"\r{count}/{len(tasks)} {row['cell']:50.50s}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    wanted = {cell.name for cell in cells}
    return [row for row in done if row["cell"] in wanted and row["log"] < logs]


def read(path: Path | None) -> list[Row]:
    """Rows written so far; a last line that was cut short is left out."""
    if path is None or not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _append(path: Path, row: Row) -> None:
    with path.open("a+") as file:
        file.seek(max(file.tell() - 1, 0))
        gap = "" if file.read(1) in ("", "\n") else "\n"  # the line before was cut short
        file.write(gap + json.dumps(row) + "\n")


def _rows(work: Callable[[Task], Row], tasks: list[Task], n_jobs: int) -> Iterator[Row]:
    if n_jobs == 1:
        yield from map(work, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(n_jobs) as pool:
        yield from pool.imap_unordered(work, tasks)


def _one(which: str, most: tuple[int, int, int], task: Task) -> Row:
    """One row; of each cell only the first logs are probed, given to boosted trees and given to the kernel."""
    name, number = task
    return judged(cells_of(which)[name], ENTROPY[which], number, *(number < n for n in most))
