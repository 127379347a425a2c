"""Parquet files: changed bytes of valid ones."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import seed_log
from fuzz.oracle import check_log, file


def seed(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, store_schema=False, **options)
    return out.getvalue()


def few(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: columns[name] for name in ("obs_x", "next_obs_x", "reward", "terminated")}


SEEDS = [
    seed(few(seed_log.columns()), compression="none", write_statistics=False),
    seed(seed_log.list_columns(), compression="zstd", write_statistics=False),
    seed(few(seed_log.columns()), compression="none", use_dictionary=False, data_page_version="2.0", row_group_size=2),
    seed({"obs": [1, 2], "r": [1.0, None]}, compression="snappy"),
]
TOKENS = [b"PAR1", *(name.encode() for name in seed_log.NAMES), b"\xff" * 4, b"\x80\x80\x80\x80\x08", b"\0" * 8]


def one_input(data: bytes) -> None:
    check_log(file(".parquet", data), data)
