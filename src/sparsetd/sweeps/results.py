"""The result of a sweep: its rows, the best setting of each method, and figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sparsetd._tools.frames import Framed, frame
from sparsetd.estimators.validation import check_parameters
from sparsetd.plots import draw
from sparsetd.system import Array

Row = dict[str, Any]  # of the table of a sweep
Key = tuple[Any, ...]
LARGER_IS_BETTER = ("return",)


@dataclass(frozen=True)
class Sweep(Framed):
    """Hold the results of a sweep, one row for every method, setting and seed.

    A row has the parameters, the metrics, `status` and `curve`, which holds the first metric at evenly spaced moments
    of the run (the return of every episode on a control task).

    Examples
    --------
    >>> from sparsetd import TDC, sweep
    >>> from sparsetd.problems import random_walk
    >>> table = sweep(TDC(gamma=0.9), {'step_size': [0.01, 0.1]}, random_walk(gamma=0.9), n_rows=500, n_jobs=1)
    >>> table
    Sweep of TDC over step_size: 2 runs
    TDC is best at the largest step_size of the grid, 0.1: try larger values too.
    >>> table.to_frame().shape
    (2, 6)
    >>> [row['step_size'] for row in table.best()]
    [0.1]
    """

    rows: list[Row]
    parameters: tuple[str, ...]
    metrics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(row["method"] for row in self.rows))
        what = f"Sweep of {methods} over {', '.join(self.parameters) or 'nothing'}: {len(self)} runs"
        return "\n".join([what, *self.edges()])

    def to_frame(self) -> Any:
        """One row per run, as a pandas (or polars) frame."""
        return frame({name: [row.get(name) for row in self.rows] for name in [*self._names(), "curve"]})

    def to_csv(self) -> str:
        """Return the table as CSV text, without its curves."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self._names(), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def _names(self) -> list[str]:
        return ["method", *self.parameters, "seed", *self.metrics, "status"]

    def means(self, by: str | None = None) -> list[Row]:
        """For every setting: the mean of the metric over seeds, half the width of its 95 % band, and the failures.

        A run that diverged has no metric; the mean of a setting with such a run is infinite, on the bad side.
        """
        name = self._metric(by)
        return [self._mean(list(group), name) for _, group in groupby(self.rows, self._key)]

    def best(self, by: str | None = None) -> list[Row]:
        """The setting of each method with the best mean over seeds (the first of equals)."""
        return _best_of(self.means(by), "method", self._metric(by))

    def edges(self, by: str | None = None) -> list[str]:
        """A sentence for each parameter whose best value is the first or last of its grid: better ones may lie beyond.

        A parameter that can have no value beyond, such as λ at 1, gets no sentence. A method that diverged at every
        setting gets one.
        """
        found: dict[tuple[str, str, float], list[str]] = {}
        means, lost = self.means(by), list[str]()
        for best in _best_of(means, "method", self._metric(by)):
            if not np.isfinite(best["mean"]):
                lost.append(f"{best['method']} diverged in some run of every setting: try other values.")
            own = [m for m in means if m["method"] == best["method"]]
            for name in self.parameters if np.isfinite(best["mean"]) else ():
                alone = all(m.get(name) == best.get(name) for m in own if m["mean"] == best["mean"])
                end = _end(name, best.get(name), [m.get(name) for m in own]) if alone else ""
                if end:
                    found.setdefault((name, end, best[name]), []).append(best["method"])
        return [*(_beyond(methods, *where) for where, methods in found.items()), *lost]

    def plot(self, parameter: str, by: str | None = None, ax: Any = None) -> Any:
        """Draw the sensitivity: the metric against one parameter, the others at their best for each of its values.

        Bands are 95 % confidence intervals of the mean over seeds; for a quantity that is never negative they are
        symmetric in its logarithm. A cross at the upper edge marks a setting that diverged in some run. A value that
        is not a number, such as "auto", is a dashed line across.
        """
        if parameter not in self.parameters:
            raise ValueError(f"{parameter!r} is not in the grid: choose from {', '.join(self.parameters)}")
        ax, name = draw.axes(ax), self._metric(by)
        means = self.means(by)
        numbers = [m for m in means if isinstance(m.get(parameter), (int, float))]
        if not any(np.isfinite(m["mean"]) for m in means if parameter in m):
            raise ValueError("every setting diverged in some run, so there is nothing to draw: try other values")
        for method, group in groupby(numbers, itemgetter("method")):
            each_value = _best_of(sorted(group, key=lambda m: m[parameter]), parameter, name)
            drawn = [m for m in each_value if np.isfinite(m["mean"])]
            x, mean, half = (np.array([m[key] for m in drawn], dtype=float) for key in (parameter, "mean", "half"))
            colour = _line(ax, x, mean, half, method)
            lost = [m[parameter] for m in each_value if m["failed"]]
            ax.scatter(
                lost, [1.0] * len(lost), marker="x", color=colour, clip_on=False, transform=ax.get_xaxis_transform()
            )
        words = [m for m in means if parameter in m and m not in numbers]
        for method, group in groupby(words, itemgetter("method")):
            for row in _best_of(sorted(group, key=lambda m: str(m[parameter])), parameter, name):
                if np.isfinite(row["mean"]):
                    ax.axhline(row["mean"], ls="--", color=f"C{len(ax.lines)}", label=f"{method}, {row[parameter]}")
        _finish(ax, parameter, name, [m[parameter] for m in numbers])
        return ax

    def plot_curves(self, by: str | None = None, ax: Any = None, *, across: str = "transitions") -> Any:
        """Draw the learning curves of the best setting of each method, with 95 % bands over seeds.

        The x axis counts transitions (episodes on a control task); `across="share"` shows the share of the run instead.
        """
        if across not in ("transitions", "share"):
            raise ValueError(f"across={across!r} is not known: choose 'transitions' or 'share'")
        ax, label = draw.axes(ax), "share of the run"
        for best in self.best(by):
            runs = [row for row in self.rows if self._key(row) == self._key(best) and row["curve"]]
            if not runs:
                raise ValueError("this sweep has no curves: run it with curve=20, say")
            length = min(len(row["curve"]) for row in runs)
            points = np.array([row["curve"][:length] for row in runs], dtype=float)
            x = np.arange(1, length + 1) / length
            if across == "transitions":
                total = runs[0].get("transitions")
                x, label = (x * length, "episode") if total is None else (x * total, "transitions")
            values = {p: best[p] for p in self.parameters if p in best}
            told = ", ".join(f"{p}={v:.3g}" if isinstance(v, float) else f"{p}={v}" for p, v in values.items())
            name = f"{best['method']}: {told}" if told else str(best["method"])
            _line(ax, x, points.mean(axis=0), _half_width(points), name)
        _finish(ax, label, self.metrics[0], [])
        return ax

    def _metric(self, by: str | None) -> str:
        """The metric that is asked for; the first by default."""
        name = self.metrics[0] if by is None else by
        if name not in self.metrics:
            raise ValueError(f"{name!r} is not a metric of this sweep: choose from {', '.join(self.metrics)}")
        return name

    def _key(self, row: Row) -> Key:
        return (row["method"], *(row.get(p) for p in self.parameters))

    def _mean(self, group: list[Row], name: str) -> Row:
        values = np.array([row[name] if row["status"] != "diverged" else np.nan for row in group], dtype=float)
        failed = int((~np.isfinite(values)).sum())
        worst = -np.inf if name in LARGER_IS_BETTER else np.inf
        mean, half = (worst, np.inf) if failed else (float(values.mean()), float(_half_width(values[:, None])[0]))
        told = {p: group[0][p] for p in self.parameters if p in group[0]}
        return {"method": group[0]["method"], **told, "mean": mean, "half": half, "failed": failed, "seeds": len(group)}


def _end(name: str, best: Any, tried: Iterable[Any]) -> str:
    """The end of the tried numbers at which the best one lies; "" if it lies between, or if nothing lies beyond."""
    numbers = {value for value in tried if isinstance(value, (int, float)) and not isinstance(value, bool)}
    if len(numbers) < 2 or best not in (min(numbers), max(numbers)):
        return ""
    end, sign = ("smallest", -1) if best == min(numbers) else ("largest", 1)
    return end if any(_allows(name, best + sign * step) for step in (1.0, 1e-6 * (abs(best) or 1.0))) else ""


def _allows(name: str, value: float) -> bool:
    try:
        check_parameters({name.rpartition("__")[2]: value})
    except ValueError:
        return False
    return bool(np.isfinite(value))


def _beyond(methods: list[str], name: str, end: str, value: float) -> str:
    several, further = len(methods) > 1, "smaller" if end == "smallest" else "larger"
    who = f"{', '.join(methods[:-1])} and {methods[-1]} are" if several else f"{methods[0]} is"
    return f"{who} best at the {end} {name} of the grid, {value:.3g}: try {further} values too."


def _best_of(means: list[Row], each: str, name: str) -> list[Row]:
    """The row with the best mean among neighbours that agree in the column `each` (the first of equals)."""
    sign = -1.0 if name in LARGER_IS_BETTER else 1.0
    return [min(group, key=lambda m: sign * m["mean"]) for _, group in groupby(means, itemgetter(each))]


def _half_width(values: Array) -> Array:
    """Half the 95 % confidence interval of the mean over the first axis; 0 where there is one value."""
    n = len(values)
    if n < 2:
        return np.zeros(values.shape[1])
    return np.asarray(stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n))


def _line(ax: Any, x: Array, mean: Array, half: Array, label: str) -> Any:
    """Draw a mean with its band, and return its colour; the band of a quantity that is never negative stays above zero.

    Such a band is symmetric in the logarithm, m exp(±h/m), which is m ± h where h is small.
    """
    (line,) = ax.plot(x, mean, marker="o", ms=3, label=label)
    factor = np.exp(np.minimum(half / np.where(mean > 0, mean, 1.0), 50.0))
    low, high = (mean / factor, mean * factor) if np.all(mean >= 0) else (mean - half, mean + half)
    ax.fill_between(x, low, high, alpha=0.2, color=line.get_color(), lw=0)
    return line.get_color()


def _finish(ax: Any, across: str, upwards: str, values: list[float]) -> None:
    """Name axes and lines; an axis is logarithmic where its numbers are positive and span a factor above twenty."""
    heights = [height for line in ax.get_lines() for height in line.get_ydata()]
    for numbers, scale in ((values, ax.set_xscale), (heights, ax.set_yscale)):
        if numbers and 0 < 20 * np.min(numbers) < np.max(numbers):
            scale("log")
    ax.set(xlabel=across, ylabel=upwards)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")  # beside the axes: it hides no curve
