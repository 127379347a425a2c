"""Numbers in words: how a figure is written, and what it means for the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MINUS = "−"


def number(value: float | None) -> str:
    """Three decimals for ordinary numbers, four digits otherwise; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:.3f}" if 0.001 <= abs(value) < 100 or value == 0 else f"{value:.4g}"
    return text.replace("-", MINUS)


def signed(value: float | None) -> str:
    text = number(value)
    return text if text.startswith((MINUS, "–")) else f"+{text}"


def percent(share: float | None) -> str:
    """Whole percents, and tenths near 0 and 1, so that 99.7 % is not called 100 %."""
    if share is None or not math.isfinite(share):
        return "–"
    near = 0 < share < 0.01 or 0.99 < share < 1
    return f"{100 * share:.{1 if near else 0}f} %"


def count(value: float) -> str:
    return f"{value:,.0f}"


@dataclass(frozen=True)
class Verdict:
    """One figure with its meaning; `level` is good, warn or bad, and `word` says so without colour."""

    name: str
    figure: str
    level: str
    word: str
    meaning: str


def verdicts(p: Mapping[str, Any]) -> list[Verdict]:
    """The four questions a careful reader asks of a log."""
    return [_coverage(p), _sample(p), _ratio(p), *([_bellman(p)] if p["bellman_error"] else [])]


def _coverage(p: Mapping[str, Any]) -> Verdict:
    share = p["coverage"]
    level, word = _grade(share, 0.95, 0.8, "covered", "partly covered", "poorly covered")
    meaning = "of the target's choices are also made in the log; what it does elsewhere cannot be seen."
    return Verdict("Support coverage", percent(share), level, word, meaning)


def _sample(p: Mapping[str, Any]) -> Verdict:
    rows, n = p["ess_rows"], p["n_rows"]
    level, word = _grade(rows, 1000, 100, "plenty", "modest", "too few")
    meaning = (
        f"of {count(n)} transitions count for the target after weighting; whole episodes: {count(p['ess'])} of "
        f"{count(p['n_episodes'])}."
    )
    return Verdict("Effective transitions", count(rows), level, word, meaning)


def _ratio(p: Mapping[str, Any]) -> Verdict:
    top = p["max_ratio"]
    level, word = _grade(-top, -20, -100, "even", "uneven", "dominated by few rows")
    return Verdict("Largest weight", f"{top:.3g}×", level, word, "the most that one logged transition counts.")


def _bellman(p: Mapping[str, Any]) -> Verdict:
    error, noise = p["bellman_error"]["value"], p["bellman_error"]["noise"]
    times = error / noise if noise > 0 else math.inf
    level, word = _grade(-times, -2, -5, "about what chance gives", "some model error", "the features miss something")
    meaning = f"times what chance alone gives, on held-out episodes (a constant value: {_against(p, noise)})."
    return Verdict("Bellman error", f"{times:.2g}×", level, word, meaning)


def _against(p: Mapping[str, Any], noise: float) -> str:
    return f"{p['bellman_error']['constant'] / noise:.2g}×" if noise > 0 else "–"


def _grade(value: float, good: float, fair: float, *words: str) -> tuple[str, str]:
    place = 0 if value >= good else 1 if value >= fair else 2
    return ("good", "warn", "bad")[place], words[place]
