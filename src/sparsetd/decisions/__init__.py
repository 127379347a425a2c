"""From one value to a decision: compare policies, find a better one, and say what the answer hangs on."""

from __future__ import annotations

from sparsetd.decisions.compare import Comparison, compare
from sparsetd.decisions.improve import Improvement, improve
from sparsetd.decisions.score_policy import ScorePolicy
from sparsetd.decisions.sensitivity import Sensitivity, sensitivity

__all__ = ["Comparison", "Improvement", "ScorePolicy", "Sensitivity", "compare", "improve", "sensitivity"]
