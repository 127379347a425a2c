"""What is said of the overlap of log and target: its numbers from first principles, each caution from both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.logs import found_by

from sparsetd.evaluation.episodes import Episodes, Facts
from sparsetd.evaluation.support import Overlap, overlap
from sparsetd.logs import Transitions

SOUND = Overlap(
    ess=400.0, ess_rows=500.0, max_ratio=5.0, coverage=1.0, coverage_error=0.0, mean_ratio=1.0, zero_share=0.0,
    mean_weight=1.0, n_episodes=500, n_rows=1000,
)  # fmt: skip


def facts(ratio, episode):
    n = len(ratio)
    end = np.diff(episode, append=-1) != 0
    log = Transitions.from_arrays(np.zeros((n, 1)), np.zeros(n), np.zeros((n, 1)), episode=episode, terminated=end)
    return Facts.of_episodes(Episodes.of_log(log, 0.9, np.asarray(ratio)))


def test_the_numbers_of_a_log_that_can_be_counted_by_hand():
    found = overlap(facts([2.0, 0.5, 0.0, 1.0, 4.0], [0, 0, 1, 2, 2]))
    # The episodes weigh 1, 0 and 4.
    assert found.ess == pytest.approx(25 / 17)
    assert found.ess_rows == pytest.approx(7.5**2 / 21.25)
    assert found.mean_weight == pytest.approx(5 / 3)
    assert (found.max_ratio, found.mean_ratio, found.coverage, found.zero_share) == (4.0, 1.5, 1.0, 0.2)
    assert (found.n_episodes, found.n_rows) == (3, 5)
    two = overlap(facts([0.5, 1.0], [0, 1]))
    assert (two.coverage, two.coverage_error) == (0.75, pytest.approx(0.25))


def test_the_error_of_the_coverage_follows_from_what_more_of_an_episode_changes():
    """Var of the mean ratio = n/(n−1) Σ_i (∂ mean / ∂ weight of episode i)², by finite differences."""
    rng = np.random.default_rng(0)
    of = np.sort(np.append(np.arange(12), rng.integers(12, size=30)))  # whole episodes of different lengths
    ratio = rng.exponential(size=42) * (1 + of)
    more = 1e-6 * (of == np.arange(12)[:, None])
    change = [np.average(ratio, weights=1 + m) - np.average(ratio, weights=1 - m) for m in more]
    expected = np.sqrt(12 / 11) * np.linalg.norm(change) / 2e-6
    assert overlap(facts(ratio, of)).coverage_error == pytest.approx(expected, rel=1e-6)
    assert overlap(facts([1.0, 3.0], [0, 0])).coverage_error == np.inf  # one episode shows no spread


@pytest.mark.parametrize(
    ("bad", "good", "code", "severity", "said"),
    [
        ({"coverage": 0.94}, {"coverage": 0.96}, "low_coverage", "amber", "Only 94% of the policy's choices"),
        ({"coverage": 0.79}, {"coverage": 0.96}, "low_coverage", "red", "Only 79%"),
        (
            {"coverage": 0.9, "coverage_error": 0.02},
            {"coverage": 0.9, "coverage_error": 0.03},
            "low_coverage",
            "amber",
            "Only 90%",
        ),
        ({"mean_ratio": 1.06}, {"mean_ratio": 1.04}, "wrong_ratios", "amber", "The rows count 1.06 times on average"),
        ({"mean_ratio": 1.26}, {"mean_ratio": 1.04}, "wrong_ratios", "red", "The rows count 1.26 times on average"),
        (
            {"mean_ratio": 1.3, "coverage_error": 0.02},
            {"mean_ratio": 1.3, "coverage_error": 0.13},
            "wrong_ratios",
            "red",
            "count 1.30 times",
        ),
        (
            {"mean_ratio": 1.2, "coverage_error": 0.07},
            {"mean_ratio": 1.2, "coverage_error": 0.08},
            "wrong_ratios",
            "amber",
            "count 1.20 times",
        ),
        ({"max_ratio": 101.0}, {"max_ratio": 99.0}, "large_ratio", "note", "One row counts 101 times"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_caution_is_given_on_one_side_of_its_limit_only(bad, good, code, severity, said):
    assert found_by(code, overlap=replace(SOUND, **good), behavior=None) is None
    found, words = found_by(code, overlap=replace(SOUND, **bad), behavior=None)
    assert found == severity
    assert said in words
