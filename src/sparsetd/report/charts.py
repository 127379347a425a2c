"""The charts of an evaluation, each from its payload; "" if there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparsetd._tools.numbers import Numbers, count, number
from sparsetd.plots import pictures
from sparsetd.plots.chart import Chart, span

Payload = Mapping[str, Any]
SHOWN = 12  # features drawn with a name in the path plot


def fan(rows: Sequence[Payload], written: Callable[[float], str], unit: str = "") -> str:
    """Bounds on the difference over Γ: an inner band for confounding alone, an outer one that includes chance."""
    strength = [row["confounding"] for row in rows]
    difference = f"difference to what was done{f', {unit}' if unit else ''}"
    names = ("strength Γ of an unrecorded cause", difference, "An unrecorded cause")
    ends = span([0.0, *(v for row in rows for v in row["difference_interval"])])
    chart = Chart((1.0, strength[-1]), ends, *names, 580, 300)
    for key, css in (("difference_interval", "band"), ("difference_bounds", "band inner")):
        low, high = zip(*(row[key] for row in rows), strict=True)
        chart.add("area", strength, low, css, top=high)
    chart.add("line", (1.0, strength[-1]), (0.0, 0.0), "line warm dash", "no difference")
    for row in rows:
        tip = f"Γ = {row['confounding']:g}: {' to '.join(map(written, row['difference_bounds']))}"
        for end in row["difference_bounds"]:
            chart.add("point", (row["confounding"],), (end,), "dot main", tip, size=3.5)
    return chart.svg()


def shape(column: Payload, unit: str = "") -> str:
    """The value against a column, averaged over the other columns, with its band."""
    names = (column["name"], f"change in {unit or 'value'}", f"Value against {column['name']}")
    return pictures.band(**column["shape"], names=names, size=(380.0, 230.0), guide="the mean").svg()


def ratios(p: Payload) -> str:
    """How often the rows count, on logarithmic axes so that a few heavy rows are seen; those of weight 0 in words."""
    h = p["ratio_histogram"]
    if not h or not sum(h["counts"]):
        return ""
    chart = pictures.histogram(h["edges"], h["counts"], y_kind="log")
    if h["zero"]:
        chart.add("text", (chart.x.end,), (16.0,), "axis end", f"{count(h['zero'])} more rows do not count")
    return chart.svg()


def agreement(p: Payload) -> str:
    """Predicted value against the held-out return that followed, by groups of states."""
    groups = p["calibration"]
    if not groups:
        return ""
    ends = [v for g in groups for v in (g["predicted"], *pictures.finite(g["interval"]))]
    written = Numbers.of(ends)
    names = ("predicted value", "what followed", "Prediction against what followed")
    chart = Chart(span(ends), span(ends), *names)
    chart.add("line", chart.x_range, chart.x_range, "line dash")
    for g in groups:
        predicted, observed, (low, high) = g["predicted"], g["observed"], g["interval"]
        chart.add("line", (predicted, predicted), (low, high), "whisker")
        tip = f"predicted {written(predicted)}, observed {written(observed)} ({written(low)} to {written(high)})"
        chart.add("point", (predicted,), (observed,), "dot main", f"{tip}, {count(g['count'])} states")
    return chart.svg()


def path(p: Payload) -> str:
    """Weights against the penalty, and where all features that stand out have entered."""
    found = p["path"]
    if not found:
        return ""
    penalty, lines, kept = found["penalty"], found["weights"], {f["name"] for f in p["features"]}
    at = penalty.index(min(penalty))
    named = sorted((name for name in lines if name in kept), key=lambda name: -abs(lines[name][at]))
    chart = pictures.path(penalty, lines, named[:SHOWN])
    chosen = found["chosen"]
    chart.add("line", (chosen, chosen), chart.y_range, "line warm dash", f"chosen penalty {number(chosen)}")
    return chart.svg()


def convergence(p: Payload) -> str:
    """The certified gap against the iteration."""
    found = p["convergence"]
    return pictures.falling(found["iteration"], found["gap"], "iteration", "certified gap").svg() if found else ""
