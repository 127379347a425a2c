"""`sparsetd/TripleLink-v0` keeps Gymnasium's contract, ends where it should and draws what it simulates."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from reproduction.triple_link_coordinates import lqr
from reproduction.triple_link_env import ENV_ID, LINK_COLOURS, TripleLinkEnv, register
from reproduction.triple_link_plant import Plant


def test_environment_passes_the_checker():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checker warns about unbounded boxes, which this state is
        check_env(TripleLinkEnv(render_mode="rgb_array"), skip_render_check=True)


def test_registered_and_time_limited():
    register()  # twice is harmless
    env = gym.make(ENV_ID)
    state, _ = env.reset(seed=0)
    assert np.array_equal(state, np.zeros(8))
    assert env.spec.max_episode_steps == 10_000


def test_failure_terminates_with_reward_minus_one():
    env = TripleLinkEnv()
    env.reset()
    rewards, done = [], False
    while not done:
        state, reward, done, truncated, _ = env.step(1)
        rewards.append(reward)
        assert not truncated
    assert rewards[-1] == -1.0
    assert not np.any(rewards[:-1])
    assert np.abs(state[1:4]).max() > np.deg2rad(20.0)


def test_initial_spread_is_seeded():
    first = TripleLinkEnv(initial_spread=0.01).reset(seed=3)[0]
    again = TripleLinkEnv(initial_spread=0.01).reset(seed=3)[0]
    assert np.array_equal(first, again)
    assert np.any(first)


def test_lqr_balances_in_the_environment():
    env = TripleLinkEnv(dt=0.02)
    controller = lqr(Plant(), 0.02)
    state, _ = env.reset(options={"state": 0.01 * np.ones(8)})
    for _ in range(300):
        state, _, failed, _, _ = env.step(controller(state))
        assert not failed


def test_image_shows_three_links_that_follow_the_cart():
    env = TripleLinkEnv(render_mode="rgb_array")
    columns = []
    for x in (-0.5, 0.5):
        env.reset(options={"state": [x, 0.1, -0.1, 0.2, 0, 0, 0, 0]})
        image = env.render()
        for colour in LINK_COLOURS:
            assert np.any(np.all(image == colour, axis=2))
        columns.append(np.argwhere(np.all(image == LINK_COLOURS[0], axis=2))[:, 1].mean())
    assert columns[0] < image.shape[1] / 2 < columns[1]
    assert TripleLinkEnv().render() is None
