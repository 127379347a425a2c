"""How good is θ: from data (a `Batch`), and exactly where the process is known."""

from __future__ import annotations

from sparsetd.metrics.bellman import mspbe, neu, rmspbe, td_errors
from sparsetd.metrics.exact import ExactSystem, exact_mspbe, exact_neu, exact_rmspbe, value_error
from sparsetd.metrics.saddle import (
    dual_value,
    duality_gap,
    mean_adjoint,
    mean_residual,
    primal_value,
    residual_norm,
    saddle_objective,
)
from sparsetd.metrics.support import SupportScores, support_scores

__all__ = [
    "ExactSystem",
    "SupportScores",
    "dual_value",
    "duality_gap",
    "exact_mspbe",
    "exact_neu",
    "exact_rmspbe",
    "mean_adjoint",
    "mean_residual",
    "mspbe",
    "neu",
    "primal_value",
    "residual_norm",
    "rmspbe",
    "saddle_objective",
    "support_scores",
    "td_errors",
    "value_error",
]
