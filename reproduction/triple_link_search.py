"""The search behind Table 2: random settings of GQ(λ) and RO-GQ(λ) with equal budgets, judged on separate seeds.

A candidate is drawn from fixed ranges; all candidates run with the same seeds. The first half of the seeds chooses the
best candidate of each method, the second half, which the choice has not seen, is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from reproduction import triple_link as link
from reproduction.cuda import triple_link as gpu
from reproduction.document import Grid
from reproduction.experiment import Experiment, Figure, Row, Summary, Unit
from reproduction.settings import Settings, assumed, cited, paper
from reproduction.triple_link import Tuned
from reproduction.triple_link_coordinates import coordinates
from reproduction.triple_link_verdicts import COLOURS, permutation_test

METHODS = ("GQ(λ)", "RO-GQ(λ)")
N_X = 10_000
# The settings of the experiment stand first among the candidates, so that the search judges them beside its own.
KNOWN = {
    ("GQ(λ)", "lqr"): (link.GQ_LQR,),
    ("RO-GQ(λ)", "lqr"): (link.ROGQ_LQR, link.ROGQ_LQR_LONG),
    ("GQ(λ)", "raw"): (link.GQ_ELSEWHERE["raw"],),
    ("RO-GQ(λ)", "raw"): (link.ROGQ_RAW,),
}


@dataclass(frozen=True)
class SearchSettings(Settings):
    n_seeds: int = assumed(8, "runs of each candidate: one half chooses, the other is reported")
    n_candidates: int = assumed(2048, "settings of each method; the first are those of the experiment")
    coordinates: tuple[str, ...] = assumed(
        ("lqr", "raw"), "what the features know of the plant; see the table of the experiment"
    )
    n_x: int = paper(N_X, "Experiment 1")
    max_episodes: int = paper(300, "“maximum number of episodes is 300”")
    order: int = paper(2, "Fourier basis, 3⁸ = 6561 functions (per action)")
    dt: float = cited(0.005, "control step; Si & Wang 2001")
    max_total: int = assumed(60_000, "steps after which a run counts as not solved")
    ranges: str = assumed(
        "scale 0.1–30, 1 − γ 0.003–0.2, λ 0–0.98, α 1e-7–1e-2, η 1e-4–1, ε 0–0.1, ρ 1e-7–1e-2, forgetting 1e-4–1e-2, "
        "all even on a logarithmic scale",
        "not stated",
    )
    backend: str = assumed("cores", "where the search is run; a GPU keeps the weights in single precision")


def candidate(settings: SearchSettings, method: str, where: str, number: int) -> Tuned:
    """Setting number `number` of a method: the same numbers for both methods wherever both have them."""
    if number < len(KNOWN[method, where]):
        return KNOWN[method, where][number]
    rng = np.random.default_rng(np.random.SeedSequence(settings.entropy, spawn_key=(1_000_000 + number,)))

    def log(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    shared = (
        log(0.1, 30.0),
        1.0 - log(0.003, 0.2),
        float(rng.choice([0.0, 0.5, 0.8, 0.9, 0.98])),
        log(1e-7, 1e-2),
        log(1e-4, 1.0),
    )
    konidaris, epsilon = bool(rng.integers(2)), float(rng.choice([0.0, 0.05, 0.1]))
    penalties = (log(1e-7, 1e-2), log(1e-7, 1e-2), log(1e-4, 1e-2) if rng.integers(2) else 0.0)
    own = penalties if method == "RO-GQ(λ)" else (0.0, 0.0, 0.0)
    return Tuned(method, *shared, konidaris, epsilon, 0.95, *own)


def units(settings: SearchSettings) -> Iterator[Unit]:
    """On a GPU all candidates of a method are one unit, on cores every candidate is."""
    n, step = settings.n_candidates, settings.n_candidates if settings.backend == "cuda" else 1
    for where, first, method in product(settings.coordinates, range(0, n, step), METHODS):
        slug = f"{'gq' if method == 'GQ(λ)' else 'rogq'}-{where}-{first:04d}"
        yield Unit(slug, 0, {"method": method, "where": where, "first": first, "n": step, "runs": settings.n_seeds})


def run(settings: SearchSettings, unit: Unit) -> list[Row]:
    """A candidate is hopeless if two of its runs never last 300 steps; its other runs are skipped."""
    method, where, seeds = unit.params["method"], unit.params["where"], range(settings.n_seeds)
    numbers = range(unit.params["first"], unit.params["first"] + unit.params["n"])
    tuned = {k: candidate(settings, method, where, k) for k in numbers}
    play = _on_gpu if settings.backend == "cuda" else _on_cores
    found = play(settings, where, [(k, s, tuned[k]) for k in numbers for s in seeds[:2]])
    hopeful = [k for k in numbers if max(found[k, s][2] for s in seeds[:2]) >= 300]
    found |= play(settings, where, [(k, s, tuned[k]) for k in hopeful for s in seeds[2:]])
    never = (False, settings.max_episodes, 0)
    return [
        {"method": method, "coordinates": where, "candidate": k, "run": s, "skipped": (k, s) not in found}
        | dict(zip(("solved", "episodes", "longest"), found.get((k, s), never), strict=True))
        for k in numbers
        for s in seeds
    ]


Found = dict[tuple[int, int], tuple[bool, int, int]]


def _on_cores(settings: SearchSettings, where: str, runs: list[tuple[int, int, Tuned]]) -> Found:
    task = link.TripleLinkSettings(
        max_episodes=settings.max_episodes, order=settings.order, dt=settings.dt, max_total=settings.max_total
    )
    rows = [link.learn(task, tuned, where, link.PUSHES, settings.n_x, settings.rng(s)) for _, s, tuned in runs]
    return {(k, s): (r["solved"], r["episodes"], r["longest"]) for (k, s, _), r in zip(runs, rows, strict=True)}


def _on_gpu(settings: SearchSettings, where: str, runs: list[tuple[int, int, Tuned]]) -> Found:
    if not runs:
        return {}
    T, limits = coordinates(where, settings.dt), ("order", "dt", "n_x", "max_episodes", "max_total")
    numbers = [gpu.numbers(tuned, T, int(settings.rng(s).integers(2**31))) for _, s, tuned in runs]
    how: Any = {name: getattr(settings, name) for name in limits}
    rows = gpu.learn(numbers, saddle=runs[0][2].method == "RO-GQ(λ)", **how)
    return {(k, s): (bool(r[0]), int(r[1]), int(r[2])) for (k, s, _), r in zip(runs, rows, strict=True)}


def summarize(settings: SearchSettings, rows: Any) -> Summary:
    best = {(w, m): chosen(settings, rows, w, m) for w in settings.coordinates for m in METHODS}
    return Summary(_conclusion(settings, best), [], [_table(settings, best)], [_share(rows)])


def _conclusion(settings: SearchSettings, best: dict[tuple[str, str], tuple[Tuned, Any]]) -> str:
    told = []
    for where in settings.coordinates:
        ro, gq = (best[where, m][1]["episodes"].to_numpy() for m in ("RO-GQ(λ)", "GQ(λ)"))
        p = permutation_test(ro, gq)
        told.append(f"{where}: {ro.mean():.1f} ± {ro.std():.1f} against {gq.mean():.1f} ± {gq.std():.1f}, p = {p:.2g}")
    return (
        f"{settings.n_candidates} random settings of each method were run on one half of the seeds, and the best of "
        f"them on the other half; episodes of RO-GQ(λ) against GQ(λ) by coordinates ({'; '.join(told)}). The verdict "
        "on Table 2 stands in the main report; this page shows where its parameters come from."
    )


def chosen(settings: SearchSettings, rows: Any, where: str, method: str) -> tuple[Tuned, Any]:
    """The best candidate by the mean episodes of the first half of the seeds, and its rows of the second half."""
    cell, half = rows[(rows["coordinates"] == where) & (rows["method"] == method)], settings.n_seeds // 2
    first = cell[cell["run"] < half].groupby("candidate")[["episodes", "longest"]].mean()
    number = int(first.sort_values(["episodes", "longest"], ascending=[True, False]).index[0])
    return candidate(settings, method, where, number), cell[(cell["candidate"] == number) & (cell["run"] >= half)]


def _table(settings: SearchSettings, best: dict[tuple[str, str], tuple[Tuned, Any]]) -> Grid:
    lines = []
    for (where, method), (tuned, rows) in best.items():
        numbers = ", ".join(f"{k} {v:.3g}" for k, v in vars(tuned).items() if k != "method" and v)
        solved = f"{int(rows['solved'].sum())}/{len(rows)}"
        number = int(rows["candidate"].iloc[0])
        kind = "the experiment's" if number < len(KNOWN[method, where]) else f"random, {number}"
        told = (f"{rows['episodes'].mean():.1f}", solved, f"{int(rows['longest'].max()):,}", kind, numbers)
        lines.append((where, method, *told))
    header = ("coordinates", "method", "episodes, unseen seeds", "solved", "longest", "candidate", "setting")
    return Grid(f"Best of {settings.n_candidates} settings, chosen on other seeds", header, lines)


def _share(rows: Any) -> str:
    solved = rows.groupby(["coordinates", "method", "candidate"])["solved"].mean() > 0.5
    told = [f"{m}, {w}: {int(v.sum())} of {len(v)}" for (w, m), v in solved.groupby(level=[0, 1])]
    best = rows.groupby(["coordinates", "method", "candidate"])["episodes"].mean().groupby(level=[0, 1])
    known = [f"{m}, {w}" for (w, m), of in best if of.min() < of.max() and of.idxmin()[2] < len(KNOWN[m, w])]
    return (
        f"Settings that solve the task in most of their runs: {'; '.join(told)}. Over all seeds together one of the "
        f"experiment's own settings is the best for {'; '.join(known) or 'none'}."
    )


def plot(settings: SearchSettings, rows: Any) -> list[Figure]:
    caption = "Every setting of the search, from the best to the worst: mean episodes until it balances (300: never)."
    return [
        Figure(
            "search",
            "Triple link: all settings of the search",
            caption,
            lambda axes: _draw(settings, rows, axes),
            len(settings.coordinates),
        )
    ]


def _draw(settings: SearchSettings, rows: Any, axes: Sequence[Any]) -> None:
    for ax, where in zip(axes, settings.coordinates, strict=True):
        for method, colour in COLOURS.items():
            cell = rows[(rows["coordinates"] == where) & (rows["method"] == method)]
            means = np.sort(cell.groupby("candidate")["episodes"].mean().to_numpy())
            ax.plot(np.arange(1, len(means) + 1) / len(means), means, color=colour, label=method)
        ax.set(title=f"{where} coordinates", xlabel="share of the settings", yscale="log")
        ax.legend(fontsize=8)
    axes[0].set_ylabel("episodes")


SEARCH = Experiment(
    "triple-link-search",
    "Triple-link pendulum: the search (Table 2)",
    "The paper prints no parameter of its learners. Random settings are drawn for both methods, with the same numbers "
    "wherever both have them; half of the seeds chooses, the other half is reported.",
    SearchSettings(),
    SearchSettings(n_candidates=12, n_seeds=4, max_total=8_000),
    units,
    run,
    summarize,
    plot,
)
