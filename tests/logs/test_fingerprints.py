"""A policy that was learnt from a log is not judged on it, in whatever form it comes back."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from sparsetd import LSTD, ValueFunction, evaluate
from sparsetd.control import greedy, policy_iteration
from sparsetd.estimators import model_file
from sparsetd.logs import Transitions
from sparsetd.logs.partition import fingerprints, taught

RNG = np.random.default_rng(5)
N = 120


def half(observation):
    return np.full((len(observation), 2), 0.5)


@pytest.fixture(scope="module")
def log():
    state, action = RNG.normal(size=(3 * N, 2)), RNG.integers(2, size=3 * N)
    ends = np.arange(3 * N) % 3 == 2
    return Transitions.from_arrays(
        state,
        state[:, 0] * action,
        np.roll(state, -1, axis=0),
        action=action,
        terminated=ends,
        behavior_prob=ends * 0 + 0.5,
    )


def learnt(log, path):
    model = ValueFunction(StandardScaler(), LSTD(gamma=0.9, fit_intercept=True)).fit(log, half)
    model.policy_ = None
    model_file.save(model, path)
    scaler = StandardScaler().fit(log.observation)
    return {
        "model": model,
        "greedy": greedy(model.q),
        "loaded": model_file.load(path),
        "iterated": policy_iteration(None, log, scaler, 0.9, n_iter=2).policy,
    }


@pytest.mark.parametrize("form", ["model", "greedy", "loaded", "iterated"])
def test_a_policy_is_refused_by_its_own_log(log, tmp_path, form):
    first, second = log.part(1, 2), log.part(2, 2)
    policy = learnt(first, tmp_path / "q.sparsetd")[form]
    for own, count in ((first, N // 2), (log, N // 2)):
        with pytest.raises(ValueError, match=f"learnt from {count} of these {own.n_episodes} episodes"):
            evaluate(own, policy, gamma=0.9, n_resamples=0)
    assert np.isfinite(evaluate(second, policy, gamma=0.9, n_resamples=0).value)


def sparse(log, untidy=False):
    """The same log with CSR rows; untidy ones store their zeros, and every entry in two halves."""
    s, after = (sp.csr_array(rows) for rows in (log.observation, log.next_observation))
    if untidy:
        n, d = log.observation.shape
        halves = np.repeat(log.observation.ravel() / 2, 2)
        s = sp.csr_array((halves, np.tile(np.repeat(np.arange(d), 2), n), 2 * d * np.arange(n + 1)), (n, d))
    return replace(log, observation=s, next_observation=after)


def test_dense_and_sparse_rows_of_the_same_numbers_look_the_same(log):
    some = replace(log, observation=log.observation * (log.observation > 0))
    for untidy in (False, True):
        np.testing.assert_array_equal(fingerprints(some), fingerprints(sparse(some, untidy)))
    other = some.observation.copy()
    other[[0, 3 * N - 1], 0] += 0.5
    changed = fingerprints(some) != fingerprints(sparse(replace(some, observation=other)))
    np.testing.assert_array_equal(np.flatnonzero(changed), [0, N - 1])
    swapped = replace(some, observation=some.observation[:, ::-1])
    assert not np.isin(fingerprints(swapped), fingerprints(sparse(some))).any()
    names = replace(some, names=("b", "a"))
    np.testing.assert_array_equal(fingerprints(names), fingerprints(sparse(replace(swapped, names=("a", "b")))))


@pytest.mark.parametrize("features", [None, MaxAbsScaler()], ids=["raw", "scaled"])
def test_action_values_of_sparse_rows_are_those_of_dense_ones(log, features):
    models = [ValueFunction(features, LSTD(gamma=0.9)).fit(rows, half) for rows in (log, sparse(log))]
    np.testing.assert_allclose(models[1].estimator_.coef_, models[0].estimator_.coef_, rtol=1e-9)
    np.testing.assert_array_equal(models[1].learnt_from_, models[0].learnt_from_)
    np.testing.assert_allclose(models[1].value(sparse(log).observation), models[0].value(log.observation), rtol=1e-9)
    iterated = [policy_iteration(None, rows, None, 0.9, n_iter=3) for rows in (log, sparse(log))]
    np.testing.assert_allclose(iterated[1].policy.values.coef, iterated[0].policy.values.coef, rtol=1e-9)
    assert taught(iterated[1].policy, log).all()


def test_a_classifier_is_a_policy_of_sparse_rows(log):
    judge = LogisticRegression().fit(log.observation, log.action)
    np.testing.assert_allclose(sparse(log).probabilities(judge), log.probabilities(judge), rtol=1e-12)


def test_a_model_forgets_what_it_was_fitted_to_before(log):
    model = ValueFunction(None, LSTD(gamma=0.9)).fit(log.part(1, 2), half).fit(log.part(2, 2), half)
    assert not taught(model, log.part(1, 2)).any()
    assert taught(model, log.part(2, 2)).all()


def test_parts_share_no_episode_and_leave_none_out(log):
    parts = [log.part(k, 3) for k in (1, 2, 3)]
    assert [part.n_episodes for part in parts] == [N // 3] * 3
    assert sorted(np.concatenate([part.episode for part in parts])) == sorted(log.episode)
    for k, n in ((0, 2), (3, 2), (1, N + 1)):
        with pytest.raises(ValueError, match="no part"):
            log.part(k, n)
