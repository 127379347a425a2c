"""Figure 2, left and middle: the seven-state star, where TD diverges and TDC and RO-TD should not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction import experiment
from reproduction.curves import METHODS, checkpoints, describe, expected_path, mspbe, sampled_path, unlikeness
from reproduction.document import Grid
from reproduction.expected_system import expected_system
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.settings import Settings, assumed, cited, paper
from reproduction.verdict import ALGORITHM, THEORY, TRIVIAL, Claim, judge
from sparsetd.problems import star

PAPER = {
    "identical": "“TDC and RO-TD have almost identical MSPBE over iterations”",
    "td": "“TD diverges monotonically”",
    "tdc": "“TDC converges”",
    "rotd": "“illustrates the off-policy convergence of the RO-TD algorithm”",
    "bound": "“‖Ax_t − b‖₂ is always greater than the value of y_tᵀ(Ax_t − b)”",
    "gap": "“there is no duality gap between the two curves”",
    "lars": "“selected smaller MDPs where LARS-TD diverges (e.g., the star MDP)”",
}
UPDATES = ("expected", "sampled", "importance")


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
            A, b = expected_system(mdp, method.table(eta))
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


def curve(
    rows: Any, update: str, method: str, eta: float, iterate: str = "last", column: str = "mspbe"
) -> tuple[Any, Any]:
    """(t, median over the seeds) of one method."""
    return experiment.curve(rows, "t", column, update=update, method=method, eta=eta, iterate=iterate)


def summarize(settings: Any, rows: Any) -> Summary:
    claims = [*_convergence(settings, rows), _identical(settings, rows), *_middle(settings, rows), _lars(settings)]
    return Summary(_conclusion(settings, rows), claims, [_table(settings, rows)])


def _conclusion(settings: Any, rows: Any) -> str:
    ends, average, _ = _ends(settings, rows)
    return (
        f"From an MSPBE of {_start(settings):.3g}, TD ends at {ends['TD']:.2g}, TDC at {ends['TDC']:.2g}, RO-TD at "
        f"{ends['RO-TD']:.2g} with its last iterate and at {average:.2g} with its average, so it is the average that "
        "converges off-policy. On a linear axis RO-TD and TDC look alike, on a logarithmic one they are decades apart, "
        "and the two curves of the middle panel do not meet: their difference is not the duality gap."
    )


def _ends(settings: Any, rows: Any) -> tuple[dict[str, float], float, float]:
    """Final MSPBE with sampled transitions: of last iterates, and of the averages of RO-TD and RO-TD-MP."""
    last = {m: curve(rows, "sampled", m, settings.eta)[1][-1] for m in ("TD", "TDC", "RO-TD")}
    average, better = (curve(rows, "sampled", m, settings.eta, "average")[1][-1] for m in ("RO-TD", "RO-TD-MP"))
    return last, average, better


def _convergence(settings: Any, rows: Any) -> Iterator[Claim]:
    start, (ends, average, better) = _start(settings), _ends(settings, rows)
    n = f"after {settings.n_iter:,} sampled transitions"
    yield judge(
        ALGORITHM,
        "TD diverges on the star",
        PAPER["td"],
        f"MSPBE {start:.3g} → {ends['TD']:.2g} {n}",
        "median final MSPBE > 1000 × the first",
        literal=ends["TD"] > 1e3 * start,
    )
    yield judge(
        ALGORITHM,
        "TDC converges on the star",
        PAPER["tdc"],
        f"MSPBE {start:.3g} → {ends['TDC']:.2g} {n}",
        "median final MSPBE < 0.001 × the first",
        literal=ends["TDC"] < 1e-3 * start,
    )
    yield judge(
        ALGORITHM,
        "RO-TD converges off-policy",
        PAPER["rotd"],
        f"MSPBE {start:.3g} → {ends['RO-TD']:.2g} (last iterate), {average:.2g} (averaged), {better:.2g} "
        f"(Mirror-Prox, averaged) {n}",
        "median final MSPBE < 0.001 × the first; reading: of the averaged iterate",
        literal=ends["RO-TD"] < 1e-3 * start,
        reading=average < 1e-3 * start,
        because="only the averaged iterate converges; the last one ends in a cycle around the solution",
    )


def _identical(settings: Any, rows: Any) -> Claim:
    t, tdc = curve(rows, "expected", "TDC", settings.eta)
    _, last = curve(rows, "expected", "RO-TD", settings.eta)
    average = {m: curve(rows, "expected", m, settings.eta, "average")[1] for m in ("RO-TD", "RO-TD-MP", "TDC")}
    apart, both = unlikeness(t, last, tdc), unlikeness(t, average["RO-TD"], average["TDC"])
    extra = unlikeness(t, average["RO-TD-MP"], average["TDC"])
    early = (t <= settings.short) & (t % 10 == 0)
    linear = float(np.mean(np.abs(last - tdc)[early]) / _start(settings))
    decades = f"on a logarithmic axis the last iterates are {apart:.1f} decades apart on average"
    return judge(
        ALGORITHM,
        "TDC and RO-TD have almost identical MSPBE",
        PAPER["identical"],
        f"mean |log₁₀ ratio| {apart:.2f} (last iterates), {both:.2f} (averages), {extra:.2f} (averages, "
        "Mirror-Prox); on "
        f"a linear axis a mean difference of {100 * linear:.1f} % of the start over {settings.short} steps",
        f"mean |log₁₀ ratio| of the last iterates ≤ {settings.decades}; reading: mean difference ≤ 10 % of the start "
        f"over the first {settings.short} expected updates",
        literal=apart <= settings.decades,
        reading=linear <= 0.1,
        because=f"it looks so on a linear axis over the first {settings.short} expected updates; {decades}",
        otherwise=decades,
    )


def _middle(settings: Any, rows: Any) -> Iterator[Claim]:
    _, fit = curve(rows, "expected", "RO-TD", settings.eta, "last", "fit")
    _, pairing = curve(rows, "expected", "RO-TD", settings.eta, "last", "pairing")
    _, gap = curve(rows, "expected", "RO-TD", settings.eta, "average", "gap")
    negative = float(np.mean(pairing[1:] < 0))
    yield judge(
        TRIVIAL,
        "‖Ax_t − b‖ bounds y_tᵀ(Ax_t − b)",
        PAPER["bound"],
        f"holds at {100 * np.mean(fit >= pairing - 1e-9 * fit):.0f} % of the checkpoints; y_tᵀ(Ax_t − b) is negative "
        f"at {100 * negative:.0f} %",
        "at every checkpoint (it is the Cauchy–Schwarz inequality, true of any y in the unit ball)",
        literal=bool(np.all(fit >= pairing - 1e-9 * fit)),
    )
    apart, closed = float(np.median((fit - pairing)[-20:]) / fit[0]), float(gap[-1] / gap[0])
    yield judge(
        THEORY,
        "There is no duality gap between the two curves",
        PAPER["gap"],
        f"they stay {100 * apart:.1f} % of the first residual apart; the gap of the averages falls to {closed:.2g} "
        "of its first value",
        "median difference over the last 20 checkpoints ≤ 1 % of the first residual; reading: the duality gap of the "
        "averages falls below 1 %",
        literal=apart <= 0.01,
        reading=closed <= 0.01,
        because="strong duality holds and the gap of the averages closes, but the two curves do not meet and their "
        "difference is not that gap",
    )


def _lars(settings: Any) -> Claim:
    mdp = star(settings.gamma)
    zero = mspbe(mdp, np.zeros(mdp.n_features))
    return judge(
        ALGORITHM,
        "LARS-TD diverges on the star",
        PAPER["lars"],
        f"the largest entry of b = ΦᵀΞr is {np.abs(mdp.b).max():.1g}: it stops at once with θ = 0, MSPBE {zero:.1g}",
        "the first point of its path, θ = 0, is not a solution",
        literal=bool(np.abs(mdp.b).max() > 0 or zero > 0),
        because="θ = 0 is its first point and the exact answer: the star is trivial for LSTD and LARS-TD",
    )


def _start(settings: Any) -> float:
    mdp = star(settings.gamma)
    assert mdp.theta0 is not None
    return mspbe(mdp, mdp.theta0)


def _table(settings: Any, rows: Any) -> Grid:
    marks = [t for t in (100, 250, 1000, 5000, 20_000) if t <= settings.n_iter]
    lines = []
    for update in UPDATES:
        for name, eta, iterate in _variants(settings):
            t, value = curve(rows, update, name, eta, iterate)
            nearest = [value[np.argmin(np.abs(t - mark))] for mark in marks]
            lines.append((update, name, f"{eta:g}", iterate, *(f"{v:.2g}" for v in nearest)))
    header = ("updates", "method", "η", "iterate", *(f"t = {m:,}" for m in marks))
    note = "Importance: behaviour trajectory, ratio 7 or 0 on the δ terms. Medians over the seeds; inf: diverged."
    return Grid("MSPBE on the star (it starts at 67.6)", header, lines, note)


def _variants(settings: Any) -> list[tuple[str, float, str]]:
    names = [(m, e) for m in METHODS for e in ((settings.eta,) if m == "TD" else (settings.eta, settings.other_eta))]
    return [(m, e, i) for m, e in names for i in (("last", "average") if METHODS[m].solver.saddle else ("last",))]


def plot(settings: Any, rows: Any) -> list[Figure]:
    return [
        Figure(
            "mspbe",
            "Star: MSPBE under expected updates",
            "On the left the linear axis of the paper's figure, where RO-TD and TDC look alike; on the right the "
            "same runs on "
            "logarithmic axes. RO-TD's last iterate (solid orange) never settles, its average (dashed) does.",
            lambda axes: _draw_mspbe(settings, rows, axes, "expected"),
            panels=2,
        ),
        Figure(
            "saddle",
            "Star: the middle panel and the real duality gap",
            "Left: the two curves of the paper for RO-TD's iterates. One bounds the other by Cauchy–Schwarz, but "
            "they do not meet. Right: the duality gap of the averaged pair, which does go to zero.",
            lambda axes: _draw_saddle(settings, rows, axes),
            panels=2,
        ),
        Figure(
            "sampled",
            "Star: MSPBE with sampled transitions, medians over the seeds",
            "Left: sub-sampled target transitions (no ratio). Right: a trajectory of the behaviour with ratios 7 and "
            "0. Dashed lines are averaged iterates.",
            lambda axes: _draw_sampled(settings, rows, axes),
            panels=2,
        ),
    ]


def _draw_mspbe(settings: Any, rows: Any, axes: Sequence[Any], update: str) -> None:
    for ax in axes:
        for name in ("TD", "TDC", "GTD2", "RO-TD", "RO-TD-MP"):
            for iterate in ("last", "average") if METHODS[name].solver.saddle else ("last",):
                _line(ax, rows, update, name, settings.eta, iterate)
        ax.set_xlabel("iteration")
    axes[0].set(xlim=(0, settings.short), ylim=(0, 140), ylabel="MSPBE", title="linear, first steps")
    axes[1].set(xscale="log", yscale="log", ylim=(1e-6, 1e5), title="logarithmic, all steps")
    axes[1].legend(fontsize=8, loc="lower left")


def _draw_sampled(settings: Any, rows: Any, axes: Sequence[Any]) -> None:
    lines = [*((name, "last") for name in ("TD", "TDC", "RO-TD")), ("RO-TD", "average"), ("RO-TD-MP", "average")]
    for ax, update in zip(axes, UPDATES[1:], strict=True):
        for name, iterate in lines:
            eta = settings.eta if update == "sampled" or name in ("TD", "TDC") else settings.other_eta
            _line(ax, rows, update, name, eta, iterate)
        ax.set(xscale="log", yscale="log", ylim=(1e-6, 1e5), xlabel="transition", title=update)
        ax.legend(fontsize=8, loc="lower left")
    axes[0].set_ylabel("MSPBE")


def _line(ax: Any, rows: Any, update: str, name: str, eta: float, iterate: str) -> None:
    t, value = curve(rows, update, name, eta, iterate)
    shown = np.isfinite(value) & (t > 0)
    style = "--" if iterate == "average" else "-"
    label = f"{name}, average" if iterate == "average" else name
    label += f" (η = {eta:g})" if name != "TD" else ""
    ax.plot(t[shown], value[shown], style, color=METHODS[name].colour, lw=1.5, label=label)


def _draw_saddle(settings: Any, rows: Any, axes: Sequence[Any]) -> None:
    for column, colour, label in (("fit", "#0072B2", "‖Ax − b‖"), ("pairing", "#D55E00", "yᵀ(Ax − b)")):
        t, value = curve(rows, "expected", "RO-TD", settings.eta, "last", column)
        axes[0].plot(t[1:], value[1:], color=colour, label=label)
    axes[0].set(xscale="log", xlabel="iteration", title="RO-TD's iterates (η = 10)")
    axes[0].legend(fontsize=8)
    for name in ("RO-TD", "RO-TD-MP"):
        for eta, style in ((settings.eta, "-"), (settings.other_eta, "--")):
            t, value = curve(rows, "expected", name, eta, "average", "gap")
            axes[1].plot(t[1:], value[1:] / value[0], style, color=METHODS[name].colour, label=f"{name} (η = {eta:g})")
    axes[1].set(xscale="log", yscale="log", xlabel="iteration", title="gap of the averages / first gap")
    axes[1].legend(fontsize=8)


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
