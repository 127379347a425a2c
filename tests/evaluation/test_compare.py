"""Several policies on one log: the values of single evaluations, their differences, groups, and where they differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.clinic import GAMMA, N_ACTIONS, Clinic, policy_of, tables

from sparsetd.evaluation import compare, estimate_behavior, evaluate, sensitivity
from sparsetd.logs import Shard, Transitions

CLINIC = Clinic()
LOG = CLINIC.log(300)
TABLES = tables(3)
POLICIES = {"current": "behavior", **{f"p{i}": policy_of(t) for i, t in enumerate(TABLES)}}


@pytest.fixture(scope="module")
def found():
    return compare(LOG, POLICIES, gamma=GAMMA, by="ill")


def test_a_value_is_that_of_tabular_dynamic_programming_on_the_empirical_model():
    """One column per state makes LSTD the solution of the weighted empirical Markov chain."""
    found = compare(LOG, POLICIES, gamma=GAMMA)
    s, after = LOG.observation.argmax(axis=1), LOG.next_observation.argmax(axis=1)
    for name, table in zip(("p0", "p1", "p2"), TABLES, strict=True):
        rho = table[s, LOG.action] / LOG.behavior_prob
        weight = np.bincount(s, rho, 4)
        P = np.zeros((4, 4))
        np.add.at(P, (s, after), rho * ~LOG.terminated)
        V = np.linalg.solve(np.eye(4) - GAMMA * P / weight[:, None], np.bincount(s, rho * LOG.reward, 4) / weight)
        assert found.values[name].value == pytest.approx(V[s[LOG.start]].mean())


def test_the_truth_lies_in_the_intervals(found):
    truth = {"current": CLINIC.value(CLINIC.behavior), **{f"p{i}": CLINIC.value(t) for i, t in enumerate(TABLES)}}
    for name in found.values:
        low, high = found.values.interval(name)
        assert low < truth[name] < high
    for a, b in found.differences:
        low, high = found.differences.interval((a, b))
        assert low < truth[a] - truth[b] < high
    assert max(truth, key=truth.get) in found.best_set


def test_the_picture_has_a_line_of_what_was_done(found):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    for comparison in (found, compare(LOG, "1 if ill > {0, 0.5}; else 0", gamma=GAMMA, n_resamples=0)):
        ax = comparison.plot(Figure().subplots())
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["what was done"]
        line = next(line for line in ax.get_lines() if line.get_label() == "what was done")
        places = line.get_ydata() if comparison.thresholds else line.get_xdata()
        assert places == pytest.approx([LOG.returns(GAMMA).mean()] * 2)


def test_the_behaviour_is_worth_what_it_earned(found):
    assert found.values["current"].value == pytest.approx(LOG.returns(GAMMA).mean())


def test_all_pairs_are_compared_and_differences_add_up(found):
    assert len(found.differences) == 6
    d = found.differences
    assert d["p2", "p0"].value == pytest.approx(d["p2", "p1"].value + d["p1", "p0"].value)
    assert found.differences.each > found.differences.level


def test_the_best_set_leaves_out_who_is_beaten():
    best = np.eye(N_ACTIONS)[CLINIC.reward.argmax(axis=0)]
    worst = np.eye(N_ACTIONS)[CLINIC.reward.argmin(axis=0)]
    result = compare(CLINIC.log(600), {"good": policy_of(best), "bad": policy_of(worst)}, gamma=GAMMA)
    assert result.best_set == ("good",)
    assert result.differences.interval(("bad", "good"))[1] < 0
    assert "good is the best of these policies" in str(result)


def test_a_policy_that_the_log_says_too_little_about_is_named():
    """The log takes action 0 in nine of ten rows; a policy that never does rests on the tenth."""
    rng = np.random.default_rng(0)
    action = (rng.random(400) < 0.02).astype(int)
    prob = np.where(action == 1, 0.02, 0.98)
    columns = {"action": action, "terminated": np.arange(400) % 20 == 19, "behavior_prob": prob}
    log = Transitions.from_arrays(rng.normal(size=(400, 1)), rng.normal(size=400), np.zeros((400, 1)), **columns)
    rare = {"now": "behavior", "rare": lambda s: np.tile([0.0, 1.0], (len(s), 1))}
    found = compare(log, rare, gamma=GAMMA)
    assert found.unjudged == ("rare",)
    assert found.to_dict()["unjudged"] == ["rare"]
    assert "Do not rely on what the log says about rare: see why below." in found.sentence()
    assert "Do not rely on this policy&#x27;s value.</strong> rare: " in found.page().replace("'", "&#x27;")


def test_a_state_that_was_not_recorded_speaks_against_the_best_policy():
    """Frail patients are given the drug more often and earn less, and nobody wrote down who is frail."""
    rng = np.random.default_rng(0)
    n, length = 400, 6
    frail = np.repeat(rng.random(n) < 0.5, length)
    drug = (rng.random(n * length) < np.where(frail, 0.8, 0.2)).astype(int)
    columns = {"action": drug, "terminated": np.arange(n * length) % length == length - 1}
    columns["behavior_prob"] = np.full(n * length, 0.5)
    columns["episode"] = np.repeat(np.arange(n), length)
    s = rng.normal(size=(n * length, 1))
    log = Transitions.from_arrays(s, rng.normal(size=len(s)) - 2.0 * frail, np.roll(s, -1, axis=0), **columns)
    rest = {"now": "behavior", "rest": lambda s: np.tile([0.9, 0.1], (len(s), 1))}
    found = compare(log, rest, gamma=1.0)
    alone = evaluate(log, rest["rest"], gamma=1.0, n_resamples=0)
    assert found.best_set == ("rest",)
    said = next(c for c in alone.warnings if c.code == "unobserved_state")
    assert [(c.severity, c.text) for c in found.cautions if c.code == said.code] == [
        (said.severity, f"rest: {said.text}")
    ]
    assert {c.code for c in found.evaluations["rest"].warnings} == {c.code for c in alone.warnings} - {"no_feature"}


def test_one_policy_is_what_evaluate_says():
    found, alone = compare(LOG, {"p0": POLICIES["p0"]}, gamma=GAMMA), evaluate(LOG, POLICIES["p0"], gamma=GAMMA)
    assert found.values["p0"].value == pytest.approx(alone.value, rel=1e-12)
    assert found.values.interval("p0") == pytest.approx(alone.interval, rel=1e-12)
    assert found.cautions == alone.warnings
    assert found.evaluations["p0"].to_dict() == alone.to_dict()


def test_several_policies_are_each_what_evaluate_says(found):
    for name in POLICIES:
        alone = evaluate(LOG, POLICIES[name], gamma=GAMMA, n_resamples=0)
        own = found.evaluations[name]
        assert (own.value, own.difference.value) == pytest.approx((alone.value, alone.difference.value), rel=1e-9)
        assert own.interval == pytest.approx(alone.interval, rel=1e-9)
        assert own.robustness == alone.robustness
        assert own.warnings == tuple(c for c in alone.warnings if c.code not in ("no_feature", "selection_disagrees"))


def test_groups_are_fits_to_the_episodes_of_the_group(found):
    ill = LOG.observation[LOG.start][:, 1][LOG.episode - LOG.episode[0]] == 1
    alone = compare(LOG[np.flatnonzero(ill)], POLICIES, gamma=GAMMA)
    assert found.groups["ill = 1", "p1"].value == pytest.approx(alone.differences["p1", "current"].value)
    assert found.groups["ill = 1", "p1"].standard_error == pytest.approx(
        alone.differences["p1", "current"].standard_error
    )
    assert {label for label, _ in found.groups} == {"ill = 0", "ill = 1"}


def test_a_single_policy_is_compared_with_what_was_done_in_every_group(found):
    alone = compare(LOG, {"p1": POLICIES["p1"]}, gamma=GAMMA, by="ill", n_resamples=0)
    assert list(alone.groups) == [("ill = 0", "p1"), ("ill = 1", "p1")]
    for key, gain in alone.groups.items():  # "current" is what was done
        assert (gain.value, gain.standard_error) == pytest.approx(
            (found.groups[key].value, found.groups[key].standard_error)
        )
    assert alone.to_dict()["reference"] == "what was done"


def test_the_sentence_says_whether_the_best_is_better_than_what_was_done():
    best = np.eye(N_ACTIONS)[CLINIC.reward.argmax(axis=0)]
    worst = np.eye(N_ACTIONS)[CLINIC.reward.argmin(axis=0)]
    good, bad = (compare(LOG, {"one": policy_of(table)}, gamma=GAMMA, n_resamples=0) for table in (best, worst))
    assert good.better == ("one",)
    assert "It is better than what was done, beyond chance." in good.sentence()
    assert bad.better == ()
    assert "No gain over what was done is beyond chance." in bad.sentence()
    low, high = bad.to_done("one")
    assert low < high < 0


def test_labels_of_rows_and_of_episodes_are_the_same_groups():
    by_episode = np.where(np.arange(LOG.n_episodes) % 3 == 0, "a", "b")
    by_row = by_episode[LOG.episode - LOG.episode[0]]
    one, other = (compare(LOG, POLICIES, gamma=GAMMA, by=by).groups for by in (by_episode, by_row))
    assert [e.value for e in one.values()] == [e.value for e in other.values()]


def test_labels_stay_with_their_episodes_where_clusters_lie_apart():
    """The episodes of a cluster that are not neighbours are brought together, and labels have to follow them."""
    apart, some = np.arange(LOG.n_episodes) % 60, dict(list(POLICIES.items())[:2])
    labels = np.where(LOG.observation[LOG.start, 1] > 0.5, "ill", "other")
    by_column = compare(LOG, some, gamma=GAMMA, by="ill", cluster=apart).groups["ill = 1", "p0"]
    for values in (labels, labels[np.cumsum(LOG.start) - 1]):
        by_label = compare(LOG, some, gamma=GAMMA, by=values, cluster=apart).groups["ill", "p0"]
        assert by_label.value == by_column.value


def test_groups_by_a_function_a_named_column_and_the_column_the_log_was_read_with():
    age = np.repeat(np.random.default_rng(0).uniform(20, 90, size=LOG.n_episodes), np.bincount(LOG.episode))
    forms = [
        lambda s: s["ill"] > 0.5,
        {"age": age},
        {"ward": np.where(age < 50, "north", "south")},
        "group",
    ]
    log = replace(LOG, group=np.where(age < 50, 0, 1))
    found = [compare(log, POLICIES, gamma=GAMMA, by=by).groups for by in forms]
    labels = [list(dict.fromkeys(label for label, _ in groups)) for groups in found]
    assert labels[0] == ["False", "True"]
    assert [words.split()[1] for words in labels[1]] == ["below", f"{np.quantile(age[LOG.start], 1 / 3):.3g}", "above"]
    assert labels[2:] == [["ward = north", "ward = south"], ["group = 0", "group = 1"]]
    assert [e.value for e in found[2].values()] == [e.value for e in found[3].values()]
    assert found[0]["True", "p1"].value == compare(LOG, POLICIES, gamma=GAMMA, by="ill").groups["ill = 1", "p1"].value


def test_what_the_groups_of_rows_are_worth_adds_up_to_the_difference(found):
    for name, places in found.where.items():
        by_action = [p.gain.value for p in places if p.group.startswith("action")]
        by_column = [p.gain.value for p in places if p.group.startswith("well")]
        own = found.evaluations[name]
        assert sum(by_action) == pytest.approx(own.value - own.modelled.value, abs=1e-9)
        assert sum(by_column) == pytest.approx(sum(by_action), abs=1e-9)


def test_how_often_a_policy_differs_is_the_total_variation():
    """On many rows the mean of |ρ − 1|/2 tends to the total variation between the policy and the behaviour."""
    log = CLINIC.log(4000)
    places = compare(log, {"current": "behavior", "p0": POLICIES["p0"]}, gamma=GAMMA).where["p0"]
    exact = 0.5 * np.abs(TABLES[0] - CLINIC.behavior).sum(axis=1)
    assert next(p.differs for p in places if p.group == "worst = 1") == pytest.approx(exact[3], abs=0.03)


def test_missing_propensities_are_estimated_once(monkeypatch):
    calls = []
    home = __import__("sys").modules["sparsetd.evaluation.target"]
    monkeypatch.setattr(home, "estimate_behavior", lambda *a, **k: calls.append(1) or estimate_behavior(*a, **k))
    found = compare(CLINIC.log(300, propensities=False), POLICIES, gamma=GAMMA)
    assert calls == [1]
    assert "estimated from the logged actions" in found.evaluations["p0"].behavior_policy


def test_cut_episodes_have_no_plain_return():
    cut = CLINIC.log(200, cut=True)
    found = compare(cut, POLICIES, gamma=GAMMA)
    assert found.values["current"].value == pytest.approx(found.evaluations["p0"].modelled.value)
    assert found.values["current"].value != pytest.approx(cut.returns(GAMMA).mean())


def unknown_action(observation):
    return np.tile([0.5, 0.0, 0.0, 0.5], (len(observation), 1))


@pytest.mark.parametrize(
    ("policies", "more", "sentence"),
    [
        ({}, {}, "`targets` must name the policies to compare"),
        ({"one": "behavior", " ": "behavior"}, {}, "`targets` has an empty name"),
        ({"a": "behavior", "b": "behaving"}, {}, "policy 'b': `target` is 'behaving'"),
        (POLICIES, {"by": "age"}, "`by` is 'age', but the observed columns are well, ill, worse, worst"),
        (POLICIES, {"by": np.arange(7)}, r"`by` has shape \(7,\): pass a label for each of the 300 episodes"),
        (POLICIES, {"by": np.arange(300) == 5}, "`by` makes a group 'True' of one episode"),
        (POLICIES, {"level": 95}, "`level` must lie strictly between 0 and 1"),
    ],
)
def test_bad_input_is_one_sentence(policies, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        compare(LOG, policies, gamma=GAMMA, **more)


def test_a_policy_that_only_looks_at_logged_actions_may_know_more_actions():
    def wide(observation):
        return np.hstack([observation @ TABLES[0], np.zeros((len(observation), 2))])

    found = compare(replace(LOG, target_prob=None), {"a": "behavior", "b": wide, "c": POLICIES["p0"]}, gamma=GAMMA)
    assert found.values["b"].value == found.values["c"].value


def test_a_log_in_shards_gives_the_decisions_of_the_log_in_memory():
    shards = [Shard(LOG[np.flatnonzero(LOG.episode % 4 == k)]) for k in range(4)]
    policies = {name: POLICIES[name] for name in ("current", "p0")}
    one, other = (compare(log, policies, gamma=GAMMA, by="ill") for log in (LOG, shards))
    pair = ("p0", "current")
    assert other.differences.interval(pair) == pytest.approx(one.differences.interval(pair), rel=1e-8, abs=1e-8)
    assert [e.value for e in other.groups.values()] == pytest.approx([e.value for e in one.groups.values()], rel=1e-8)
    assert [c.code for c in other.cautions] == [c.code for c in one.cautions]
    ends = [sensitivity(log, POLICIES["p0"], gamma=GAMMA, confounding=[1.5]).bounds[1] for log in (LOG, shards)]
    assert ends[1].low.value == pytest.approx(ends[0].low.value, rel=1e-8)
