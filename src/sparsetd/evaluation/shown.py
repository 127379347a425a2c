"""How an evaluation is shown: a few lines in a terminal, a page in a notebook, tables and pictures on request."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

from sparsetd import plots
from sparsetd.selection import Summary


class Shown:
    """What `Evaluation` can be turned into. The report lies in a layer above, so it is looked up by name."""

    def __repr__(self) -> str:
        return "\n".join(str(self).splitlines()[:3])

    def _repr_html_(self) -> str:
        page = import_module("sparsetd.report.page").page(self._data())
        quoted = page.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{quoted}" style="width:100%;height:600px;border:0"></iframe>'

    def save_report(self, path: str | os.PathLike[str], *, unit: str | None = None) -> None:
        """Write the page for people who do not program: one HTML file. `unit` says what the value is measured in."""
        import_module("sparsetd.report.page").write_page({**self._data(), "unit": unit}, path)

    def summary(self) -> Summary:
        """The features that carry weight as a table, which becomes a frame (`to_frame`) or a picture (`plot`)."""
        rows, nothing = self._data()["features"], [np.nan, np.nan]
        ends = np.array([f["interval"] or nothing for f in rows], dtype=float).reshape(-1, 2)
        share = np.array([np.nan if f["frequency"] is None else f["frequency"] for f in rows])
        names = np.array([f["name"] for f in rows], dtype=object)
        return Summary(
            names, np.array([f["weight"] for f in rows]), ends[:, 0], ends[:, 1], share, self._data()["level"]
        )

    def to_frame(self) -> Any:
        """The features that carry weight as a pandas (or polars) frame."""
        return self.summary().to_frame()

    def plot(self, ax: Any = None) -> Any:
        """The estimates with their intervals; returns the axes."""
        data = self._data()
        ours = ("this estimate", data["value"], data["interval"])
        rows = [ours, *((e["name"], e["value"], e["interval"]) for e in data["comparisons"] if e["value"] is not None)]
        return plots.forest(rows, ax, label="value of the target policy")

    def _data(self) -> dict[str, Any]:
        return self.to_dict()  # type: ignore[attr-defined]
