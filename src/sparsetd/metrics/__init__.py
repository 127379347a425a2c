"""How good is θ: from data (a `Batch`), and exactly where the process is known."""

from __future__ import annotations

from sparsetd.metrics.errors import (
    ExactSystem,
    SupportScores,
    exact_mspbe,
    exact_neu,
    exact_rmspbe,
    mspbe,
    neu,
    rmspbe,
    support_scores,
    td_errors,
    value_error,
)
from sparsetd.metrics.saddle import (
    dual_value,
    duality_gap,
    mean_adjoint,
    mean_residual,
    primal_value,
    residual_norm,
    saddle_objective,
)

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
