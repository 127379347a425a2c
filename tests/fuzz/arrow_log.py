"""Arrow files and streams: changed bytes of valid ones."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from fuzz import seed_log
from fuzz.oracle import check_log, file


def seed(columns: dict[str, Any], make: Any, compression: str | None = None) -> bytes:
    out, table = io.BytesIO(), pa.table(columns)
    with make(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=4)
    return out.getvalue()


LISTS = seed_log.list_columns()
TEXT = {**LISTS, "trajectory": pa.array(LISTS["trajectory"]).dictionary_encode()}
NUMBERS = {name: seed_log.columns()[name] for name in ("obs_x", "next_obs_x", "reward", "terminated")}
SEEDS = [
    seed(NUMBERS, pa.ipc.new_file),
    seed(NUMBERS, pa.ipc.new_stream, "lz4"),
    seed(LISTS, pa.ipc.new_stream),
    seed(TEXT, pa.ipc.new_file, "zstd"),
    seed(TEXT, pa.ipc.new_stream),
]
TOKENS = [b"ARROW1", *(name.encode() for name in seed_log.NAMES), b"\xff" * 4, b"\xff" * 7 + b"\x7f", b"\0" * 8]


def one_input(data: bytes) -> None:
    check_log(file(".arrow", data), data)
