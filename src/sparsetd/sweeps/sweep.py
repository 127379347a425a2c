"""`sweep`: every setting with every seed, in parallel, kept as it goes.

The work is cut into pieces (one seed, a few settings) in an order that depends only on the sweep itself. A piece that
is done is an entry of a `Cache`: a sweep that was interrupted goes on where it stopped when it is called again with the
same folder, and one with more seeds runs only these. Neither the number of workers nor their fate changes a byte of the
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparsetd._tools.lazy_names import renamed
from sparsetd._tools.progress import track
from sparsetd._tools.workers import delayed, in_processes, thread_pools
from sparsetd.estimators.validation import nearest
from sparsetd.storage.atomic import replace_file
from sparsetd.storage.cache import Cache, key_of
from sparsetd.storage.container import Encoder
from sparsetd.sweeps.results import Row, Sweep
from sparsetd.sweeps.tasks import Control, Grid, Metric, Prediction, Setting, Task, labelled, settings_of, trace_for
from sparsetd.system import Batch

Progress = Callable[[int, int], None]
Piece = tuple[int, list[int]]  # a seed, and which settings
OPTIONS = ("n_rows", "sampling", "curve", "dtype")


@renamed
def sweep(
    learners: Any,
    grid: Grid,
    data: Any,
    *,
    n_runs: int = 1,
    random_state: int = 0,
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
        Every method must have every parameter of the grid. On a `Control` task: learners such as
        `EstimatorLearner(GQ(), n_actions=3)`, whose grid names parameters as scikit-learn does: `estimator__step_size`.
    grid : mapping from parameters to lists of values
        Not `gamma`: the discount is that of the data, whatever a method says.
    data : Batch, FiniteMDP or Control
        A log (`featurize` makes its rows): all settings share its rows, and with several seeds its episodes are drawn
        with replacement. A finite problem: seed s stands for the rows of `problem.trajectory(n_rows, default_rng(s))`,
        and the metrics are exact; without `coef_init` an estimator starts at the `theta0` of the problem. A `Control`
        task: one run of online control for every setting and seed.
    n_runs, random_state : int
        Runs of every setting, with the seeds random_state, random_state + 1 …
    metric : {"rmspbe", "mspbe", "neu", "value_error"}, several of them, or dict from names to functions of the model
        Learning curves show the first.
    n_jobs : int
        Processes; −1 is one for each core. Each computes with one thread.
    backend : "cores", a name of a joblib backend ("dask", "ray", "threading", …) or "cuda"
        "cuda" runs the streaming methods on a GPU through CuPy, all settings at once.
    out : folder or None
        Where finished pieces are kept and, at the end, the table. Pieces found there are not run again.
    progress : function of (finished, all) runs
    **options
        `n_rows`, `sampling` ("trajectory" or "independent") and `curve` (points of the learning curve) of a prediction
        task; `dtype` of the "cuda" backend.

    Examples
    --------
    >>> from sparsetd import TD, TDC, sweep
    >>> from sparsetd.problems import random_walk
    >>> walk, grid = random_walk(gamma=0.9), {'step_size': [0.01, 0.1]}
    >>> table = sweep([TD(gamma=0.9), TDC(gamma=0.9)], grid, walk, n_runs=2, n_rows=500, n_jobs=1)
    >>> table
    Sweep of TD, TDC over step_size: 8 runs
    TD and TDC are best at the largest step_size of the grid, 0.1: try larger values too.
    >>> table.metrics
    ('rmspbe',)
    """
    if n_runs < 1:
        raise ValueError(f"n_runs={n_runs} runs nothing: pass 1 or more")
    which = range(random_state, random_state + n_runs)
    if unknown := options.keys() - set(OPTIONS):
        raise TypeError(nearest("sweep's option", min(unknown), OPTIONS))
    dtype = options.pop("dtype", "float32")
    if "gamma" in grid and not isinstance(data, Control):
        raise ValueError("the discount belongs to the data, whose rows hold it: sweep data made with each gamma apart")
    settings = settings_of(learners, grid, n_runs)
    if isinstance(data, Control):
        task: Task = data
    elif isinstance(data, Batch) or hasattr(data, "trajectory"):
        again = n_runs > 1 and isinstance(data, Batch)
        task = Prediction(data, metric, resampled=again, trace=trace_for(settings, data, metric), **options)
    else:
        what = "a Batch of rows (`featurize` makes it of a log), a finite problem or a Control task"
        raise TypeError(f"a sweep runs on {what}, not on {type(data).__name__}")
    starts, every = range(0, len(settings), task.together), list(range(len(settings)))
    pieces = [(s, every[first : first + task.together]) for s in which for first in starts]
    kept = Cache(None if out is None else Path(out) / "rows", tidy=True)
    keys = _keys(task, settings, pieces, dtype if backend == "cuda" else "float64") if out is not None else pieces
    found = {i: rows for i, key in enumerate(keys) if (rows := kept.get(str(key))) is not None}
    todo, done = [i for i in range(len(pieces)) if i not in found], sum(map(len, found.values()))
    for i, rows in track(_run(task, settings, pieces, todo, n_jobs, backend, dtype), "pieces of work", len(todo)):
        kept.put(str(keys[i]), rows)
        found[i], done = rows, done + len(rows)
        if progress is not None:
            progress(done, len(settings) * n_runs)
    by_seed = [row for i in range(len(pieces)) for row in found[i]]
    by_setting = [row for k in range(len(settings)) for row in by_seed[k :: len(settings)]]
    table = Sweep(by_setting, tuple(grid), task.metrics)
    if out is not None:
        replace_file(Path(out) / "table.csv", table.to_csv())
    return table


def _run(
    task: Task, settings: list[Setting], pieces: list[Piece], todo: list[int], n_jobs: int, backend: str, dtype: str
) -> Iterable[tuple[int, list[Row]]]:
    """The pieces in the order in which they finish."""
    if backend == "cuda":
        from sparsetd.sweeps.gpu import run_pieces

        return run_pieces(task, settings, pieces, todo, dtype)
    calls = (delayed(_piece)(task, [settings[k] for k in pieces[i][1]], pieces[i][0], i) for i in todo)
    return in_processes(calls, n_jobs, ordered=False, backend="loky" if backend == "cores" else backend)


def _piece(task: Any, settings: list[Setting], seed: int, number: int) -> tuple[int, list[Row]]:
    """The rows of a piece, from data that the task itself made. One thread: sums by several differ in last bits."""
    with thread_pools().limit(limits=1, user_api="blas"):
        data = task.data(seed)
        found = [task.run(s, data if hasattr(data, "phi") else task.data(seed)) for s in settings]
        return number, labelled(settings, seed, found)


def _keys(task: Task, settings: list[Setting], pieces: list[Piece], numbers: str) -> list[str]:
    """A key for every piece: the data, the learners with all of their values, the seed, and the kind of numbers.

    The key of an estimator also covers its operator, penalty and solver, and the result of a short run where code of
    the user's own is among them: users may have edited theirs since.
    """
    data = key_of(task.description(settings[0]), numbers)
    try:
        learners = [_learner_key(task, setting) for setting in settings]
    except TypeError as problem:
        said = f"A sweep with `out` keeps its settings in files, and {problem}"
        raise TypeError(f"{said} Without `out` the sweep runs as it is.") from None
    return [key_of(data, seed, [learners[k] for k in part]) for seed, part in pieces]


def _learner_key(task: Task, setting: Setting) -> str:
    parts = setting.learner.triple() if hasattr(setting.learner, "triple") else None
    method = [setting.method, setting.values, setting.learner, parts]
    encoder = Encoder(compact=False)
    encoder.encode(method)
    own = any(thing.__module__.partition(".")[0] != "sparsetd" for thing in encoder.code)
    return key_of(*method, task.short(setting) if own else None)
