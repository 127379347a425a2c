"""Small charts as inline SVG: no library, no network, every mark readable by hover, keyboard and screen reader.

A chart is two scales and a list of marks. A mark carries its own sentence (`tip`): it is the SVG `<title>`, the ARIA
label and what the page's tooltip shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal

from sparsetd._tools.numbers import Numbers, exponent, ten

Kind = Literal["linear", "whole", "log"]
MARGIN = {"left": 62.0, "right": 16.0, "top": 12.0, "bottom": 46.0}


@dataclass(frozen=True)
class Scale:
    """A map from data to pixels: linear, linear with ticks at whole numbers alone, or logarithmic."""

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
        if self.kind == "log":
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            steps = (1, 2, 3, 5, 7) if high < 20 * low else (1, 2, 5) if last - first <= 3 else (1,)
            every = [m * 10.0**k for k in range(first, last + 1) for m in steps]
            inside = [v for v in every if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
            return inside[:: max(1, math.ceil(len(inside) / (2 * count)))]
        raw = (high - low) / count
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        step = max(step, 1.0) if self.kind == "whole" else step
        return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]

    def labels(self, ticks: Sequence[float]) -> tuple[list[str], str]:
        """The numbers at the ticks, and the power of ten, if any, that they leave to the name of the axis."""
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


@dataclass
class Chart:
    """Axes with labels, and the marks drawn on them so far."""

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
    marks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.y = Scale(*self.y_range, self.height - MARGIN["bottom"], MARGIN["top"], self.y_kind)
        longest = max(map(len, self.y.labels(self.y.ticks(5))[0]), default=0)
        self.x = Scale(*self.x_range, max(self.left, 28 + 7 * longest), self.width - self.right, self.x_kind)

    def line(self, xs: Sequence[float], ys: Sequence[float], css: str = "line", tip: str = "") -> None:
        """A polyline through the finite points; with a tip it can be focused."""
        points = [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(xs, ys, strict=True) if math.isfinite(b)]
        self.marks.append(f'<polyline class="{css}" points="{" ".join(points)}"{_focus(tip)}>{_title(tip)}</polyline>')

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], css: str) -> None:
        """The band between two lines."""
        corners = [*zip(xs, low, strict=True), *reversed([*zip(xs, high, strict=True)])]
        points = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in corners)
        self.marks.append(f'<polygon class="{css}" points="{points}"/>')

    def point(self, x: float, y: float, tip: str, css: str = "dot", radius: float = 4.0) -> None:
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius}"'
        self.marks.append(f'<circle class="{css}" {place}{_focus(tip)}>{_title(tip)}</circle>')

    def whisker(self, x1: float, x2: float, y1: float, y2: float, css: str = "whisker") -> None:
        a, b, c, d = self.x(x1), self.x(x2), self.y(y1), self.y(y2)
        self.marks.append(f'<line class="{css}" x1="{a:.1f}" x2="{b:.1f}" y1="{c:.1f}" y2="{d:.1f}"/>')

    def bar(self, x1: float, x2: float, height: float, tip: str, css: str = "bar") -> None:
        a, b, top, base = self.x(x1), self.x(x2), self.y(height), self.y(self.y_range[0])
        place = f'x="{a + 0.5:.1f}" width="{max(b - a - 1, 1):.1f}" y="{top:.1f}" height="{base - top:.1f}"'
        self.marks.append(f'<rect class="{css}" {place}{_focus(tip)}>{_title(tip)}</rect>')

    def text(self, x: float, y: float, words: str, css: str = "note", anchor: str = "start") -> None:
        """Words at a pixel position."""
        self.marks.append(_words(css, x, y, words, anchor))

    def rule(self, css: str, x: float) -> None:
        """An upright line behind all other marks."""
        at = self.x(x)
        self.marks.insert(0, _rule(css, at, self.y.end, at, self.y.start))

    def svg(self, y_ticks: bool = True) -> str:
        """The chart as an `<svg>` element."""
        name = escape(self.title, quote=True)
        head = f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="group" aria-label="{name}">'
        return head + self._x_axis() + (self._y_axis() if y_ticks else "") + "".join(self.marks) + "</svg>"

    def _x_axis(self) -> str:
        base, ticks = self.y.start, self.x.ticks()
        labels, power = self.x.labels(ticks)
        marks = [_rule("grid", at, base, at, self.y.end) for at in map(self.x, ticks)]
        marks += [_words("tick", self.x(v), base + 17, text) for v, text in zip(ticks, labels, strict=True)]
        marks.append(_rule("frame", self.x.start, base, self.x.end, base))
        middle = (self.x.start + self.x.end) / 2
        return "".join(marks) + _words("axis", middle, self.height - 8, self.x_label + power)

    def _y_axis(self) -> str:
        left, ticks = self.x.start, self.y.ticks(5)
        labels, power = self.y.labels(ticks)
        marks = [_rule("grid", left, at, self.x.end, at) for at in map(self.y, ticks)]
        marks += [_words("tick", left - 7, self.y(v) + 4, text, "end") for v, text in zip(ticks, labels, strict=True)]
        middle = (self.y.start + self.y.end) / 2
        turned = f' transform="rotate(-90 12 {middle:.1f})"'
        return "".join(marks) + _words("axis", 12, middle, self.y_label + power, more=turned)


def _rule(css: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _words(css: str, x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}"{more} text-anchor="{anchor}">{escape(text)}</text>'


def power_of_ten(value: float) -> str:
    """1, 2 or 5 times a power of ten, as it is printed."""
    power = exponent(value * (1 + 1e-9))
    first = round(value / 10.0**power)
    if power == 0:
        return str(first)
    return ten(power) if first == 1 else f"{first} × {ten(power)}"


def _focus(tip: str) -> str:
    return f' tabindex="0" role="img" aria-label="{escape(tip, quote=True)}"' if tip else ""


def _title(tip: str) -> str:
    return f"<title>{escape(tip)}</title>" if tip else ""
