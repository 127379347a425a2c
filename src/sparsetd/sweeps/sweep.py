"""`sweep`: every setting with every seed, in parallel, kept as it goes.

The work is cut into pieces (one seed, a few settings) in an order that depends on nothing but the sweep itself. A piece
that is done is one file, written all at once; a sweep that was interrupted goes on where it stopped when it is called
again with the same folder. Neither the number of workers nor their fate changes a byte of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from sparsetd.storage.atomic import replace_file
from sparsetd.sweeps.grid import Grid, Setting, settings_of
from sparsetd.sweeps.table import Sweep
from sparsetd.sweeps.tasks import Control, Metric, Prediction, Row, Task, rows_of
from sparsetd.system import Batch

Progress = Callable[[int, int], None]
Piece = tuple[int, list[int]]  # a seed, and which settings


def sweep(
    learners: Any,
    grid: Grid,
    data: Any,
    *,
    seeds: int | Sequence[int] = 1,
    metric: Metric = "rmspbe",
    n_jobs: int = -1,
    backend: str = "cores",
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Sweep:
    """Run every method with every combination of the grid and every seed; returns the table of results.

    Parameters
    ----------
    learners : estimator, list of estimators, or dict from names to them
        Every method must have every parameter of the grid. On a `Control` task: control
        learners such as `GreedyGQ`.
    grid : mapping from parameters to lists of values
    data : Batch, FiniteMDP or Control
        A log (`featurize` makes its rows): all settings share its rows, and with several seeds its episodes are drawn
        with replacement. A finite problem: seed s stands for the rows of `problem.trajectory(n_rows, default_rng(s))`,
        and the metrics are exact. A `Control` task: one run of online control for every setting and seed.
    seeds : int or sequence of int
        How many, or which.
    metric : {"rmspbe", "mspbe", "neu", "value_error"} or dict from names to functions of the fitted model
    n_jobs : int
        Processes; −1 is one for each core. Each computes with one thread.
    backend : "cores", a name of a joblib backend ("dask", "ray", "threading", …) or "cuda"
        "cuda" runs the streaming methods on a GPU through CuPy, all settings at once.
    out : folder or None
        Where finished pieces are kept. If it holds a part of this very sweep, only the rest is run.
    progress : function of (finished, all) runs
    **options
        `n_rows`, `sampling` ("trajectory" or "independent") and `curve` (points of the learning curve) of a prediction
        task; `dtype` of the "cuda" backend.
    """
    which = list(range(seeds)) if isinstance(seeds, int) else [int(s) for s in seeds]
    if not which:
        raise ValueError("no seed was given: pass seeds=1 or more")
    dtype = options.pop("dtype", "float32")
    task = _task(data, metric, len(which) > 1, options)
    settings = settings_of(learners, grid)
    pieces = [(s, part) for s in which for part in _parts(len(settings), task.together)]
    found = _Folder(out, _description(task, settings, which, backend, dtype)) if out is not None else _Memory()
    todo = [i for i in range(len(pieces)) if not found.has(i)]
    done = [sum(len(part) for _, part in pieces) - sum(len(pieces[i][1]) for i in todo)]
    for i, rows in _run(task, settings, pieces, todo, n_jobs, backend, dtype):
        found.keep(i, rows)
        done[0] += len(rows)
        if progress is not None:
            progress(done[0], len(settings) * len(which))
    rows = [row for i in range(len(pieces)) for row in found.read(i)]
    table = Sweep.of(rows, tuple(grid), task.metrics, len(settings), len(which))
    if out is not None:
        replace_file(Path(out) / "table.csv", table.to_csv())
    return table


def _task(data: Any, metric: Metric, several: bool, options: dict[str, Any]) -> Task:
    if isinstance(data, Control):
        return data
    resampled = several and isinstance(data, Batch)
    if not isinstance(data, Batch) and not hasattr(data, "trajectory"):
        raise TypeError(
            f"a sweep runs on a Batch of rows, a finite problem or a Control task, not on {type(data).__name__}"
        )
    return Prediction(data, metric, resampled=resampled, **options)


def _parts(n: int, size: int) -> Iterator[list[int]]:
    return (list(range(first, min(first + size, n))) for first in range(0, n, size))


def _run(
    task: Task, settings: list[Setting], pieces: list[Piece], todo: list[int], n_jobs: int, backend: str, dtype: str
) -> Iterable[tuple[int, list[Row]]]:
    """The pieces in the order in which they finish."""
    if backend == "cuda":
        from sparsetd.sweeps.gpu import run_pieces

        return run_pieces(task, settings, pieces, todo, dtype)
    engine: dict[str, Any] = (
        {"backend": "loky", "inner_max_num_threads": 1} if backend == "cores" else {"backend": backend}
    )
    calls = (joblib.delayed(_piece)(task, [settings[k] for k in pieces[i][1]], pieces[i][0], i) for i in todo)
    with joblib.parallel_config(**engine):
        return joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls)


def _piece(task: Task, settings: list[Setting], seed: int, number: int) -> tuple[int, list[Row]]:
    """The rows of a piece. One thread: sums by several may differ in their last bits."""
    with threadpool_limits(1):
        data = task.data(seed)
        found = [task.run(s, data if hasattr(data, "phi") else task.data(seed)) for s in settings]
        return number, rows_of(settings, seed, found)


def _description(task: Task, settings: list[Setting], seeds: list[int], backend: str, dtype: str) -> dict[str, Any]:
    """What decides the rows; two sweeps share a folder only if all of this agrees."""
    learners = [[s.method, repr(s.learner)] for s in settings]
    numbers = dtype if backend == "cuda" else "float64"
    return {"learners": learners, "seeds": seeds, "data": task.fingerprint(), "numbers": numbers}


class _Memory(dict[int, list[Row]]):
    """Finished pieces of a sweep that keeps no files."""

    has, keep, read = dict.__contains__, dict.__setitem__, dict.__getitem__


class _Folder:
    """Finished pieces as files: rows/00012.jsonl, one JSON object for each row."""

    def __init__(self, folder: str | Path, description: dict[str, Any]) -> None:
        self._folder, text = Path(folder), json.dumps(description, indent=1, default=str)
        told = self._folder / "sweep.json"
        if told.exists() and told.read_text() != text:
            raise ValueError(f"the folder {folder} holds another sweep: choose another one, or delete it")
        (self._folder / "rows").mkdir(parents=True, exist_ok=True)
        replace_file(told, text)

    def _file(self, number: int) -> Path:
        return self._folder / "rows" / f"{number:05d}.jsonl"

    def has(self, number: int) -> bool:
        return self._file(number).exists()

    def keep(self, number: int, rows: list[Row]) -> None:
        replace_file(self._file(number), "".join(json.dumps(row) + "\n" for row in rows))

    def read(self, number: int) -> list[Row]:
        return [json.loads(line) for line in self._file(number).read_text().splitlines()]
