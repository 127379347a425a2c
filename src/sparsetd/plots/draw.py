"""Pictures of results on matplotlib axes, and figures on disk.

Every function that draws takes matplotlib axes, or makes some, and returns them; the pictures are those of the pages
(`pictures`). `save_figure` makes axes for whoever draws and saves them: one style, no display needed, and never half a
file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparsetd.plots import pictures
from sparsetd.plots.chart import OURS, Chart, axes, need_matplotlib
from sparsetd.storage.atomic import check_writable, replace_file

__all__ = ["OURS", "axes", "band", "forest", "frequencies", "history", "path", "ratios", "save_figure"]

Row = tuple[str, float, tuple[float, float] | None]
Line = tuple[str, float]


def path(result: Any, names: Sequence[str] | None = None, ax: Any = None, labelled: int = 8) -> Any:
    """Draw the path of weights as the penalty falls, the largest ones labelled where they end.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    >>> from sparsetd import plots
    >>> from sparsetd.selection import sparse_td_path
    >>> plots.path(sparse_td_path(X, y, gamma=0.5)).get_xlabel()
    'strength of the penalty'
    """
    known = [f"x{j}" for j in range(len(result.coefs))] if names is None else list(names)
    largest = np.argsort(-np.abs(result.coefs).max(axis=1), kind="stable")[:labelled]
    active = np.flatnonzero(np.any(result.coefs != 0, axis=1))
    lines = {known[j]: result.coefs[j].tolist() for j in {*active, *largest}}
    return pictures.path(result.rhos.tolist(), lines, [known[j] for j in largest]).draw(ax)


def forest(
    rows: Sequence[Row], ax: Any = None, *, ours: int = 1, label: str = "value", line: Line | None = None
) -> Any:
    """Draw estimates with their intervals, the first `ours` in colour; one wild row does not set the scale.

    `line` is the name and the place of a dashed line, such as ("what was done", 0.7).

    Examples
    --------
    >>> from sparsetd import plots
    >>> plots.forest([('ours', 1.0, (0.5, 1.5)), ('theirs', 1.2, None)]).get_xlabel()
    'value'
    """
    told = [(name, value, ends, "main" if k < ours else "") for k, (name, value, ends) in enumerate(rows)]
    shown = [v for _, value, ends in rows[: max(ours, 1)] for v in (value, *(ends or ())) if np.isfinite(v)]
    name, at = line or ("", None)
    drawn = pictures.intervals(told, label, shown, guide=at, named=name).draw(ax)
    drawn.locator_params(axis="x", nbins=5)
    return drawn


def band(
    x: Sequence[float],
    y: Sequence[float],
    ends: Sequence[tuple[float, float]],
    ax: Any = None,
    *,
    line: Line | None = None,
) -> Any:
    """Draw a line with a band around it: values against thresholds, with intervals that hold together.

    `line` is the name and the height of a dashed line, such as ("what was done", 0.7).

    Examples
    --------
    >>> from sparsetd import plots
    >>> ax = plots.band([1.0, 2.0, 3.0], [0.4, 0.6, 0.5], [(0.3, 0.5), (0.4, 0.8), (0.3, 0.7)])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('threshold', 'value of the policy')
    """
    low, high = zip(*ends, strict=True)
    name, at = line or ("", 0.0)
    return pictures.band(x, y, low, high, ("threshold", "value of the policy", ""), guide=name, height=at).draw(ax)


def frequencies(table: Sequence[tuple[str, float]], threshold: float, ax: Any = None) -> Any:
    """Draw how often each feature was chosen, the stable ones in colour.

    Examples
    --------
    >>> from sparsetd import plots
    >>> plots.frequencies([('lactate', 0.9), ('age', 0.2)], threshold=0.6).get_xlim()
    (np.float64(0.0), np.float64(1.0))
    """
    label = "share of halves in which the feature was chosen"
    chart = Chart((0.0, 1.0), (len(table) - 0.5, -0.5), label, "", "Frequencies")
    for i, (name, share) in enumerate(table):
        chart.add("line", (0.0, share), (i, i), "whisker main" if share >= threshold else "whisker")
        chart.rows.append((name, share >= threshold))
    chart.rule("line warm dash", threshold)
    return chart.draw(ax)


def history(model: Any, ax: Any = None) -> Any:
    """Draw what an estimator recorded while it learned: its gap where it has one, otherwise how much θ moved.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    >>> from sparsetd import TDC, plots
    >>> plots.history(TDC(gamma=0.5).fit(X, y)).get_xlabel()
    'rows taken'
    """
    recorded = model.history_
    key = next((name for name in ("relative_gap", "coef_change", *recorded) if recorded.get(name)), None)
    if key is None:
        raise ValueError(f"{type(model).__name__} recorded no history: it solves its equations in one go.")
    steps = list(recorded.get("n_iter") or range(1, len(recorded[key]) + 1))[: len(recorded[key])]
    label = "rows taken" if "n_iter" in recorded else "round"
    return pictures.falling(steps, recorded[key], label, key.replace("_", " ")).draw(ax)


def ratios(log: Any, ax: Any = None) -> Any:
    """Draw how much each row of a log counts for the target policy.

    Examples
    --------
    >>> from sparsetd import plots, read
    >>> log = read({'obs_x': [1.0, 2.0], 'reward': [0.0, 1.0], 'ratio': [0.5, 2.0], 'terminated': [0, 1]})
    >>> plots.ratios(log).get_xlabel()
    'how often a row counts (importance ratio)'
    """
    counts, edges = np.histogram(np.asarray(log.importance_ratio()), bins=40)
    return pictures.histogram(edges.tolist(), counts.tolist(), "linear").draw(ax)


# What to leave out of each format so that the same figure gives the same bytes.
UNDATED: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "figure.constrained_layout.use": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "sparsetd",
}


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """`path` if a figure can be written there; otherwise one sentence, before any work is done."""
    target = check_writable(path, *UNDATED)
    need_matplotlib()
    return target


def save_figure(draw: Callable[[Sequence[Any]], None], path: str | os.PathLike[str], panels: int = 1) -> Path:
    """Save a figure of one or more panels, all at once: `draw` gets the axes and fills them.

    Examples
    --------
    >>> import tempfile
    >>> from sparsetd import plots
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = plots.save_figure(lambda axes: axes[0].plot([1, 2]), f'{folder}/line.png')
    >>> saved.name
    'line.png'
    """
    target = check_figure_path(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2 * panels, 3.9))
        FigureCanvasAgg(figure)
        draw(figure.subplots(1, panels, squeeze=False)[0])
        image = io.BytesIO()
        kind = target.suffix.lower()
        figure.savefig(image, format=kind[1:], metadata=UNDATED[kind])
    replace_file(target, image.getvalue())
    return target
