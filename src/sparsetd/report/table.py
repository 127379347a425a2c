"""Rows of results as an aligned text table: one place that decides how a number looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Column", "number", "text_table"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """Which entry of a row, under which title, and how it is written (`format` is a format spec such as ".3g")."""

    key: str
    title: str
    format: str = ""

    def cell(self, row: Row) -> str:
        return number(row.get(self.key), self.format)


def number(value: Any, spec: str = "") -> str:
    """`value` under the format spec; a dash where there is nothing to say, "inf" and "nan" spelt out."""
    if value is None:
        return "–"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return format(value, "" if isinstance(value, str) else spec)


def text_table(rows: Sequence[Row], columns: Sequence[Column], bold: Callable[[str], str] = str) -> str:
    """Aligned columns for a terminal: the first to the left, the others to the right; `bold` dresses the header."""
    cells = [[column.title for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    widths = [max(map(len, entries)) for entries in zip(*cells, strict=True)]
    header, *body = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
    return "\n".join([bold(header), *body])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = [(text.ljust, text.rjust) for text in line]
    return [first[0](widths[0]), *(right(width) for (_, right), width in zip(others, widths[1:], strict=True))]
