"""From a log to a decision: the value of a target policy, how sure we are, and why."""

from __future__ import annotations

from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.evaluation.condensed import Condensed, condense
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.evaluate import evaluate
from sparsetd.evaluation.fit_shards import fit_shards
from sparsetd.evaluation.result import Evaluation, Feature

__all__ = [
    "BehaviorPolicy",
    "Condensed",
    "Episodes",
    "Estimate",
    "Evaluation",
    "Feature",
    "condense",
    "estimate_behavior",
    "evaluate",
    "fit_shards",
]
