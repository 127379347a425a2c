"""Without logged propensities the value rests on an estimate of them: LSTD-Q, which needs none, is a second opinion.

Where the two disagree, one of their assumptions fails: the classifier misjudges the behaviour, or the features do not
carry Q. That they agree proves little, since both may miss the same unobserved cause.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.evaluation.action_values import ActionRows, ActionValue
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.target import Question
from sparsetd.features.featurize import fit_features

MOST_WEIGHTS = 2_000
APART = 1.0  # standard errors from which the disagreement is said


def second_opinion(question: Question, features: Any, gamma: float) -> Estimate | None:
    """LSTD-Q of the target on action blocks; None where the target cannot be asked about successors, or is too wide."""
    log, form = question.log, question.asked.form
    if form is None or isinstance(form, np.ndarray):
        return None
    phi = fit_features(log, StandardScaler() if features is None else features)
    rows = ActionRows.of(log, phi, gamma, question.asked, question.behavior)
    if rows.phi.shape[1] * rows.pi.shape[1] > MOST_WEIGHTS:
        return None
    return ActionValue.fit(rows).estimate()


def cautions(own: Estimate, other: Estimate | None) -> list[Caution]:
    """A caution where the two opinions are more than a standard error apart."""
    if other is None or abs(own.value - other.value) <= APART * own.standard_error:
        return []
    words = (
        f"Without logged propensities the value was also estimated without any (LSTD-Q): {other.value:.4g} instead of "
        f"{own.value:.4g}, more than a standard error apart. The estimated propensities or the features miss something."
    )
    return [Caution("opinions_differ", "amber", words)]
