"""Policy iteration: the optimal policy of small problems, endings told apart, and warm starts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetd.control import LinearValues, policy_iteration, rollout, uniform
from sparsetd.estimators import GQ, LSTD, TD
from sparsetd.features import featurize
from sparsetd.logs import Transitions, concatenate
from sparsetd.logs.environments import collect


class OneHot:
    """Tabular features of integer states."""

    def __init__(self, n):
        self.n = n

    def transform(self, states):
        return np.eye(self.n)[np.asarray(states)[:, 0].astype(int)]


def every_step(n=5, reward_left=0.0):
    """All transitions of a chain 0 … n−1: leaving on the right (action 1) pays 1, on the left `reward_left`."""
    s, a = (v.ravel() for v in np.meshgrid(np.arange(n), [0, 1], indexing="ij"))
    following = s + 2 * a - 1
    done = (following < 0) | (following >= n)
    reward = np.where(following >= n, 1.0, np.where(following < 0, reward_left, 0.0))
    successor = np.clip(following, 0, n - 1)
    return Transitions.from_arrays(s[:, None], reward, successor[:, None], action=a, terminated=done, truncated=~done)


def value_iteration(n, gamma, reward_left):
    """Optimal action values by sweeping the Bellman equation."""
    q = np.zeros((n, 2))
    for _ in range(500):
        v = q.max(axis=1)
        q[:, 0] = [reward_left if s == 0 else gamma * v[s - 1] for s in range(n)]
        q[:, 1] = [1.0 if s == n - 1 else gamma * v[s + 1] for s in range(n)]
    return q


@pytest.mark.parametrize("reward_left", [0.0, 0.7])
def test_tabular_lspi_finds_the_optimal_values(reward_left):
    data = every_step(5, reward_left)
    result = policy_iteration(LSTD(gamma=0.9), data, OneHot(5), 0.9, n_actions=2)
    assert result.status == "converged"
    q = result.policy.values(np.arange(5)[:, None])
    assert q == pytest.approx(value_iteration(5, 0.9, reward_left), abs=1e-9)
    assert np.array_equal(result.policy.best(np.arange(5)[:, None]), q.argmax(axis=1))


def test_converged_means_that_another_evaluation_changes_nothing():
    data = every_step()
    result = policy_iteration(LSTD(gamma=0.9), data, OneHot(5), 0.9, n_actions=2)
    again = policy_iteration(LSTD(gamma=0.9), data, OneHot(5), 0.9, n_actions=2, initial=result.policy, n_iter=1)
    assert again.iterations[0].values.coef == pytest.approx(result.iterations[-1].values.coef, abs=1e-9)


class Alternating(LSTD):
    """An evaluator that prefers the action which the evaluated policy does not take: it can only cycle."""

    def fit(self, X, y, X_next, **columns):
        super().fit(X, y, X_next, **columns)
        taken = np.asarray(X_next).reshape(len(X), 2, -1).sum(axis=(0, 2))
        self.coef_ = np.repeat([0.0, 1.0] if taken[0] >= taken[1] else [1.0, 0.0], self.coef_.size // 2)
        return self


def test_cycles_are_found_with_their_period():
    result = policy_iteration(Alternating(gamma=0.9), every_step(), OneHot(5), 0.9, n_actions=2, n_iter=20)
    assert (result.status, result.period) == ("cycled", 2)
    mean = result.averaged(2).values.coef
    assert mean == pytest.approx(np.full((2, 5), 0.5))


def test_fresh_samples_are_asked_for_each_policy():
    asked = []

    def sampler(k, policy):
        asked.append((k, policy(np.array([[2]]))[0]))
        return every_step()

    result = policy_iteration(LSTD(gamma=0.9), sampler, OneHot(5), 0.9, n_actions=2, n_iter=6)
    assert [k for k, _ in asked] == list(range(len(result.iterations)))
    assert asked[0][1] == pytest.approx([0.5, 0.5])
    assert asked[-1][1] == pytest.approx([0.0, 1.0])
    assert result.status == "converged"


def test_warm_start_begins_where_the_last_evaluation_ended():
    data = concatenate([every_step()] * 3)
    cold, warm = (
        policy_iteration(
            TD(gamma=0.9, step_size=0.1), data, OneHot(5), 0.9, n_actions=2, n_iter=40, warm_start=flag, tol=0.0
        )
        for flag in (False, True)
    )
    exact = value_iteration(5, 0.9, 0.0)
    error = [np.abs(r.iterations[-1].values.coef.T - exact).max() for r in (cold, warm)]
    assert cold.iterations[0].values.coef == pytest.approx(warm.iterations[0].values.coef)
    assert error[1] <= error[0]


def test_the_trace_of_gq_gets_the_ratio_of_the_evaluated_policy():
    rng = np.random.default_rng(0)
    action, states = rng.integers(2, size=60), rng.integers(5, size=61)[:, None]
    ended = np.arange(60) % 6 == 5
    behavior = np.where(action == 0, 0.8, 0.2)
    how = {"action": action, "terminated": ended, "behavior_prob": behavior}
    log = Transitions.from_arrays(states[:-1], rng.normal(size=60), states[1:], **how)
    model = GQ(gamma=0.9, lam=0.7, step_size=0.05)
    found = policy_iteration(model, log, OneHot(5), 0.9, n_actions=2, n_iter=1).iterations[0].values.coef
    rows = featurize(log, OneHot(5), 0.9, uniform(2))
    assert rows.ratio == pytest.approx(0.5 / behavior)
    expected = clone(model).fit(rows.phi, rows.reward, rows.phi_next, **rows.columns).coef_
    assert found.ravel() == pytest.approx(expected, rel=1e-12)
    without = clone(model).fit(rows.phi, rows.reward, rows.phi_next, discount=rows.discount, start=rows.start).coef_
    assert np.abs(found.ravel() - without).max() > 1e-3


def test_values_are_blocks_times_features():
    coef = np.arange(6.0).reshape(2, 3)
    values = LinearValues(OneHot(3), coef, 0.5)
    assert values(np.array([[0], [2]])) == pytest.approx(np.array([[0.5, 3.5], [2.5, 5.5]]))


def test_without_an_evaluator_the_default_is_a_lightly_ridged_lstd():
    data = every_step(5, 0.7)
    result = policy_iteration(None, data, OneHot(5), 0.9)
    given = policy_iteration(LSTD(gamma=0.9, alpha=1e-4 * 0.1), data, OneHot(5), 0.9, n_actions=2)
    assert result.iterations[-1].values.coef == pytest.approx(given.iterations[-1].values.coef)
    assert np.array_equal(result.policy.best(np.arange(5)[:, None]), value_iteration(5, 0.9, 0.7).argmax(axis=1))


def test_fresh_samples_need_the_number_of_actions():
    with pytest.raises(ValueError, match="`n_actions` is not known"):
        policy_iteration(None, lambda _k, _policy: every_step(), OneHot(5), 0.9)


def test_one_policy_fits_everywhere():
    """What policy iteration finds is a target of `evaluate`, a behaviour for `collect` and a policy for `rollout`."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    log = collect(env, uniform(4), 0, n_episodes=400)
    result = policy_iteration(None, log, OneHot(16), 0.9)
    assert rollout(env, result.policy, np.random.default_rng(0))[0].total == 1.0
    assert collect(env, result.policy, 0, n_episodes=2).reward.sum() == 2.0
    assert log.with_target(result.policy).target_prob.max() == 1.0
