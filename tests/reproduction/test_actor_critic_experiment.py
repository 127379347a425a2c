"""The off-policy actor-critic on mountain car: its features, its rivals, its rows and what its verdicts count."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from reproduction import mountain_car_actor_critic as experiment
from reproduction import mountain_car_world as car
from reproduction.experiment import Unit
from reproduction.online_learners import GreedyGQ
from sparsetd.control import online
from sparsetd.features import TileCoding

FULL = experiment.ACTOR_CRITIC.full
SMALL = dataclasses.replace(experiment.ACTOR_CRITIC.quick, max_steps=60, tiles=(4, 3))


def test_rows_that_are_looked_up_are_those_of_tile_coding():
    states = car.starts(np.random.default_rng(0), 200, "uniform")
    box = {"low": car.LOW.tolist(), "high": car.HIGH.tolist()}
    rows = TileCoding(*SMALL.tiles, **box).fit(np.array([car.LOW, car.HIGH])).transform(states).toarray()
    found = experiment.Tiles(SMALL)(states)
    np.testing.assert_array_equal(found[:, :-1], rows)
    assert (found[:, -1] == 1).all()
    assert found.sum(axis=1).max() == 5
    assert experiment.Tiles(FULL)(car.HIGH).sum() == 11  # the corner of the box has a cell of its own


def test_q_lambda_is_that_of_watkins():
    """Traces that live while the greedy action is taken, on the transitions that the learner saw."""
    alpha, eta, lam, _ = experiment._rival(FULL, "Q(λ)")
    d, gamma, seen, features = experiment.tile_rows(*SMALL.tiles).shape[-1], 0.9, [], experiment.Tiles(SMALL)
    learner, rng = GreedyGQ(3, d, gamma, lam, alpha / 5, eta), np.random.default_rng(0)
    theta = learner.theta[:] = rng.normal(size=(3, d))  # without ties
    theta, trace, update = theta.copy(), np.zeros((3, d)), learner.update
    learner.update = lambda step: (seen.append(step), update(step))[1]  # type: ignore[method-assign]
    online(car.MountainCar(), learner, features, rng, behavior=experiment.UNIFORM, n_episodes=1, max_steps=80)
    for step in seen:
        q = theta @ step.phi
        trace = trace * gamma * 0.6 if q.argmax() == step.action else np.zeros((3, d))
        trace[step.action] += step.phi
        delta = step.reward + gamma * (theta @ step.phi_next).max() - q[step.action]
        theta = theta + alpha / 5 * delta * trace
    np.testing.assert_allclose(learner.theta, theta, atol=1e-12)
    assert len(seen) == 80


@pytest.mark.parametrize("method", experiment.ALLOWED)
def test_every_method_learns_and_is_tested(method):
    rows = experiment.run(SMALL, Unit("x", 0, {"method": method}))
    assert [row["episode"] for row in rows] == [2, 4]
    assert [row["last"] for row in rows] == [False, True]
    assert all(1 <= row["steps"] <= SMALL.max_steps for row in rows)
    assert rows == experiment.run(SMALL, Unit("x", 0, {"method": method}))


def rows_of(steps):
    last = {"last": True, "episode": 100}
    return pd.DataFrame([{"method": m, "steps": s, **last} for m, values in steps.items() for s in values])


def test_the_table_counts_runs_and_compares_ranks():
    rows = rows_of({"Off-PAC": [110] * 10, "Q(λ)": [150, 5000] * 5, "Greedy-GQ": [5000] * 10, "Softmax-GQ": [90] * 10})
    summary = experiment.summarize(FULL, rows)
    assert summary.claims == []  # the paper makes none
    lines = {line[0]: line[1:] for line in summary.tables[0].rows}
    assert lines["Off-PAC"] == ("10/10", "110.0 ± 0.0", "110", "10/10 below 120", "–")
    assert lines["Q(λ)"][0] == "5/10"
    assert lines["Q(λ)"][3] == "5/10 below 165"
    assert float(lines["Softmax-GQ"][-1]) < 0.01 < 0.99 < float(lines["Greedy-GQ"][-1])
    assert experiment.plot(FULL, rows)[0].panels == 1
