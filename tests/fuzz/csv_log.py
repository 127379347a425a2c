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
    *(
        b",",
        b'"',
        b'""',
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\t",
        b";",
        b"[",
        b"]",
        b"[1, 2]",
        b'"[1, 2]"',
        b"\xef\xbb\xbf",
    ),
    *(b"nan", b"inf", b"-inf", b"NA", b"null", b"true", b"False", b"1e999", b"-1e308", b"5e-324", b"0x10", b"1_000"),
    *(b"9223372036854775807", b"-9223372036854775809", b"9" * 70, "٣".encode(), "½".encode(), b"\xff", b"\xe2\x80\xa8"),
]


def one_input(data: bytes) -> None:
    check_log(file(".csv", data), data)
