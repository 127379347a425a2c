"""Cost against the numbers of features d, samples N and active features p: RO-TD's O(Nd) and LARS-TD's O(Ndp³)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from reproduction.document import Grid
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.settings import Settings, assumed, paper
from reproduction.verdict import THEORY, Claim, judge
from sparsetd.operators import td, tdc
from sparsetd.penalties import L1
from sparsetd.solvers import PrimalDual
from sparsetd.solvers.path_following import Lars
from sparsetd.system import Array, Batch

PAPER = {
    "rotd": "“the computation cost of LARS-TD is O(Ndp³), where that for RO-TD is O(Nd)”",
    "advantage": "“If p is linear or sublinear w.r.t d, RO-TD has a significant advantage over LARS-TD”",
}
# Which number varies in a series, and what it does to (N, d, p); p = 0 is RO-TD.
SERIES = {"RO-TD, d": "d", "RO-TD, N": "N", "LARS-TD, d": "d", "LARS-TD, p": "p", "LARS-TD, p = d/25": "d"}


@dataclass(frozen=True)
class ComplexitySettings(Settings):
    n_seeds: int = assumed(5, "repetitions; the fastest counts, as other work only adds time")
    n_samples: int = paper(500, "samples given to LARS-TD on the mountain car")
    d_grid: tuple[int, ...] = assumed((500, 1000, 2000, 4000, 8000), "features; the mountain car has 4095 weights")
    n_grid: tuple[int, ...] = assumed((250, 500, 1000, 2000, 4000), "samples, at d = 1000")
    p_grid: tuple[int, ...] = assumed((20, 40, 80, 160, 320), "active features, at the d below")
    d: int = assumed(4000, "features while p varies")
    p: int = assumed(60, "active features while d varies")
    share: int = assumed(25, "p = d/25 in the series where p is linear in d")
    tolerance: float = assumed(0.2, "an exponent is confirmed within this")


def grid(settings: ComplexitySettings, series: str) -> list[tuple[int, int, int]]:
    """(N, d, p) along a series."""
    n = settings.n_samples
    return {
        "RO-TD, d": [(n, d, 0) for d in settings.d_grid],
        "RO-TD, N": [(k, settings.d_grid[1], 0) for k in settings.n_grid],
        "LARS-TD, d": [(n, d, settings.p) for d in settings.d_grid],
        "LARS-TD, p": [(n, settings.d, p) for p in settings.p_grid],
        "LARS-TD, p = d/25": [(n, d, max(1, d // settings.share)) for d in settings.d_grid],
    }[series]


def units(settings: ComplexitySettings) -> Iterator[Unit]:
    for series in SERIES:
        for seed in range(settings.n_seeds):
            yield Unit(series.replace(", ", "-").replace(" = ", "=").replace("/", "_"), seed, {"series": series})


def run(settings: ComplexitySettings, unit: Unit) -> list[Row]:
    series, rng, rows = unit.params["series"], settings.rng(unit.seed), []
    measure = rotd_seconds if series.startswith("RO-TD") else lars_seconds
    with threadpool_limits(1):
        measure(transitions(rng, 50, 60), 5)  # compiles and warms up
        for n, d, p in grid(settings, series):
            seconds, active = measure(transitions(rng, n, d), p)
            rows.append({"series": series, "N": n, "d": d, "p": p, "active": active, "seconds": seconds})
    return rows


def transitions(rng: np.random.Generator, n: int, d: int) -> Batch:
    """Gaussian features with weakly coupled successors: A is near a P-matrix, so a path of p steps has p features."""
    phi, phi_next = rng.normal(size=(n, d)), 0.2 * rng.normal(size=(n, d))
    reward = phi[:, :10].sum(axis=1) + rng.normal(size=n)
    ones = np.ones(n)
    return Batch(phi, phi_next, reward, 0.9 * ones, ones, np.zeros(n, dtype=bool), ones)


def rotd_seconds(batch: Batch, p: int) -> tuple[float, int]:  # noqa: ARG001 (one signature for both)
    """Processor time of one pass of RO-TD."""
    solver, table, penalty = PrimalDual(step_size=1e-4), tdc(), L1(0.01, 0.2)
    state = solver.init(table, batch.n_features)
    began = time.process_time()
    solver.update(state, batch, table, penalty)
    return time.process_time() - began, batch.n_features


def lars_seconds(batch: Batch, p: int) -> tuple[float, int]:
    """Processor time of LARS-TD's path down to p events, from the rows."""
    solver = Lars(max_steps=p)
    state = solver.update(solver.init(td(), batch.n_features, np.float64), batch, td())
    began = time.process_time()
    solution = solver.result(state, td(), L1(0.0))
    return time.process_time() - began, int(np.count_nonzero(solution.coef))


def fastest(rows: Any, series: str) -> Any:
    """The shortest time at each point of a series."""
    chosen = rows[rows["series"] == series]
    return chosen.groupby(["N", "d", "p"], as_index=False)[["seconds", "active"]].min()


def exponent(rows: Any, series: str) -> float:
    """Slope of log seconds against the log of the number that varies."""
    frame = fastest(rows, series)
    return float(np.polyfit(np.log(frame[SERIES[series]]), np.log(frame["seconds"]), 1)[0])


def joint_exponents(rows: Any) -> tuple[float, float]:
    """(a, b) of seconds ∝ dᵃ pᵇ over all points of LARS-TD."""
    frames = [fastest(rows, s) for s in SERIES if s.startswith("LARS")]
    d, p, seconds = (np.concatenate([f[c].to_numpy(dtype=float) for f in frames]) for c in ("d", "p", "seconds"))
    design = np.column_stack([np.ones(len(d)), np.log(d), np.log(p)])
    _, a, b = np.linalg.lstsq(design, np.log(seconds), rcond=None)[0]
    return float(a), float(b)


def summarize(settings: ComplexitySettings, rows: Any) -> Summary:
    claims = [_rotd(settings, rows), _lars(settings, rows), _advantage(settings, rows)]
    remark = (
        "Times are of one pass of RO-TD and of one whole path of LARS-TD. A path is a solution; a pass is a step "
        "towards one (see Proposition 1), so the advantage is one of cost per pass, not of cost to a given accuracy."
    )
    return Summary(_conclusion(settings, rows), claims, [_table(rows)], [remark])


def _conclusion(settings: ComplexitySettings, rows: Any) -> str:
    (a, b), (d, ratio) = joint_exponents(rows), advantage(rows)
    return (
        f"A pass of RO-TD costs d^{exponent(rows, 'RO-TD, d'):.2f} and N^{exponent(rows, 'RO-TD, N'):.2f}, a path of "
        f"LARS-TD d^{a:.2f} p^{b:.2f}: O(Nd) is right and O(Ndp³) is an upper bound that a good implementation does "
        f"not reach. With p = d/{settings.share} a path takes {ratio[-1]:.3g} times as long as a pass at d = {d[-1]}."
    )


def _rotd(settings: ComplexitySettings, rows: Any) -> Claim:
    in_d, in_n = exponent(rows, "RO-TD, d"), exponent(rows, "RO-TD, N")
    return judge(
        THEORY,
        "RO-TD costs O(Nd)",
        PAPER["rotd"],
        f"one pass costs N^{in_n:.2f} and d^{in_d:.2f}",
        f"both fitted exponents within {settings.tolerance} of 1",
        literal=max(abs(in_d - 1), abs(in_n - 1)) <= settings.tolerance,
        because="the exponents are not near 1 over this range",
    )


def _lars(settings: ComplexitySettings, rows: Any) -> Claim:
    a, b = joint_exponents(rows)
    bound = a <= 1 + settings.tolerance and b <= 3 + settings.tolerance
    return judge(
        THEORY,
        "LARS-TD costs O(Ndp³)",
        PAPER["rotd"],
        f"a path costs d^{a:.2f} p^{b:.2f} (d alone: {exponent(rows, 'LARS-TD, d'):.2f}, p alone: "
        f"{exponent(rows, 'LARS-TD, p'):.2f})",
        f"exponents (1, 3) of d and p within {settings.tolerance}; reading: as an upper bound",
        literal=bound and b >= 3 - settings.tolerance,
        reading=bound,
        because="it is an upper bound; columns computed once and updated factors make it O(Ndp + dp² + p³)",
    )


def advantage(rows: Any) -> tuple[Array, Array]:
    """(d, seconds of LARS-TD with p = d/25 over seconds of a pass of RO-TD)."""
    lars, rotd = fastest(rows, "LARS-TD, p = d/25"), fastest(rows, "RO-TD, d")
    return lars["d"].to_numpy(), lars["seconds"].to_numpy() / rotd["seconds"].to_numpy()


def _advantage(settings: ComplexitySettings, rows: Any) -> Claim:
    d, ratio = advantage(rows)
    growth = float(np.polyfit(np.log(d), np.log(ratio), 1)[0])
    return judge(
        THEORY,
        "RO-TD is cheaper when p grows with d",
        PAPER["advantage"],
        f"LARS-TD takes {ratio[0]:.3g} times as long as a pass at d = {d[0]}, p = {d[0] // settings.share}, and "
        f"{ratio[-1]:.3g} times at d = {d[-1]}, p = {d[-1] // settings.share}; the ratio grows as d^{growth:.2f}",
        "the ratio is above 2 at the largest d and grows with an exponent of at least 0.5",
        literal=ratio[-1] > 2 and growth >= 0.5,
        because="the ratio does not grow over this range",
    )


def _table(rows: Any) -> Grid:
    lines: list[tuple[str, ...]] = []
    for series in SERIES:
        for _, line in fastest(rows, series).iterrows():
            p = f"{line['active']:.0f} of {line['p']:.0f}" if line["p"] else "–"
            lines.append((series, f"{line['N']:.0f}", f"{line['d']:.0f}", p, f"{1e3 * line['seconds']:.3g}"))
    header = ("series", "N", "d", "p: features of events", "ms of processor time")
    return Grid("Fastest of the repetitions, one thread", header, lines)


def plot(settings: ComplexitySettings, rows: Any) -> list[Figure]:
    return [
        Figure(
            "time",
            "Time against features, samples and active features",
            "Logarithmic axes; dotted guides have the slopes 1 (left) and 1 and 3 (right). Left: both methods are "
            "about linear in d while p is fixed. Right: LARS-TD's path stays far below p³.",
            lambda axes: _draw(settings, rows, axes),
            panels=2,
        )
    ]


def _draw(settings: ComplexitySettings, rows: Any, axes: Sequence[Any]) -> None:
    styles = {
        "RO-TD, d": ("#D55E00", "RO-TD, one pass"),
        "LARS-TD, d": ("#0072B2", f"LARS-TD, p = {settings.p}"),
        "LARS-TD, p = d/25": ("#009E73", f"LARS-TD, p = d/{settings.share}"),
    }
    for series, (colour, label) in styles.items():
        frame = fastest(rows, series)
        axes[0].plot(frame["d"], frame["seconds"], "o-", color=colour, label=label)
    frame = fastest(rows, "LARS-TD, p")
    axes[1].plot(frame["p"], frame["seconds"], "o-", color="#0072B2", label=f"LARS-TD, d = {settings.d}")
    _guide(axes[0], np.array(settings.d_grid), fastest(rows, "RO-TD, d")["seconds"].iloc[0], (1,))
    _guide(axes[1], np.array(settings.p_grid), frame["seconds"].iloc[0], (1, 3))
    for ax, name, ticks in zip(axes, ("features d", "events p"), (settings.d_grid, settings.p_grid), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=name, ylabel="seconds")
        ax.minorticks_off()
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.legend(fontsize=8)


def _guide(ax: Any, x: Array, first: float, slopes: Sequence[int]) -> None:
    for slope in slopes:
        ax.plot(x, first * (x / x[0]) ** slope, "k:", lw=1)


COMPLEXITY = Experiment(
    "complexity",
    "Complexity",
    "Processor time on one thread, Gaussian features. RO-TD: one pass over N rows. LARS-TD: the path from ρ_max "
    "through p events, on N = 500 rows, without forming the d × d matrix.",
    ComplexitySettings(),
    ComplexitySettings(n_seeds=2, d_grid=(500, 1000, 2000, 4000), p_grid=(20, 40, 80, 160), d=2000),
    units,
    run,
    summarize,
    plot,
)
