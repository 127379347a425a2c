"""Pictures of results, drawn with matplotlib.

    plots.path(sparse_td_path(…), names=columns)        plots.history(model)        plots.ratios(log)

The results have a `plot` method that calls these functions. They need matplotlib: pip install matplotlib.
"""

from __future__ import annotations

from sparsetd._tools.lazy_names import listed
from sparsetd.plots.draw import band, forest, frequencies, history, path, ratios, save_figure

__all__ = ["band", "forest", "frequencies", "history", "path", "ratios", "save_figure"]

__getattr__, __dir__ = listed(__name__, __all__)
