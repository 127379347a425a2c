"""Results as plain data and as data frames, and how a notebook shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from html import escape
from typing import Any

ROWS = 10  # rows that a notebook shows


class Framed:
    """A result that can become a frame. A notebook shows its words and first rows, or its words without pandas."""

    def to_frame(self) -> Any:
        """The entries as a pandas (or polars) frame: a column for each attribute that is an array."""
        return frame({name: values for name, values in vars(self).items() if hasattr(values, "shape")})

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


def plain(value: Any) -> Any:
    """Turn nested data into what JSON knows: arrays and tuples become lists, dataclasses objects, NaN and ±∞ None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
