"""Finite problems made of Gymnasium's tables, against iteration over the environment's own table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.gym_mdp import gym_mdp, reachable


@pytest.mark.parametrize(
    ("name", "kwargs", "n_states", "n_terminal"),
    [("FrozenLake-v1", {}, 16, 5), ("CliffWalking-v1", {}, 38, 1), ("Taxi-v4", {}, 404, 4)],
)
def test_gymnasium_tables(name, kwargs, n_states, n_terminal):
    """V of the uniform policy by iterating the Bellman operator over the environment's own table."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name, **kwargs).unwrapped
    mdp = gym_mdp(name, 0.9, **kwargs)
    assert (mdp.n_states, mdp.terminal.sum()) == (n_states, n_terminal)
    value = dict.fromkeys(env.P, 0.0)
    for _ in range(250):
        value = {
            s: np.mean([sum(p * (r + 0.9 * (not end) * value[t]) for p, t, r, end in out) for out in actions.values()])
            for s, actions in env.P.items()
        }
    going = ~mdp.terminal
    states, _ = reachable(env.P, np.flatnonzero(env.initial_state_distrib))
    np.testing.assert_allclose(mdp.value[going], [value[s] for s in states[going]], atol=1e-8)


def test_the_cliff_s_safe_path_costs_thirteen():
    pytest.importorskip("gymnasium")
    policy = np.tile([1.0, 0, 0, 0], (48, 1))  # up …
    policy[24:35] = [0, 1, 0, 0]  # … right along the third row …
    policy[35] = [0, 0, 1, 0]  # … and down
    policy[:24] = [0, 0, 1, 0]
    mdp = gym_mdp("CliffWalking-v1", 1.0, target=policy, behavior=np.full((48, 4), 0.25))
    assert mdp.start @ mdp.value == pytest.approx(-13.0)  # the one start is the corner beside the cliff


def test_frozen_lake_rewards_once_along_the_dry_path():
    gymnasium = pytest.importorskip("gymnasium")
    policy = np.zeros((16, 4))
    policy[:, 2] = 1.0
    policy[[0, 4, 9]] = np.eye(4)[1]  # down, down, right, down, right, right
    features = np.arange(32.0).reshape(16, 2)
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    mdp = gym_mdp(env, 0.9, target=policy, behavior=np.full((16, 4), 0.25), features=features)
    assert mdp.value[0] == pytest.approx(0.9**5)
    np.testing.assert_array_equal(mdp.features, features)


def test_an_environment_without_a_table_is_refused():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match="exposes no table"):
        gym_mdp(gymnasium.make("CartPole-v1"))
