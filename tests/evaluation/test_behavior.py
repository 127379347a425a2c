"""The estimated behaviour policy: close to the true one, held out, calibrated; and the overlap diagnostics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.logs import found_by
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparsetd import evaluate
from sparsetd.evaluation.behavior import estimate_behavior
from sparsetd.evaluation.episodes import Episodes, Facts
from sparsetd.evaluation.support import overlap
from sparsetd.logs import Transitions


def softmax(logits):
    table = np.exp(logits - logits.max(axis=1, keepdims=True))
    return table / table.sum(axis=1, keepdims=True)


def make_log(seed=0, n=3000, length=10, d=3, sharpness=1.0):
    """A log of a softmax behaviour, with its true probabilities."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(n, d))
    mu = softmax(sharpness * s @ np.array([[1.0, 0.0, -1.0], [0.5, -0.5, 0.0], [0.0, 0.0, 0.3]]))
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    end = np.arange(n) % length == length - 1
    log = Transitions.from_arrays(s, rng.normal(size=n), s, action=action, truncated=end)
    return log, mu


def test_the_default_classifier_finds_a_softmax_policy():
    log, mu = make_log()
    found = estimate_behavior(log)
    assert np.abs(found.table - mu).mean() < 0.02
    np.testing.assert_allclose(found.table.sum(axis=1), 1.0)
    entropy = -(mu * np.log(mu)).sum(axis=1).mean()
    assert found.log_loss == pytest.approx(entropy, abs=0.02)
    assert found.log_loss < found.log_loss_marginal
    assert found.temperature == pytest.approx(1.0, abs=0.1)
    assert found.n_floored == 0


def looking(seed, bent, n=3000, length=10):
    """A log of people who look at one column only where another is high, or at all columns alike; with the truth."""
    rng = np.random.default_rng(seed)
    s = np.column_stack([rng.normal(size=n), rng.integers(2, size=n), rng.normal(size=n)])
    logit = s[:, 0] * (2 * s[:, 1] - 1) if bent else s @ [1.0, -0.5, 0.3]
    mu = softmax(np.column_stack([np.zeros(n), logit]))
    action = (rng.random(n) < mu[:, 1]).astype(int)
    end = np.arange(n) % length == length - 1
    return Transitions.from_arrays(s, rng.normal(size=n), s, action=action, truncated=end), mu


@pytest.mark.parametrize("seed", range(2))
def test_the_default_classifier_follows_a_product_of_columns(seed):
    log, mu = looking(seed, bent=True)
    found = estimate_behavior(log)
    assert np.abs(found.table - mu).mean() < 0.05
    straight = make_pipeline(StandardScaler(), LogisticRegression())
    assert np.abs(estimate_behavior(log, straight).table - mu).mean() > 0.15


@pytest.mark.parametrize("seed", range(2))
def test_the_default_classifier_is_straight_where_people_are(seed):
    log, _ = looking(seed, bent=False)
    straight = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    np.testing.assert_array_equal(estimate_behavior(log).table, estimate_behavior(log, straight).table)


def test_every_row_is_held_out():
    """A classifier that memorises its training rows learns nothing about the rows it is asked about."""
    rng = np.random.default_rng(0)
    n = 600
    log = Transitions.from_arrays(
        rng.normal(size=(n, 2)),
        np.zeros(n),
        rng.normal(size=(n, 2)),
        action=rng.integers(2, size=n),
        truncated=np.arange(n) % 6 == 5,
    )
    found = estimate_behavior(log, DecisionTreeClassifier(random_state=0))
    right = (found.table.argmax(axis=1) == log.action).mean()
    assert abs(right - 0.5) < 0.1


def test_whole_episodes_are_held_out_together():
    """With a feature that names the episode and an action that is constant in it, its other rows would tell."""
    rng = np.random.default_rng(1)
    episode = np.repeat(np.arange(200), 5)
    action = rng.integers(2, size=200)[episode]
    s = (rng.permutation(200)[episode])[:, None].astype(float)
    log = Transitions.from_arrays(
        s, np.zeros(1000), s, action=action, episode=episode, truncated=np.diff(episode, append=-1) != 0
    )
    found = estimate_behavior(log, DecisionTreeClassifier(random_state=0))
    assert (found.table.argmax(axis=1) == action).mean() < 0.65


def test_the_order_of_the_episodes_does_not_matter():
    log, _ = make_log(2, n=300)
    log = replace(log, episode_id=log.episode)
    rows = np.concatenate([np.arange(10 * i, 10 * i + 10) for i in np.random.default_rng(0).permutation(30)])
    again = estimate_behavior(log[rows])
    np.testing.assert_allclose(again.table, estimate_behavior(log).table[rows], rtol=1e-6)


def test_calibration_softens_an_overconfident_classifier():
    log, _ = make_log(2, d=3, sharpness=0.3)
    found = estimate_behavior(log, RandomForestClassifier(30, random_state=0))
    assert found.temperature > 1.2 or found.mixing > 0.2
    assert found.log_loss < found.log_loss_uncalibrated
    assert found.calibration_error < 0.05


@pytest.mark.parametrize("classifier", [GaussianNB(), DummyClassifier()])
def test_any_classifier_will_do(classifier):
    log, _ = make_log(3, n=500)
    assert estimate_behavior(log, classifier).apply(log).behavior_prob.min() > 0


def test_an_action_unseen_in_training_gets_a_small_probability():
    log, _ = make_log(4, n=100)
    action = log.action.copy()
    action[7] = 5
    rare = Transitions.from_arrays(
        log.observation, log.reward, log.next_observation, action=action, truncated=log.truncated
    )
    found = estimate_behavior(rare, floor=0.03)
    assert found.table.shape == (100, 6)
    assert found.n_floored >= 1
    assert found.apply(rare).behavior_prob.min() == pytest.approx(0.03)


def test_a_single_action_is_certain():
    log, _ = make_log(5, n=50)
    only = Transitions.from_arrays(
        log.observation, log.reward, log.next_observation, action=np.zeros(50, int), truncated=log.truncated
    )
    found = estimate_behavior(only)
    np.testing.assert_allclose(found.table, 1.0)


def test_the_estimate_gives_nearly_the_true_ratios():
    log, mu = make_log(6)
    target = softmax(log.observation @ np.array([[0.0, 1.0, 0.0]] * 3))
    pi = target[np.arange(len(log)), log.action]
    true = pi / mu[np.arange(len(log)), log.action]
    estimated = pi / estimate_behavior(log).apply(log).behavior_prob
    assert np.corrcoef(np.log(true), np.log(estimated))[0, 1] > 0.99


def test_the_summary_names_its_figures():
    log, _ = make_log(7, n=200)
    assert "(log loss " in estimate_behavior(log).summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_folds": 1000}, "`n_folds` is 1000, but the log has 20 episodes"), ({"floor": 0.0}, "`floor` must lie")],
)
def test_wrong_settings_are_named(change, message):
    log, _ = make_log(8, n=200)
    with pytest.raises(ValueError, match=message):
        estimate_behavior(log, **change)


def test_actions_are_needed():
    log = Transitions.from_arrays(np.zeros((4, 1)), np.zeros(4), np.zeros((4, 1)), truncated=[0, 1, 0, 1])
    with pytest.raises(ValueError, match="`action` must be a column of integers"):
        estimate_behavior(log)


def test_coverage_is_the_target_mass_on_logged_actions():
    rng = np.random.default_rng(0)
    n, mu = 40_000, np.array([0.5, 0.5, 0.0])
    pi = np.array([0.6, 0.1, 0.3])  # 30 % of the target's choices are never logged
    action = rng.choice(3, size=n, p=mu)
    log = Transitions.from_arrays(
        np.zeros((n, 1)),
        np.zeros(n),
        np.zeros((n, 1)),
        truncated=np.arange(n) % 4 == 3,
        behavior_prob=mu[action],
        target_prob=pi[action],
    )
    found = overlap(Facts.of_episodes(Episodes.of_log(log, 0.9)))
    assert found.coverage == pytest.approx(0.7, abs=3 * found.coverage_error)
    assert found.coverage_error == pytest.approx(0.5 / np.sqrt(n), rel=0.05)
    assert found.max_ratio == pytest.approx(1.2)
    assert found.ess_rows == pytest.approx(n * 0.7**2 / 0.74, rel=0.01)
    severity, words = found_by("low_coverage", overlap=found)
    assert severity == "red"
    assert "70%" in words


def test_a_log_of_the_target_itself_needs_no_caution():
    log, _ = make_log(9, n=300)
    found = overlap(Facts.of_episodes(Episodes.of_log(log, 0.9)))
    assert (found.coverage, found.max_ratio, found.ess_rows) == (1.0, 1.0, 300.0)
    rules = ("low_coverage", "wrong_ratios", "large_ratio")
    assert [found_by(code, overlap=found, behavior=None) for code in rules] == [None] * 3


def test_what_nobody_ever_does_is_counted_although_a_smooth_classifier_gives_it_a_chance():
    """Nobody treats above .5: of a policy that always treats, the share of the rows below can be found in the log."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    mu = np.where(x[:, 0] > 0.5, 0.0, 0.4)
    action = (rng.random(3000) < mu).astype(int)
    log = Transitions.from_arrays(
        x, x[:, 0], action=action, terminated=np.ones(3000, dtype=bool), names=["x", "y", "z"]
    )
    smooth = make_pipeline(StandardScaler(), LogisticRegression())
    found = evaluate(log, "1 if x > -9", classifier=smooth, n_resamples=0)
    assert found.overlap.mean_ratio > 0.9
    assert found.overlap.coverage == pytest.approx((x[:, 0] < 0.5).mean(), abs=0.03)
    assert {caution.code: caution.severity for caution in found.warnings}["low_coverage"] == "red"
    mild = evaluate(log, "1 if x < 0; else 0", n_resamples=0)
    assert mild.overlap.coverage > 0.99


def test_rare_actions_among_many_count_as_taken():
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=(2000, 2)), rng.integers(200, size=2000)
    log = Transitions.from_arrays(x, x[:, 0], action=action, terminated=np.ones(2000, dtype=bool))
    taken = estimate_behavior(log).taken
    assert taken[:, np.bincount(action, minlength=200) > 4].all()
