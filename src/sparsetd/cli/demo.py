"""Try the library on problems with known answers.

Three small questions whose answers are known exactly. Does a method converge off-policy? On
Baird's star TD diverges, while TDC and RO-TD do not. Which features matter? Five out of 100
make the values of a random process. What is a policy worth? The log of another policy tells,
with an interval. Tables show how far off each method is, and a picture shows all three.

examples:
  sparsetd demo                          print the tables, draw sparsetd-demo.png
  sparsetd demo --out curves.svg         draw somewhere else (.png, .svg or .pdf)
  sparsetd demo --no-plot --json         numbers only, for a program
  sparsetd demo --samples 5000 --random-state 1    more data, other data
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from sparsetd.cli import demo_questions as demo
from sparsetd.cli.command import Command, Outcome, words
from sparsetd.cli.console import Console
from sparsetd.cli.options import add_random_state, at_least
from sparsetd.plots.save import check_figure_path, save_figure
from sparsetd.report.table import Column, text_table

LEGEND = """\
value error: root mean square distance to the exact values
RMSPBE:      root of the mean square projected Bellman error
non-zeros:   weights that are not exactly zero (RO-TD reports an average, which never has exact zeros;
             SparseTDSelect solves the batch problem to a certified gap and refits what it selects)
> 10 %:      weights above a tenth of the largest one
Steps are automatic. Nothing is penalised on the star. RO-TD's penalties on the random MDP were picked
with the exact answer in sight; the quickstart shows the same settings on 20 other seeds."""

COLUMNS = (
    Column("method", "method"),
    Column("value_error", "value error", ".3g"),
    Column("rmspbe", "RMSPBE", ".3g"),
    Column("nonzeros", "non-zeros", "d"),
    Column("large", "> 10 %", "d"),
    Column("status", "status"),
)


PLOT = "sparsetd-demo.png"


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", metavar="FILE", help=f"plot file (default: {PLOT}, where matplotlib is installed)")
    add("--no-plot", action="store_true", help="draw nothing")
    add(
        "--samples",
        type=at_least(1, 10**6),
        default=2000,
        metavar="N",
        help="transitions of the random process; the star gets 50 times as many (default: %(default)s)",
    )
    add_random_state(parser, "the random numbers")


def run(args: Namespace, console: Console) -> Outcome:
    drawn = not args.no_plot and (args.out is not None or find_spec("matplotlib") is not None)
    target = PLOT if args.out is None else args.out
    if drawn:
        check_figure_path(target)
    result = demo.run(demo.Settings(samples=args.samples, seed=args.random_state), console.progress)
    tables = [_section(problem, result.rows, console) for problem in result.problems]
    text = "\n\n".join([*tables, _value(result), LEGEND])
    low, high = result.evaluation.interval
    value = {"value": result.evaluation.value, "low": low, "high": high, "exact": result.exact_value}
    data = {"samples": args.samples, "seed": args.random_state, "rows": result.rows, "policy": value, "plot": None}
    if drawn:
        console.progress("drawing")
        data["plot"] = str(save_figure(partial(demo.plot, result), target, demo.PANELS))
        text += f"\n\nplot: {data['plot']}"
    elif not args.no_plot:
        text += "\n\nno plot, because matplotlib is not installed: pip install matplotlib"
    return Outcome(text, data)


def _value(result: demo.Result) -> str:
    low, high = result.evaluation.interval
    return (
        "what is another policy worth?\n"
        f"estimated {result.evaluation.value:.2f}, 95% interval {low:.2f} to {high:.2f}; exact {result.exact_value:.2f}"
    )


def _section(problem: demo.Problem, rows: Sequence[dict[str, Any]], console: Console) -> str:
    mine = [row for row in rows if row["problem"] == problem.name]
    head = f"{problem.name}: {problem.question} ({problem.mdp.n_states} states, {problem.mdp.n_features} features)"
    return f"{head}\n{text_table(mine, COLUMNS, console.bold)}"


DEMO = Command("demo", *words(__doc__), arguments, run)
