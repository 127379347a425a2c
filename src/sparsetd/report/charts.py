"""The charts of the report page, each from the payload of an evaluation; empty text where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from sparsetd._tools.numbers import Numbers, count, number, percent
from sparsetd.report.svg import Chart, log_span, span
from sparsetd.report.words import answers

Payload = Mapping[str, Any]
ROW = 30.0
Row = tuple[str, float, Any, str]  # name, value, interval and kind
_of = itemgetter("value", "interval")
SHOWN = 12  # features drawn with a name in the path plot
COLOURS = 6  # of their lines; neighbours differ


def forest(p: Payload) -> str:
    """Estimates with their intervals, one row each; the answer first."""
    written = answers(p)
    rows = [("This report", p["value"], p["interval"], "main"), ("Logged behaviour", *_of(p["behavior_value"]), "warm")]
    rows += [(r["name"], *_of(r), "") for r in p["comparisons"]]
    rows = [row for row in rows if row[1] is not None and math.isfinite(row[1])]
    ends = [v for _, value, interval, _ in rows[:3] for v in (value, *_finite(interval))]
    return intervals(rows, p["level"], written, p.get("unit") or "value per episode", ends, p["value"])


def intervals(
    rows: Sequence[Row],
    level: float,
    written: Numbers,
    label: str,
    ends: Sequence[float],
    guide: float,
) -> str:
    """One row each of name, value, interval and kind; `ends` must be seen, and a dashed line stands at `guide`.

    A value far from all of them does not set the scale: its row shows an arrow and the number.
    """
    low, high = span([*ends, guide])
    room = 3.0 * (high - low)
    far = [value for _, value, _, _ in rows if low - room <= value <= high + room]
    height, longest = 62 + ROW * len(rows), max(len(name) for name, *_ in rows)
    left = max(162, 10 * longest + 16)  # a character of the large type on a phone is up to 10 wide
    across, width = span([*ends, *far, guide]), max(580, left + 260)
    chart = Chart(across, (len(rows) - 0.5, -0.5), label, "", "Estimates", width, height, left=left)
    for i, (name, value, interval, css) in enumerate(rows):
        _interval_mark(chart, i, _finite(interval) or (value, value), css)
        words = f"{name}: {written(value)}"
        if not chart.x_range[0] <= value <= chart.x_range[1]:
            chart.text(*_beyond(chart, value, i), written(value), "name", "end" if value > guide else "start")
            value = min(max(value, chart.x_range[0]), chart.x_range[1])
        if _finite(interval):
            words += f", {percent(level)} interval {' to '.join(map(written, interval))}"
        chart.point(value, i, words, f"dot {css}", 6 if css == "main" else 4.5)
        chart.text(chart.x.start - 10, chart.y(i) + 4, name, "name strong" if css == "main" else "name", "end")
    chart.rule("line main dash", guide)
    return chart.svg(y_ticks=False)


def fan(p: Payload) -> str:
    """Bounds on the difference over Γ: what confounding may do, and with chance."""
    rows = p["bounds"]
    strength = [row["confounding"] for row in rows]
    ends = [v for row in rows for v in row["difference_interval"]]
    written = Numbers.of(ends)
    names = ("strength of hidden confounding Γ", "difference to the logged behaviour", "Hidden confounding")
    chart = Chart((1.0, strength[-1]), span([0.0, *ends]), *names, 580, 300)
    for key, css in (("difference_interval", "band"), ("difference_bounds", "band inner")):
        chart.area(strength, [row[key][0] for row in rows], [row[key][1] for row in rows], css)
    chart.line((1.0, strength[-1]), (0.0, 0.0), "line warm dash", "no difference")
    for row in rows:
        low, high = map(written.signed, row["difference_bounds"])
        for end in row["difference_bounds"]:
            chart.point(row["confounding"], end, f"Γ = {row['confounding']:g}: {low} to {high}", "dot main", 3.5)
    return chart.svg()


def shape(column: Payload, unit: str = "") -> str:
    """The value against a column, averaged over what the others are, with its band."""
    found, name = column["shape"], column["name"]
    names = (name, f"change in {unit or 'value'}", f"Value against {name}")
    return _banded(found["at"], found["value"], found["low"], found["high"], names, (380.0, 230.0), "the mean")


def thresholds(at: Sequence[float], values: Sequence[Payload], label: str) -> str:
    """The value of a rule against its threshold, with a band that holds for all thresholds at once."""
    low, high = zip(*(r["interval"] for r in values), strict=True)
    names = ("threshold", label, "Value against the threshold")
    return _banded(at, [r["value"] for r in values], low, high, names, (580.0, 280.0))


def _banded(
    at: Sequence[float],
    value: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    names: tuple[str, str, str],
    size: tuple[float, float],
    guide: str = "",
) -> str:
    """A line with a band around it; `guide` names a line at 0, which the picture then holds."""
    signed = Numbers.of([*value, *low, *high])
    written = signed.signed if guide else signed
    chart = Chart(span(at, 0.0), span([*([0.0] if guide else []), *low, *high]), *names, *size)
    chart.area(at, low, high, "band")
    if guide:
        chart.line((at[0], at[-1]), (0.0, 0.0), "line warm dash", guide)
    chart.line(at, value, "line main", names[2])
    for x, y, a, b in list(zip(at, value, low, high, strict=True))[:: max(len(at) // 8, 1)]:
        chart.point(x, y, f"{names[0]} {x:.4g}: {written(y)} ({written(a)} to {written(b)})", "dot main", 3.0)
    return chart.svg()


def ratios(p: Payload) -> str:
    """Histogram of the importance ratios on a logarithmic axis; rows of weight 0 are told in words."""
    h = p["ratio_histogram"]
    if not h or not sum(h["counts"]):
        return ""
    edges, counts = h["edges"], h["counts"]
    top = max(counts) * 1.08
    names = ("importance ratio", "transitions", "Importance ratios")
    chart = Chart((edges[0], edges[-1]), (0, top), *names, x_kind="log", y_kind="whole")
    for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True):
        if n:
            chart.bar(low, high, n, f"ratio {number(low)} to {number(high)}: {count(n)} transitions")
    if h["zero"]:
        chart.text(chart.x.start + 6, 24, f"{count(h['zero'])} transitions have ratio 0")
    return chart.svg()


def agreement(p: Payload) -> str:
    """Predicted value against the held-out return that followed, by groups of states."""
    groups = p["calibration"]
    if not groups:
        return ""
    ends = [v for g in groups for v in (g["predicted"], *_finite(g["interval"]))]
    written = Numbers.of(ends)
    names = ("predicted value", "return that followed", "Prediction against held-out return")
    chart = Chart(span(ends), span(ends), *names)
    chart.line(chart.x_range, chart.x_range, "line dash", "")
    for g in groups:
        low, high = g["interval"]
        chart.whisker(g["predicted"], g["predicted"], low, high, "whisker")
        predicted, observed = written(g["predicted"]), written(g["observed"])
        tip = f"predicted {predicted}, observed {observed} ({written(low)} to {written(high)})"
        chart.point(g["predicted"], g["observed"], f"{tip}, {count(g['count'])} states", "dot main")
    return chart.svg()


def path(p: Payload) -> str:
    """Weights against the penalty, from strong to weak."""
    found = p["path"]
    if not found:
        return ""
    penalty, lines = found["penalty"], found["weights"]
    ends = [v for series in lines.values() for v in series]
    across, up = (max(penalty), min(penalty)), span([0.0, *ends])
    chart = Chart(across, up, "penalty (strong to weak)", "weight", "Path", x_kind="log", right=126)
    at = min(range(len(penalty)), key=lambda i: penalty[i])
    order = sorted(lines, key=lambda name: -abs(lines[name][at]))
    kept = {f["name"] for f in p["features"]}
    written = Numbers.of(ends)
    named = [name for name in order if name in kept][:SHOWN]
    for name in reversed(order):
        css = f"line main c{named.index(name) % COLOURS}" if name in named else "line off"
        chart.line(penalty, lines[name], css, f"{name}: {written.signed(lines[name][at])} at the weakest penalty")
    _labels(chart, chart.x.end + 5, [(name, lines[name][at], f"c{k % COLOURS}") for k, name in enumerate(named)])
    chosen = found["chosen"]
    chart.line([chosen, chosen], chart.y_range, "line warm dash", f"chosen penalty {number(chosen)}")
    return chart.svg()


def convergence(p: Payload) -> str:
    """The certified gap against the iteration."""
    found = p["convergence"]
    if not found:
        return ""
    gap = [max(g, 1e-16) for g in found["gap"]]
    steps = found["iteration"]
    names = ("iteration", "certified gap", "Convergence")
    chart = Chart(span(steps, 0.02), log_span(gap), *names, x_kind="whole", y_kind="log")
    chart.line(steps, gap, "line main", "")
    for x, g in list(zip(steps, gap, strict=True))[:: max(1, len(gap) // 25)]:
        chart.point(x, g, f"iteration {count(x)}: gap at most {number(g)}", "dot main", 3)
    return chart.svg()


def _finite(interval: Any) -> tuple[float, ...]:
    ok = interval is not None and all(v is not None and math.isfinite(v) for v in interval)
    return tuple(interval) if ok else ()


def _beyond(chart: Chart, value: float, row: int) -> tuple[float, float]:
    """Return where the number of a value outside of the picture is written: inside, at the side where it lies."""
    at = chart.x.end - 12 if value > chart.x_range[1] else chart.x.start + 12
    return at, chart.y(row) - 7


def _interval_mark(chart: Chart, row: int, interval: tuple[float, ...], css: str) -> None:
    """A whisker; an arrow where it leaves the picture."""
    left, right = chart.x_range
    low, high = interval
    chart.whisker(min(max(low, left), right), max(min(high, right), left), row, row, f"whisker {css}")
    y = chart.y(row) + 4
    if low < left:
        chart.text(chart.x.start - 1, y, "◂", "name", "middle")
    if high > right:
        chart.text(chart.x.end + 1, y, "▸", "name", "middle")


def _labels(chart: Chart, x: float, ends: list[tuple[str, float, str]]) -> None:
    """Names at the right end of their lines and in their colours, moved apart where they would overlap."""
    ends = sorted(ends, key=lambda end: -end[1])
    places = spread([chart.y(value) for _, value, _ in ends], 12.0, chart.y.end, chart.y.start)
    for (name, _, css), y in zip(ends, places, strict=True):
        chart.text(x, y + 4, name if len(name) <= 18 else f"{name[:16]}…", f"note {css}")


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places in [low, high], in this order and `gap` apart, that are nearest to the wanted ones in least squares.

    Less i·gap they only have to increase: an isotonic regression.
    """
    if not len(wanted):
        return []
    steps = gap * np.arange(len(wanted))
    room = max(high - low - gap * (len(wanted) - 1), 0.0)
    return list(isotonic_regression(np.asarray(wanted) - steps, y_min=low, y_max=low + room) + steps)
