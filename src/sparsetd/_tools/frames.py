"""Results as data frames, and how a notebook shows them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

ROWS = 10  # of a table in a notebook


class Framed:
    """A result that is a frame: a notebook shows its words and its first rows, and the words alone without pandas."""

    def to_frame(self) -> Any:
        raise NotImplementedError

    def _first_rows(self) -> Any:
        return self.to_frame().head(ROWS)

    def _repr_html_(self) -> str:
        words = f"<pre>{escape(repr(self))}</pre>"
        try:
            return f'{words}<div style="overflow-x:auto">{self._first_rows()._repr_html_()}</div>'
        except ImportError:
            return words


def frame(columns: Mapping[str, Any]) -> Any:
    """A pandas frame, or a polars frame where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError:
        try:
            from polars import DataFrame
        except ImportError:
            raise ImportError("A frame needs pandas or polars: pip install pandas.") from None
    return DataFrame(dict(columns))
