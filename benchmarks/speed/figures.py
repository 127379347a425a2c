"""Curves on log–log axes, each labelled at its end with its slope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsetd.plots.draw import save_figure

Curves = dict[str, dict[int, float]]  # name → number of features or non-zeros → seconds

# Okabe and Ito's colours, which the colour-blind can tell apart; markers and dashes say the same once more.
STYLES: dict[str, dict[str, Any]] = {
    "lazy RO-TD, trajectory": {"color": "#0072B2", "marker": "o", "lw": 2.4},
    "lazy RO-TD, independent rows": {"color": "#56B4E9", "marker": "s", "lw": 2.4},
    "touching the lines only": {"color": "#555555", "marker": ".", "ls": ":"},
    "scikit-learn SGD l1": {"color": "#009E73", "marker": "^", "ls": "--"},
    "Vowpal Wabbit --sgd --l1": {"color": "#CC79A7", "marker": "v", "ls": "--"},
    "RO-TD in NumPy, O(d)": {"color": "#D55E00", "marker": "D", "ls": "-."},
    "dense kernel, O(d)": {"color": "#E69F00", "marker": "P", "ls": "-."},
}
LABEL_GAP = 0.062  # of the height of the axes, between two labels


def draw(path: Path, curves: Curves, slopes: dict[str, float], x_label: str) -> None:
    path.parent.mkdir(exist_ok=True)
    save_figure(lambda axes: _draw(axes[0], curves, slopes, x_label), path)


def _draw(ax: Any, curves: Curves, slopes: dict[str, float], x_label: str) -> None:
    ax.figure.set_size_inches(8.2, 4.4)
    for name, curve in curves.items():
        ax.plot(list(curve), [1e6 * seconds for seconds in curve.values()], ms=5, **STYLES[name])
    ax.set(xscale="log", yscale="log", xlabel=x_label, ylabel="µs of CPU per transition")
    places = sorted({at for curve in curves.values() for at in curve})
    if places[-1] < 1000:
        ax.set_xticks(places, [str(at) for at in places])
        ax.minorticks_off()
    ends = {name: ax.transAxes.inverted().transform(ax.transData.transform(_end(curves[name]))) for name in curves}
    heights = spread({name: float(end[1]) for name, end in ends.items()}, LABEL_GAP)
    for name, height in heights.items():
        leader = {"arrowstyle": "-", "color": STYLES[name]["color"], "relpos": (0.0, 0.5), "shrinkB": 5}
        text = {"va": "center", "fontsize": 9, "color": "#333333", "arrowprops": leader}
        ax.annotate(f"{name}: slope {slopes[name]:.2f}", ends[name], (1.06, height), "axes fraction", **text)


def _end(curve: dict[int, float]) -> tuple[float, float]:
    last = max(curve)
    return float(last), 1e6 * curve[last]


def spread(heights: dict[str, float], gap: float) -> dict[str, float]:
    """Heights at least `gap` apart in the same order, each group of crowded ones around its own mean."""
    groups: list[list[str]] = []
    centre: list[float] = []
    for name in sorted(heights, key=heights.__getitem__):
        groups.append([name])
        centre.append(heights[name])
        while len(groups) > 1 and centre[-1] - centre[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2:
            groups[-2:] = [groups[-2] + groups[-1]]
            centre[-2:] = [sum(heights[member] for member in groups[-1]) / len(groups[-1])]
    return {
        name: middle + gap * (i - (len(group) - 1) / 2)
        for group, middle in zip(groups, centre, strict=True)
        for i, name in enumerate(group)
    }
