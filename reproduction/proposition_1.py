"""Proposition 1: the averaged iterate of RO-TD against the exact minimum of ‖Ax − b‖_m + h(x), for m = 1, 2 and ∞."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction import experiment
from reproduction.curves import checkpoints
from reproduction.document import Grid
from reproduction.expected_system import expected_system
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.settings import Settings, assumed, paper
from reproduction.verdict import THEORY, Claim, judge
from sparsetd.operators import tdc
from sparsetd.penalties import L1
from sparsetd.problems import FiniteMDP, random_mdp
from sparsetd.solvers import PowerDecay, PrimalDual
from sparsetd.solvers.mean import Matrix
from sparsetd.solvers.saddle import FitNorm, Problem, Terms, solve
from sparsetd.system import Array

PAPER = {"proposition": "“The approximate saddle-point x̄_t of RO-TD converges w.p.1 to the global minimizer”"}
NORMS: tuple[Any, ...] = (1, 2, "inf")
VARIANTS = ("constant", "decaying", "decaying, suffix average")
COLOURS = dict(zip((*VARIANTS, "last iterate"), ("#D55E00", "#0072B2", "#009E73", "#999999"), strict=True))


@dataclass(frozen=True)
class Proposition1Settings(Settings):
    n_seeds: int = assumed(5, "sample streams; the problem is the same for all")
    n_samples: int = assumed(1_000_000, "long enough to tell a floor from a slope")
    n_states: int = assumed(20, "a small problem whose minimum is computed exactly")
    n_features: int = assumed(30, "more features than states")
    off_policy: float = assumed(0.5, "share of the target policy that differs from the behaviour")
    eta: float = assumed(1.0, "η; the paper's 10 only rescales half the rows of A")
    rho_small: tuple[float, ...] = paper((0.01, 0.2), "ρ₁ and ρ₂ of the mountain car")
    rho_large: tuple[float, ...] = assumed((0.3, 0.3), "large enough that the residual at the minimum is not zero")
    alpha: float = paper(0.001, "constant step of the mountain car")
    alpha_decaying: float = assumed(0.003, "α_t = 0.003 / √(1 + t/1000); the proposition names no step")
    slope: float = assumed(-0.3, "“converges”: log-log slope over the last decade of at most this; theory says −1/2")


def problem(settings: Proposition1Settings) -> FiniteMDP:
    """One off-policy problem with noise in rewards and values; the seeds only change the sample stream."""
    rng = np.random.default_rng(settings.entropy)
    return random_mdp(
        rng, settings.n_states, settings.n_features, off_policy=settings.off_policy, misfit=0.3, reward_noise=0.3
    )


@dataclass(frozen=True, eq=False)
class Objective:
    """‖Ax − b‖_m + h(x) on the exact system, with its certified minimum."""

    A: Array
    b: Array
    penalty: L1
    fit_norm: Any

    def __call__(self, x: Array) -> float:
        order = np.inf if self.fit_norm == "inf" else self.fit_norm
        return float(np.linalg.norm(self.A @ x.ravel() - self.b, order) + self.penalty.value(x))

    def minimum(self) -> float:
        """The lower end of the certificate: no x is below it."""
        terms, system = Terms.of(self.penalty, 2, len(self.b) // 2), Matrix(self.A, self.b)
        return float(solve(Problem(system, FitNorm.of(self.fit_norm), terms), tol=1e-9).dual)

    def suboptimality(self, x: Array, minimum: float) -> float:
        """(L(x) − min L) / (L(0) − min L)."""
        return (self(x) - minimum) / (self(np.zeros_like(x)) - minimum)


def units(settings: Proposition1Settings) -> Iterator[Unit]:
    for m in NORMS:
        for seed in range(settings.n_seeds):
            yield Unit(f"m={m}", seed, {"m": m})


def run(settings: Proposition1Settings, unit: Unit) -> list[Row]:
    mdp = problem(settings)
    A, b = expected_system(mdp, tdc(settings.eta), importance_sampled=True)
    rows: list[Row] = []
    for rho in (settings.rho_small, settings.rho_large):
        objective = Objective(A, b, L1(*rho), unit.params["m"])
        minimum = objective.minimum()
        for variant, t, x in _stream(settings, unit, mdp, rho):
            value = objective.suboptimality(x, minimum)
            rows.append({"m": str(unit.params["m"]), "rho": str(rho), "variant": variant, "t": t, "value": value})
    return rows


def _stream(
    settings: Proposition1Settings, unit: Unit, mdp: FiniteMDP, rho: tuple[float, ...]
) -> Iterator[tuple[str, int, Array]]:
    """RO-TD with three kinds of step and average on one importance-sampled stream; the last iterate of the second."""
    decay = PowerDecay(settings.alpha_decaying)
    choices: list[tuple[str, Any, Any]] = [
        (VARIANTS[0], settings.alpha, "all"),
        (VARIANTS[1], decay, "all"),
        (VARIANTS[2], decay, "suffix"),
    ]
    table, penalty = tdc(settings.eta), L1(*rho)
    for variant, alpha, average in choices:
        solver = PrimalDual(step_size=alpha, average=average, fit_norm=unit.params["m"])
        state, rng = solver.init(table, mdp.n_features), settings.rng(unit.seed)
        for t in checkpoints(settings.n_samples, 6)[1:]:
            while state.t < t:
                rows = mdp.sample(min(20_000, t - state.t), rng, importance_sampled=True)
                solver.update(state, rows, table, penalty)
            solution = solver.result(state, table, penalty)
            assert solution.aux is not None
            yield variant, t, np.vstack([solution.aux, solution.coef])
            if variant == "decaying":
                yield "last iterate", t, state.primal


def curve(rows: Any, m: str, rho: str, variant: str) -> tuple[Array, Array]:
    """(t, median over the seeds) of one variant."""
    return experiment.curve(rows, "t", "value", m=m, rho=rho, variant=variant)


def slope(t: Array, value: Array) -> float:
    """Slope of log value against log t over the last decade."""
    late = t >= t[-1] / 10
    return float(np.polyfit(np.log(t[late]), np.log(np.maximum(value[late], 1e-12)), 1)[0])


def summarize(settings: Proposition1Settings, rows: Any) -> Summary:
    return Summary(_conclusion(settings, rows), [_convergence(settings, rows)], [_table(settings, rows)])


def _conclusion(settings: Proposition1Settings, rows: Any) -> str:
    slopes = {v: all_slopes(settings, rows, v) for v in VARIANTS}
    return (
        f"With steps that decay as 1/√t the average approaches the certified minimum with slopes of "
        f"{_span(slopes['decaying'])} on logarithmic axes, for m = 1, 2 and ∞. With the constant step of the "
        f"experiments it stops at a distance of order α (slopes {_span(slopes['constant'])})."
    )


def all_slopes(settings: Proposition1Settings, rows: Any, variant: str) -> list[float]:
    """The slope of one kind of step and average for every m and ρ."""
    rhos = (settings.rho_small, settings.rho_large)
    return [slope(*curve(rows, str(m), str(rho), variant)) for m in NORMS for rho in rhos]


def _convergence(settings: Proposition1Settings, rows: Any) -> Claim:
    problems = [(str(m), str(rho)) for m in NORMS for rho in (settings.rho_small, settings.rho_large)]
    slopes = {v: all_slopes(settings, rows, v) for v in VARIANTS}
    ends = {v: max(curve(rows, m, rho, v)[1][-1] for m, rho in problems) for v in (*VARIANTS, "last iterate")}
    return judge(
        THEORY,
        "Proposition 1: the averaged iterate converges to the minimum",
        PAPER["proposition"],
        f"slopes over the last decade {_span(slopes['constant'])} with the paper's constant step, "
        f"{_span(slopes['decaying'])} with a decaying one, {_span(slopes['decaying, suffix average'])} with suffix "
        f"averages; largest relative suboptimality after {settings.n_samples:,} samples: {ends['constant']:.2g}, "
        f"{ends['decaying']:.2g}, {ends['decaying, suffix average']:.2g} and {ends['last iterate']:.2g} (last iterate)",
        f"slope ≤ {settings.slope} for every m and ρ with the experiments' constant step; reading: with α_t ∝ 1/√t",
        literal=max(slopes["constant"]) <= settings.slope,
        reading=max(slopes["decaying"]) <= settings.slope,
        because="the steps must decay; a constant step, as in the experiments, stops at a distance of order α",
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _table(settings: Proposition1Settings, rows: Any) -> Grid:
    lines = []
    for m in NORMS:
        for rho in (settings.rho_small, settings.rho_large):
            for variant in (*VARIANTS, "last iterate"):
                t, value = curve(rows, str(m), str(rho), variant)
                shown = [value[np.argmin(np.abs(t - f * t[-1]))] for f in (0.01, 0.1, 1.0)]
                lines.append((str(m), str(rho), variant, *(f"{v:.2g}" for v in shown), f"{slope(t, value):.2f}"))
    n = settings.n_samples
    header = ("m", "(ρ_θ, ρ_w)", "step and average", *(f"t = {int(f * n):,}" for f in (0.01, 0.1, 1)), "slope")
    return Grid("Relative suboptimality", header, lines, "Medians over the seeds; slope over the last decade.")


def plot(settings: Proposition1Settings, rows: Any) -> list[Figure]:
    return [
        Figure(
            "suboptimality",
            "Proposition 1: relative suboptimality against samples",
            f"ρ = {settings.rho_large}. With a decaying step the average falls about as 1/√t for every m (dotted: that "
            "slope); with a constant step it reaches a floor. The last iterate stays far above both.",
            lambda axes: _draw(settings, rows, axes),
            panels=3,
        ),
    ]


def _draw(settings: Proposition1Settings, rows: Any, axes: Sequence[Any]) -> None:
    for ax, m in zip(axes, NORMS, strict=True):
        for variant, colour in COLOURS.items():
            t, value = curve(rows, str(m), str(settings.rho_large), variant)
            ax.plot(t, value, color=colour, label=variant)
        guide = np.array([settings.n_samples / 100, settings.n_samples])
        ax.plot(guide, 0.02 * np.sqrt(guide[0] / guide), "k:", lw=1)
        ax.set(xscale="log", yscale="log", xlabel="samples", title=f"m = {'∞' if m == 'inf' else m}")
    axes[0].set_ylabel("relative suboptimality")
    axes[0].legend(fontsize=8, loc="lower left")


PROPOSITION_1 = Experiment(
    "proposition-1",
    "Proposition 1",
    "A random off-policy problem with 20 states and 30 features. RO-TD's averaged iterate is compared with the exact "
    "minimum of ‖Ax − b‖_m + h(x) on the true system, which the batch solver certifies by a duality gap below 1e-9.",
    Proposition1Settings(),
    Proposition1Settings(n_seeds=2, n_samples=200_000),
    units,
    run,
    summarize,
    plot,
)
