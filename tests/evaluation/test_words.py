"""What an evaluation says in words, at any scale and for any log."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from sparsetd import LSTD
from sparsetd.evaluation import Evaluation, evaluate
from sparsetd.logs import Transitions


def log(n_episodes: int = 30, scale: float = 1.0) -> Transitions:
    """Episodes of four steps; the action of a step depends on what is observed."""
    rng = np.random.default_rng(0)
    n = 4 * n_episodes
    s = rng.normal(size=(n, 2))
    action = (s[:, 0] + rng.normal(size=n) > 0).astype(int)
    return Transitions.from_arrays(
        observation=s,
        action=action,
        reward=scale * (1.0 + rng.normal(size=n)),
        terminated=np.arange(n) % 4 == 3,
        target_prob=np.where(action == 1, 0.6, 0.4),
        behavior_prob=np.full(n, 0.5),
    )


def answer(transitions: Transitions, **options: object) -> Evaluation:
    return evaluate(transitions, estimator=LSTD(fit_intercept=True), n_resamples=0, **options)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e3, 1e12])
def test_numbers_are_as_fine_as_the_interval_needs(scale: float) -> None:
    found = re.search(r"interval (\S+)( × \S+)? to (\S+)( × \S+)?\)", str(answer(log(scale=scale))))
    assert found is not None
    low, power, high, other = found.groups()
    assert power == other
    assert float(low.replace(",", "")) < float(high.replace(",", ""))
    assert len(low.lstrip("−0.").replace(".", "")) <= 6


@pytest.mark.parametrize(("level", "words"), [(0.95, "95 % interval"), (0.999, "99.9 % interval")])
def test_the_level_is_not_rounded_to_certainty(level: float, words: str) -> None:
    assert words in str(answer(log(), level=level))


def test_an_estimated_behaviour_policy_is_told_with_its_quality() -> None:
    unknown = replace(log(200), behavior_prob=None)
    text = str(answer(unknown))
    assert "this was estimated from the logged actions (the behaviour policy)" in text
    assert "the estimate predicts actions better than their frequencies do" in text
    settings = answer(unknown, classifier=DecisionTreeClassifier(max_depth=3, random_state=0)).settings
    assert settings["classifier"] == "DecisionTreeClassifier(max_depth=3, random_state=0)"
    assert "estimated" not in str(answer(log()))


def test_too_few_episodes_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="All 4 rows are one episode, and an interval needs several: number them"):
        answer(log(1))
    with pytest.raises(ValueError, match="The log has 3 episodes, fewer than 5 folds: use fewer folds"):
        answer(log(3))
    assert answer(log(3), n_folds=3).settings["level"] == 0.95
