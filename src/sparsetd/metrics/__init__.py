"""How good is θ: from data (a `Batch`), and exactly where the process is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

if TYPE_CHECKING:
    from sparsetd.metrics.errors import *
    from sparsetd.metrics.saddle import *

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "errors": "SupportScores exact_mspbe exact_neu exact_rmspbe mspbe neu rmspbe support_scores "
        "td_errors value_error",
        "saddle": "dual_value duality_gap mean_adjoint mean_residual primal_value residual_norm saddle_objective",
    },
    {"ExactSystem": "sparsetd.problems.FiniteMDP.chain(P, R, features, gamma, start, weights=xi)"},
)
