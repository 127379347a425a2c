"""How many entries the lists of a Parquet file have, by its footer, which a file of a kilobyte may call 2²⁸.

pyarrow would tell, but it ends the process where a damaged footer describes a column wrongly. So the footer is read
here, as Thrift's compact protocol writes it: a structure is a dictionary of its fields by number, a list a list.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

ROW_GROUPS, COLUMNS, METADATA, PATH, N_VALUES = 4, 1, 3, 3, 5  # fields of the structures that lead to the numbers
TAIL = 8  # bytes after the footer: its length and a magic word


def entries_of_lists(path: Path) -> list[int]:
    """For every row group the number of entries that all its lists have together."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(size - TAIL, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - TAIL - length, 0))
        footer = io.BytesIO(file.read(min(length, size)))
    try:
        return [sum(map(_entries, group[COLUMNS])) for group in _structure(footer)[ROW_GROUPS]]
    except (EOFError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{path.name} is not a readable Parquet file (its footer is damaged): write it again."
        ) from None


def _entries(column: dict[int, Any]) -> int:
    about = column[METADATA]
    return int(about[N_VALUES]) if len(about[PATH]) > 1 else 0


def _structure(data: io.BytesIO) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(data):
        number = number + (head >> 4) if head >> 4 else _number(data)
        kind = head & 15
        fields[number] = kind == 1 if kind in (1, 2) else _value(data, kind)
    return fields


def _value(data: io.BytesIO, kind: int) -> Any:
    if kind in (1, 2, 3):
        return _byte(data)
    if kind in (4, 5, 6):
        return _number(data)
    if kind == 7:
        return data.read(8)
    if kind == 8:
        return data.read(_varint(data))
    if kind in (9, 10):
        head = _byte(data)
        size = _varint(data) if head >> 4 == 15 else head >> 4
        return [_value(data, head & 15) for _ in range(size)]
    if kind == 12:
        return _structure(data)
    raise TypeError("maps do not occur in a footer")


def _byte(data: io.BytesIO) -> int:
    found = data.read(1)
    if not found:
        raise EOFError
    return found[0]


def _varint(data: io.BytesIO) -> int:
    value = shift = 0
    while (byte := _byte(data)) & 128:
        value |= (byte & 127) << shift
        shift += 7
    return value | byte << shift


def _number(data: io.BytesIO) -> int:
    """A signed number, of which the sign comes last."""
    value = _varint(data)
    return value >> 1 ^ -(value & 1)
