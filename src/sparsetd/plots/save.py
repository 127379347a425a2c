"""Figures on disk: one style, no display needed, and never half a file.

An experiment draws on axes it is given and imports no plotting library; what is here makes those axes and saves them.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sparsetd.storage.atomic import regular_file, replace_file

__all__ = ["check_figure_path", "save_figure"]

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
    target = Path(path)
    if target.suffix.lower() not in UNDATED:
        raise ValueError(f"the plot file '{target}' must end in one of {', '.join(UNDATED)}")
    if not target.parent.is_dir():
        raise ValueError(f"the folder '{target.parent}' of the plot file does not exist; create it first")
    regular_file(target)
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("plots need matplotlib: pip install matplotlib")
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
