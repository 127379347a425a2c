"""How much memory Arrow and Parquet data unpack to, read from their headers before anything is unpacked.

A compressed file of some kilobytes can hold gigabytes of zeros. What is counted here is what the headers say; pages of
a Parquet file that contradict its footer are left to pyarrow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsetd.transitions.parquet_footer import values_per_group

MOST = 8 * 2**30  # bytes that one record batch or one row group may unpack to
NUMBER = 8  # bytes of an entry


def refuse_bomb(path: Path, size: int, what: str) -> None:
    if not fits(size):
        limits = f"{size / 2**30:.1f} GiB in one {what}, beyond {MOST / 2**30:.1f}"
        raise ValueError(f"{path.name} would unpack to {limits}: write smaller ones.")


def fits(size: int) -> bool:
    return size <= MOST


def rows_at_once(batch_rows: int, n_columns: int) -> int:
    """At most `batch_rows` rows, fewer where very many columns would not fit."""
    return min(batch_rows, max(3, MOST // (NUMBER * max(n_columns, 1))))


def parquet_rows(path: Path, metadata: Any, batch_rows: int) -> int:
    """How many rows of a Parquet file, at most `batch_rows`, to read at a time so that they take at most `MOST` bytes.

    Flat columns are read by rows, but a list may be as long as its row group has values: a file of which one row group
    would unpack to more is refused.
    """
    leaves = [metadata.schema.column(j) for j in range(metadata.num_columns)]
    rows = min(rows_at_once(batch_rows, len(leaves)), MOST // max([1, *(leaf.length for leaf in leaves)]))
    lists = [j for j, leaf in enumerate(leaves) if leaf.max_repetition_level]
    values = values_per_group(path, metadata.num_row_groups, lists) if lists else []
    widest = 1
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        size = group.total_byte_size
        for k, j in enumerate(lists):
            size += max(values[i][k], 0) * max(leaves[j].length, NUMBER)
        refuse_bomb(path, size, "row group")
        widest = max(widest, size // max(group.num_rows, 1))
    return max(1, min(rows, MOST // widest))


def check_messages(path: Path, messages: Any) -> int:
    """Refuse an Arrow file with a message that would unpack to more than `MOST` bytes; the number of record batches."""
    n = 0
    for message in messages:
        if message.type in ("record batch", "dictionary"):
            refuse_bomb(path, sum(_unpacked(message)), "record batch")
        n += message.type == "record batch"
    return n


def _unpacked(message: Any) -> Iterator[int]:
    """Bytes of every buffer of a message: where it is compressed its first eight bytes say how many."""
    body, root = memoryview(message.body), _Table.root(memoryview(message.metadata))
    batch = root.table(2)
    if message.type == "dictionary":
        batch = batch.table(1)
    compressed = batch.has(3)
    for offset, length in batch.pairs(2):
        says = struct.unpack_from("<q", body, offset)[0] if compressed and length >= NUMBER else -1
        yield length if says == -1 else says


class _Table:
    """A table of a flatbuffer, the encoding of Arrow's headers: fields are found through a table of offsets."""

    def __init__(self, data: memoryview, at: int) -> None:
        self.data, self.at = data, at
        self.offsets = at - self._int("<i", at)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def has(self, field: int) -> bool:
        return self._field(field) != 0

    def table(self, field: int) -> _Table:
        at = self.at + self._field(field)
        return _Table(self.data, at + self._int("<I", at))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        if not self.has(field):
            return
        at = self.at + self._field(field)
        at += self._int("<I", at)
        for i in range(self._int("<I", at)):
            yield struct.unpack_from("<qq", self.data, at + 4 + 16 * i)

    def _field(self, field: int) -> int:
        """Where a field begins, counted from the table; 0 where it is absent."""
        entry = 4 + 2 * field
        return self._int("<H", self.offsets + entry) if entry < self._int("<H", self.offsets) else 0

    def _int(self, kind: str, at: int) -> int:
        return int(struct.unpack_from(kind, self.data, at)[0])
