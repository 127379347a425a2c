"""The command demo: the library on problems with known answers."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsetd._tools.progress import say
from sparsetd.cli.command import Outcome, bold, command, option
from sparsetd.cli.options import at_least, seed_of
from sparsetd.estimators import LSTD, ROTD, TD, TDC
from sparsetd.evaluation import Evaluation, evaluate
from sparsetd.logs import Transitions
from sparsetd.metrics import exact_rmspbe, value_error
from sparsetd.plots.draw import check_figure_path, save_figure
from sparsetd.problems import FiniteMDP, random_mdp, star
from sparsetd.report.document import aligned
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

COLUMNS = ("method", "value error", "RMSPBE", "non-zeros", "> 10 %", "status")
KEYS = ("method", "value_error", "rmspbe", "nonzeros", "large", "status")
PLOT = "sparsetd-demo.png"
PANELS = 3
POINTS = 60  # of a learning curve
COLOURS = {"TD": "black", "TDC": "#0072b2", "LSTD": "0.6", "RO-TD": "#d55e00", "SparseTDSelect": "#009e73"}
GROWN = 10.0  # a method whose error grew by this factor diverges, whether or not its numbers overflowed yet


@command(
    option("--out FILE", f"plot file (default: {PLOT}, where matplotlib is installed)"),
    option("--no-plot", "draw nothing", bool),
    option(
        "--samples N", "transitions of the random process; the star gets 50 times as many", at_least(1, 10**6), 2000
    ),
    seed_of("the random numbers"),
)
def demo(args: Namespace) -> Outcome:
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
    problems, found, exact = try_methods(args.samples, args.random_state)
    texts, rows = [], [row for problem in problems for row in problem.rows]
    for problem in problems:
        size = f"{problem.mdp.n_states} states, {problem.mdp.n_features} features"
        table = aligned([COLUMNS, *([row[key] for key in KEYS] for row in problem.rows)], bold)
        texts.append("\n".join([f"{problem.name}: {problem.question} ({size})", *table]))
    low, high = found.interval
    worth = f"estimated {found.value:.2f}, 95% interval {low:.2f} to {high:.2f}; exact {exact:.2f}"
    text = "\n\n".join([*texts, f"what is another policy worth?\n{worth}", LEGEND])
    policy = {"value": found.value, "low": low, "high": high, "exact": exact}
    data = {"samples": args.samples, "seed": args.random_state, "rows": rows, "policy": policy, "plot": None}
    if drawn:
        say("drawing")
        data["plot"] = str(save_figure(partial(plot, problems, found, exact), target, PANELS))
        text += f"\n\nplot: {data['plot']}"
    elif not args.no_plot:
        text += "\n\nno plot, because matplotlib is not installed: pip install matplotlib"
    return text, data


@dataclass(frozen=True)
class Problem:
    """A process with an exact answer, a log of its behaviour policy, and the methods to try on it.

    Once they were tried, there is a row for every method and for the truth, and a learning curve for every method.
    """

    name: str
    question: str
    mdp: FiniteMDP
    log: Batch
    methods: Mapping[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    curves: dict[str, tuple[Array, Array]] = field(default_factory=dict)


def try_methods(samples: int, seed: int, passes: int = 10) -> tuple[list[Problem], Evaluation, float]:
    """Collect transitions off-policy, fit every method, and measure it against the exact answer.

    Returns the problems, and the value of a policy: estimated from another policy's log, and exact.
    """
    say("collecting off-policy transitions")
    problems = [_star(samples, seed), _random(samples, seed, passes)]
    say("estimating the value of a policy from another one's log")
    found, exact = _evaluation(problems[1].mdp, samples, seed)
    for problem in problems:
        for method, estimator in problem.methods.items():
            say(f"{problem.name}: fitting {method} to {len(problem.log)} transitions")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # that TD diverges is the point: the table says so
                problem.curves[method] = _learn(estimator, problem)
            begun = np.zeros(problem.mdp.n_features) if estimator.coef_init is None else estimator.coef_init
            first, last = (exact_rmspbe(problem.mdp, coef) for coef in (begun, estimator.coef_))
            status = "diverged" if last > GROWN * max(first, 1e-9) else str(estimator.status_)
            problem.rows.append(_row(problem, method, estimator.coef_, status))
        problem.rows.append(_row(problem, "exact", np.asarray(problem.mdp.theta_star), None))
    return problems, found, exact


def _star(samples: int, seed: int) -> Problem:
    """Baird's star, with 50 times the samples: enough for TD to overflow.

    Nothing is penalised: its values are zero, so shrinking alone would look like learning.
    """
    mdp = star()
    common: dict[str, Any] = {"gamma": mdp.gamma, "coef_init": mdp.theta0}
    methods = {"TD": TD(**common), "TDC": TDC(**common), "LSTD": LSTD(gamma=mdp.gamma), "RO-TD": ROTD(**common)}
    log = mdp.trajectory(50 * samples, np.random.default_rng([seed, 0]))
    return Problem("star", "does it converge off-policy?", mdp, log, methods)


def _random(samples: int, seed: int, passes: int) -> Problem:
    """A random process with 100 features; five of them matter.

    RO-TD's two penalties were picked with the exact answer in sight; docs/quickstart.md has the same settings on 20
    other seeds.
    """
    rng = np.random.default_rng([seed, 1])
    mdp = random_mdp(rng, n_states=200, n_features=100, n_relevant=5, reward_noise=0.3)
    common: dict[str, Any] = {"gamma": mdp.gamma, "n_passes": passes}
    methods = {
        "TD": TD(**common),
        "TDC": TDC(**common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(rho_theta=0.2, rho_w=2.0, **common),
        "SparseTDSelect": SparseTDSelect(gamma=mdp.gamma),
    }
    return Problem("random MDP", "which features matter?", mdp, mdp.trajectory(samples, rng), methods)


def _evaluation(mdp: FiniteMDP, samples: int, seed: int) -> tuple[Evaluation, float]:
    """The value of the target policy: estimated from episodes of 20 steps of the behaviour policy, and exact."""
    log = mdp.trajectory(max(200, 5 * samples), np.random.default_rng([seed, 2]), horizon=20)
    columns: dict[str, Any] = {"ratio": log.ratio, "start": log.start, "truncated": np.append(log.start[1:], True)}
    episodes = Transitions.from_arrays(log.phi, log.reward, log.phi_next, **columns)
    result = evaluate(episodes, gamma=mdp.gamma, n_resamples=0, n_folds=min(5, episodes.n_episodes))
    return result, float(mdp.start @ mdp.value)


def _learn(estimator: Any, problem: Problem) -> tuple[Array, Array]:
    """Fit, and return a learning curve: numbers of transitions, and the exact RMSPBE after each of them."""
    n, streamed = len(problem.log), getattr(estimator, "n_passes", None) == 1
    seen = np.unique(np.geomspace(min(100, n), n, POINTS).astype(int)) if streamed else np.array([n])
    errors = np.empty(len(seen))
    for i, (first, last) in enumerate(pairwise([0, *seen])):
        fit, some = estimator.partial_fit if streamed else estimator.fit, problem.log[first:last]
        fit(some.phi, some.reward, some.phi_next, **some.columns)
        errors[i] = exact_rmspbe(problem.mdp, estimator.coef_)
    return seen, errors


def _row(problem: Problem, method: str, coef: Array, status: str | None) -> dict[str, Any]:
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


def plot(problems: Sequence[Problem], found: Evaluation, exact: float, axes: Sequence[Any]) -> None:
    """RMSPBE on the star while learning, the weights on the random process, and a policy's value with intervals."""
    learning, weights, values = axes
    for method in ("TD", "TDC", "RO-TD"):  # LSTD is exactly zero: nothing to see on a logarithmic axis
        seen, errors = problems[0].curves[method]
        learning.plot(seen, np.minimum(errors, 1e12), label=method, color=COLOURS[method], linewidth=2)
    learning.set(xscale="log", yscale="log", ylim=(3e-3, 1e5), xlabel="transitions seen", ylabel="exact error (RMSPBE)")
    learning.set_title("Off-policy, TD diverges; TDC and RO-TD do not")
    _plot_weights(problems[1], weights)
    found.plot(values)
    values.axvline(exact, color="black", linestyle="--", linewidth=1, label="truth")
    values.set_title(f"A policy's value with its {100 * found.level:.0f} % interval")
    for axis in axes:
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
