"""How good is θ: from data (a `Batch`), and exactly where the process is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsetd._tools.lazy_names import lazily

if TYPE_CHECKING:
    from sparsetd.metrics.errors import *

# Functions of the paper's objective that only the tests of the paper's equations use.
_OBJECTIVE = "dual_value duality_gap mean_adjoint mean_residual primal_value residual_norm saddle_objective"
_SCORES = "sklearn.metrics.precision_recall_fscore_support(relevant, selected, average='binary', zero_division=1)"
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {"errors": "exact_mspbe exact_neu exact_rmspbe mspbe neu rmspbe td_errors value_error"},
    {name: f"reproduction.objective.{name}, in a clone of the repository" for name in _OBJECTIVE.split()}
    | dict.fromkeys(("support_scores", "SupportScores"), _SCORES)
    | {"ExactSystem": "sparsetd.problems.FiniteMDP.chain(P, R, features, gamma, start, weights=xi)"},
)
