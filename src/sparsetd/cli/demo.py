"""The command demo: the library on problems with known answers."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsetd import plots
from sparsetd.cli.command import Console, Outcome, command, option
from sparsetd.cli.options import at_least, seed_of
from sparsetd.estimators import LSTD, ROTD, TD, TDC
from sparsetd.evaluation import Evaluation, evaluate
from sparsetd.logs import Transitions
from sparsetd.metrics import exact_rmspbe, value_error
from sparsetd.plots.draw import check_figure_path, save_figure
from sparsetd.problems import FiniteMDP, random_mdp, star
from sparsetd.report.words import Column, text_table
from sparsetd.selection import SparseTDSelect
from sparsetd.system import Array, Batch

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
PANELS = 3
POINTS = 60  # of a learning curve
COLOURS = {"TD": "black", "TDC": "#0072b2", "LSTD": "0.6", "RO-TD": "#d55e00", "SparseTDSelect": "#009e73"}
GROWN = 10.0  # a method whose error grew by this factor diverges, whether or not its numbers overflowed yet
COMPARED = ("LSTD, features that matter", "WIS", "DR")  # beside our own estimate of a policy's value
Progress = Callable[[str], None]


@command(
    option("--out FILE", f"plot file (default: {PLOT}, where matplotlib is installed)"),
    option("--no-plot", "draw nothing", bool),
    option(
        "--samples N", "transitions of the random process; the star gets 50 times as many", at_least(1, 10**6), 2000
    ),
    seed_of("the random numbers"),
)
def demo(args: Namespace, console: Console) -> Outcome:
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
    drawn = not args.no_plot and (args.out is not None or find_spec("matplotlib") is not None)
    target = PLOT if args.out is None else args.out
    if drawn:
        check_figure_path(target)
    result = try_methods(Settings(samples=args.samples, seed=args.random_state), console.progress)
    tables = [_table(problem, result.rows, console) for problem in result.problems]
    value, (low, high), exact = result.evaluation.value, result.evaluation.interval, result.exact_value
    worth = f"estimated {value:.2f}, 95% interval {low:.2f} to {high:.2f}; exact {exact:.2f}"
    text = "\n\n".join([*tables, f"what is another policy worth?\n{worth}", LEGEND])
    policy = {"value": value, "low": low, "high": high, "exact": exact}
    data = {"samples": args.samples, "seed": args.random_state, "rows": result.rows, "policy": policy, "plot": None}
    if drawn:
        console.progress("drawing")
        data["plot"] = str(save_figure(partial(plot, result), target, PANELS))
        text += f"\n\nplot: {data['plot']}"
    elif not args.no_plot:
        text += "\n\nno plot, because matplotlib is not installed: pip install matplotlib"
    return Outcome(text, data)


def _table(problem: Problem, rows: Sequence[dict[str, Any]], console: Console) -> str:
    mine = [row for row in rows if row["problem"] == problem.name]
    head = f"{problem.name}: {problem.question} ({problem.mdp.n_states} states, {problem.mdp.n_features} features)"
    return f"{head}\n{text_table(mine, COLUMNS, console.bold)}"


@dataclass(frozen=True)
class Settings:
    """The star gets 50 times the samples, enough for TD to overflow; the evaluation gets 5 times as many.

    Steps are automatic everywhere. Nothing is penalised on the star: its values are zero, so shrinking alone would look
    like learning. RO-TD's two penalties on the random process were picked with the exact answer in sight;
    docs/quickstart.md has the same settings on 20 other seeds.
    """

    samples: int = 2000
    seed: int = 0
    passes: int = 10


@dataclass(frozen=True)
class Problem:
    """A process with an exact answer, a log of its behaviour policy, and the methods to try on it."""

    name: str
    question: str
    mdp: FiniteMDP
    log: Batch
    methods: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Rows for every problem, method and the truth; learning curves by problem and method.

    `evaluation` is the value of a policy from another one's log, `exact_value` what it is worth.
    """

    problems: Sequence[Problem]
    rows: list[dict[str, Any]]
    curves: dict[tuple[str, str], tuple[Array, Array]]
    evaluation: Evaluation
    exact_value: float


def try_methods(settings: Settings, progress: Progress = lambda _: None) -> Result:
    """Collect transitions off-policy, fit every method, measure against the exact answer."""
    progress("collecting off-policy transitions")
    problems = [_star(settings), _random(settings)]
    progress("estimating the value of a policy from another one's log")
    result = Result(problems, [], {}, *_evaluation(problems[1].mdp, settings))
    for problem in problems:
        for method, estimator in problem.methods.items():
            progress(f"{problem.name}: fitting {method} to {len(problem.log)} transitions")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # that TD diverges is the point: the table says so
                result.curves[problem.name, method] = _learn(estimator, problem)
            result.rows.append(_row(problem, method, estimator.coef_, _status(estimator, problem)))
        result.rows.append(_row(problem, "exact", problem.mdp.theta_star, None))
    return result


def _star(settings: Settings) -> Problem:
    mdp = star()
    common: dict[str, Any] = {"gamma": mdp.gamma, "coef_init": mdp.theta0}
    methods = {"TD": TD(**common), "TDC": TDC(**common), "LSTD": LSTD(gamma=mdp.gamma), "RO-TD": ROTD(**common)}
    log = mdp.trajectory(50 * settings.samples, np.random.default_rng([settings.seed, 0]))
    return Problem("star", "does it converge off-policy?", mdp, log, methods)


def _random(settings: Settings) -> Problem:
    rng = np.random.default_rng([settings.seed, 1])
    mdp = random_mdp(rng, n_states=200, n_features=100, n_relevant=5, reward_noise=0.3)
    common: dict[str, Any] = {"gamma": mdp.gamma, "n_passes": settings.passes}
    methods = {
        "TD": TD(**common),
        "TDC": TDC(**common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(rho_theta=0.2, rho_w=2.0, **common),
        "SparseTDSelect": SparseTDSelect(gamma=mdp.gamma),
    }
    return Problem("random MDP", "which features matter?", mdp, mdp.trajectory(settings.samples, rng), methods)


def _evaluation(mdp: FiniteMDP, settings: Settings) -> tuple[Evaluation, float]:
    """Episodes of 20 steps of the behaviour policy tell what the target policy is worth at the start."""
    log = mdp.trajectory(max(200, 5 * settings.samples), np.random.default_rng([settings.seed, 2]), horizon=20)
    columns: dict[str, Any] = {"ratio": log.ratio, "start": log.start, "truncated": np.append(log.start[1:], True)}
    episodes = Transitions.from_arrays(log.phi, log.reward, log.phi_next, **columns)
    result = evaluate(episodes, gamma=mdp.gamma, n_resamples=0, n_folds=min(5, episodes.n_episodes))
    return result, float(mdp.start @ mdp.value)


def _status(estimator: Any, problem: Problem) -> str:
    """Why the fit ended; "diverged" also where the error grew without the numbers having overflowed."""
    begun = np.zeros(problem.mdp.n_features) if estimator.coef_init is None else estimator.coef_init
    first = exact_rmspbe(problem.mdp, begun)
    grown = exact_rmspbe(problem.mdp, estimator.coef_) > GROWN * max(first, 1e-9)
    return "diverged" if grown else str(estimator.status_)


def _learn(estimator: Any, problem: Problem) -> tuple[Array, Array]:
    """Fit, and return a curve: the exact RMSPBE after so many transitions. A stream is fed bit by bit."""
    n, streamed = len(problem.log), getattr(estimator, "n_passes", None) == 1
    seen = np.unique(np.geomspace(min(100, n), n, POINTS).astype(int)) if streamed else np.array([n])
    errors = np.empty(len(seen))
    for i, (first, last) in enumerate(pairwise([0, *seen])):
        fit, some = estimator.partial_fit if streamed else estimator.fit, problem.log[first:last]
        fit(some.phi, some.reward, some.phi_next, **some.columns)
        errors[i] = exact_rmspbe(problem.mdp, estimator.coef_)
    return seen, errors


def _row(problem: Problem, method: str, weights: Any, status: str | None) -> dict[str, Any]:
    coef = np.asarray(weights)
    size = np.abs(coef)
    return {
        "problem": problem.name,
        "method": method,
        "value_error": round(value_error(problem.mdp, coef), 12),  # the exact answer is exact up to rounding
        "rmspbe": round(exact_rmspbe(problem.mdp, coef), 12),
        "nonzeros": int(np.count_nonzero(coef)),
        "large": int(np.sum(size > 0.1 * size.max())),
        "features": len(coef),
        "status": status,
    }


def plot(result: Result, axes: Sequence[Any]) -> None:
    """RMSPBE on the star while learning, the weights on the random process, and a policy's value with intervals."""
    _plot_curves(result, result.problems[0].name, axes[0])
    _plot_weights(result.problems[1], axes[1])
    _plot_values(result, axes[2])


def _plot_curves(result: Result, name: str, axis: Any) -> None:
    for method in ("TD", "TDC", "RO-TD"):  # LSTD is exactly zero: nothing to see on a logarithmic axis
        seen, errors = result.curves[name, method]
        axis.plot(seen, np.minimum(errors, 1e12), label=method, color=COLOURS[method], linewidth=2)
    axis.set(xscale="log", yscale="log", ylim=(3e-3, 1e5), xlabel="transitions seen", ylabel="exact error (RMSPBE)")
    axis.set_title("Off-policy, TD diverges; TDC and RO-TD do not")
    axis.legend()


def _plot_weights(problem: Problem, axis: Any) -> None:
    truth = np.asarray(problem.mdp.theta_star)
    order = np.argsort(-np.abs(truth), kind="stable")
    place = np.arange(1, len(order) + 1)
    axis.plot(place, problem.methods["LSTD"].coef_[order], ".", color=COLOURS["LSTD"], label="LSTD")
    coef = problem.methods["SparseTDSelect"].coef_[order]
    kept = coef != 0
    shown = f"SparseTDSelect: {kept.sum()} features"
    axis.plot(place[kept], coef[kept], "o", color=COLOURS["SparseTDSelect"], label=shown)
    relevant = np.count_nonzero(truth)
    axis.plot(place[:relevant], truth[order[:relevant]], "_", color="black", markersize=14, label="truth")
    axis.set(xscale="log", xlabel="feature, the relevant ones first", ylabel="weight")  # log: room for those few
    axis.set_xticks([1, relevant, len(truth)], ["1", str(relevant), str(len(truth))])
    axis.set_title(f"{relevant} of {len(truth)} features matter")
    axis.legend()


def _plot_values(result: Result, axis: Any) -> None:
    """One line per estimator, ours at the top, and the truth."""
    found = result.evaluation
    estimates = [found.estimate, *(e for e in found.comparisons if e.name in COMPARED)]
    plots.forest([(e.name, e.value, e.interval(found.level)) for e in estimates], axis, label="value of the policy")
    axis.axvline(result.exact_value, color="black", linestyle="--", linewidth=1, label="truth")
    axis.set_title(f"A policy's value with its {100 * found.level:.0f} % interval")
    axis.legend()
