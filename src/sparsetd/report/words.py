"""Tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparsetd.report.document import aligned


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its entries, its title, and a format spec such as ".3g"."""

    key: str
    title: str
    format: str = ""


def formatted(value: Any, spec: str = "") -> str:
    """`value` under the format spec; a dash where there is nothing to say, "inf" and "nan" spelt out."""
    if value is None:
        return "–"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return format(value, "" if isinstance(value, str) else spec)


def text_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], bold: Callable[[str], str] = str) -> str:
    """Aligned columns for a terminal; `bold` marks the header."""
    cells = [[formatted(row.get(column.key), column.format) for column in columns] for row in rows]
    return "\n".join(aligned([[column.title for column in columns], *cells], bold))
