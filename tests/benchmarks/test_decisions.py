"""The benchmark of decisions asks what the library can answer."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.decisions.__main__ import towards
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
