"""The data behind the report's charts, as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.evaluation.choice import Choice
from sparsetd.system import Array, Batch

N_BINS = 30
MAX_LINES = 60
MAX_POINTS = 400


def histogram(ratio: Array) -> dict[str, Any]:
    """Counts of the positive ratios in bins of equal width on a log scale, and how many are zero."""
    positive = ratio[ratio > 0]
    low, high = float(positive.min()), float(positive.max())
    if high < low * 1.5:
        low, high = low / 1.5, high * 1.5
    edges = np.geomspace(low, high, N_BINS + 1)
    counts = np.histogram(np.clip(positive, edges[0], edges[-1]), edges)[0]
    return {"edges": edges.tolist(), "counts": counts.tolist(), "zero": int((ratio == 0).sum())}


def path(choice: Choice, batch: Batch, names: Array) -> dict[str, Any] | None:
    """Weights per standard deviation along the penalties, for the features that matter most; None without a path."""
    if choice.path is None or len(choice.path.rhos) < 2:
        return None
    coefs = choice.path.coefs
    size = np.abs(coefs).max(axis=1)
    shown = np.argsort(-size, kind="stable")[: min(MAX_LINES, int((size > 0).sum()))]
    lines = {str(names[j]): (coefs[j] * _spread(batch.phi[:, [j]])).tolist() for j in shown}
    return {"penalty": choice.path.rhos.tolist(), "weights": lines, "chosen": float(choice.model.rho_theta_)}


def convergence(model: Any) -> dict[str, Any] | None:
    """The certified gap against the iteration, where the solver kept one."""
    gap = getattr(model, "history_", {}).get("relative_gap")
    if not gap:
        return None
    keep = np.unique(np.linspace(0, len(gap) - 1, min(len(gap), MAX_POINTS)).astype(int))
    return {"iteration": keep.tolist(), "gap": [float(gap[i]) for i in keep]}


def sentence(model: Any) -> str:
    """How the fit ended, in words."""
    gap = getattr(model, "history_", {}).get("relative_gap")
    what = "transition" if gap is None else "iteration"  # what `n_iter_` counts
    words = f"{type(model).__name__}: {model.status_.replace('_', ' ')} after {model.n_iter_:,} {what}"
    words += "." if model.n_iter_ == 1 else "s."
    if hasattr(model, "rho_theta_"):
        words += f" Penalty {model.rho_theta_:.3g} of at most {model.rho_max_:.3g}, chosen on held-out episodes."
    if gap:
        done = "More computing time would not change the answer" if gap[-1] < 1e-4 else "The fit is not finished"
        words += f" {done}: the objective is at most {gap[-1]:.1g} of its size above its minimum."
    return words


def _spread(column: Any) -> float:
    return float((column.toarray() if hasattr(column, "toarray") else column).std())
