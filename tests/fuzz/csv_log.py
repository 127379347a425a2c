"""CSV files: raw text."""

from __future__ import annotations

import csv
import io
from typing import Any

from fuzz import seed_log
from fuzz.oracle import check_log, file


def text(columns: dict[str, Any]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()


SEEDS = [text(seed_log.columns()), text(seed_log.list_columns()), "\ufeffobs_1,r\r\n1,2\r\n\r\n3,NA\r\n".encode()]
TOKENS = [
    *(name.encode() for name in seed_log.NAMES),
    *b', " "" ; [ ] [1] "[1,2]" nan inf -inf NA null true False 1e999 -1e308 5e-324 0x10 \xff \xef\xbb\xbf'.split(),
    *(b"\n", b"\r\n", b"\r", b"\0", b"\t", b"\xe2\x80\xa8", "٣".encode(), "½".encode()),
    *(b"9223372036854775807", b"-9223372036854775809", b"9" * 70),
]


def one_input(data: bytes) -> None:
    check_log(file(".csv", data), data)
