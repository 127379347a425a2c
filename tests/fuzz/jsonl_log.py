"""JSON-lines files: raw text."""

from __future__ import annotations

import json
from typing import Any

from fuzz import seed_log
from fuzz.oracle import check_log, file


def text(columns: dict[str, Any]) -> bytes:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


SEEDS = [
    text(seed_log.columns()),
    text(seed_log.list_columns()),
    b'{"obs": {"a": 1}, "r": null}\n\n{"obs": [[1], [2]]}\n',
]
TOKENS = [
    *(json.dumps(name).encode() for name in seed_log.NAMES),
    *b'{ } [ ] : , " \\u0000 \\ud800 \\n \xff null true false NaN Infinity -Infinity 1e999 0.1e-400 "" [] {}'.split(),
    *(b"\n", b"[" * 50, b'{"a":' * 50, b"[1, 2]", b"[[1], [2, 3]]", b'["a"]', b"[null]"),
    *(b"9223372036854775808", b"9" * 30, b"1" + b"0" * 400),
]


def one_input(data: bytes) -> None:
    check_log(file(".jsonl", data), data)
