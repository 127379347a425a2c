"""The pictures that pages and `.plot()` share, each a `Chart` from plain numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sparsetd._tools.numbers import Numbers, at_level, between, count, number
from sparsetd.plots.chart import Chart, Kind, log_span, span

Row = tuple[str, float, Any, str]  # name, value, interval (or None) and class
ROW = 30.0  # height in pixels
PHONE = 360.0  # width of a picture for a phone
HUES = 6  # colours of lines; neighbours differ


def finite(interval: Any) -> tuple[float, ...]:
    """The ends of an interval; nothing where it does not exist."""
    ok = interval is not None and all(v is not None and math.isfinite(v) for v in interval)
    return tuple(interval) if ok else ()


def intervals(
    rows: Sequence[Row],
    label: str,
    ends: Sequence[float],
    level: float = 0.95,
    guide: float | None = None,
    named: str = "",
    narrow: bool = False,
) -> Chart:
    """Values with their intervals, one row each. All `ends` are in the picture; `named` is a line at `guide`.

    A value far from all of them does not set the scale: its row shows an arrow and the number. In a `narrow` picture,
    for a phone, the names stand above their rows.
    """
    seen = [*ends, *([] if guide is None else [guide])]
    low, high = span(seen)
    room, known = 3.0 * (high - low), [v for _, value, interval, _ in rows for v in (value, *finite(interval))]
    near = [v for v in known if low - room <= v <= high + room]
    margin = max(162, 9 * max((len(name) for name, *_ in rows), default=0) + 16)  # a bold letter is up to 9 wide
    width, row, left = (PHONE, 1.6 * ROW, 14.0) if narrow else (max(580.0, margin + 260.0), ROW, margin)
    place, tall = (len(rows) - 0.5, -0.7 if narrow else -0.5), 62 + row * len(rows)
    chart = Chart(span([*seen, *near]), place, label, "", "Estimates", width, tall, left=left, above=narrow)
    written = Numbers.of(seen, (max(ends) - min(ends)) if ends else None)
    left, right = chart.x_range
    for i, (name, value, interval, css) in enumerate(rows):
        chart.rows.append((name, css == "main"))
        if not left <= value <= right:
            at, side, arrow = (left, "start", "◂ {}") if value < left else (right, "end", "{} ▸")
            chart.add("text", (at,), (i,), f"name {side}", arrow.format(written(value)))
            continue
        ends = finite(interval)
        low, high = ends or (value, value)
        chart.add("line", (max(low, left), min(high, right)), (i, i), f"whisker {css}".rstrip())
        if low < left:  # the whisker leaves the picture
            chart.add("text", (left,), (i,), "name start", "◂")
        if high > right:
            chart.add("text", (right,), (i,), "name end", "▸")
        told = f", {at_level(level, ends, written)}" if ends else ""
        size = 6 if css == "main" else 4.5
        chart.add("point", (value,), (i,), f"dot {css}", f"{name}: {written(value)}{told}", size=size)
    if guide is not None:
        chart.rule("line warm dash" if named else "line main dash", guide, named)
    return chart


def band(
    at: Sequence[float],
    value: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    names: tuple[str, str, str],
    guide: str = "",
    height: float = 0.0,
) -> Chart:
    """A line with a band around it; `guide` names a dashed line at `height`, which is then in the picture.

    Two values, such as no and yes, have nothing between them: they are two points with whiskers.
    """
    numbers, two = Numbers.of([*value, *low, *high]), len(at) == 2
    written = numbers.signed if guide and not height else numbers
    x_kind: Kind = "whole" if two and all(float(x).is_integer() for x in at) else "linear"
    x_range, y_range = span(at, 0.5 if two else 0.0), span([*([height] if guide else []), *low, *high])
    chart = Chart(x_range, y_range, *names, x_kind=x_kind)
    if guide:
        chart.add("line", x_range, (height, height), "line warm dash", guide)
    if not two:
        chart.add("area", at, low, "band", top=high)
        chart.add("line", at, value, "line main", names[2])
    for x, y, a, b in list(zip(at, value, low, high, strict=True))[:: max(len(at) // 8, 1)]:
        tip = f"{names[0]} {x:.4g}: {written(y)} ({written(a)} to {written(b)})"
        if two:
            chart.add("line", (x, x), (a, b), "whisker main")
        chart.add("point", (x,), (y,), "dot main", tip, size=5.0 if two else 3.0)
    return chart


def path(penalty: Sequence[float], lines: Mapping[str, Sequence[float]], named: Sequence[str]) -> Chart:
    """Weights against the penalty, from strong to weak; the named ones in colour, with their names at the end."""
    ends = [v for series in lines.values() for v in series]
    across, up = (max(penalty), min(penalty)), span([0.0, *ends])
    chart = Chart(across, up, "strength of the penalty", "weight", "Path", x_kind="log", right=150)
    at, written = min(range(len(penalty)), key=lambda i: penalty[i]), Numbers.of(ends)
    for name in sorted(lines, key=lambda name: abs(lines[name][at])):
        css = f"line main c{named.index(name) % HUES}" if name in named else "line off"
        tip = f"{name}: {written.signed(lines[name][at])} at the weakest penalty"
        chart.add("line", penalty, lines[name], css, tip)
    chart.ends += [(name, lines[name][at], f"c{k % HUES}") for k, name in enumerate(named)]
    return chart


def histogram(edges: Sequence[float], counts: Sequence[float], x_kind: Kind = "log") -> Chart:
    """How often the rows count: a histogram of their importance ratios, logarithmic so that a few heavy rows show."""
    names = ("how often a row counts (importance ratio)", "rows", "How often the rows count")
    chart = Chart((edges[0], edges[-1]), (0.8, 2.0 * max(counts)), *names, x_kind=x_kind, y_kind="log")
    for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True):
        if n:
            tip = f"{count(n)} rows count {number(low)} to {number(high)} times"
            chart.add("bar", (low, high), (n,), "bar", tip)
    return chart


def falling(steps: Sequence[float], sizes: Sequence[float], x_label: str, y_label: str) -> Chart:
    """A curve that should fall while a method works, on a logarithmic axis."""
    least = [max(size, 1e-16) for size in sizes]
    names = (x_label, y_label, "Convergence")
    chart = Chart(span(steps, 0.02), log_span(least), *names, x_kind="whole", y_kind="log")
    chart.add("line", steps, least, "line main")
    for x, size in list(zip(steps, least, strict=True))[:: max(1, len(least) // 25)]:
        tip = f"{x_label} {count(x)}: {y_label} at most {number(size)}"
        chart.add("point", (x,), (size,), "dot main", tip, size=3.0)
    return chart


def fan(rows: Sequence[Mapping[str, Any]], unit: str = "") -> Chart:
    """Bounds on the difference over Γ: an inner band for confounding alone, an outer one that includes chance."""
    strength = [row["confounding"] for row in rows]
    difference = f"difference to what was done{f', {unit}' if unit else ''}"
    names = ("strength Γ of an unrecorded cause", difference, "An unrecorded cause")
    ends = [v for row in rows for v in row["difference_interval"]]
    chart, written = Chart((1.0, strength[-1]), span([0.0, *ends]), *names, height=300), Numbers.of(ends)
    for key, css in (("difference_interval", "band"), ("difference_bounds", "band inner")):
        low, high = zip(*(row[key] for row in rows), strict=True)
        chart.add("area", strength, low, css, top=high)
    chart.add("line", (1.0, strength[-1]), (0.0, 0.0), "line warm dash", "no difference")
    for row in rows:
        tip = f"Γ = {row['confounding']:g}: {between(row['difference_bounds'], written.signed)}"
        for end in row["difference_bounds"]:
            chart.add("point", (row["confounding"],), (end,), "dot main", tip, size=3.5)
    return chart


def agreement(groups: Sequence[Mapping[str, Any]]) -> Chart:
    """Predicted value against the held-out return that followed, by groups of states."""
    ends = [v for g in groups for v in (g["predicted"], *finite(g["interval"]))]
    written = Numbers.of(ends)
    names = ("predicted value", "what followed", "Prediction against what followed")
    chart = Chart(span(ends), span(ends), *names)
    chart.add("line", chart.x_range, chart.x_range, "line dash")
    for g in groups:
        predicted, observed, (low, high) = g["predicted"], g["observed"], g["interval"]
        chart.add("line", (predicted, predicted), (low, high), "whisker")
        tip = f"predicted {written(predicted)}, observed {written(observed)} ({written(low)} to {written(high)})"
        chart.add("point", (predicted,), (observed,), "dot main", f"{tip}, {count(g['count'])} states")
    return chart
