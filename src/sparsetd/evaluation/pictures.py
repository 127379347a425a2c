"""The data behind the report's charts, as plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def path(model: Any, batch: Batch, names: Array) -> dict[str, Any] | None:
    """Weights per standard deviation along the penalties, for the features that matter most; None without a path."""
    penalties, coefs = getattr(model, "rhos_", None), getattr(model, "coef_path_", None)
    if penalties is None or coefs is None:
        return None
    shown = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")[:MAX_LINES]
    shown = shown[np.abs(coefs[:, shown]).max(axis=0) > 0]
    scale = np.array([_spread(batch.phi[:, [j]]) for j in shown])
    lines = {str(names[j]): (coefs[:, j] * s).tolist() for j, s in zip(shown, scale, strict=True)}
    return {"penalty": np.asarray(penalties).tolist(), "weights": lines, "chosen": float(model.rho_theta_)}


def convergence(model: Any) -> dict[str, Any] | None:
    """The certified gap against the iteration, where the solver kept one."""
    best = getattr(model, "best_estimator_", model)
    gap = getattr(best, "history_", {}).get("gap")
    if not gap:
        return None
    keep = np.unique(np.linspace(0, len(gap) - 1, min(len(gap), MAX_POINTS)).astype(int))
    return {"iteration": keep.tolist(), "gap": [float(gap[i]) for i in keep]}


def sentence(model: Any) -> str:
    """How the fit ended, in words."""
    best = getattr(model, "best_estimator_", model)
    status, steps = getattr(best, "status_", "finished"), getattr(best, "n_iter_", 0)
    words = f"{type(model).__name__}: {status} after {steps:,} iterations."
    gap = getattr(best, "dual_gap_", None)
    return words if gap is None else f"{words} The objective is certified to lie within {gap:.1e} of its minimum."


def _spread(column: Any) -> float:
    return float((column.toarray() if hasattr(column, "toarray") else column).std())
