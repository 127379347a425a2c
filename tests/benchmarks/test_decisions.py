"""The benchmarks of decisions and of evaluations ask what the library can answer, and sum up what it said."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.decisions import __main__ as decisions
from benchmarks.decisions.__main__ import towards
from benchmarks.evaluation import summary
from sparsetd import compare, evaluate
from sparsetd.logs import Transitions


def test_a_greedy_target_can_be_compared_with_what_lies_before_it():
    rng, n = np.random.default_rng(0), 80
    x, action = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    greedy = (action == (x[:, 0] > 0)).astype(float)
    columns = {"action": action, "behavior_prob": np.full(n, 0.5), "target_prob": greedy}
    log = Transitions.from_arrays(x, action * x[:, 0], terminated=np.ones(n, bool), **columns)
    found = compare(log, towards(log), gamma=0.9, features=None, n_resamples=0)
    assert list(found.values) == ["current", "0.25", "0.5", "0.75", "1"]
    alone = evaluate(log, gamma=0.9, features=None, n_resamples=0)
    assert found.values["1"].value == pytest.approx(alone.value)


def test_a_log_is_asked_with_every_seed_and_one_that_recommends_counts(monkeypatch):
    def improve(_log, *, gamma, random_state):
        assert gamma < 1
        return SimpleNamespace(recommended=random_state == 3, interval=(0.01 * random_state, 1.0))

    monkeypatch.setattr(decisions, "improve", improve)
    found = decisions.asked_again("no effect, 400", seed=0)
    assert found == {"recommended": 1, "low": pytest.approx(0.01 * (decisions.ASKED_AGAIN - 1))}


def test_an_estimate_that_some_logs_have_is_summarised_over_these():
    """The value on the features that matter has one name where it is curved, and another where it is not."""
    plain = {"error": 0.1, "covered": True, "width": 1.0, "kept": 1, "noise_kept": 0, "cpu": 1.0}
    rows = [
        {**plain, "error matter": 0.1, "covered matter": True},
        {**plain, "error as they came": 0.3, "covered as they came": False},
    ]
    found = summary(rows, bound=0.1, noise=0)
    assert found["rmse_others"] == pytest.approx({"matter": 0.1, "as they came": 0.3})
    assert found["coverage_others"] == {"matter": 1.0, "as they came": 0.0}
