"""How an evaluation is shown: a few lines in a terminal, a page in a notebook, frames and pictures on request."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Literal

from sparsetd import plots


class Shown:
    """What `Evaluation` can be turned into. The report lies in a layer above, so it is looked up by name."""

    def __repr__(self) -> str:
        return "\n".join(str(self).splitlines()[:3])

    def _repr_html_(self) -> str:
        page = import_module("sparsetd.report.page").page(self._data())
        quoted = page.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{quoted}" style="width:100%;height:600px;border:0"></iframe>'

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Write the page for people who do not program: one HTML file without anything beside it."""
        import_module("sparsetd.report.page").write_page(self._data(), path)

    def to_frame(self) -> Any:
        """The features that carry weight, one row each, as a pandas (or polars) frame."""
        return plots.frame({key: [row[key] for row in self._rows()] for key in self._rows()[0]} if self._rows() else {})

    def summary(self) -> str:
        """The same as aligned text: feature, weight per standard deviation, interval, selection frequency."""
        table = import_module("sparsetd.report.table")
        titles = {
            "feature": "feature",
            "weight": "weight per s.d.",
            "low": "low",
            "high": "high",
            "frequency": "kept in",
        }
        formats = {"frequency": ".0%"}
        columns = [table.Column(key, title, formats.get(key, "+.4g")) for key, title in titles.items()]
        return str(table.text_table(self._rows(), columns))

    def plot(self, kind: Literal["comparison", "features"] = "comparison", ax: Any = None) -> Any:
        """The estimates with their intervals, or the features with theirs; returns the axes."""
        if kind == "features":
            rows = [(f["feature"], f["weight"], (f["low"], f["high"])) for f in self._rows()]
            return plots.forest(rows, ax, ours=len(rows), label="change in value per standard deviation")
        data = self._data()
        ours = ("this estimate", data["value"], data["interval"])
        rows = [ours, *((e["name"], e["value"], e["interval"]) for e in data["comparisons"] if e["value"] is not None)]
        return plots.forest(rows, ax, label="value of the target policy")

    def _data(self) -> dict[str, Any]:
        return self.to_dict()  # type: ignore[attr-defined]

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "feature": f["name"],
                "weight": f["weight"],
                "low": (f["interval"] or [None])[0],
                "high": (f["interval"] or [None])[-1],
                "frequency": f["frequency"],
            }
            for f in self._data()["features"]
        ]
