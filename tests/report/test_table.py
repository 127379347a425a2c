"""Tables in a terminal: alignment and the way numbers are written."""

from __future__ import annotations

import math

from sparsetd.report.document import aligned, cell

HEADS = ("method", "error", "n")


def test_columns_are_aligned_and_the_header_may_be_bold() -> None:
    rows = [("TD", 1234567.0, 3), ("RO-TD", 0.123456, None)]
    assert aligned([HEADS, *rows]) == [
        "method     error  n",
        "TD      1.23e+06  3",
        "RO-TD      0.123  –",
    ]
    assert aligned([HEADS, *rows], str.upper)[0].startswith("METHOD")


def test_no_rows_is_a_header() -> None:
    assert aligned([HEADS]) == ["method  error  n"]


def test_numbers() -> None:
    assert [cell(value) for value in (None, math.inf, math.nan, "diverged")] == ["–", "inf", "nan", "diverged"]
