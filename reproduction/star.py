"""Figure 2, left and middle: the seven-state star, where TD diverges and TDC and RO-TD should not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction.curves import METHODS, checkpoints, describe, expected_path, sampled_path
from reproduction.experiment import Experiment, Row, Unit
from reproduction.settings import Settings, assumed, cited, paper
from reproduction.star_verdicts import UPDATES, plot, summarize
from sparsetd.problems import star


@dataclass(frozen=True)
class StarSettings(Settings):
    n_seeds: int = assumed(50, "runs with sampled transitions; the paper states 50 for the random walk only")
    alpha: float = paper(0.01, "the same for TD, TDC and RO-TD")
    eta: float = paper(10.0, "the same for TDC and RO-TD")
    other_eta: float = assumed(1.0, "a second value: in RO-TD η scales half the rows of A instead of a step")
    gamma: float = cited(0.99, "Sutton et al. 2009")
    n_iter: int = assumed(20_000, "not stated")
    short: int = assumed(250, "horizon of the linear axis")
    radius: float = assumed(2.0, "the gap is over ‖x‖ ≤ radius · ‖x₀‖ (Assumption 3 wants a compact set)")
    decades: float = assumed(0.3, "“almost identical”: mean |log₁₀ ratio| of the curves, a factor of two")


def units(settings: StarSettings) -> Iterator[Unit]:
    """Expected updates are one unit; sampled ones one unit per seed."""
    yield Unit("expected", 0, {"update": "expected"})
    for update in UPDATES[1:]:
        for seed in range(settings.n_seeds):
            yield Unit(update, seed, {"update": update})


def run(settings: StarSettings, unit: Unit) -> list[Row]:
    mdp, marks = star(settings.gamma), checkpoints(settings.n_iter)
    marks = sorted({*marks, *range(0, min(settings.short, settings.n_iter) + 1, 10)})
    update, rng = unit.params["update"], settings.rng(unit.seed)
    rows: list[Row] = []
    assert mdp.theta0 is not None
    batch = _data(mdp, update, settings.n_iter, rng)
    for name, method in METHODS.items():
        for eta in (settings.eta,) if name == "TD" else (settings.eta, settings.other_eta):
            A, b = mdp.expected_system(method.table(eta))
            radius = settings.radius * float(np.linalg.norm(mdp.theta0))
            with np.errstate(over="ignore", invalid="ignore"):
                path = (
                    expected_path(method, eta, settings.alpha, mdp, marks)
                    if batch is None
                    else sampled_path(method, eta, settings.alpha, batch, mdp.theta0, marks)
                )
                for point in path:
                    rows += [
                        {"update": update, "method": name, "eta": eta, **row}
                        for row in describe(point, mdp, A, b, radius)
                    ]
    return rows


def _data(mdp: Any, update: str, n: int, rng: np.random.Generator) -> Any:
    """Sub-sampled target transitions as in Sutton et al. 2009, or a behaviour trajectory with ratios 7 and 0."""
    if update == "expected":
        return None
    return mdp.sample(n, rng) if update == "sampled" else mdp.trajectory(n, rng)


STAR = Experiment(
    "star",
    "Star (Figure 2, left and middle)",
    "Seven states, eight dependent features, all rewards zero, target and behaviour far apart. TD, TDC, GTD2 and "
    "RO-TD with the printed α and η, with expected and with sampled updates. MSPBE uses the pseudo-inverse, because "
    "the features are linearly dependent.",
    StarSettings(),
    StarSettings(n_seeds=10),
    units,
    run,
    summarize,
    plot,
)
