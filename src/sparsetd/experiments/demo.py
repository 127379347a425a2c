"""Two small off-policy problems with exact answers, and what TD, TDC, LSTD, RO-TD and SparseTD make of them.

The star asks whether a method converges at all: transitions come from a behaviour that hardly ever does what the
target policy does, and TD diverges. The random process asks which features matter: few samples, a hundred features,
five of which make the value function.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sparsetd.estimators import LSTD, ROTD, TD, TDC, DivergenceWarning
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.metrics import exact_rmspbe, value_error
from sparsetd.problems import FiniteMDP, random_mdp, star
from sparsetd.solvers import PowerDecay
from sparsetd.system import Array, Batch

__all__ = ["PANELS", "Problem", "Result", "Settings", "plot", "run"]

PANELS = 2
POINTS = 60  # of a learning curve
COLOURS = {"TD": "black", "TDC": "#0072b2", "LSTD": "0.6", "RO-TD": "#d55e00", "SparseTD": "#009e73"}
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Every value is ours. The star gets 50 times the samples, enough for TD to overflow.

    No penalty on the star: its values are zero, so shrinking alone would look like learning. The penalties on the
    random process were picked with the exact answer in sight; docs/quickstart.md has them, unchanged, on 20 others.
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
    """Rows for every problem, method and the truth; learning curves and coefficients by problem and method."""

    problems: Sequence[Problem]
    rows: list[dict[str, Any]]
    curves: dict[tuple[str, str], tuple[Array, Array]]
    coef: dict[str, dict[str, Array]]


def run(settings: Settings, progress: Progress = lambda _: None) -> Result:
    """Collect transitions off-policy, fit every method, measure against the exact answer."""
    progress("collecting off-policy transitions")
    problems = [_star(settings), _random(settings)]
    result = Result(problems, [], {}, {p.name: {} for p in problems})
    for problem in problems:
        for method, estimator in problem.methods.items():
            progress(f"{problem.name}: fitting {method} to {len(problem.log)} transitions")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DivergenceWarning)  # that TD diverges is the point: the table says so
                result.curves[problem.name, method] = _learn(estimator, problem)
            result.coef[problem.name][method] = estimator.coef_
            result.rows.append(_row(problem, method, estimator.coef_, estimator.status_))
        result.rows.append(_row(problem, "exact", _truth(problem), None))
    return result


def _star(settings: Settings) -> Problem:
    mdp = star()
    common: dict[str, Any] = {"gamma": mdp.gamma, "coef_init": mdp.theta0}
    methods = {
        "TD": TD(step_size=0.01, **common),
        "TDC": TDC(step_size=0.01, eta=10.0, **common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(step_size=PowerDecay(0.01), average="suffix", **common),
    }
    log = mdp.trajectory(50 * settings.samples, np.random.default_rng([settings.seed, 0]))
    return Problem("star", "does it converge off-policy?", mdp, log, methods)


def _random(settings: Settings) -> Problem:
    rng = np.random.default_rng([settings.seed, 1])
    mdp = random_mdp(rng, n_states=200, n_features=100, n_relevant=5, reward_noise=0.3)
    common: dict[str, Any] = {"gamma": mdp.gamma, "step_size": 0.001, "n_passes": settings.passes}
    methods = {
        "TD": TD(**common),
        "TDC": TDC(**common),
        "LSTD": LSTD(gamma=mdp.gamma),
        "RO-TD": ROTD(rho_theta=0.2, rho_w=2.0, **common),
        "SparseTD": SparseTD(rho_theta=0.5, gamma=mdp.gamma, refit=True),
    }
    return Problem("random MDP", "which features matter?", mdp, mdp.trajectory(settings.samples, rng), methods)


def _learn(estimator: Any, problem: Problem) -> tuple[Array, Array]:
    """Fit, and return a curve: the exact RMSPBE after so many transitions. A stream is fed bit by bit."""
    n, streamed = len(problem.log), getattr(estimator, "n_passes", None) == 1
    seen = np.unique(np.geomspace(min(100, n), n, POINTS).astype(int)) if streamed else np.array([n])
    errors = np.empty(len(seen))
    for i, (first, last) in enumerate(pairwise([0, *seen])):
        _take(estimator.partial_fit if streamed else estimator.fit, problem.log[first:last])
        errors[i] = exact_rmspbe(problem.mdp, estimator.coef_)
    return seen, errors


def _take(fit: Callable[..., Any], log: Batch) -> None:
    fit(log.phi, log.reward, log.phi_next, ratio=log.ratio, discount=log.discount, start=log.start)


def _truth(problem: Problem) -> Array:
    assert problem.mdp.theta_star is not None
    return problem.mdp.theta_star


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


def plot(result: Result, axes: Sequence[Any]) -> None:
    """Left: RMSPBE on the star while learning. Right: the weights on the random process beside the true ones."""
    _plot_curves(result, result.problems[0].name, axes[0])
    _plot_weights(result, result.problems[1], axes[1])


def _plot_curves(result: Result, name: str, axis: Any) -> None:
    for method in ("TD", "TDC", "RO-TD"):  # LSTD is exactly zero: nothing to see on a logarithmic axis
        seen, errors = result.curves[name, method]
        axis.plot(seen, np.minimum(errors, 1e12), label=method, color=COLOURS[method])
    axis.set(xscale="log", yscale="log", ylim=(3e-4, 1e5), xlabel="transitions seen", ylabel="exact RMSPBE")
    axis.set_title("star: TD diverges, TDC and RO-TD do not")
    axis.legend()


def _plot_weights(result: Result, problem: Problem, axis: Any) -> None:
    truth = _truth(problem)
    order = np.argsort(-np.abs(truth), kind="stable")
    place = np.arange(1, len(order) + 1)
    axis.plot(place, truth[order], "_", color="black", markersize=9, label="exact")
    for method, mark in (("LSTD", "."), ("RO-TD", "."), ("SparseTD", "x")):
        coef = result.coef[problem.name][method][order]
        shown = coef != 0
        axis.plot(place[shown], coef[shown], mark, color=COLOURS[method], markersize=4, label=method)
    relevant = np.count_nonzero(truth)
    axis.set(xscale="log", xlabel="feature, the relevant ones first", ylabel="weight")  # log: room for those few
    axis.set_xticks([1, relevant, len(truth)], ["1", str(relevant), str(len(truth))])
    axis.set_title(f"{problem.name}: {relevant} of {len(truth)} features are relevant")
    axis.legend()
