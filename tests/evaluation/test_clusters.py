"""Clusters and blocks: what is left out, held out and drawn again together, and the rules that once fired wrongly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.clinic import GAMMA, Clinic, policy_of, tables
from evaluation.logs import linear_walk

from sparsetd.evaluation import compare, evaluate
from sparsetd.evaluation.cautions import has_clock
from sparsetd.evaluation.episodes import Groups, arranged, block_length
from sparsetd.logs import Transitions, concatenate
from sparsetd.logs.partition import hashed

PLAIN = {"gamma": 0.9, "features": None, "n_resamples": 0}
LOG = linear_walk(0, 90)
PATIENT = np.arange(90) % 30  # three stays of each, far apart


def without(log, patient, k):
    keep = np.flatnonzero((patient != k)[log.episode - log.episode[0]])
    return evaluate(log[keep], n_folds=2, **PLAIN).value


def test_the_error_is_that_of_leaving_whole_clusters_out():
    """The jackknife over patients, by refits."""
    found = evaluate(LOG, cluster=PATIENT, **PLAIN)
    left = np.array([without(LOG, PATIENT, k) for k in range(30)])
    exact = np.sqrt(29 / 30 * np.sum((left - left.mean()) ** 2))
    assert found.estimate.standard_error == pytest.approx(exact, rel=1e-6)
    assert found.value == pytest.approx(evaluate(LOG, **PLAIN).value, rel=1e-9)


def test_rows_episodes_and_columns_name_the_same_clusters():
    row = PATIENT[LOG.episode - LOG.episode[0]]
    grouped = replace(LOG, group=row)
    forms = [(LOG, PATIENT), (LOG, row), (LOG, row.astype(str)), (grouped, "patient")]
    found = [evaluate(log, cluster=cluster, **PLAIN).interval for log, cluster in forms]
    assert all(ends == pytest.approx(found[0], rel=1e-9) for ends in found[1:])
    assert found[0] != pytest.approx(evaluate(LOG, **PLAIN).interval, rel=1e-3)


def test_a_cluster_that_splits_an_episode_is_refused_by_its_name():
    named = replace(LOG, episode_id=np.array([f"stay {i}" for i in LOG.episode], dtype=object))
    row = np.arange(len(LOG)) // 4
    with pytest.raises(
        ValueError, match=r"`cluster` splits episode stay \d+: it is \d+ in row \d+ and \d+ in the next"
    ):
        evaluate(named, cluster=row, **PLAIN)
    with pytest.raises(ValueError, match=r"`cluster` has shape \(7,\)"):
        evaluate(LOG, cluster=np.arange(7), **PLAIN)
    with pytest.raises(ValueError, match="`cluster` is 'ward', but the observed columns are x0"):
        evaluate(LOG, cluster="ward", **PLAIN)


def test_a_cluster_is_in_one_fold():
    _, cluster, _ = arranged(LOG, PATIENT)
    groups = Groups.of(hashed(cluster), len(LOG), 5, clustered=True)
    assert all(len(np.unique(groups.fold[cluster == k])) == 1 for k in range(30))
    assert len(np.unique(groups.fold)) == 5


def test_policies_are_compared_by_cluster():
    clinic = Clinic()
    log, policies = clinic.log(200), {"a": "behavior", "b": policy_of(tables(1)[0])}
    twice = concatenate([log, log])
    cluster = np.tile(np.arange(200), 2)
    one, both = (compare(x, policies, gamma=GAMMA, **more) for x, more in ((log, {}), (twice, {"cluster": cluster})))
    pair = ("b", "a")
    assert both.differences[pair].standard_error == pytest.approx(one.differences[pair].standard_error, rel=1e-3)


def record(n=3000, rho=0.8, seed=0):
    """One long record without an end."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n + 1)
    for t in range(n):
        x[t + 1] = rho * x[t] + rng.normal()
    a = rng.integers(2, size=n)
    columns = {"action": a, "episode": np.zeros(n, dtype=int), "behavior_prob": np.full(n, 0.5)}
    return Transitions.from_arrays(
        x[:-1, None], x[:-1] + 0.1 * a, x[1:, None], truncated=np.arange(n) == n - 1,
        target_prob=np.where(a == 1, 0.6, 0.4), **columns,
    )  # fmt: skip


def test_one_long_record_is_cut_into_blocks_and_says_so():
    found = evaluate(record(), **PLAIN)
    said = next(c for c in found.warnings if c.code == "one_record")
    assert said.severity == "note"
    assert "cut into" in said.text
    assert block_length(np.random.default_rng(0).normal(size=(3000, 1))) < block_length(record().observation)


def test_the_logged_behaviour_is_worth_its_mean_return_whatever_the_features():
    """The sample mean rests on no model, so that no caution about one is given."""
    curved = replace(LOG, reward=LOG.observation[:, 0] ** 2)
    found = evaluate(curved, "behavior", **PLAIN)
    assert found.value == pytest.approx(curved.returns(0.9).mean(), rel=1e-12)
    assert found.difference.value == 0.0
    assert found.severity != "red"
    assert compare(curved, {"now": "behavior"}, gamma=0.9, features=None).values["now"].value == found.value


def test_a_cut_episode_does_not_hide_a_model_that_is_wrong_about_the_log():
    """Ten points for the first row, which no feature tells from the others: the fit must not be held against itself."""
    first = LOG.start
    wrong = replace(LOG, reward=10.0 * first)
    cut = wrong.terminated.copy()
    cut[-1] = False
    one_cut = replace(wrong, terminated=cut, truncated=~cut & wrong.terminated)
    for log in (wrong, one_cut):
        assert "behavior_misfit" in {c.code for c in evaluate(log, **PLAIN).warnings}


def programme(clock=True):
    """Twelve weeks at most, some leave before; the week is a column or is not."""
    log = linear_walk(3, 100, cut_after=12)
    week = np.arange(len(log)) % 12
    leave = (np.random.default_rng(3).random(len(log)) < 0.03) & (week < 11)
    gone = np.array([leave[i - w : i].any() for i, w in enumerate(week)])
    s, after = (np.column_stack([x, w]) if clock else x for x, w in
                ((log.observation, week), (log.next_observation, week + 1)))  # fmt: skip
    names = (*log.names, "week") if clock else log.names
    whole = replace(
        log, observation=s, next_observation=after, names=names, terminated=log.truncated | leave,
        truncated=np.zeros(len(log), bool),
    )  # fmt: skip
    return whole[np.flatnonzero(~gone)]


def test_a_programme_with_a_clock_is_not_taken_for_a_time_limit():
    code = "timeouts_marked_as_terminals"
    assert has_clock(programme()) == "week"
    assert has_clock(programme(clock=False)) == ""
    with_clock, without_one = (
        {c.code: c.severity for c in evaluate(programme(clock), **PLAIN).warnings} for clock in (True, False)
    )
    assert (with_clock.get(code), without_one.get(code)) == ("note", "red")


def test_every_answer_says_what_the_policy_does():
    found = evaluate(Clinic().log(100), lambda s: np.tile([1.0, 0.0, 0.0], (len(s), 1)), gamma=GAMMA, n_resamples=0)
    assert found.acts["target"] == [1.0, 0.0, 0.0]
    assert sum(found.acts["logged"]) == pytest.approx(1.0)
    start = "It shifts decisions between the actions (share in the log → share under the policy, in the same states)."
    assert f"{start} action 0: " in str(found)


def test_an_id_that_episodes_share_is_named_unless_it_is_the_cluster():
    row = PATIENT[LOG.episode - LOG.episode[0]].astype(float)
    names = (*LOG.names, "patient_id")
    s, after = (np.column_stack([x, row]) for x in (LOG.observation, LOG.next_observation))
    log = replace(LOG, observation=s, next_observation=after, names=names)
    said = {c.code: c for c in evaluate(log, **PLAIN).warnings}
    assert said["repeated_ids"].severity == "amber"
    assert "90 episodes share 30 values of `patient_id`" in said["repeated_ids"].text
    assert "repeated_ids" not in {c.code for c in evaluate(log, cluster="patient_id", **PLAIN).warnings}
    aged = replace(log, names=(*LOG.names, "age"))
    assert "repeated_ids" not in {c.code for c in evaluate(aged, **PLAIN).warnings}
