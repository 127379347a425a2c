"""A raw table becomes a log in one go, or all of its problems are listed at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sparsetd import Transitions, evaluate
from sparsetd.cli import main
from sparsetd.logs import MessyLog, inspect, prepare, read

STAYS = """\
mrn,charted,age,sex,lactate,ventilated,treatment,reward,discharged
a17,2024-01-01 12:00,71,F,,yes,vasopressor: high,0,no
a17,2024-01-01 08:00,71,F,2.1,yes,none,0,no
a17,2024-01-01 16:00,71,F,1.5,no,none,1,yes
b02,2024-03-05 09:00,54,M,3.0,no,vasopressor: low,0,no
b02,2024-03-05 13:00,54,,NA,no,none,0,yes
"""
ROLES = {"episode": "mrn", "step": "charted"}


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    (tmp_path / "stays.csv").write_text(STAYS)
    return tmp_path / "stays.csv"


def test_a_messy_table_keeps_its_names(stays: Path) -> None:
    made = prepare(stays, **ROLES)
    log = made.transitions
    assert log.action_names == ("none", "vasopressor: high", "vasopressor: low")
    assert log.names == ("age", "sex: M, not F", "lactate", "ventilated")
    # a17's rows are put in order by their dates; gaps get the last value of the patient
    assert log.action.tolist() == [0, 1, 0, 2, 0]
    np.testing.assert_array_equal(log.observation[:, 2], [2.1, 2.1, 1.5, 3.0, 3.0])
    np.testing.assert_array_equal(log.observation[:, 1], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(log.observation[:, 3], [1, 1, 0, 0, 0])
    assert log.terminated.tolist() == [False, False, True, False, True]
    assert any("vasopressor: high" in note for note in made.notes)


def test_a_frame_and_its_file_give_the_same_log(stays: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(stays, keep_default_na=False, na_values=["", "NA"], parse_dates=["charted"])
    frame["charted"] = frame["charted"].astype("datetime64[ns]")
    frame["discharged"] = frame["discharged"] == "yes"
    one, two = prepare(frame, **ROLES).transitions, prepare(stays, **ROLES).transitions
    np.testing.assert_array_equal(one.observation, two.observation)
    np.testing.assert_array_equal(one.terminated, two.terminated)
    assert one.action_names == two.action_names
    assert one.names == two.names


def test_all_problems_are_listed_at_once() -> None:
    raw = {
        "patient": ["a", "a", "b", "b"],
        "time": ["monday", "tuesday", "monday", "tuesday"],
        "treatment": ["x", None, "y", "x"],
        "discharged": ["perhaps", "no", "no", "yes"],
        "reward": [1, "much", 0, 0],
        "behavior_prob": [0.5, 0.5, 2.0, 0.5],
    }
    with pytest.raises(MessyLog) as caught:
        prepare(raw)
    said = "\n".join(caught.value.problems)
    for word in ("`time`", "`treatment`", "`discharged`", "'much'", "`behavior_prob`", "observed"):
        assert word in said
    assert len(caught.value.problems) == 6
    assert all("row 1" in one or "row 0" in one or "row 2" in one for one in caught.value.problems[:5])


def test_gaps_are_carried_filled_with_medians_or_marked(stays: Path) -> None:
    marked = prepare(stays, missing="mark", **ROLES).transitions
    names = ("age", "sex: M, not F", "sex: missing", "lactate", "lactate: missing", "ventilated")
    assert marked.names == names
    np.testing.assert_array_equal(marked.observation[:, 3], [2.1, 2.1, 1.5, 3.0, 2.1])
    np.testing.assert_array_equal(marked.observation[:, 4], [0, 1, 0, 0, 1])
    np.testing.assert_array_equal(marked.observation[:, 2], [0, 0, 0, 0, 1])
    median = prepare(stays, missing="median", **ROLES).transitions
    assert median.names == ("age", "sex: M, not F", "lactate", "ventilated")
    np.testing.assert_array_equal(median.observation[:, 2], [2.1, 2.1, 1.5, 3.0, 2.1])
    first = {"patient": list("aabb"), "time": [1, 2, 1, 2], "x": [None, 4.0, 6.0, None], "reward": [0, 1, 0, 1]}
    carried = prepare(first, ends="last-row").transitions
    assert carried.names == ("x", "x: missing")
    np.testing.assert_array_equal(carried.observation, [[5, 1], [4, 0], [6, 0], [6, 0]])
    with pytest.raises(ValueError, match="'fill' is now 'mark'"):
        prepare(stays, missing="fill")


def test_gaps_can_be_refused(stays: Path) -> None:
    with pytest.raises(MessyLog) as caught:
        prepare(stays, missing="refuse", **ROLES)
    assert [problem.split("`")[1] for problem in caught.value.problems] == ["sex", "lactate"]


def test_free_text_is_a_problem_that_names_the_remedy() -> None:
    raw = {"note": [f"text {i}" for i in range(40)], "reward": [0.0] * 40, "age": range(40)}
    with pytest.raises(MessyLog, match="--drop note"):
        prepare(raw, bandit=True)
    assert prepare(raw, bandit=True, drop=["note"]).columns["obs_age"].tolist() == list(range(40))


@pytest.mark.parametrize(("ends", "terminated", "truncated"), [("last-row", 2, 0), ("cut", 0, 2)])
def test_the_last_row_ends_an_episode_as_told(ends: str, terminated: int, truncated: int) -> None:
    raw = {"patient": ["a", "a", "a", "b", "b", "b"], "x": [1, 2, 3, 4, 5, 7], "reward": [0, 0, 1, 0, 1, 0]}
    log = prepare(raw, ends=ends).transitions
    assert (int(log.terminated.sum()), int(log.truncated.sum())) == (terminated, truncated)
    with pytest.raises(MessyLog, match=r"Nothing says where an episode ended: .* say --bandit"):
        prepare(raw)


def test_a_bandit_ends_with_every_row() -> None:
    log = prepare(
        {"x": [1, 2, 3], "y": [0, 1, 0], "arm": ["b", "a", "b"], "reward": [0, 1, 1]}, bandit=True
    ).transitions
    assert log.terminated.all()
    assert log.n_episodes == 3


def test_numbered_actions_keep_their_numbers_as_names() -> None:
    raw = {"x": [1, 2, 3], "y": [0, 1, 0], "action": [10, 2, 10], "reward": [0, 1, 1]}
    log = prepare(raw, bandit=True).transitions
    assert log.action_names == ("2", "10")
    assert log.action.tolist() == [1, 0, 1]


def test_the_names_travel_in_the_file(stays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "log.parquet"
    assert main(["prepare", str(stays), "--out", str(out), "--column", "episode=mrn", "--column", "step=charted"]) == 0
    assert "1 = vasopressor: high (1 row)" in capsys.readouterr().out
    assert read(out).action_names == ("none", "vasopressor: high", "vasopressor: low")
    assert "vasopressor: high" in str(inspect(out))


def test_the_command_lists_problems_and_writes_nothing(
    stays: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.parquet"
    words = ["prepare", str(stays), "--out", str(out), "--missing", "refuse", "--column", "reward=pay"]
    assert main([*words, "--json"]) == 2
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["problems"]) >= 3
    assert "'pay'" in printed.err
    assert not out.exists()


def test_codes_of_missing_text_are_suspicious() -> None:
    log = {"obs_ward": [0, 1, -1, 2], "obs_age": [1.0, 2.5, 3.0, 4.0], "reward": [0.0, 1, 0, 1], "terminated": [1] * 4}
    assert any("`ward` is -1 in 1 rows" in sentence for sentence in inspect(log).suspicious)
    assert not any("-1" in s for s in inspect({**log, "obs_ward": [0, 1, 3, 2]}).suspicious)


def labelled(n: int = 60) -> Transitions:
    rng = np.random.default_rng(0)
    raw = {"patient": np.repeat(np.arange(n // 3), 3), "lactate": rng.normal(size=n), "age": rng.normal(size=n)}
    raw |= {"treatment": rng.choice(["none", "drug"], n), "reward": rng.normal(size=n)}
    return prepare({name: list(column) for name, column in raw.items()}, ends="last-row").transitions


def test_a_policy_takes_columns_by_name_and_answers_with_names() -> None:
    log = labelled()
    named = log.with_target(lambda s: np.where(s["lactate"] > 0, "drug", "none"))
    coded = log.with_target(lambda s: np.eye(2)[(s[:, 0] <= 0).astype(int)])  # drug is action 0, none is 1
    np.testing.assert_array_equal(named.target_prob, coded.target_prob)
    with pytest.raises(KeyError, match="lactate"):
        log.with_target(lambda s: s["laktate"])
    with pytest.raises(ValueError, match=r"'opium'.*drug, none"):
        log.with_target(lambda s: np.full(len(s), "opium"))


@pytest.mark.parametrize("text", [True, False])
def test_a_classifier_is_a_policy(text: bool) -> None:
    log = labelled()
    labels = np.array(log.action_names)[log.action] if text else log.action
    classifier = LogisticRegression().fit(log.observation, labels)
    table = log.probabilities(classifier)
    order = [list(map(str, classifier.classes_)).index(str(name)) for name in (log.action_names if text else (0, 1))]
    np.testing.assert_array_equal(table, classifier.predict_proba(log.observation)[:, order])
    assert np.isfinite(evaluate(log, classifier, gamma=0.9, n_resamples=0).value)


def test_a_classifier_of_a_frame_gets_its_columns_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    log = labelled()
    frame = pandas.DataFrame(log.observation, columns=list(log.names))[["age", "lactate"]]
    classifier = LogisticRegression().fit(frame, log.action)
    np.testing.assert_allclose(log.probabilities(classifier), classifier.predict_proba(frame), rtol=1e-12)


def test_an_unfitted_classifier_is_refused() -> None:
    for refused in (labelled().with_target, lambda target: evaluate(labelled(), target)):
        with pytest.raises(ValueError, match="was not fitted"):
            refused(LogisticRegression())


def test_a_frame_is_no_log_yet() -> None:
    with pytest.raises(ValueError, match="`observation` is missing"):
        evaluate({"reward": [1.0]})
