"""From a log to a decision: value one policy or several, find a better one, and see what the answers depend on."""

from __future__ import annotations

from sparsetd._tools.lazy_names import listed
from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.compare import Comparison, compare
from sparsetd.evaluation.condensed import Condensed, condense, fit_shards
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.evaluate import evaluate
from sparsetd.evaluation.improve import Improvement, improve
from sparsetd.evaluation.result import Evaluation, Feature, Robustness
from sparsetd.evaluation.score_policy import ScorePolicy
from sparsetd.evaluation.sensitivity import Sensitivity, sensitivity

__all__ = [
    "BehaviorPolicy",
    "Caution",
    "Comparison",
    "Condensed",
    "Episodes",
    "Estimate",
    "Evaluation",
    "Feature",
    "Improvement",
    "Robustness",
    "ScorePolicy",
    "Sensitivity",
    "compare",
    "condense",
    "estimate_behavior",
    "evaluate",
    "fit_shards",
    "improve",
    "sensitivity",
]

__getattr__, __dir__ = listed(__name__, __all__)
