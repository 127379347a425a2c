"""Does ρ₂ interpolate between GQ(λ) and TD? The paper's last remark on RO-GQ(λ), and where it is true instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from reproduction import experiment
from reproduction.action_values import action_value_trajectory
from reproduction.document import Grid
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.settings import Settings, assumed, paper
from reproduction.verdict import THEORY, Claim, judge
from sparsetd.operators import gq, td
from sparsetd.penalties import L1, NoPenalty
from sparsetd.problems import random_mdp, star
from sparsetd.solvers import PrimalDual, Stochastic
from sparsetd.system import Array, Batch, Table, mean_system

PAPER = {
    "interpolation": "“tuning the sparsity parameter ρ₂ generates an interpolation between GQ(λ) and TD learning”",
    "direction": "“a large ρ₂ helps eliminate the correction term of TDC update and make the update direction more "
    "similar to the TD update”",
}
METHODS = {"proximal GQ(λ)": (Stochastic, "#0072B2"), "RO-GQ(λ)": (PrimalDual, "#D55E00")}
PROBLEMS = ("star", "random")


@dataclass(frozen=True)
class InterpolationSettings(Settings):
    n_seeds: int = assumed(10, "sample streams")
    alpha: float = paper(0.01, "step of the star, for every method here")
    eta: float = paper(10.0, "η of the star, and of GQ(λ) here")
    eta_random: float = assumed(1.0, "η on the random problem: 10 is too noisy for sampled updates there")
    lam: float = assumed(0.4, "λ on the random problem; the star has no traces")
    n_star: int = assumed(300, "steps on the star; TD diverges, so the two ends are far apart")
    n_random: int = assumed(5_000, "steps on the random problem")
    rho_w: tuple[float, ...] = assumed((0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0), "ρ₂; ρ₁ is 0")
    close: float = assumed(0.1, "an end is reached within this share of the distance between GQ(λ) and TD")
    similar: float = assumed(0.9, "a direction is “similar” from this cosine on")


def units(settings: InterpolationSettings) -> Iterator[Unit]:
    for problem in PROBLEMS:
        for seed in range(settings.n_seeds):
            yield Unit(problem, seed, {"problem": problem})


@dataclass(frozen=True, eq=False)
class Data:
    """A stream, where θ starts, the table of GQ(λ) and TD(λ) with the same traces, and GQ's mean system in blocks."""

    batch: Batch
    theta0: Array
    gq: Table
    td: Table
    A: Array
    b: Array


def data(settings: InterpolationSettings, unit: Unit) -> Data:
    rng = settings.rng(unit.seed)
    if unit.params["problem"] == "star":
        mdp = star()
        assert mdp.theta0 is not None
        batch, theta0, table = mdp.sample(settings.n_star, rng), mdp.theta0, gq(settings.eta)
    else:
        problem = random_mdp(rng, 20, 8, off_policy=0.8, misfit=0.3, reward_noise=0.3)
        batch = action_value_trajectory(problem, settings.n_random, rng)
        theta0, table = np.zeros(batch.n_features), gq(settings.eta_random, settings.lam)
    A, b = mean_system(table, batch)
    d = len(theta0)
    like = replace(td(table.lam), trace=table.trace)
    return Data(batch, theta0, table, like, A.reshape(2, d, 2, d), b.reshape(2, d))


def run(settings: InterpolationSettings, unit: Unit) -> list[Row]:
    given = data(settings, unit)
    plain = Stochastic(step_size=settings.alpha)
    ends = {name: _end(plain, given, table) for name, table in (("GQ", given.gq), ("TD", given.td))}
    apart = float(np.linalg.norm(ends["GQ"] - ends["TD"]))
    rows: list[Row] = []
    for method, (solver, _) in METHODS.items():
        for rho in settings.rho_w:
            last, average, w, cosine = _follow(solver(step_size=settings.alpha, average="all"), given, L1(0.0, rho))
            for iterate, theta in (("last", last), ("average", average)):
                row = {"problem": unit.params["problem"], "method": method, "rho_w": rho, "iterate": iterate}
                row |= {f"to_{k}": float(np.linalg.norm(theta - end)) / apart for k, end in ends.items()}
                rows.append(row | {"cosine": cosine, "w": float(np.abs(w).max()), "neu": _neu(given, theta)})
    return rows


def _end(solver: Any, given: Data, table: Table) -> Array:
    """θ after the whole stream."""
    state = solver.init(table, given.batch.n_features, np.float64, given.theta0)
    return np.array(solver.update(state, given.batch, table, NoPenalty()).primal[-1])


def _follow(solver: Any, given: Data, penalty: L1, n_marks: int = 50) -> tuple[Array, Array, Array, float]:
    """Last and averaged θ, last w, and the mean cosine of the method's mean direction in θ with TD's at that θ."""
    state = solver.init(given.gq, given.batch.n_features, np.float64, given.theta0)
    cosines, marks = [], np.linspace(0, len(given.batch), n_marks + 1).astype(int)
    for first, last in pairwise(marks):
        solver.update(state, given.batch[first:last], given.gq, penalty)
        cosines.append(_cosine(_direction(given, state), _td_direction(given, state.primal[1])))
    average = solver.result(state, given.gq, penalty).coef
    return np.array(state.primal[1]), average, state.primal[0], float(np.nanmean(cosines))


def _direction(given: Data, state: Any) -> Array:
    """−(Ax − b) in θ for the proximal step, −Aᵀy in θ for the saddle-point step, on the mean system."""
    if state.dual is not None:
        return -np.einsum("aibj,ai->bj", given.A, state.dual)[1]
    return np.asarray(given.b[1] - np.einsum("aibj,bj->ai", given.A, state.primal)[1])


def _td_direction(given: Data, theta: Array) -> Array:
    return np.asarray(given.b[1] - given.A[1, :, 1] @ theta)


def _neu(given: Data, theta: Array) -> float:
    """‖E[δe]‖, the length of TD's mean direction."""
    return float(np.linalg.norm(_td_direction(given, theta)))


def _cosine(u: Array, v: Array) -> float:
    size = float(np.linalg.norm(u) * np.linalg.norm(v))
    return float(u @ v) / size if size > 0 else np.nan


def curve(rows: Any, problem: str, method: str, column: str, iterate: str = "last") -> tuple[Array, Array]:
    """(ρ₂, median over the seeds)."""
    return experiment.curve(rows, "rho_w", column, problem=problem, method=method, iterate=iterate)


def nearest_end(rows: Any, problem: str, method: str, to: str, which: int) -> float:
    """Distance to an end at the smallest (0) or largest (−1) ρ₂, for the better of last and averaged iterate."""
    return min(float(curve(rows, problem, method, f"to_{to}", i)[1][which]) for i in ("last", "average"))


def summarize(settings: InterpolationSettings, rows: Any) -> Summary:
    claims = [_ends(settings, rows), _directions(settings, rows)]
    return Summary(_conclusion(settings, rows), claims, [_table(settings, rows)])


def _conclusion(settings: InterpolationSettings, rows: Any) -> str:
    ends = {m: [nearest_end(rows, p, m, "TD", -1) for p in PROBLEMS] for m in METHODS}
    return (
        f"At ρ₂ = {settings.rho_w[-1]:g} GQ(λ) with a proximal step ends {max(ends['proximal GQ(λ)']):.1g} from TD, in "
        f"units of the distance between GQ(λ) and TD, and RO-GQ(λ) {min(ends['RO-GQ(λ)']):.2g} or more. So the remark "
        "is true of the proximal iteration; RO-GQ(λ) without w descends ‖E[δe]‖ through its dual, as GTD does."
    )


def _ends(settings: InterpolationSettings, rows: Any) -> Claim:
    gaps = {
        m: [(nearest_end(rows, p, m, "GQ", 0), nearest_end(rows, p, m, "TD", -1)) for p in PROBLEMS] for m in METHODS
    }
    holds = {m: all(max(pair) <= settings.close for pair in pairs) for m, pairs in gaps.items()}
    told = "; ".join(
        f"{m}: {a:.2g} from GQ(λ) at ρ₂ = 0 and {b:.2g} from TD at ρ₂ = {settings.rho_w[-1]:g} ({p})"
        for m, pairs in gaps.items()
        for p, (a, b) in zip(PROBLEMS, pairs, strict=True)
    )
    return judge(
        THEORY,
        "ρ₂ interpolates between GQ(λ) and TD",
        PAPER["interpolation"],
        told,
        f"median distances of RO-GQ(λ) to both ends ≤ {settings.close} of their distance, on both problems (the better "
        "of last and averaged iterate); reading: of the proximal iteration x ← prox(x − α(A_t x − b_t))",
        literal=holds["RO-GQ(λ)"],
        reading=holds["proximal GQ(λ)"],
        because="it holds for GQ(λ) with a proximal step; RO-GQ(λ) without w descends ‖E[δe]‖ through its dual, like "
        "GTD, and never becomes TD",
    )


def _directions(settings: InterpolationSettings, rows: Any) -> Claim:
    cosines = {m: [curve(rows, p, m, "cosine")[1][[0, -1]] for p in PROBLEMS] for m in METHODS}
    holds = {m: all(b >= max(a, settings.similar) for a, b in pairs) for m, pairs in cosines.items()}
    told = "; ".join(
        f"{m}: {a:.2f} at ρ₂ = 0, {b:.2f} at ρ₂ = {settings.rho_w[-1]:g} ({p})"
        for m, pairs in cosines.items()
        for p, (a, b) in zip(PROBLEMS, pairs, strict=True)
    )
    return judge(
        THEORY,
        "A large ρ₂ turns the update towards TD's",
        PAPER["direction"],
        f"mean cosine of the direction in θ with TD's: {told}",
        f"median cosine of RO-GQ(λ) at the largest ρ₂ ≥ {settings.similar} and not below the one at ρ₂ = 0, on both "
        "problems; reading: of the proximal iteration",
        literal=holds["RO-GQ(λ)"],
        reading=holds["proximal GQ(λ)"],
        because="with w = 0 the proximal iteration is TD, but the saddle-point iteration moves θ by −Aᵀy",
    )


def _table(settings: InterpolationSettings, rows: Any) -> Grid:
    lines = []
    for problem in PROBLEMS:
        for method in METHODS:
            for k, rho in enumerate(settings.rho_w):
                cells = [curve(rows, problem, method, c)[1][k] for c in ("to_GQ", "to_TD", "cosine", "w", "neu")]
                lines.append((problem, method, f"{rho:g}", *(f"{v:.2g}" for v in cells)))
    header = ("problem", "method", "ρ₂", "to GQ(λ)", "to TD", "cosine with TD", "max |w|", "‖E[δe]‖")
    note = "Medians over the seeds, last iterate; distances in units of ‖θ_GQ − θ_TD‖."
    return Grid("From GQ(λ) to TD?", header, lines, note)


def plot(settings: InterpolationSettings, rows: Any) -> list[Figure]:
    return [
        Figure(
            "distance",
            "Distance to TD's and to GQ(λ)'s θ against ρ₂",
            "Distances after the same stream, in units of the distance between the two; log scale. Proximal GQ(λ) "
            "(blue) goes from GQ(λ) (dashed line at the bottom left) to TD (solid line at the bottom right). RO-GQ(λ) "
            "(orange) does not move towards TD.",
            lambda axes: _draw_distance(settings, rows, axes),
            panels=2,
        ),
        Figure(
            "direction",
            "Cosine between the update of θ and TD's",
            "1 is TD's own direction. The proximal iteration reaches it once ρ₂ keeps w at zero; RO-GQ(λ) does not.",
            lambda axes: _draw_cosine(settings, rows, axes),
            panels=2,
        ),
    ]


def _axis(ax: Any, settings: InterpolationSettings, problem: str) -> None:
    ax.set_xscale("symlog", linthresh=settings.rho_w[1])
    ax.set(xlabel="ρ₂", title=problem, xlim=(-settings.rho_w[1] / 2, 2 * settings.rho_w[-1]))


def _draw_distance(settings: InterpolationSettings, rows: Any, axes: Sequence[Any]) -> None:
    for ax, problem in zip(axes, PROBLEMS, strict=True):
        for method, (_, colour) in METHODS.items():
            for column, style in (("to_TD", "-"), ("to_GQ", "--")):
                rho, value = curve(rows, problem, method, column)
                label = f"{method} to {'TD' if column == 'to_TD' else 'GQ(λ)'}"
                ax.plot(rho, np.maximum(value, 1e-4), style, color=colour, marker=".", label=label)
        ax.set_yscale("log")
        _axis(ax, settings, problem)
    axes[0].set_ylabel("distance / ‖θ_GQ − θ_TD‖")
    axes[0].legend(fontsize=8, loc=(0.03, 0.64))


def _draw_cosine(settings: InterpolationSettings, rows: Any, axes: Sequence[Any]) -> None:
    for ax, problem in zip(axes, PROBLEMS, strict=True):
        for method, (_, colour) in METHODS.items():
            ax.plot(*curve(rows, problem, method, "cosine"), color=colour, marker=".", label=method)
        _axis(ax, settings, problem)
        ax.set_ylim(-1.05, 1.05)
    axes[0].set_ylabel("cosine with TD's direction")
    axes[0].legend(fontsize=8)


INTERPOLATION = Experiment(
    "rho-w",
    "ρ₂ between GQ(λ) and TD",
    "GQ(λ), TD(λ), GQ(λ) with a proximal step and RO-GQ(λ) on the same streams (the star, and action values of a "
    "random off-policy problem), for ρ₂ from 0 to a value that keeps w at zero.",
    InterpolationSettings(),
    InterpolationSettings(n_seeds=3),
    units,
    run,
    summarize,
    plot,
)
