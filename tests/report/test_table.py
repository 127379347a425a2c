"""Tables: alignment and the way numbers are written."""

from __future__ import annotations

import math

from sparsetd.report.words import Column, formatted, text_table

COLUMNS = [Column("method", "method"), Column("error", "error", ".3g"), Column("n", "n", "d")]


def test_columns_are_aligned_and_the_header_may_be_bold() -> None:
    rows = [{"method": "TD", "error": 1234567.0, "n": 3}, {"method": "RO-TD", "error": 0.123456, "n": None}]
    assert text_table(rows, COLUMNS).splitlines() == [
        "method     error  n",
        "TD      1.23e+06  3",
        "RO-TD      0.123  –",
    ]
    assert text_table(rows, COLUMNS, str.upper).startswith("METHOD")


def test_no_rows_is_a_header() -> None:
    assert text_table([], COLUMNS) == "method  error  n"


def test_numbers() -> None:
    assert formatted(None) == "–"
    assert formatted(math.inf, ".3g") == "inf"
    assert formatted(math.nan, "d") == "nan"
    assert formatted("diverged", ".3g") == "diverged"
