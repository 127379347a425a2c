"""Timing for ratios: all contenders in one run, in turns, CPU time of the process, medians of repeats.

Absolute times say more about the machine than about the code, so every figure that is claimed is a ratio, and is
printed next to what it should reach. Progress goes to stderr, results to stdout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple


@dataclass
class Contender:
    """Something that takes `rows` rows per call."""

    name: str
    call: Callable[[], object]
    rows: int


class Seconds(NamedTuple):
    """Time per row: CPU of all threads, CPU of the busier one (the caller's or all others), the clock on the wall."""

    cpu: float
    busier: float
    wall: float


def all_clocks(contenders: list[Contender], repeats: int = 5) -> dict[str, Seconds]:
    """Medians of the time per row: one call to warm up, then rounds in which all take their turn."""
    print(f"  in turns: {', '.join(contender.name for contender in contenders)}", file=sys.stderr, flush=True)
    for contender in contenders:
        contender.call()
    taken: dict[str, list[Seconds]] = {contender.name: [] for contender in contenders}
    for _ in range(repeats):
        for contender in contenders:
            taken[contender.name].append(_timed(contender))
    return {name: Seconds(*map(median, zip(*values, strict=True))) for name, values in taken.items()}


def _timed(contender: Contender) -> Seconds:
    clocks = time.process_time, time.thread_time, time.perf_counter
    begun = [clock() for clock in clocks]
    contender.call()
    cpu, own, wall = ((clock() - start) / contender.rows for clock, start in zip(clocks, begun, strict=True))
    return Seconds(cpu, max(own, cpu - own), wall)


def compare(contenders: list[Contender], repeats: int = 5) -> dict[str, float]:
    """Seconds of CPU per row of each contender."""
    return {name: seconds.cpu for name, seconds in all_clocks(contenders, repeats).items()}


@dataclass
class Report:
    """A table of times, and the figures that were to be reached."""

    lines: list[str] = field(default_factory=list)
    figures: list[tuple[str, float, str, float, str]] = field(default_factory=list)

    def title(self, text: str) -> None:
        self.say(f"\n### {text}\n")

    def say(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)

    def table(self, head: list[str], rows: list[list[str]]) -> None:
        self.say("| " + " | ".join(head) + " |")
        self.say("|" + "---|" * len(head))
        for row in rows:
            self.say("| " + " | ".join(row) + " |")

    def picture(self, path: str, what: str) -> None:
        """A figure, named as seen from benchmarks/README.md."""
        self.say(f"\n![{what}]({path})")

    def reach(self, what: str, value: float, sign: str, goal: float, why: str = "") -> None:
        """Record a figure that should be `sign` (≥ or ≤) `goal`, and `why` it is not where it is not."""
        self.figures.append((what, value, sign, goal, why))

    def verdicts(self) -> None:
        if not self.figures:
            return
        self.title("What was to be reached")
        rows = [[f[0], f"{f[1]:.3g}", f"{f[2]} {f[3]:g}", _verdict(*f[1:])] for f in self.figures]
        self.table(["figure", "measured", "goal", ""], rows)
        met = sum(_reached(*f[1:4]) for f in self.figures)
        self.say(f"\n{met} of {len(self.figures)} reached.")


def _reached(value: float, sign: str, goal: float) -> bool:
    return value >= goal if sign == "≥" else value <= goal


def _verdict(value: float, sign: str, goal: float, why: str) -> str:
    return "reached" if _reached(value, sign, goal) else f"**not reached**{why and ': '}{why}"


def nanoseconds(seconds: float) -> str:
    """A time per row, readable."""
    ns = seconds * 1e9
    return f"{ns:,.0f} ns" if ns < 1e4 else f"{ns / 1e3:,.1f} µs" if ns < 1e7 else f"{ns / 1e6:,.1f} ms"
