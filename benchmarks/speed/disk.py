"""From a Parquet file to a fitted model: rate against the kernel alone, and memory."""

from __future__ import annotations

from benchmarks.speed.measure import Report


def run(report: Report, repeats: int, share: float) -> None:
    del report, repeats, share
