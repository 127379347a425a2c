"""What the rows of mountain car say about Table 1: our own runs, and the atlas of everything that is not printed.

The repository keeps the rows of the atlas, so each row of the table has one verdict, which counts both: under how many
readings of the printed settings it holds, and whether it holds for the settings that our own searches found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.document import Grid
from reproduction.experiment import Figure, Summary
from reproduction.runner import gather
from reproduction.verdict import ALGORITHM, TUNING, Claim, judge

# Success and steps as printed; None where the paper has a dash.
PAPER: dict[str, tuple[float, tuple[float, float] | None]] = {
    "RO-TD": (1.0, (147.40, 13.31)),
    "LARS-TD": (1.0, (142.25, 9.74)),
    "l2-LSTD": (0.0, None),
    "TDC": (0.0, None),
    "TD": (0.0, None),
}
METHODS = tuple(PAPER)
OURS = {
    "RO-TD": ("RO-TD, printed", "RO-TD, one pass", "RO-TD, smaller ρ₁"),
    "LARS-TD": ("LARS-TD, 500",),
    "l2-LSTD": ("l2-LSTD, 500", "l2-LSTD, 500, small ridge"),
    "TDC": ("TDC",),
    "TD": ("TD",),
}
AXES = ("start", "reward", "width", "normed", "passes", "average", "warm", "gamma", "eta")
DATA = {"fixed": "#0072B2", "fresh": "#E69F00", "online": "#009E73"}
HIGH, LOW = 0.95, 0.05
KEPT = Path(__file__).parents[1] / "docs" / "reproduction" / "atlas" / "mountain-car-atlas" / "rows"


@cache
def kept_readings() -> Any:
    """Success under every reading of the atlas, from the rows that the repository keeps."""
    return success(gather(sorted(KEPT.glob("*.parquet"))))


def success(rows: Any) -> Any:
    """One line per method and reading: the share of its runs whose last policy reaches the goal."""
    keys = ["method", "data", *AXES]
    return rows.groupby(keys, sort=False)[["success", "ever"]].mean().reset_index()


def as_printed(method: str) -> Callable[[Any], Any]:
    """Whether a share of successful runs is what Table 1 prints for a method: all of them, or none."""
    return (lambda share: share >= HIGH) if PAPER[method][0] else (lambda share: share <= LOW)


def summarize(_settings: Any, rows: Any) -> Summary:
    last, rates = rows[rows["last"] & (rows["kind"] != "sweep")], kept_readings()
    claims = [*(_row(last, rates, method) for method in METHODS), _order(rates), _selects(last)]
    return Summary(_conclusion(last, rates), claims, [_table(rows, last)], [_goals(last)])


def _conclusion(last: Any, rates: Any) -> str:
    runs = [last[last["method"] == name]["success"] for name in ("RO-TD, printed", "RO-TD, smaller ρ₁", "TD")]
    printed, smaller, td = (f"{int(won.sum())} of {len(won)} runs" for won in runs)
    cell = rates[rates["method"] == "RO-TD"]["success"]
    return (
        f"RO-TD succeeds in {printed} with the printed ρ₁ and in {smaller} with a much smaller one, and in at least "
        f"95 % of the runs under {int((cell >= HIGH).sum())} of {len(cell):,} readings of what is not printed; TD "
        f"succeeds in {td} on the same samples. The table compares tuning: without a goal in the "
        "samples every success comes from not fitting them exactly."
    )


def _success(last: Any, method: str) -> float:
    cell = last[last["method"] == method]
    return float(cell["success"].mean()) if len(cell) else float("nan")


def _told(last: Any, method: str) -> str:
    """Successes, and mean ± standard deviation of the steps of the successful runs."""
    cell = last[last["method"] == method]
    won = cell[cell["success"]]["steps"]
    steps = f", {won.mean():.1f} ± {won.std(ddof=0):.1f} steps" if len(won) else ""
    return f"{len(won)}/{len(cell)}{steps}"


def _printed(name: str) -> str:
    success, steps = PAPER[name]
    return f"{success:.0%}" + (f", {steps[0]} ± {steps[1]} steps" if steps else "")


def _present(last: Any, name: str) -> list[str]:
    return [v for v in OURS[name] if (last["method"] == v).any()]


def _row(last: Any, rates: Any, method: str) -> Claim:
    holds, cell = as_printed(method), rates[rates["method"] == method]["success"]
    ours = {v: _success(last, v) for v in _present(last, method)}
    share, count = float(holds(cell).mean()), f"{int(holds(cell).sum()):,} of {len(cell):,} readings"
    good = [v for v, rate in ours.items() if holds(rate)]
    runs = "; ".join(f"{v}: {_told(last, v)}" for v in ours)
    return judge(
        TUNING,
        f"{method} {'succeeds' if PAPER[method][0] else 'fails'} on mountain car",
        _printed(method),
        f"{runs}; as printed in {count} of the atlas, where its success is {cell.min():.0%} to {cell.max():.0%}",
        f"success of the last policy {'≥ 95 %' if PAPER[method][0] else '≤ 5 %'}: reproduced if this holds in all our "
        "settings and in at least 95 % of the readings of the atlas, under a reading if it holds in any",
        literal=share >= HIGH and len(good) == len(ours),
        reading=bool(share > 0 or good),
        because=f"it holds in {count} of what is not printed, and in {len(good)} of {len(ours)} settings of ours",
        otherwise=f"it holds in none of {len(cell):,} readings of what is not printed, and in no setting of ours",
    )


def _order(rates: Any) -> Claim:
    """RO-TD above TDC and TD, reading by reading; TD has no η, so it meets each of RO-TD's."""
    paired = pairs(rates)
    others = np.maximum(paired["success_tdc"], paired["success_td"])
    above, printed = paired["success"] > others, (paired["success"] >= HIGH) & (others <= LOW)
    below = paired["success"] < others
    return judge(
        TUNING,
        "The order of Table 1: RO-TD succeeds where TDC and TD fail",
        "100% against 0%",
        f"of {len(paired):,} common readings RO-TD is above both in {int(above.sum()):,}, below one in "
        f"{int(below.sum()):,}, and as printed (≥ 95 % against ≤ 5 %) in {int(printed.sum()):,}",
        "as printed in at least 95 % of the common readings; under a reading if in any",
        literal=float(printed.mean()) >= HIGH,
        reading=bool(printed.any()),
        because=f"it holds in {float(printed.mean()):.1%} of the common readings",
        otherwise=f"in no reading do the three rows come out together; RO-TD beats both in {float(above.mean()):.1%}",
    )


def pairs(rates: Any) -> Any:
    """RO-TD's readings with the success of TDC and TD under the same ones."""
    shared = ["data", *AXES]
    by = {method: rates[rates["method"] == method] for method in ("RO-TD", "TDC", "TD")}
    tdc = by["TDC"][[*shared, "success"]].rename(columns={"success": "success_tdc"})
    without = [name for name in shared if name != "eta"]
    td = by["TD"][[*without, "success"]].rename(columns={"success": "success_td"})
    return by["RO-TD"].merge(tdc, on=shared).merge(td, on=without)


def _selects(last: Any) -> Claim:
    cells = {v: last[last["method"] == v] for v in _present(last, "RO-TD")}
    good = {v: c for v, c in cells.items() if c["success"].mean() >= 0.5}
    shares = {v: c["nonzero"].median() / 4095 for v, c in cells.items()}
    sparse = [v for v in good if shares[v] <= 0.1]
    return judge(
        ALGORITHM,
        "RO-TD performs feature selection",
        "“RO-TD is able to perform feature selection successfully”",
        "; ".join(f"{v}: {s:.0%} of the weights are not zero" for v, s in shares.items()),
        "a setting that succeeds in at least half of the runs has at most 10 % of its weights not zero",
        literal="RO-TD, printed" in sparse,
        reading=bool(sparse),
        because="with another ρ₁",
        otherwise="the settings that succeed are not sparse: averages of sparse iterates are dense",
    )


def _goals(last: Any) -> str:
    """What the data can say at all: without a goal in them the exact answer is a constant."""
    cells = last[(last["kind"] == "variant") & ~last["method"].str.contains("500")]
    bottom = cells[~cells["method"].str.contains("random")].groupby("seed")["goals"].first()
    return (
        f"In {int((bottom == 0).sum())} of {len(bottom)} runs the 3000 random steps from the bottom never reach the "
        "goal. The exact answer to such data is V = −1/(1 − γ) everywhere, which LARS-TD finds with one weight per "
        "action and which prefers no action. Success comes from not fitting them exactly: the unvisited part of the "
        "valley has value 0, better than anything visited, and fewer passes or more ridge keep this optimism."
    )


def _table(rows: Any, last: Any) -> Grid:
    lines: list[tuple[str, ...]] = []
    for method, cell in last.groupby("method", sort=False):
        every = rows[(rows["method"] == method) & (rows["kind"] != "sweep")]
        best = every.groupby("seed")["success"].any().mean()
        endings = ", ".join(f"{k} {v}" for k, v in cell["ending"].value_counts().items())
        broken = every.get("estimator_status", "").isin(["ray", "step_limit", "diverged"]).mean()
        name = str(method).split(",")[0]
        printed = _printed(name) if name in PAPER and "online" not in str(method) else "–"
        nonzero, seconds = f"{cell['nonzero'].median():.0f}", f"{every['seconds'].mean():.1f}"
        told = (_told(last, str(method)), f"{best:.0%}", nonzero, endings, f"{broken:.0%}", seconds)
        lines.append((str(method), printed, *told))
    found = ("ours, last policy", "any iteration", "non-zeros", "policy iteration", "broken fits", "s per fit")
    note = (
        "Steps are of successful runs. “Any iteration” picks the best policy with hindsight, which no user can. "
        "Broken: a LARS-TD path that ended early (A is no P-matrix) or an estimator that diverged."
    )
    return Grid("Table 1", ("method", "paper", *found), lines, note)


def plot(settings: Any, rows: Any) -> list[Figure]:
    return [
        Figure(
            "sensitivity",
            "Mountain car: success of RO-TD over α and ρ₁",
            _sensitivity_caption(settings, rows),
            lambda axes: _draw_sensitivity(settings, rows, axes[0]),
        ),
        Figure(
            "iterations",
            "Mountain car: steps to the goal over the policy iterations",
            "Every line is one run; 501 means that the goal was not reached. Policies keep changing: which iteration "
            "is reported decides the table.",
            lambda axes: _draw_iterations(settings, rows, axes),
            panels=3,
        ),
    ]


def _grid(rows: Any) -> Any:
    """Success of RO-TD's last policy, ρ₁ in the rows and α in the columns."""
    cells = rows[(rows["kind"] == "sweep") & rows["last"]]
    return cells.pivot_table(index="rho", columns="alpha", values="success", aggfunc="mean")


def _sensitivity_caption(settings: Any, rows: Any) -> str:
    table = _grid(rows)
    rho, alpha = table.stack().idxmax()
    printed = table.loc[settings.rho[0], settings.alpha]
    return (
        f"Share of runs whose last policy reaches the goal, ρ₂ = {settings.rho[1]}. The printed setting (square) "
        "succeeds "
        f"in {printed:.0%} of the runs, the best cell (ρ₁ = {rho:g}, α = {alpha:g}) in {table.max().max():.0%}."
    )


def _draw_sensitivity(settings: Any, rows: Any, ax: Any) -> None:
    table = _grid(rows)
    image = ax.imshow(table.to_numpy(), origin="lower", vmin=0, vmax=1, cmap="cividis", aspect="auto")
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        ax.text(j, i, f"{value:.0%}", ha="center", va="center", color="white" if value < 0.6 else "black", fontsize=9)
    ax.set_xticks(range(table.shape[1]), [f"{a:g}" for a in table.columns])
    ax.set_yticks(range(table.shape[0]), [f"{r:g}" for r in table.index])
    ax.set(xlabel="step size α", ylabel="penalty ρ₁ of θ")
    ax.grid(False)
    alpha, rho = settings.alpha, settings.rho[0]
    if alpha in table.columns and rho in table.index:
        where = (list(table.columns).index(alpha), list(table.index).index(rho))
        ax.plot(*where, "s", ms=34, mfc="none", mec="#D55E00", mew=2.5)
    ax.figure.colorbar(image, ax=ax, label="share of runs that succeed")


def _draw_iterations(settings: Any, rows: Any, axes: Sequence[Any]) -> None:
    wanted = [m for m in ("LARS-TD, 500", "RO-TD, smaller ρ₁", "TD") if (rows["method"] == m).any()]
    for ax, method in zip(axes, wanted, strict=False):
        cells = rows[(rows["method"] == method) & (rows["kind"] == "variant")]
        for _, run in cells.groupby("seed"):
            ax.plot(run["iteration"] + 1, run["steps"], "-o", ms=3, lw=0.8, color="#0072B2", alpha=0.5)
        ax.set(title=method, xlabel="policy iteration", ylim=(90, settings.max_steps + 20))
        ax.set_xticks(range(1, settings.n_iter + 1))
    axes[0].set_ylabel("steps to the goal")


# --- the atlas itself -----------------------------------------------------------------------------------------------


def summarize_atlas(_settings: Any, rows: Any) -> Summary:
    rates = success(rows)
    present = [m for m in METHODS if (rates["method"] == m).any()]
    shares = {m: as_printed(m)(rates[rates["method"] == m]["success"]).mean() for m in present}
    conclusion = (
        "Share of the readings under which a printed row holds: "
        + ", ".join(f"{m} {share:.1%}" for m, share in shares.items())
        + ". The verdicts on Table 1 stand in the main report; this page shows what they depend on."
    )
    return Summary(conclusion, [], [_success_table(rates), _axes(rates)], [_ever(rates)])


def _success_table(rates: Any) -> Grid:
    lines = []
    for (method, data), cell in rates.groupby(["method", "data"], sort=False):
        best = cell.loc[cell["success"].idxmax()]
        where = ", ".join(f"{axis} {best[axis]}" for axis in AXES)
        share = [f"{(cell['success'] >= level).mean():.1%}" for level in (0.5, HIGH)]
        never = f"{(cell['success'] == 0).mean():.1%}"
        lines.append((method, data, f"{len(cell):,}", never, *share, f"{best['success']:.0%}", where))
    header = ("method", "samples", "readings", "never succeeds", "success ≥ 50 %", "≥ 95 %", "best", "best reading")
    return Grid("Success over the readings", header, lines)


def _axes(rates: Any) -> Grid:
    """The mean success for every value of every open choice."""
    lines = []
    for axis in AXES:
        for value, cell in rates.groupby(axis, sort=True):
            means = cell.groupby("method")["success"].mean()
            lines.append((axis, str(value), *(f"{means[m]:.1%}" if m in means else "–" for m in METHODS)))
    return Grid("Which choice matters: mean success", ("choice", "value", *METHODS), lines)


def _ever(rates: Any) -> str:
    best = rates[rates["method"] == "RO-TD"]
    ever, last = (int((best[name] >= HIGH).sum()) for name in ("ever", "success"))
    return (
        f"Choosing the best policy of each run with hindsight, RO-TD would reach 95 % in {ever:,} of {len(best):,} "
        f"readings instead of {last:,}."
    )


def plot_atlas(_settings: Any, rows: Any) -> list[Figure]:
    rates = success(rows)
    present = [m for m in METHODS if (rates["method"] == m).any()]
    caption = (
        "Share of the readings (vertical) under which the last policy succeeds in at least so many of the runs "
        "(horizontal). A method that succeeds whatever the paper meant would be a line at the top."
    )
    return [
        Figure(
            "readings",
            "Mountain car: success over the readings",
            caption,
            lambda axes: _draw_atlas(rates, present, axes),
            len(present),
        )
    ]


def _draw_atlas(rates: Any, methods: Sequence[str], axes: Sequence[Any]) -> None:
    levels = np.linspace(0, 1, 101)
    for ax, method in zip(axes, methods, strict=True):
        for data, colour in DATA.items():
            cell = rates[(rates["method"] == method) & (rates["data"] == data)]["success"].to_numpy()
            if len(cell):
                share = (cell[:, None] >= np.maximum(levels, 1e-9)).mean(axis=0)
                ax.plot(levels, share, color=colour, label=f"{data} samples ({len(cell):,})")
        ax.set(title=f"{method} (paper: {PAPER[method][0]:.0%})", xlabel="success", xlim=(0, 1), ylim=(0, 1))
        ax.legend(fontsize=8)
    axes[0].set_ylabel("share of readings")
