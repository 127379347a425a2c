"""The data behind the report's charts, as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.evaluation.choice import Choice
from sparsetd.evaluation.moments import Part
from sparsetd.system import Array

N_BINS = 30
MAX_LINES = 60
MAX_POINTS = 400
ENDED = {
    "converged": "converged",
    "finished": "took all rows",
    "not_converged": "did not converge",
    "diverged": "diverged",
}


def ratio_edges(least: float, most: float) -> Array:
    """Bins of equal width on a log scale for the positive ratios."""
    low, high = (least / 1.5, most * 1.5) if most < least * 1.5 else (least, most)
    return np.geomspace(low, high, N_BINS + 1)


def ratio_counts(part: Part, edges: Array) -> Array:
    """How many of the positive ratios are in each bin."""
    ratio = part.batch.ratio
    return np.histogram(np.clip(ratio[ratio > 0], edges[0], edges[-1]), edges)[0]


def path(choice: Choice, names: Array) -> dict[str, Any] | None:
    """Weights along the penalties, for the features that matter most; None without a path."""
    if choice.path is None or len(choice.path.rhos) < 2:
        return None
    coefs = choice.path.coefs
    size = np.abs(coefs).max(axis=1)
    shown = np.argsort(-size, kind="stable")[: min(MAX_LINES, int((size > 0).sum()))]
    lines = {str(names[j]): coefs[j].tolist() for j in shown}
    return {"penalty": choice.path.rhos.tolist(), "weights": lines, "chosen": choice.chosen}


def convergence(model: Any) -> dict[str, Any] | None:
    """The certified gap against the iteration, where the solver kept one."""
    gap = getattr(model, "history_", {}).get("relative_gap")
    if not gap:
        return None
    keep = np.unique(np.linspace(0, len(gap) - 1, min(len(gap), MAX_POINTS)).astype(int))
    return {"iteration": keep.tolist(), "gap": [float(gap[i]) for i in keep]}


def sentence(choice: Choice, n_candidates: int, n_used: int) -> str:
    """What the value was computed from and how the features were chosen, in words."""
    used = f"all {n_used:,}" if n_used == n_candidates else f"{n_used:,} of {n_candidates:,}"
    words = f"The value is computed from {used} features."
    if choice.model is None:
        return f"{words} Those that matter were chosen by elimination."
    model, gap = choice.model, getattr(choice.model, "history_", {}).get("relative_gap")
    words += (
        f" Those that matter were chosen by {type(model).__name__}, which {ENDED.get(model.status_, model.status_)}."
    )
    if gap:
        done = "More computing time would not change the answer" if gap[-1] < 1e-4 else "The fit is not finished"
        words += f" {done}: the objective is at most {gap[-1]:.1g} of its size above its minimum."
    return words
