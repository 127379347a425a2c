"""Rows to one line per cell, and cells to verdicts on each requirement."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.trust.ask import Row
from benchmarks.trust.case import Cell

COVERAGE, RED, FALSE_RED, WORSE, RIVAL = 0.90, 0.95, 0.05, 1.15, 1.1
SILENT, WASTED, AMBER, GREEN = 0.03, 0.15, 0.85, 0.93  # shares over all logs
MOST = {"as good as boosting": 0.8}  # share of the cells that is asked for where it is not all of them
FEWEST = 5  # logs on which errors are compared
SAME = 1e-6  # a value has not moved if it moved by less than this share of its interval's width
ESTIMATOR = ("f1", "permuted", "rescaled")
COLUMNS = {
    "logs": "{:d}", "rmse": "{:.3g}", "selected": "{:.3g}", "all": "{:.3g}", "kernel": "{:.3g}",
    "boosting": "{:.3g}", "coverage": "{:.0%}",
    "silent": "{:.0%}", "width": "{:.3g}",
    "red": "{:.0%}", "amber": "{:.0%}", "f1": "{:.2f}", "dropped": "{:.1%}", "jaccard": "{:.2f}", "rescaled": "{:.2f}",
    "cpu": "{:.2f}",
}  # fmt: skip


def summary(rows: list[Row]) -> Row:
    """What a cell's logs say together. A log without an answer does not count as covered."""
    told = [r for r in rows if r["value"] is not None]
    covered = np.array([r["value"] is not None and r["low"] <= r["truth"] <= r["high"] for r in rows])
    red = np.array([r["severity"] == "red" for r in rows])
    return {
        "logs": len(rows),
        "rmse": _rmse(told, "value"),
        "selected": _rmse(told, "selected"),
        "all": _rmse(told, "all"),
        **_beside(told, "kernel"),
        **_beside(told, "boosting"),
        "boosting_time": _median([r["cpu"] / r["boosting_cpu"] for r in rows if "boosting" in r]),
        "coverage": float(covered.mean()),
        "silent": float((~covered & ~red).mean()),
        "width": _median([r["high"] - r["low"] for r in told]),
        "red": float(red.mean()),
        "amber": float(np.mean([r["severity"] == "amber" for r in rows])),
        "f1": _mean([r["f1"] for r in rows if "f1" in r]),
        "dropped": _mean([r["dropped"] for r in rows if "dropped" in r]),
        "jaccard": _mean([r["permuted"]["jaccard"] for r in rows if "permuted" in r]),
        "rescaled": _mean([r["rescaled"]["jaccard"] for r in rows if "rescaled" in r]),
        **{f"estimator_{key}": _mean([r["estimator"][key] for r in rows if "estimator" in r]) for key in ESTIMATOR},
        "permuted_shift": _worst([r["permuted"]["shift"] for r in rows if "permuted" in r]),
        "rescaled_shift": _worst([r["rescaled"]["shift"] for r in rows if "rescaled" in r]),
        "failed": sum(bool(r["failed"]) for r in rows),
        "cpu": _median([r["cpu"] for r in rows]),
        "slowest": max(r["cpu"] for r in rows),
    }


def verdicts(cell: Cell, s: Row) -> dict[str, bool]:
    """Every requirement that applies to the cell, and whether it is met."""
    out = {"honest": s["coverage"] >= COVERAGE or s["red"] >= RED, "answers": s["failed"] == 0}
    if cell.well_posed:
        out["no false red"] = s["red"] <= FALSE_RED
    if cell.rivals and s["rmse"] is not None:
        out["as good as raw columns"] = s["rmse"] <= RIVAL * s["all"]
        if s["kernel"] is not None:
            out["as good as the kernel"] = s["beside_kernel"] <= RIVAL * s["kernel"]
        if s["boosting"] is not None:
            out["as good as boosting"] = s["beside_boosting"] <= s["boosting"]
        if s["boosting_time"] is not None:
            out["a tenth of boosting's time"] = s["boosting_time"] <= 0.1
    elif cell.overlap and s["rmse"] is not None:
        out["as good as either"] = s["rmse"] <= WORSE * min(s["selected"], s["all"])
    if cell.f1_goal is not None:
        out["support"] = (s["f1"] or 0.0) >= cell.f1_goal
    if cell.rmse_goal is not None:
        out["error as before"] = s["rmse"] is not None and s["rmse"] <= cell.rmse_goal
    if cell.dropped_goal is not None:
        out["noise dropped"] = (s["dropped"] or 0.0) >= cell.dropped_goal
    if s["jaccard"] is not None:
        out["order of episodes"] = s["jaccard"] == 1
        out["units of columns"] = s["rescaled"] == 1 and s["rescaled_shift"] <= SAME
    if s["estimator_f1"] is not None:
        out["order of episodes, SparseTDSelect"] = s["estimator_permuted"] == 1
        out["units of columns, SparseTDSelect"] = s["estimator_rescaled"] == 1
    return out


def table(rows: list[Row], cells: dict[str, Cell]) -> tuple[str, list[tuple[str, bool]]]:
    """The table in Markdown, and the requirements over all cells with whether they are met."""
    by_cell = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    found = {name: summary(by_cell[name]) for name in cells if name in by_cell}
    met = {name: verdicts(cells[name], s) for name, s in found.items()}
    lines = ["| cell | trouble | " + " | ".join(COLUMNS) + " | not met |", "|---" * (len(COLUMNS) + 3) + "|"]
    for name, s in found.items():
        shown = [_shown(s[key], form) for key, form in COLUMNS.items()]
        missed = ", ".join(what for what, reached in met[name].items() if not reached)
        lines.append(f"| {name} | {cells[name].trouble} | " + " | ".join(shown) + f" | {missed} |")
    return "\n".join(lines), [*_shares(rows), *_overall(found, met, cells)]


def codes(rows: list[Row]) -> str:
    """Which cautions stand in what share of each cell's logs."""
    count, logs = defaultdict(Counter[str]), Counter(row["cell"] for row in rows)
    for row in rows:
        count[row["cell"]].update(set(row["codes"]))
    shares = {cell: [f"{code} {n / logs[cell]:.0%}" for code, n in c.most_common()] for cell, c in count.items()}
    return "\n".join(f"{cell:55s} {', '.join(found) or '–'}" for cell, found in shares.items())


def _overall(found: dict[str, Row], met: dict[str, Any], cells: dict[str, Cell]) -> list[tuple[str, bool]]:
    out = []
    for what in dict.fromkeys(what for each in met.values() for what in each):
        asked = [each[what] for each in met.values() if what in each]
        out.append((f"{what}: {sum(asked)} of {len(asked)} cells", sum(asked) >= MOST.get(what, 1.0) * len(asked)))
    missed = [s for name, s in found.items() if not met[name]["honest"]]
    chance = sum(_by_chance(s) for s in missed)
    out.append((f"honest apart from chance: {len(missed) - chance} cells are not", chance == len(missed)))
    alarms = [s["red"] * s["logs"] for name, s in found.items() if cells[name].well_posed]
    logs = sum(s["logs"] for name, s in found.items() if cells[name].well_posed)
    if logs:
        share = sum(alarms) / logs
        out.append((f"false red in {share:.1%} of {logs} well-posed logs (goal ≤ {FALSE_RED:.0%})", share <= FALSE_RED))
    return out


def _shares(rows: list[Row]) -> list[tuple[str, bool]]:
    """Over all logs: what the worst caution of an answer says about its interval."""
    covered = np.array([r["value"] is not None and r["low"] <= r["truth"] <= r["high"] for r in rows])
    worst = np.array([r["severity"] for r in rows])
    silent, wasted = float((~covered & (worst != "red")).mean()), float((covered & (worst == "red")).mean())
    out = [
        (f"silent misses in {silent:.1%} of {len(rows):,} logs (goal ≤ {SILENT:.0%})", silent <= SILENT),
        (f"red although the interval covers in {wasted:.1%} of the logs (goal ≤ {WASTED:.0%})", wasted <= WASTED),
    ]
    for name, some, goal in (("amber", worst == "amber", AMBER), ("green", ~np.isin(worst, ["red", "amber"]), GREEN)):
        share = float(covered[some].mean()) if some.any() else 1.0
        out.append((f"{name} covers in {share:.1%} of {some.sum():,} logs (goal ≥ {goal:.0%})", share >= goal))
    return out


def _by_chance(s: Row) -> bool:
    """Whether an interval that covers 95 % would do as badly as this in at least 5 % of all cells."""
    return bool(binom.cdf(round(s["coverage"] * s["logs"]), s["logs"], 0.95) > 0.05)


def _shown(value: Any, form: str) -> str:
    return "–" if value is None else form.format(value)


def _beside(rows: list[Row], rival: str) -> Row:
    """The error of a rival, and of the value on the same logs; None for both where these are too few to compare."""
    asked = [r for r in rows if rival in r]
    some = asked if len(asked) >= FEWEST else []
    return {rival: _rmse(some, rival), f"beside_{rival}": _rmse(some, "value")}


def _rmse(rows: list[Row], key: str) -> float | None:
    errors = [row[key] - row["truth"] for row in rows]
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else None


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _worst(values: list[float | None]) -> float | None:
    return max((np.inf if v is None else v for v in values), default=None)
