"""Two small off-policy problems with exact answers, and what TD, TDC, LSTD and RO-TD make of them.

The star asks whether a method converges at all: transitions come from a behaviour that hardly ever does what the
target policy does, and TD diverges. The random process asks which features matter: few samples, a hundred features,
five of which make the value function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.estimators import LSTD, ROTD, TD, TDC
from sparsetd.metrics import exact_rmspbe, value_error
from sparsetd.problems import FiniteMDP, random_mdp, star
from sparsetd.system import Array, Batch

__all__ = ["PANELS", "Problem", "Result", "Settings", "plot", "run"]

PANELS = 2
CHUNKS = 10  # points of a learning curve in each pass over the data
COLOURS = {"TD": "tab:red", "TDC": "tab:blue", "LSTD": "0.6", "RO-TD": "tab:green"}
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What the demonstration does; every value is ours."""

    samples: int = 2000
    passes: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Problem:
    """A process with an exact answer, transitions of its behaviour policy, and the methods to try on them."""

    name: str
    question: str
    mdp: FiniteMDP
    batch: Batch
    methods: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Rows for every problem, method and the truth; learning curves and coefficients by problem and method."""

    problems: Sequence[Problem]
    rows: list[dict[str, Any]]
    curves: dict[str, dict[str, tuple[list[int], list[float]]]]
    coef: dict[str, dict[str, Array]]


def run(settings: Settings, progress: Progress = lambda _: None) -> Result:
    """Collect transitions off-policy, fit every method, measure against the exact answer."""
    progress(f"collecting {settings.samples} off-policy transitions of each problem")
    problems = [_star(settings), _random(settings)]
    result = Result(problems, [], {p.name: {} for p in problems}, {p.name: {} for p in problems})
    for problem in problems:
        for method, estimator in problem.methods.items():
            progress(f"fitting {method} on {problem.name}")
            result.curves[problem.name][method] = _learn(estimator, problem, settings.passes)
            result.coef[problem.name][method] = estimator.coef_
            result.rows.append(_row(problem, method, estimator.coef_, estimator.status_))
        assert problem.mdp.theta_star is not None
        result.rows.append(_row(problem, "exact", problem.mdp.theta_star, None))
    return result


def _star(settings: Settings) -> Problem:
    mdp = star()
    assert mdp.theta0 is not None
    common = {"gamma": mdp.gamma, "step_size": 0.01, "coef_init": mdp.theta0}
    methods = {
        "TD": TD(**common),
        "TDC": TDC(eta=10.0, **common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(rho_theta=0.05, rho_w=1.0, **common),
    }
    batch = mdp.trajectory(settings.samples, np.random.default_rng([settings.seed, 0]))
    return Problem("star", "does it converge off-policy?", mdp, batch, methods)


def _random(settings: Settings) -> Problem:
    rng = np.random.default_rng([settings.seed, 1])
    mdp = random_mdp(rng, n_states=200, n_features=100, n_relevant=5, reward_noise=0.3)
    common = {"gamma": mdp.gamma, "step_size": 0.001}
    methods = {
        "TD": TD(**common),
        "TDC": TDC(**common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(rho_theta=0.2, rho_w=2.0, **common),
    }
    return Problem("random MDP", "which features matter?", mdp, mdp.trajectory(settings.samples, rng), methods)


def _learn(estimator: Any, problem: Problem, passes: int) -> tuple[list[int], list[float]]:
    """Stream the data through `partial_fit`, pass after pass; (transitions seen, exact RMSPBE) after every chunk."""
    seen, errors = [0], [exact_rmspbe(problem.mdp, problem.mdp.theta0)]
    chunks = np.array_split(np.arange(len(problem.batch)), CHUNKS)
    passes = 1 if isinstance(estimator, LSTD) else passes  # a second pass changes nothing for LSTD
    for rows in [chunk for _ in range(passes) for chunk in chunks if len(chunk)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TD diverges is the point: the table says so
            _partial_fit(estimator, problem.batch[rows])
        seen.append(seen[-1] + len(rows))
        errors.append(exact_rmspbe(problem.mdp, estimator.coef_))
    return seen, errors


def _partial_fit(estimator: Any, batch: Batch) -> None:
    estimator.partial_fit(
        batch.phi, batch.reward, batch.phi_next, ratio=batch.ratio, discount=batch.discount, start=batch.start
    )


def _row(problem: Problem, method: str, coef: Array, status: str | None) -> dict[str, Any]:
    size = np.abs(coef)
    return {
        "problem": problem.name,
        "method": method,
        "value_error": value_error(problem.mdp, coef),
        "rmspbe": exact_rmspbe(problem.mdp, coef),
        "nonzeros": int(np.count_nonzero(coef)),
        "large": int(np.sum(size > 0.1 * size.max())),
        "features": len(coef),
        "status": status,
    }


def plot(result: Result, axes: Sequence[Any]) -> None:
    """Left: RMSPBE on the star while learning. Right: the weights on the random process beside the true ones."""
    _plot_curves(result, result.problems[0].name, axes[0])
    _plot_weights(result, result.problems[1], axes[1])


def _plot_curves(result: Result, name: str, axis: Any) -> None:
    for method, (seen, errors) in result.curves[name].items():
        if method != "LSTD":  # exactly zero: nothing to see on a logarithmic axis
            axis.plot(seen, np.clip(errors, 1e-12, 1e12), label=method, color=COLOURS[method])
    axis.set(yscale="log", ylim=(1e-3, 1e4), xlabel="transitions seen", ylabel="exact RMSPBE")
    axis.set_title("star: TD diverges, TDC and RO-TD do not")
    axis.legend()


def _plot_weights(result: Result, problem: Problem, axis: Any) -> None:
    truth = problem.mdp.theta_star
    assert truth is not None
    order = np.argsort(-np.abs(truth), kind="stable")
    place = np.arange(1, len(order) + 1)
    axis.plot(place, truth[order], "_", color="black", markersize=9, label="exact")
    for method in ("LSTD", "RO-TD"):
        coef = result.coef[problem.name][method]
        axis.plot(place, coef[order], ".", color=COLOURS[method], markersize=4, label=method)
    axis.set(xlabel="feature, the relevant ones first", ylabel="weight")
    axis.set_title("random MDP: weights, 5 of 100 relevant")
    axis.legend()
