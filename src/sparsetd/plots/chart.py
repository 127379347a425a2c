"""One chart, drawn in two ways: as inline SVG on a page, and with matplotlib on anybody's axes.

A chart is two scales and a list of marks in the units of the data. A mark carries its own sentence (`tip`): on a page
it is the SVG `<title>`, the ARIA label and what the tooltip shows, so that every mark can be read by hover, keyboard
and screen reader. What a mark looks like is the name of a class of the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from sparsetd._tools.numbers import Numbers, exponent, ten

Kind = Literal["linear", "whole", "log"]
Shape = Literal["line", "area", "point", "bar", "text"]
MARGIN = {"left": 42.0, "right": 16.0, "top": 12.0, "bottom": 46.0}
LETTER = 0.023  # width of a digit on a phone, as a share of the chart: the style sheet enlarges letters there
BETWEEN = 62.0  # pixels from one tick to the next
APART = 18.0  # pixels from one name at the right end of a line to the next
NARROW = 5.0  # ends of a logarithmic scale that differ by less have the ticks of a linear one
HEAD = 22.0  # height of the name of the upright axis, which stands above it: beside it a phone would cut it off
OURS, OTHER = "#009e73", "0.6"
COLOURS = {"main": OURS, "band": OURS, "bar": OURS, "warm": "black", "off": "0.8"}  # of classes, with matplotlib


@dataclass(frozen=True)
class Scale:
    """A map from data to pixels: linear, linear with ticks only at whole numbers, or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"

    def __call__(self, value: float) -> float:
        a, b, v = (math.log10(max(x, 1e-300)) if self.kind == "log" else x for x in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (v - a) / (b - a)

    def ticks(self, count: int = 6) -> list[float]:
        """Round numbers inside the range: 1, 2 or 5 times a power of ten (powers alone on a wide log scale)."""
        low, high = sorted((self.low, self.high))
        if self.kind == "log" and high > NARROW * low:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            steps = (1, 2, 3, 5, 7) if high < 20 * low else (1, 2, 5) if last - first <= 3 else (1,)
            every = [m * 10.0**k for k in range(first, last + 1) for m in steps]
            inside = [v for v in every if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
            most = 2 * count if len(steps) > 1 else count  # a power is wider than a digit
            return inside[:: max(1, math.ceil(len(inside) / most))]
        raw = (high - low) / count
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        step = max(step, 1.0) if self.kind == "whole" else step
        found = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        # A reader needs three numbers to see the scale.
        return found if len(found) > 2 or self.kind == "whole" or count > 8 else self.ticks(count + 1)

    def labels(self, ticks: Sequence[float]) -> tuple[list[str], str]:
        """The numbers at the ticks, and the power of ten, if any, that the name of the axis takes over."""
        size = max(map(abs, ticks), default=0.0)
        if self.kind == "log":
            plain = not ticks or (min(ticks) >= 1e-3 and size < 1e5)
            return [f"{v:,g}" if plain else power_of_ten(v) for v in ticks], ""
        step = min((b - a for a, b in pairwise(ticks)), default=size)
        numbers = Numbers(-exponent(step * (1 + 1e-9)), 0 if 1e-3 <= size < 1e5 else exponent(size))
        return [numbers.digits(v) if v else "0" for v in ticks], f" (× {ten(numbers.power)})" if numbers.power else ""


def span(values: Sequence[float], pad: float = 0.06) -> tuple[float, float]:
    """The range of the finite values, a little wider; never empty, nor so narrow that it would show rounding errors."""
    finite = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(finite), max(finite)
    size = max(abs(low), abs(high))
    room = pad * (high - low) if high - low > 1e-9 * size else 0.1 * (size or 1.0)
    return low - room, high + room


def log_span(values: Sequence[float]) -> tuple[float, float]:
    """The range of the positive values in whole decades."""
    positive = [v for v in values if 0 < v < math.inf] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return 10.0**low, 10.0 ** (high if high > low else low + 1)


@dataclass(frozen=True)
class Mark:
    """One thing that is drawn, in the units of the data.

    `top` is the upper edge of an area, `size` the radius of a point. A text is its `tip`; the last
    word of its class says whether it starts or ends there.
    """

    kind: Shape
    x: Sequence[float]
    y: Sequence[float]
    css: str
    tip: str = ""
    top: Sequence[float] = ()
    size: float = 4.0

    @property
    def colour(self) -> str:
        """With matplotlib: c0, c1, … are the colours of its cycle."""
        words = self.css.split()
        cycled = next((f"C{word[1:]}" for word in words if word[0] == "c" and word[1:].isdigit()), None)
        return cycled or next((COLOURS[word] for word in words if word in COLOURS), OTHER)


@dataclass
class Chart:
    """Axes with labels, and the marks drawn on them so far.

    `rows` are names that stand at 0, 1, … beside the upright axis, or `above` their marks, in bold where they are ours;
    `ends` are names beside the right ends of lines, with the value and the class of each.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str
    y_label: str
    title: str
    width: float = 460.0
    height: float = 280.0
    x_kind: Kind = "linear"
    y_kind: Kind = "linear"
    left: float = MARGIN["left"]
    right: float = MARGIN["right"]
    above: bool = False
    marks: list[Mark] = field(default_factory=list)
    rows: list[tuple[str, bool]] = field(default_factory=list)
    ends: list[tuple[str, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        top = MARGIN["top"] + (HEAD if self.y_label else 0.0)
        self.y = Scale(*self.y_range, self.height - MARGIN["bottom"], top, self.y_kind)
        longest = max(map(len, self.y.labels(self.y.ticks(5))[0]), default=0)
        left = max(self.left, 12 + LETTER * self.width * longest * bool(self.y_label))
        self.x = Scale(*self.x_range, left, self.width - self.right, self.x_kind)

    def add(self, kind: Shape, x: Sequence[float], y: Sequence[float], css: str, tip: str = "", **more: Any) -> None:
        """Draw one more mark; without a tip it cannot be focused."""
        self.marks.append(Mark(kind, x, y, css, tip, **more))

    def rule(self, css: str, x: float, tip: str = "") -> None:
        """An upright line behind all other marks."""
        self.marks.insert(0, Mark("line", (x, x), self.y_range, css, tip))

    def svg(self, css: str = "") -> str:
        """The chart as an `<svg>` element; `--w` lets the style sheet give letters a size on the screen."""
        head = f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" style="--w:{self.width:.0f}"'
        head += f' role="group" aria-label="{escape(self.title)}"{f" class={css!r}" if css else ""}>'
        return (
            head
            + self._axes()
            + "".join(map(self._svg_mark, self.marks))
            + self._row_names()
            + self._end_names()
            + "</svg>"
        )

    def _svg_mark(self, mark: Mark) -> str:
        xs, ys = [*map(self.x, mark.x)], [*map(self.y, mark.y)]
        tip = f' tabindex="0" role="img" aria-label="{escape(mark.tip)}"' if mark.tip else ""
        title = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
        match mark.kind:
            case "line":
                seen = [(x, y) for x, y, value in zip(xs, ys, mark.y, strict=True) if math.isfinite(value)]
                return f'<polyline class="{mark.css}" points="{_points(seen)}"{tip}>{title}</polyline>'
            case "area":
                corners = [*zip(xs, ys, strict=True), *reversed([*zip(xs, map(self.y, mark.top), strict=True)])]
                return f'<polygon class="{mark.css}" points="{_points(corners)}"/>'
            case "point":
                place = f'cx="{xs[0]:.1f}" cy="{ys[0]:.1f}" r="{mark.size}"'
                return f'<circle class="{mark.css}" {place}{tip}>{title}</circle>'
            case "bar":
                base = self.y(self.y_range[0])
                place = f'x="{xs[0] + 0.5:.1f}" width="{max(xs[1] - xs[0] - 1, 1):.1f}"'
                place += f' y="{ys[0]:.1f}" height="{base - ys[0]:.1f}"'
                return f'<rect class="{mark.css}" {place}{tip}>{title}</rect>'
            case "text":
                css, _, anchor = mark.css.rpartition(" ")
                return _words(css, xs[0], ys[0] + 4, mark.tip, anchor)

    def _axes(self) -> str:
        """Both axes; if the rows have names, these replace the upright axis."""
        left, base, y_ticks = self.x.start, self.y.start, self.y.ticks(5)
        x_ticks = self.x.ticks(max(2, int((self.x.end - left) / BETWEEN)))
        (x_labels, x_power), (y_labels, y_power) = self.x.labels(x_ticks), self.y.labels(y_ticks)
        marks = [_straight("grid", at, base, at, self.y.end) for at in map(self.x, x_ticks)]
        marks += [_words("tick", self.x(v), base + 17, text) for v, text in zip(x_ticks, x_labels, strict=True)]
        marks.append(_straight("frame", left, base, self.x.end, base))
        marks.append(_words("axis", (left + self.x.end) / 2, self.height - 8, self.x_label + x_power))
        if not self.rows:
            marks += [_straight("grid", left, at, self.x.end, at) for at in map(self.y, y_ticks)]
            named = zip(y_ticks, y_labels, strict=True)
            marks += [_words("tick", left - 7, self.y(v) + 4, text, "end") for v, text in named]
            marks.append(_words("axis", 2, HEAD - 6, self.y_label + y_power, "start"))
        return "".join(marks)

    def _row_names(self) -> str:
        """Names of rows, before the upright axis or above their marks, and before any line that crosses them."""
        move, lift, anchor = (0, -11, "start") if self.above else (-10, 4, "end")
        return "".join(
            _words("name strong" if ours else "name", self.x.start + move, self.y(i) + lift, name, anchor)
            for i, (name, ours) in enumerate(self.rows)
        )

    def _end_names(self) -> str:
        """Names at the right ends of their lines and in their colours, moved apart where they would overlap."""
        ends = sorted(self.ends, key=lambda end: -end[1])
        places = spread([self.y(value) for _, value, _ in ends], APART, self.y.end, self.y.start)
        short = [name if len(name) <= 15 else f"{name[:14]}…" for name, _, _ in ends]
        told = zip(short, ends, places, strict=True)
        return "".join(_words(f"note {css}", self.x.end + 5, y + 4, name, "start") for name, (*_, css), y in told)

    def draw(self, ax: Any = None) -> Any:
        """Draw the chart on the given matplotlib axes, or on new ones; returns the axes."""
        ax = axes(ax)
        for mark in self.marks:
            if mark.kind == "area":
                ax.fill_between(mark.x, mark.y, mark.top, color=mark.colour, alpha=0.2, linewidth=0)
            elif mark.kind == "bar":
                ax.bar(mark.x[0], mark.y[0], mark.x[1] - mark.x[0], align="edge", color=mark.colour)
            elif mark.kind == "point":
                ax.plot(mark.x, mark.y, "o", color=mark.colour, markersize=mark.size + 1)
            elif mark.kind == "text":
                side = "left" if mark.css.endswith("start") else "right"
                ax.text(mark.x[0], mark.y[0], mark.tip, ha=side, va="center")
            elif mark.kind == "line":
                style = "--" if "dash" in mark.css else "-"
                wide = 3 if mark.css.startswith("whisker") else None
                name = mark.tip if mark.css.endswith("dash") else ""
                ax.plot(mark.x, mark.y, linestyle=style, linewidth=wide, color=mark.colour, label=name or None)
        x_scale, y_scale = ("log" if kind == "log" else "linear" for kind in (self.x_kind, self.y_kind))
        ax.set(xscale=x_scale, yscale=y_scale, xlabel=self.x_label, ylabel=self.y_label)
        ax.set(xlim=self.x_range, ylim=self.y_range)
        if self.rows:
            ax.set_yticks(range(len(self.rows)), [name for name, _ in self.rows])
        self._draw_ends(ax)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize="small")  # above: it hides no mark
        return ax

    def _draw_ends(self, ax: Any) -> None:
        """The names of lines beside their ends, a twentieth of the height apart."""
        ends, (low, high) = sorted(self.ends, key=lambda end: end[1]), self.y_range
        height = 72 * ax.get_position().height * ax.figure.get_figheight()
        places = spread([value for _, value, _ in ends], 0.05 * (high - low), low, high)
        for (name, value, css), place in zip(ends, places, strict=True):
            offset = (4, height * (place - value) / (high - low))
            colour = Mark("line", (), (), css).colour
            at = (self.x_range[1], value)
            ax.annotate(name, at, offset, textcoords="offset points", color=colour, va="center")
        ax.spines["right"].set_visible(not ends and ax.spines["right"].get_visible())  # the names stand there


def axes(ax: Any) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    need_matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def need_matplotlib() -> None:
    """Raise unless matplotlib is installed."""
    if find_spec("matplotlib") is None:
        raise ImportError("plots need matplotlib: pip install matplotlib")


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places in [low, high], in this order and `gap` apart, that are nearest to the wanted ones in least squares.

    Once i·gap is subtracted, the places only have to increase, which is an isotonic regression.
    """
    if not len(wanted):
        return []
    from sklearn.isotonic import isotonic_regression

    steps = gap * np.arange(len(wanted))
    room = max(high - low - gap * (len(wanted) - 1), 0.0)
    return list(isotonic_regression(np.asarray(wanted) - steps, y_min=low, y_max=low + room) + steps)


def power_of_ten(value: float) -> str:
    """1, 2 or 5 times a power of ten, as it is printed."""
    power = exponent(value * (1 + 1e-9))
    first = round(value / 10.0**power)
    if power == 0:
        return str(first)
    return ten(power) if first == 1 else f"{first} × {ten(power)}"


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _straight(css: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _words(css: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
