"""What the atlas of readings says about Table 1: the share of readings under which each row, and their order, holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduction.experiment import Claim, Figure, Summary, Table, judge

AXES = ("start", "reward", "width", "normed", "passes", "average", "warm", "gamma", "eta")
METHODS = ("RO-TD", "TDC", "TD", "LARS-TD", "l2-LSTD")
SUCCEEDS = ("RO-TD", "LARS-TD")
HIGH, LOW = 0.95, 0.05
DATA = {"fixed": "#0072B2", "fresh": "#E69F00", "online": "#009E73"}


def summarize(_settings: Any, rows: Any) -> Summary:
    rates = success(rows)
    claims = [*(_row(rates, method) for method in METHODS if (rates["method"] == method).any()), _order(rates)]
    return Summary(claims, [_table(rates), _axes(rates)], [_ever(rates)])


def success(rows: Any) -> Any:
    """One line per method and reading: the share of its runs whose last policy reaches the goal."""
    keys = ["method", "data", *AXES]
    return rows.groupby(keys, sort=False)[["success", "ever"]].mean().reset_index()


def _row(rates: Any, method: str) -> Claim:
    cell = rates[rates["method"] == method]
    good = method in SUCCEEDS
    holds = cell["success"] >= HIGH if good else cell["success"] <= LOW
    share = float(holds.mean())
    return judge(
        f"{method} {'succeeds' if good else 'fails'}",
        "100%" if good else "0%",
        f"it does in {int(holds.sum()):,} of {len(cell):,} readings; success ranges from {cell['success'].min():.0%} "
        f"to {cell['success'].max():.0%}, median {cell['success'].median():.0%}",
        f"success of the last policy {'≥ 95 %' if good else '≤ 5 %'}: reproduced if it holds in at least 95 % of the "
        "readings, under a reading if in any",
        literal=share >= HIGH,
        reading=bool(holds.any()),
        because=f"it holds in {share:.1%} of the readings",
        otherwise="it holds in none of the readings",
    )


def _order(rates: Any) -> Claim:
    """RO-TD above TDC and TD, reading by reading; TD has no η, so it meets each of RO-TD's."""
    paired = pairs(rates)
    others = np.maximum(paired["success_tdc"], paired["success_td"])
    above, printed = paired["success"] > others, (paired["success"] >= HIGH) & (others <= LOW)
    below = paired["success"] < others
    return judge(
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


def _table(rates: Any) -> Table:
    lines = []
    for (method, data), cell in rates.groupby(["method", "data"], sort=False):
        best = cell.loc[cell["success"].idxmax()]
        where = ", ".join(f"{axis} {best[axis]}" for axis in AXES)
        share = [f"{(cell['success'] >= level).mean():.1%}" for level in (0.5, HIGH)]
        lines.append(
            (
                method,
                data,
                f"{len(cell):,}",
                f"{(cell['success'] == 0).mean():.1%}",
                *share,
                f"{best['success']:.0%}",
                where,
            )
        )
    header = ("method", "samples", "readings", "never succeeds", "success ≥ 50 %", "≥ 95 %", "best", "best reading")
    return Table("Success over the readings", header, lines)


def _axes(rates: Any) -> Table:
    """The mean success for every value of every open choice."""
    lines = []
    for axis in AXES:
        for value, cell in rates.groupby(axis, sort=True):
            means = cell.groupby("method")["success"].mean()
            lines.append((axis, str(value), *(f"{means[m]:.1%}" if m in means else "–" for m in METHODS)))
    return Table("Which choice matters: mean success", ("choice", "value", *METHODS), lines)


def _ever(rates: Any) -> str:
    best = rates[rates["method"] == "RO-TD"]
    ever, last = (int((best[name] >= HIGH).sum()) for name in ("ever", "success"))
    return (
        f"Choosing the best policy of each run with hindsight, RO-TD would reach 95 % in {ever:,} of {len(best):,} "
        f"readings instead of {last:,}."
    )


def plot(_settings: Any, rows: Any) -> list[Figure]:
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
            lambda axes: _draw(rates, present, axes),
            len(present),
        )
    ]


def _draw(rates: Any, methods: Sequence[str], axes: Sequence[Any]) -> None:
    levels = np.linspace(0, 1, 101)
    for ax, method in zip(axes, methods, strict=True):
        for data, colour in DATA.items():
            cell = rates[(rates["method"] == method) & (rates["data"] == data)]["success"].to_numpy()
            if len(cell):
                share = (cell[:, None] >= np.maximum(levels, 1e-9)).mean(axis=0)
                ax.plot(levels, share, color=colour, label=f"{data} samples ({len(cell):,})")
        ax.set(
            title=f"{method} (paper: {'100%' if method in SUCCEEDS else '0%'})",
            xlabel="success",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        ax.legend(fontsize=8)
    axes[0].set_ylabel("share of readings")
