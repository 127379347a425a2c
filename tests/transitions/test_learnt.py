"""A policy that was learnt from a log is not judged on it, in whatever form it comes back."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from sparsetd import LSTD, ValueFunction, evaluate, model_file
from sparsetd.control import greedy, policy_iteration
from sparsetd.transitions import Transitions
from sparsetd.transitions.learnt import taught

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
