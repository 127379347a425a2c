"""How many values the columns of a Parquet file hold, read from its footer.

pyarrow tells them too, but where a footer is damaged it ends the process instead of raising. A footer is written in
Thrift's compact protocol: structs of numbered fields, every number in as few bytes as it needs.
"""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import Any

TAIL = 8  # the footer's length, and a magic word
ROW_GROUPS, COLUMNS, META_DATA, NUM_VALUES = 4, 1, 3, 5  # numbers of fields, in parquet.thrift
TRUE, FALSE, BYTE, *NUMBERS, DOUBLE, BINARY, LIST, SET = range(1, 11)  # kinds of values
STRUCT = 12


def values_per_group(path: Path, n_groups: int, columns: list[int]) -> list[list[int]]:
    """For every row group the numbers of values of these columns; `ValueError` where the footer is damaged."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - TAIL, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - TAIL - length, 0))
        footer = _Compact(file.read(length))
    try:
        groups = [group[COLUMNS] for group in footer.struct()[ROW_GROUPS][:n_groups]]
        return [[index(groups[i][j][META_DATA][NUM_VALUES]) for j in columns] for i in range(n_groups)]
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
        damage = "its footer is damaged"
        raise ValueError(f"{path.name} is not a readable Parquet file ({damage}): write it again.") from None


class _Compact:
    """Values of the compact protocol, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        """Fields by their numbers, which are stored as differences; a zero ends them."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            return self._list()
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind in (DOUBLE, BINARY):
            length = self._unsigned() if kind == BINARY else 8
            self.at += length
            return None
        if kind in NUMBERS:
            return self._signed()
        raise TypeError("a footer holds nothing else")

    def _list(self) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._unsigned()
        return [self._value(head & 15) for _ in range(size)]

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 if number % 2 == 0 else ~(number >> 1)

    def _unsigned(self) -> int:
        """Seven bits per byte, the lowest first; the eighth says that more follow."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise TypeError("a number has at most 64 bits")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]
