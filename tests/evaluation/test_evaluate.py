"""`evaluate` end to end: every form of target, honest numbers, plain data out, one sentence for each wrong input."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparsetd import LSTD, Transitions, ValueFunction
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.evaluation import evaluate
from sparsetd.evaluation.target import pose
from sparsetd.report.page import page

SETTINGS = {"gamma": 0.9, "estimator": LSTD(gamma=0.9, fit_intercept=True), "n_resamples": 0}


def behaviour(s):
    p = 1 / (1 + np.exp(-s[:, 0]))
    return np.column_stack([1 - p, p])


def target(s):
    p = 1 / (1 + np.exp(-s[:, 0] - s[:, 1]))
    return np.column_stack([1 - p, p])


def make_log(seed=0, episodes=150, length=6, noise=3, terminate=True):
    """A linear system with two actions; reward and dynamics depend on two of the observed numbers.

    Every step ends the episode with probability 1/length, or else all are cut after `length` steps: how long an episode
    has lasted says nothing about what follows.
    """
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("s", "r", "n", "a", "end", "cut", "e", "mu", "pi")}
    for episode in range(episodes):
        s, age, over = rng.normal(size=2 + noise), 0, False
        while not over:
            mu, pi = behaviour(s[None])[0], target(s[None])[0]
            a = int(rng.random() < mu[1])
            after = 0.7 * s + rng.normal(size=2 + noise) * 0.5
            after[0] += 0.5 * (2 * a - 1)
            age += 1
            over = rng.random() < 1 / length if terminate else age == length
            ends = (over and terminate, over and not terminate)
            row = (s, s[0] + 0.5 * s[1] + 0.3 * a, after, a, *ends, episode, mu[a], pi[a])
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            s = after
    return Transitions.from_arrays(
        columns["s"], columns["r"], columns["n"], action=columns["a"], terminated=columns["end"],
        truncated=columns["cut"], episode=columns["e"], behavior_prob=columns["mu"], target_prob=columns["pi"],
        names=["position", "speed", *(f"noise_{i}" for i in range(noise))],
    )  # fmt: skip


LOG = make_log()


@pytest.fixture(scope="module")
def result():
    return evaluate(LOG, **SETTINGS)


def test_the_answer_lies_in_its_interval_and_beside_a_long_on_policy_run(result):
    low, high = result.interval
    assert low < result.value < high
    rng = np.random.default_rng(1)
    truth = []
    for _ in range(4000):
        s, total, t, over = rng.normal(size=2), 0.0, 0, False
        while not over:
            a = rng.random() < target(s[None])[0, 1]
            total += 0.9**t * (s[0] + 0.5 * s[1] + 0.3 * a)
            s = 0.7 * s + rng.normal(size=2) * 0.5
            s[0] += 0.5 * (2 * a - 1)
            over, t = rng.random() < 1 / 6, t + 1
        truth.append(total)
    assert abs(result.value - np.mean(truth)) < 4 * np.hypot(result.estimate.standard_error, np.std(truth) / 63)


def test_everything_a_reader_needs_is_there(result):
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    wanted = {
        "value",
        "interval",
        "severity",
        "observed_return",
        "behavior_modelled",
        "effective_episodes",
        "effective_rows",
        "negative_share",
        "n_used",
        "ess",
        "max_ratio",
        "coverage",
        "features",
        "comparisons",
        "bellman_error",
        "warnings",
    }
    assert wanted <= set(data)
    assert {f["name"] for f in data["features"]} == set(LOG.names)
    assert [c["name"] for c in data["comparisons"]] == [
        "LSTD, features that matter",
        "DR",
        "WIS",
        "PDIS",
        "WPDIS",
    ]
    assert (data["n_used"], data["n_candidates"]) == (5, 5)
    assert data["n_rows"] == len(LOG)
    assert page(data).startswith("<!doctype html>")


def test_the_text_leads_with_the_answer(result):
    lines = str(result).splitlines()
    printed, (low, high) = float(re.search(r"worth\? (\S+) ", lines[0])[1]), result.interval
    assert printed == pytest.approx(result.value, abs=0.01 * (high - low))
    assert "95 % interval" in lines[0]
    assert any("position" in line for line in lines)


def test_same_seed_same_result_and_the_log_is_untouched(result):
    before = LOG.reward.copy()
    again = evaluate(LOG, **SETTINGS)
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    np.testing.assert_array_equal(LOG.reward, before)


def test_weights_are_per_standard_deviation(result):
    scaled = replace(LOG, observation=LOG.observation * 100, next_observation=LOG.next_observation * 100)
    again = evaluate(scaled, **SETTINGS)
    for a, b in zip(again.features, result.features, strict=True):
        assert a.name == b.name
        assert a.weight == pytest.approx(b.weight, rel=1e-6)


@pytest.mark.parametrize("form", ["callable", "probabilities", "table", "ratio"])
def test_every_form_of_target_is_the_same_target(result, form):
    bare = replace(LOG, target_prob=None)
    asked = {
        "callable": (bare, target),
        "probabilities": (bare, LOG.target_prob),
        "table": (bare, target(LOG.observation)),
        "ratio": (replace(LOG, ratio=LOG.importance_ratio(), target_prob=None, behavior_prob=None), None),
    }[form]
    assert evaluate(*asked, **SETTINGS).value == pytest.approx(result.value, rel=1e-9)


def test_the_behaviour_itself_is_worth_what_it_earned():
    same = evaluate(LOG, "behavior", **SETTINGS)
    assert same.overlap.max_ratio == 1.0
    assert same.behavior.value == pytest.approx(LOG.returns(0.9).mean())
    assert abs(same.difference.value) < 2 * same.estimate.standard_error
    assert same.overlap.coverage == 1.0


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (DecisionTreeClassifier(), "DecisionTreeClassifier that was not fitted"),
        (ValueFunction(None, LSTD()), "ValueFunction that was not fitted"),
        (LSTD().fit(np.eye(3), np.ones(3)), "predicts numbers but chooses no action"),
    ],
)
def test_what_cannot_act_is_refused_in_a_sentence(model, said):
    with pytest.raises((ValueError, TypeError), match=said):
        evaluate(make_log(episodes=5), model)


def test_greedy_in_a_fitted_model():
    q = ValueFunction(None, LSTD(gamma=0.9, alpha=1e-3)).fit(LOG, target)
    asked = pose(LOG, q)
    assert asked.asked.words == "greedy in the given model"
    np.testing.assert_array_equal(asked.log.target_prob, (q.act(LOG.observation) == LOG.action).astype(float))


def test_missing_propensities_are_estimated():
    bare = replace(LOG, behavior_prob=None)
    found = evaluate(bare, **SETTINGS)
    assert "was estimated from the logged actions (the behaviour policy)" in found.behavior_policy
    known = evaluate(LOG, **SETTINGS)
    assert abs(found.value - known.value) < known.estimate.standard_error
    tree = evaluate(bare, classifier=DecisionTreeClassifier(min_samples_leaf=20, random_state=0), **SETTINGS)
    assert tree.value != found.value


def test_a_given_classifier_is_used_or_refused_where_the_log_has_ratios():
    tree, ratio = DecisionTreeClassifier(min_samples_leaf=20, random_state=0), LOG.importance_ratio()
    assert pose(replace(LOG, ratio=ratio), classifier=tree).behavior is not None
    assert pose(replace(LOG, ratio=ratio)).behavior is None
    with pytest.raises(ValueError, match="`classifier` estimates the behaviour policy, but"):
        pose(replace(LOG, ratio=ratio, target_prob=None), classifier=tree)


def test_a_sparse_estimator_drops_noise_and_reports_frequencies():
    settings = {**SETTINGS, "estimator": SparseTD(rho_theta=0.35, gamma=0.9, fit_intercept=True), "n_resamples": 6}
    found = evaluate(make_log(1, episodes=300), features=None, **settings)
    names = {f.name for f in found.features}
    assert "position" in names
    assert found.n_candidates == 5
    assert len(names) < 5
    assert all(0 <= f.frequency <= 1 for f in found.features)
    assert (found.n_used, found.comparisons[0].name) == (5, "LSTD, features that matter")
    assert "all 5 features. Those that are kept were chosen by SparseTD, which converged" in found.fit


def test_no_feature_survives_a_strong_penalty(result):
    found = evaluate(LOG, **{**SETTINGS, "estimator": SparseTD(rho_theta=1e3, gamma=0.9, fit_intercept=True)})
    assert found.features == ()
    assert found.value == pytest.approx(result.value, rel=1e-12)  # the choice is a report, not the answer


def test_truncated_episodes_are_bootstrapped():
    cut = make_log(2, terminate=False)
    ended = make_log(2, terminate=True)
    longer, shorter = (evaluate(log, "behavior", **SETTINGS) for log in (cut, ended))
    assert longer.behavior.value != pytest.approx(shorter.behavior.value, abs=1e-3)


def test_weights_are_in_standard_deviations_and_coefficients_in_units(result):
    theirs = {f.name: f for f in evaluate(LOG, **SETTINGS, features=StandardScaler()).features}
    spread = dict(zip(LOG.names, LOG.observation.std(axis=0), strict=True))
    for f in result.features:
        assert f.weight == pytest.approx(f.coefficient * spread[f.name], rel=1e-9)
        assert f.weight == pytest.approx(theirs[f.name].weight, rel=1e-9)
    at_once = evaluate(make_log(length=1), **SETTINGS)  # every row terminates: there is no s' to see
    assert len(at_once.features) == 5


def test_any_transformer_makes_features():
    found = evaluate(LOG, features=PolynomialFeatures(2, include_bias=False), **SETTINGS)
    assert found.n_candidates == 20
    assert any(" " in f.name or "^" in f.name for f in found.features)


def test_an_answer_that_must_not_be_used_says_so_in_its_first_line(result):
    never = replace(LOG, target_prob=np.where(LOG.action == 1, 0.0, LOG.target_prob))
    found = evaluate(never, **SETTINGS)
    assert found.overlap.coverage < 0.8
    assert found.severity == "red"
    assert str(found).startswith("DO NOT USE: ")
    assert result.severity is None
    assert "DO NOT USE" not in str(result)


def test_the_observed_return_is_the_behaviours_value_only_where_episodes_ended(result):
    assert result.behavior is result.observed
    assert result.observed.value == pytest.approx(LOG.returns(0.9).mean())
    cut = evaluate(make_log(2, terminate=False), **SETTINGS)
    assert cut.behavior is cut.modelled
    assert cut.difference.value == pytest.approx(cut.value - cut.modelled.value)
    assert "had no episode been cut, it would have been about" in str(cut)
    assert "had no episode been cut" not in str(result)


def test_rewards_in_millionths_are_still_read(result):
    lines = str(evaluate(replace(LOG, reward=LOG.reward * 1e-6), **SETTINGS)).splitlines()
    assert written(re.search(r"worth\? (\S+ × \S+) ", lines[0])[1]) == pytest.approx(result.value * 1e-6, rel=0.01)
    weights = {f.name: f.weight for f in result.features}
    shown = next(re.search(r"position +(\S+ × \S+)", line)[1] for line in lines if line.startswith("  position"))
    assert written(shown) == pytest.approx(weights["position"] * 1e-6, rel=0.01)


def written(text):
    """The number that was written as a factor times a power of ten."""
    factor, power = text.replace("−", "-").split(" × ")
    return float(factor) * 10.0 ** int(power[2:].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "expert"}, "`target` is 'expert'"),
        ({"target": np.full(3, 0.5)}, f"must have {len(LOG)} rows"),
        ({"target": np.full(len(LOG), 1.5)}, "row 0 holds 1.5"),
        ({"gamma": 1.5}, "`gamma` must lie"),
        ({"n_folds": 1000}, "fewer than 1000 folds"),
        ({"target": np.zeros(len(LOG))}, "may be actions or probabilities"),
        ({"target": np.full(len(LOG), LOG.n_actions)}, "none of the logged actions"),
        ({"level": 95}, "`level` must lie"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        evaluate(LOG, **{**SETTINGS, **change})


def test_an_endless_log_needs_a_discount():
    with pytest.raises(ValueError, match="no row of `terminated` is true"):
        evaluate(make_log(3, terminate=False), **{**SETTINGS, "gamma": 1.0})
