"""Any form of a target becomes the same ratios and probabilities."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from sparsetd import Transitions, compare, evaluate, improve, policy, prepare, read, sensitivity
from sparsetd.cli import main
from sparsetd.evaluation.behavior import estimate_behavior
from sparsetd.evaluation.target import Target, pose, probabilities, reading

N, HORIZON = 400, 3
NAMES = ("none", "B")


def clinic(n: int = N, seed: int = 0, **change: object) -> Transitions:
    """Stays of three visits: B is given more often where lactate is high, and helps there."""
    rng = np.random.default_rng(seed)
    lactate = np.clip(rng.normal(2, 1, (n, HORIZON)), 0.1, None)
    prob_b = np.clip(0.2 + 0.2 * (lactate > 2), 0.05, 0.95)
    action = (rng.random((n, HORIZON)) < prob_b).astype(int)
    helped = (action == 1) & (lactate > 2)
    better = rng.random((n, HORIZON)) < 0.3 + 0.4 * helped
    last = np.tile(np.arange(HORIZON) == HORIZON - 1, n)
    log = Transitions.from_arrays(
        np.column_stack([lactate.ravel(), rng.normal(size=n * HORIZON)]),
        better.ravel().astype(float),
        terminated=last,
        episode=np.repeat(np.arange(n), HORIZON),
        action=action.ravel(),
        behavior_prob=np.where(action == 1, prob_b, 1 - prob_b).ravel(),
        names=["lactate", "noise"],
    )
    return replace(log, action_names=NAMES, **change)


LOG = clinic()
HIGH = LOG.observation[:, 0] > 2
TABLE = np.where(HIGH[:, None], [0.0, 1.0], [1.0, 0.0])
RULE = "B if lactate > 2; else none"


@pytest.mark.parametrize(
    "form",
    [
        RULE,
        policy(RULE),
        lambda s: np.where(s["lactate"] > 2, "B", "none"),
        lambda s: (s[:, 0] > 2).astype(int),
        lambda s: (s[:, 0] > 2).astype(float),
        lambda s: np.where(s[:, :1] > 2, [0.0, 1.0], [1.0, 0.0]),
        TABLE,
        TABLE.tolist(),
        HIGH.astype(int),
        HIGH,
        np.where(HIGH, "B", "none"),
        np.where(HIGH, "B", "none").astype(object),
    ],
    ids=lambda form: type(form).__name__,
)
def test_all_forms_of_one_policy_are_one(form: object) -> None:
    question = pose(LOG, form)
    np.testing.assert_array_equal(question.log.target_prob, TABLE[np.arange(len(LOG)), LOG.action])
    table, rest = question.asked.shares(LOG)
    np.testing.assert_array_equal(table, TABLE)
    assert not rest.any()


def test_a_frame_of_probabilities_is_read_by_name() -> None:
    frame = pd.DataFrame({"B": TABLE[:, 1], "none": TABLE[:, 0]})
    np.testing.assert_array_equal(pose(LOG, frame).log.target_prob, pose(LOG, RULE).log.target_prob)
    with pytest.raises(ValueError, match="the actions are 'none', 'B'"):
        pose(LOG, frame.rename(columns={"B": "C"}))


def test_otherwise_as_was_done_leaves_those_ratios_at_exactly_one() -> None:
    for log in (LOG, replace(LOG, behavior_prob=None)):
        question = pose(log, "B with 0.8 if lactate > 2")
        ratio = question.log.importance_ratio()
        assert (ratio[~HIGH] == 1.0).all()
        mu = question.log.behavior_prob
        np.testing.assert_allclose(ratio[HIGH], (0.8 * (LOG.action[HIGH] == 1) / mu[HIGH]) + 0.2)


def test_as_was_done_answers_the_question_that_was_asked() -> None:
    """B where lactate is high, otherwise as doctors do; B does nothing where it is low."""
    log = clinic(2000)
    share = (log.observation[:, 0] > 2).mean()
    found = evaluate(log, "B if lactate > 2", gamma=1.0, n_resamples=0)
    low, high = found.interval
    assert low < HORIZON * (0.3 + 0.4 * share) < high
    none = evaluate(log, "none if lactate <= 2", gamma=1.0, n_resamples=0)
    assert none.target == "none if lactate <= 2"
    low, high = none.difference.interval(0.95)
    assert low < 0 < high


def test_every_answer_takes_words() -> None:
    unlogged = replace(LOG, behavior_prob=None)
    assert np.isfinite(evaluate(unlogged, "B if lactate > 2", gamma=1.0, n_resamples=0).value)
    found = compare(LOG, {"now": "behavior", "rule": "B if lactate > 2", "always": "B"}, gamma=1.0)
    assert list(found.values) == ["now", "rule", "always"]
    bounds = sensitivity(LOG, "B if lactate > 2", gamma=1.0, confounding=[1.5])
    assert bounds.bounds[0].low.value == pytest.approx(found.values["rule"].value, abs=0.15)
    log = replace(LOG, action_names=("none", "drug with food"))
    assert pose(log, "Drug with food").log.target_prob.sum() == LOG.action.sum()
    with pytest.raises(ValueError, match="family of 7 policies"):
        pose(LOG, "B if lactate > {1..4}")


def test_what_a_policy_does() -> None:
    before, after = Target.of("B if lactate > 2", LOG).acts(LOG)
    taken = np.bincount(LOG.action)
    np.testing.assert_array_equal(before, taken)
    np.testing.assert_allclose(after, [(LOG.action[~HIGH] == 0).sum(), HIGH.sum() + (LOG.action[~HIGH] == 1).sum()])
    np.testing.assert_allclose(Target.of("behavior", LOG).acts(LOG)[1], taken)
    halves = [Target.of("B if lactate > 2", LOG[rows]).acts(LOG[rows]) for rows in (slice(0, 600), slice(600, None))]
    np.testing.assert_allclose(sum(halves), [before, after])


def test_every_answer_says_what_the_policy_does() -> None:
    found = evaluate(LOG, "B if lactate > 2", gamma=1.0, n_resamples=0)
    before, after = Target.of("B if lactate > 2", LOG).acts(LOG) / len(LOG)
    shares = {"actions": ["none", "B"], "logged": pytest.approx(before), "target": pytest.approx(after)}
    sentence = (
        "It shifts decisions between the actions (share in the log → share under the policy, in the same states)."
    )
    sentence += f" none: {before[0]:.0%} → {after[0]:.0%}; B: "
    assert found.acts == {**shares, "sentence": found.acts["sentence"]}
    assert found.acts["sentence"].replace(" %", "%").startswith(sentence)
    assert found.acts["sentence"] in str(found)
    assert evaluate(LOG, "behavior", gamma=1.0, n_resamples=0).acts is None


def test_a_classifier_of_codes_is_not_read_as_one_of_names() -> None:
    """S8: the actions are called 1 and 0 and their codes are 0 and 1."""
    log = replace(LOG, action_names=("1", "0"))
    codes = LogisticRegression().fit(log.observation, log.action)
    np.testing.assert_array_equal(log.probabilities(codes), codes.predict_proba(log.observation))
    names = LogisticRegression().fit(log.observation, np.array(log.action_names)[log.action])
    np.testing.assert_allclose(log.probabilities(names), codes.predict_proba(log.observation), atol=1e-4)
    other = LogisticRegression().fit(log.observation, log.action + 1)
    with pytest.raises(ValueError, match="no code of an action"):
        log.probabilities(other)


def test_whole_numbers_that_were_stored_as_floats_are_actions() -> None:
    floats = replace(LOG, action=LOG.action.astype(float)[:, None])
    np.testing.assert_array_equal(pose(floats, RULE).log.target_prob, pose(LOG, RULE).log.target_prob)
    estimated = estimate_behavior(replace(floats, behavior_prob=None))
    np.testing.assert_allclose(estimated.table, estimate_behavior(LOG).table)
    three = np.where(HIGH, 2.0, 0.0)
    assert pose(replace(LOG, action_names=None), three).log.target_prob.sum() == (LOG.action[~HIGH] == 0).sum()
    with pytest.raises(ValueError, match="may be actions or probabilities"):
        pose(LOG, HIGH.astype(float))


def test_a_column_is_a_target_in_python_too(tmp_path: Path) -> None:
    columns = {"obs_lactate": LOG.observation[:, 0], "obs_noise": LOG.observation[:, 1], "reward": LOG.reward}
    columns |= {"action": LOG.action, "terminated": LOG.terminated, "episode": LOG.episode}
    columns |= {"behavior_prob": LOG.behavior_prob, "mine": TABLE[np.arange(len(LOG)), LOG.action]}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines).replace("True", "1").replace("False", "0"))
    by_column = evaluate(str(path), "mine", gamma=1.0, n_resamples=0)
    by_rule = evaluate(str(path), "1 if lactate > 2; else 0", gamma=1.0, n_resamples=0)
    assert by_column.value == pytest.approx(by_rule.value)
    log = read(path, target_prob="mine")
    assert evaluate(log, "target_prob", gamma=1.0, n_resamples=0).value == pytest.approx(by_rule.value)
    with pytest.raises(ValueError, match="did you mean 'mine'"):
        evaluate(str(path), "mien", gamma=1.0)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("BB", "names no action"),
        ("nome", "did you mean 'none'"),
        ("B if laktate > 2", "did you mean 'lactate'"),
        ("nowhere:nothing", "cannot be imported"),
        (np.zeros((3, 2)), "one row of action probabilities"),
        (np.array(["B", "C"] * (N * HORIZON // 2)), "'C', which the log does not know"),
        (np.full(N * HORIZON, 7), "no code of an action"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_target_is_said(form: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pose(LOG, form)


def test_what_was_done_is_estimated_for_estimators_that_ask_about_all_actions() -> None:
    behavior = estimate_behavior(LOG)
    here, after = probabilities(Target.of("B if lactate > 2", LOG), LOG, behavior)
    np.testing.assert_allclose(here[HIGH], [[0, 1]] * HIGH.sum())
    np.testing.assert_allclose(here[~HIGH], behavior.table[~HIGH])
    alive = np.flatnonzero(~LOG.terminated)
    np.testing.assert_allclose(after[alive], here[alive + 1])
    turned = replace(LOG, action=1 - LOG.action, action_names=NAMES[::-1])
    other, _ = probabilities(Target.of("B if lactate > 2", turned), turned, behavior)
    np.testing.assert_allclose(other[:, ::-1], here)


def test_a_named_function_travels_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policies_of_test_target.py").write_text("def high(s):\n    return (s[:, 0] > 2).astype(int)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = Target.of("my_policies_of_test_target:high", LOG)
    assert asked.words == "high"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(asked.form))(LOG.observation), HIGH)  # noqa: S301


def test_an_action_of_a_file_or_of_shards_is_a_target(tmp_path: Path) -> None:
    raw = {"patient": np.repeat(np.arange(40), 2), "x": np.arange(80.0), "arm": ["a", "b"] * 40, "reward": [0, 1] * 40}
    path = tmp_path / "log.parquet"
    prepare(raw, ends="last-row").save(path)
    assert main(["shard", str(path), "--out", str(tmp_path / "parts"), "--shards", "2"]) == 0
    for source in (path, tmp_path / "parts"):
        assert reading("B", source) == ("B", {"ratio": None, "target_prob": None})
        asked, roles = reading("c", source)
        assert (asked.words, asked.of_logged, roles) == ("c", True, {"target_prob": "c", "ratio": None})


def test_a_source_is_read_as_the_target_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("obs_x,reward\n1,2\n")
    assert reading("behavior", "log.csv") == ("behavior", {})
    asked, roles = reading("p_new", "log.csv")
    assert (asked.words, asked.of_logged, roles) == ("p_new", True, {"target_prob": "p_new", "ratio": None})
    assert reading("B if x > 2", "log.csv") == ("B if x > 2", {"ratio": None, "target_prob": None})
    assert reading("p_new", LOG) == ("p_new", {})


def test_actions_written_as_floats_give_the_same_answers() -> None:
    codes = read(COLUMNS)
    floats = read({**COLUMNS, "action": np.asarray(COLUMNS["action"], dtype=float)})
    assert floats.action.shape == (len(floats), 1)
    rule = "1 with 0.9, 0 with 0.1 if x > 0; else 0 with 0.7, 1 with 0.3"
    asked = {"gamma": 0.9, "confounding": (1.0, 2.0)}
    bounds, again = (sensitivity(log, rule, **asked).to_dict()["bounds"] for log in (codes, floats))
    assert again == bounds
    gains = [improve(log, gamma=0.9, n_resamples=1).difference.value for log in (codes, floats)]
    assert gains[0] == gains[1]


def test_a_frame_whose_columns_are_codes_is_read_by_them() -> None:
    log = read(COLUMNS)
    likely = np.where(log.observation[:, :1] > 0, [0.1, 0.9], [0.7, 0.3])
    value = evaluate(log, likely, **QUICK).value
    swapped = likely[:, ::-1]
    assert evaluate(log, pd.DataFrame(swapped, columns=["1", "0"]), **QUICK).value == value
    assert evaluate(log, pd.DataFrame(swapped, columns=[1, 0]), **QUICK).value == value
    assert evaluate(log, pd.DataFrame(likely, columns=["p", "q"]), **QUICK).value == value


def test_an_array_for_rows_that_have_to_be_sorted_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame(COLUMNS)
    likely = np.where(frame[["obs_x"]].to_numpy() > 0, [0.1, 0.9], [0.7, 0.3])
    assert evaluate(frame, likely, **QUICK).value == evaluate(read(frame), likely, **QUICK).value
    order = np.random.default_rng(0).permutation(len(frame))
    frame.iloc[order].to_csv(tmp_path / "log.csv", index=False)
    for source in (frame.iloc[order], tmp_path / "log.csv"):
        with pytest.raises(ValueError, match="had to be sorted by episode and step, so that it no longer fits them"):
            evaluate(source, likely[order], **QUICK)


@pytest.mark.parametrize(("size", "said"), [(1e80, "too large"), (1e-80, "too small"), (1e-310, "too small")])
def test_rewards_whose_squares_are_no_numbers_are_refused(size: float, said: str) -> None:
    """Their intervals were NaN, or had no width at all."""
    with pytest.raises(ValueError, match=f"`reward` is {said} to compute with"):
        evaluate(read({**COLUMNS, "reward": size * np.asarray(COLUMNS["reward"])}), "behavior", **QUICK)


def test_a_ratio_that_cannot_be_computed_with_is_named() -> None:
    tiny = np.asarray(COLUMNS["behavior_prob"]).copy()
    tiny[3] = 1e-200
    with pytest.raises(ValueError, match=r"logged action in row 3 as the behaviour was, too much to compute with"):
        evaluate(read({**COLUMNS, "behavior_prob": tiny}), "1 with 0.5, 0 with 0.5", **QUICK)


def test_tiny_features_are_not_constants() -> None:
    value = evaluate(read(COLUMNS), "1 with 0.8, 0 with 0.2", **QUICK)
    tiny = {**COLUMNS, "obs_x": 1e-200 * np.asarray(COLUMNS["obs_x"])}
    again = evaluate(read(tiny), "1 with 0.8, 0 with 0.2", **QUICK)
    assert again.value == pytest.approx(value.value, rel=1e-6)
    assert again.interval == pytest.approx(value.interval, rel=0.02)


def _columns() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    n, x = 400, rng.normal(size=400)
    likely = np.where(x > 0, 0.7, 0.4)
    action = (rng.random(n) < likely).astype(int)
    return {
        "episode": np.arange(n) // 4,
        "step": np.arange(n) % 4,
        "obs_x": x,
        "action": action,
        "reward": x + action * np.sign(x) + 0.3 * rng.normal(size=n),
        "terminated": np.arange(n) % 4 == 3,
        "behavior_prob": np.where(action == 1, likely, 1 - likely),
    }


COLUMNS = _columns()
QUICK = {"gamma": 0.9, "n_resamples": 0}
