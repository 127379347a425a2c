"""The automatic basis: curved values from raw columns, nothing lost on straight ones, columns and their shapes."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from evaluation.test_shards import split
from scipy.stats import t as student

from benchmarks.trust.families import systems_build
from benchmarks.trust.families.system import draw
from benchmarks.trust.plain import start_value
from sparsetd.evaluation import compare, evaluate, first_reading, reading
from sparsetd.evaluation.reading import Settings, open_log
from sparsetd.logs import Transitions

QUICK: dict[str, Any] = {"n_resamples": 0}


def case(make: Any = systems_build.waves, target: str = "strong", seed: int = 1, episodes: int = 400) -> Any:
    return draw(np.random.default_rng(seed), make=make, target=target, episodes=episodes)


def straight(seed: int = 0, n: int = 300, length: int = 8) -> Transitions:
    """Rewards and moves are linear in two columns; the action does nothing."""
    rng = np.random.default_rng(seed)
    x, parts = rng.normal(size=(n, 2)), []
    for t in range(length):
        after = 0.7 * x + 0.7 * rng.normal(size=x.shape)
        parts.append((x, x @ [1.0, -0.5] + 0.3 * rng.normal(size=n), after, np.full(n, t == length - 1)))
        x = after
    columns = [np.stack(part, axis=1).reshape(n * length, *part[0].shape[1:]) for part in zip(*parts, strict=True)]
    log = dict(zip(("observation", "reward", "next_observation", "terminated"), columns, strict=True))
    ends = log.pop("terminated")
    episode = np.repeat(np.arange(n), length)
    ratio = rng.choice([0.5, 1.5], size=n * length)
    return Transitions.from_arrays(**log, truncated=ends, episode=episode, ratio=ratio)


def test_a_curved_value_is_found_from_raw_columns() -> None:
    found = case(systems_build.pendulum, "mild", 3)
    plain, built = (evaluate(found.log, gamma=found.gamma, features=f, **QUICK) for f in (None, "auto"))
    low, high = built.interval
    assert low <= found.truth <= high
    assert not plain.interval[0] <= found.truth <= plain.interval[1]
    assert abs(built.value - found.truth) < 0.5 * abs(plain.value - found.truth)
    assert "functions of them" in built.fit


def test_columns_as_they_are_give_the_plain_fit() -> None:
    found = case()
    plain = evaluate(found.log, gamma=found.gamma, features=None, **QUICK)
    expected = start_value(found.log, found.gamma, found.log.importance_ratio(), np.arange(5))
    assert plain.value == pytest.approx(expected, abs=1e-9)
    assert plain.columns == ()


def test_nothing_is_lost_where_straight_lines_are_right() -> None:
    values = []
    for seed in range(5):
        plain, built = (evaluate(straight(seed), gamma=0.9, features=f, **QUICK) for f in (None, "auto"))
        assert abs(built.value - plain.value) < 0.5 * plain.estimate.standard_error
        values.append(abs(built.value - plain.value) < 1e-9)
    assert any(values)  # where the ridge is infinite the answer is the same one


def test_the_interval_covers_the_choice_of_the_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    found = case(systems_build.drug, "strong", 5, episodes=200)
    chosen = evaluate(found.log, gamma=found.gamma, **QUICK)
    monkeypatch.setattr(
        sys.modules["sparsetd.evaluation.first_reading"], "PLAUSIBLE", 2.0
    )  # no other ridge is looked at
    given = evaluate(found.log, gamma=found.gamma, **QUICK)
    assert chosen.value == given.value
    assert chosen.interval[0] < given.interval[0] < given.interval[1] < chosen.interval[1]


def test_of_plausible_ridges_one_is_taken_that_determines_the_value() -> None:
    found = case(systems_build.drug, "strong", 1, episodes=250)
    weak = evaluate(found.log, gamma=found.gamma, **QUICK)  # the least held-out loss gives (−208, 216), and red
    low, high = weak.interval
    assert low < found.truth < high
    assert high - low < 10
    assert weak.severity != "red"


@pytest.mark.parametrize(("error", "lam"), [(1.9, 0.1), (2.1, 1.0)])
def test_a_stronger_ridge_is_taken_only_where_the_weak_one_leaves_the_value_open(
    monkeypatch: pytest.MonkeyPatch, error: float, lam: float
) -> None:
    """The weak ridge has the least loss, and an interval `error` times as long as the strong one's."""
    shares = np.where(np.isin(first_reading.LAMBDAS, (1.0, 0.1)), 0.5, 0.0)
    monkeypatch.setattr(first_reading, "shrunk", lambda *_: (0.1, shares))
    monkeypatch.setattr(first_reading, "_fitted", lambda *given: (3.0, 1.0 if given[-1] == 1.0 else error))
    assert first_reading._settled(None) == (lam, 0.0)


def test_half_of_the_misses_are_left_to_the_choice_of_the_basis() -> None:
    found = case(systems_build.queue, "mild", 2, 200)
    targets = {"asked": found.log.target_prob, "logged more": 0.5 * (found.log.target_prob + found.log.behavior_prob)}
    for features, share in (("auto", 0.5), (None, 1.0)):
        one = evaluate(found.log, gamma=found.gamma, features=features, **QUICK)
        half = student.ppf(1 - share * 0.05 / 2, one.estimate.freedom) * one.estimate.standard_error
        assert one.interval == pytest.approx((one.value - half, one.value + half), rel=1e-12)
        both = compare(found.log, targets, gamma=found.gamma, features=features, **QUICK)
        assert both.evaluations["asked"].interval == pytest.approx(one.interval, rel=1e-9)
        assert both.values.each >= 1 - share * 0.05


def test_the_mean_return_rests_on_no_basis() -> None:
    found = case(systems_build.queue, "mild", 2, 100)
    assert evaluate(found.log, "behavior", gamma=found.gamma, **QUICK).estimate.share == 1.0


def test_shards_give_what_memory_gives() -> None:
    found = case(episodes=200)
    memory = evaluate(found.log, gamma=found.gamma, **QUICK)
    shards = evaluate(split(found.log, 4, 0), gamma=found.gamma, **QUICK)
    assert shards.value == pytest.approx(memory.value, rel=1e-8)
    np.testing.assert_allclose(shards.interval, memory.interval, rtol=1e-8)
    for one, two in zip(memory.columns, shards.columns, strict=True):
        assert one.name == two.name
        np.testing.assert_allclose(one.shape["value"], two.shape["value"], atol=1e-8)


def test_one_policy_is_compared_as_it_is_evaluated() -> None:
    found = case(episodes=200)
    own = evaluate(found.log, gamma=found.gamma, **QUICK)
    (other,) = compare(found.log, {"a": None}, gamma=found.gamma, **QUICK).evaluations.values()
    assert other.value == pytest.approx(own.value, abs=1e-12)
    assert [c.code for c in other.warnings] == [c.code for c in own.warnings]


def test_importance_belongs_to_columns_and_shapes_show_how() -> None:
    found = case()
    answer = evaluate(found.log, gamma=found.gamma, **QUICK)
    by_name = {c.name: c for c in answer.columns}
    assert [c.name for c in answer.columns if c.matters] == ["tide", "wind_kn"]
    assert by_name["tide"].importance > 5 * abs(by_name["swell"].importance)
    shape = by_name["wind_kn"].shape  # a step at exp(0.5): high winds pay
    at, value = np.array(shape["at"]), np.array(shape["value"])
    assert value[at > 2].mean() - value[at < 1].mean() > 0.5
    assert all(low < v < high for low, v, high in zip(shape["low"], value, shape["high"], strict=True))
    seen = found.log.observation[:, by_name["wind_kn"].number]
    low, high = np.quantile(seen, [0.01, 0.99])  # few rows lie beyond, and the curve is not drawn there
    assert low <= at[0] < np.quantile(seen, 0.03)
    assert np.quantile(seen, 0.97) < at[-1] <= high
    json.dumps(answer.to_dict())


def test_the_selector_s_frequency_is_not_that_of_columns_that_importance_brought_in() -> None:
    found = case()
    result = evaluate(found.log, gamma=found.gamma, n_resamples=4)
    unchosen = [f for f in result.features if f.frequency is None]
    assert unchosen, "of the columns that matter here some are curved, and the selector looks at straight lines"
    assert all(c.matters for c in result.columns if c.name in {f.name for f in unchosen})


def test_shapes_are_on_the_page_and_in_a_picture() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    answer = evaluate(case(episodes=200).log, gamma=0.97, **QUICK)
    assert "How they change the value" in answer.page()
    assert answer.plot(column="tide").get_xlabel() == "tide"
    with pytest.raises(ValueError, match="'ebb', which has no shape here: pass one of"):
        answer.plot(column="ebb")


def test_boosted_trees_are_another_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    log = case(systems_build.queue, "mild", episodes=150).log
    answer = evaluate(log, gamma=0.3, check="boosting", **QUICK)  # a near horizon, which few regressions reach
    by_name = {c.name: c for c in answer.comparisons}
    trees, weighted = by_name["boosted trees"], by_name["WPDIS"]  # which knows no function of the columns at all
    assert abs(trees.value - weighted.value) < 3 * weighted.standard_error < abs(weighted.value)
    assert "did not settle" not in answer.page()
    again = evaluate(log, gamma=0.3, check="boosting", **QUICK)
    assert again.comparisons[-1].value == trees.value, "the same log gives the same value"
    for bound in ("SECONDS", "ROUNDS"):
        with monkeypatch.context() as short:
            short.setattr(sys.modules["sparsetd.evaluation.boosting"], bound, 1e-9 if bound == "SECONDS" else 2)
            late = evaluate(log, gamma=0.3, check="boosting", **QUICK)
        assert np.isnan(late.comparisons[-1].value)
        assert "Boosted trees did not settle within a minute" in str(late)
    with pytest.raises(ValueError, match="`check` is 'trees'"):
        evaluate(log, check="trees")  # type: ignore[arg-type]


def test_boosted_trees_are_not_advised_where_they_were_asked() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    columns = {"observation": x, "reward": x[:, 0] ** 2 + 0.1 * rng.normal(size=400), "next_observation": x}
    log = Transitions.from_arrays(**columns, terminated=np.ones(400, bool), ratio=2.0 * (x[:, 0] > 0))
    advised, asked = (evaluate(log, features=None, check=check, **QUICK) for check in (None, "boosting"))  # type: ignore[arg-type]
    told = [next(c for c in answer.warnings if c.code == "misspecified") for answer in (advised, asked)]
    assert ["sparsetd evaluate … --check boosting" in c.text for c in told] == [True, False]
    assert ["boosted trees" in c.remedy for c in told] == [True, False]


def test_a_word_that_is_no_basis_is_refused() -> None:
    with pytest.raises(ValueError, match="`features` is 'automatic': pass"):
        evaluate(straight(), features="automatic")


def test_functions_of_the_columns_are_formed_piece_by_piece(monkeypatch):
    n, rng = 3_000, np.random.default_rng(0)
    X, ends = rng.normal(size=(n, 3)), np.arange(n) % 5 == 4
    log = Transitions.from_arrays(X, X[:, 0], np.roll(X, -1, axis=0), terminated=ends, episode=np.arange(n) // 5)
    opened = open_log(log, {"target": None}, Settings(0.9))
    assert opened.rows.batch.n_features == 3 < opened.rows.n_features == len(opened.names)
    whole = opened.rows.whole()
    monkeypatch.setattr(reading, "MANY", 0)
    monkeypatch.setattr(reading, "LEAST", 100)
    monkeypatch.setattr(reading, "BLOCK", 100)
    pieces = [(piece.states.copy(), piece.changes.copy()) for piece, _ in opened.rows.pieces()]
    assert max(len(states) for states, _ in pieces) <= 105
    for formed, name in zip(zip(*pieces, strict=True), ("states", "changes"), strict=True):
        assert np.array_equal(np.concatenate(formed), getattr(whole, name))
