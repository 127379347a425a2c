"""The command sweep: methods over grids of settings and seeds."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.cli.command import Outcome, bold, command, option
from sparsetd.cli.models import method_named, value_of
from sparsetd.cli.options import GAMMA, N_JOBS, SOURCES, Assignments, assignment, at_least, passed, seed_of
from sparsetd.report.document import aligned
from sparsetd.sweeps.tasks import MOST

PROBLEMS = ("random-walk", "star", "boyan-chain", "random-mdp")


def values_of(text: str) -> list[Any]:
    """The values of one parameter: a list, or a range."""
    if text.count(":") != 2:
        return [value_of(value) for value in text.split(",")]
    low, high, count = text.split(":")
    spaced, number = np.geomspace if count.endswith("log") else np.linspace, count.removesuffix("log")
    try:
        if int(number) > MOST:
            raise ArgumentTypeError(f"has {int(number):,} values, more than {MOST:,}: give fewer")
        return [float(v) for v in spaced(float(low), float(high), int(number))]
    except ValueError:
        raise ArgumentTypeError(f"must be a range such as 1e-4:1:20log, not '{text}'") from None


axis = assignment("NAME=VALUES", values_of)


@command(
    option("data PROBLEM_OR_LOG", f"one of {', '.join(PROBLEMS)}, or a log: {SOURCES}"),
    option("--method NAME", "estimators, such as TDC ROTD", nargs="+", required=True),
    option("--grid NAME=VALUES", "parameters and their values", axis, nargs="+", required=True, action=Assignments),
    option("--n-runs N", "runs of each setting", at_least(1), 1),
    seed_of("the first run; the next ones follow"),
    option("--metric NAME", "rmspbe, mspbe, neu, or value_error on a problem", default="rmspbe"),
    option("--rows N", "rows of a run on a problem", at_least(1, 10**8), 1000),
    GAMMA,
    (N_JOBS[0], N_JOBS[1] | {"default": -1}),
    option("--backend NAME", "cores, cuda (a GPU through CuPy) or a joblib backend", default="cores"),
    option("--out DIR", "where rows, table and figures go", Path, required=True),
)
def sweep(args: Namespace) -> Outcome:
    """Compare methods over grids of settings and seeds, with sensitivity curves.

    Runs every method with every combination of the grid's values and every seed. On a problem with a
    known answer (random-walk, star, boyan-chain, random-mdp) each seed is a fresh stretch of --rows
    transitions and the errors are exact; on a log all settings share its rows, and several seeds draw
    its episodes with replacement. Finished runs are kept in DIR: after an interruption the same command
    goes on where it stopped. DIR/table.csv and DIR/<parameter>.png are made at the end.

    Values of a grid: a list (1,4,16), a range (0:1:11 is 11 values from 0 to 1), or a range that is
    evenly spaced on a logarithmic scale (1e-4:1:20log).

    examples:
      sparsetd sweep random-walk --method TDC ROTD --grid step_size=1e-3:1:13log eta=1,4 --n-runs 30 --out walk
      sparsetd sweep log.parquet --method TDC --grid step_size=1e-4:1e-1:7log --gamma 0.95 --out on-my-log
    """
    from sparsetd import sweeps
    from sparsetd.plots.draw import save_figure

    learners = [method_named(name)(gamma=args.gamma) for name in args.method]
    rows = {"n_rows": args.rows} if args.data in PROBLEMS else {}
    table = passed(sweeps.sweep, args, learners=learners, data=_data(args), **rows)
    numeric = [name for name, values in args.grid.items() if len(values) > 1 and isinstance(values[0], (int, float))]
    pictures = [
        str(save_figure(lambda axes, name=name: table.plot(name, ax=axes[0]), args.out / f"{name}.png"))  # type: ignore[misc]
        for name in numeric
    ]
    best = table.best()
    heads = ["best of each method", *table.parameters, f"{args.metric}, mean", "±", "diverged"]
    keys = ["method", *table.parameters, "mean", "half", "failed"]
    shown = aligned([heads, *([row.get(key) for key in keys] for row in best)], bold)
    edges = table.edges()
    lines = [*shown, *edges, "", f"table: {args.out / 'table.csv'}"]
    told = {"best": best, "edges": edges, "figures": pictures}
    return "\n".join([*lines, *(f"figure: {p}" for p in pictures)]), told


def _data(args: Namespace) -> Any:
    """A finite problem by name, or the standardised columns of a log with a constant."""
    from sparsetd import problems
    from sparsetd.features.featurize import featurize, fit_features
    from sparsetd.logs import read

    if args.data == "random-mdp":
        return problems.random_mdp(np.random.default_rng(0))
    if args.data in PROBLEMS:
        return getattr(problems, args.data.replace("-", "_"))()
    if not Path(args.data).exists() and "." not in args.data and ":" not in args.data:
        raise ValueError(f"'{args.data}' is neither a file nor one of the problems {', '.join(PROBLEMS)}")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    log = read(args.data)
    columns = make_pipeline(StandardScaler(), PolynomialFeatures(degree=1))  # the constant is a feature like any other
    return featurize(log, fit_features(log, columns), args.gamma)
