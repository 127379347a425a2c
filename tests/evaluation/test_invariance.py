"""What must not move the answer: the order of the episodes, the units of the columns, what a selection drops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.logs import GAMMA, linear_walk, with_columns

from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.evaluation import evaluate
from sparsetd.logs import Transitions

SETTINGS = {"gamma": GAMMA, "n_resamples": 4}
LOG = linear_walk(7, columns=6)


@pytest.fixture(scope="module")
def answer():
    return evaluate(LOG, **SETTINGS)


def names(found):
    return {f.name for f in found.features}


def permuted(log, seed):
    """The same episodes with the same ids, in another order."""
    order = np.random.default_rng(seed).permutation(log.episode.max() + 1)
    rows = np.concatenate([np.flatnonzero(log.episode == i) for i in order])
    given = ("observation", "reward", "next_observation", "action", "terminated", "episode", "behavior_prob")
    return Transitions.from_arrays(
        **{name: getattr(log, name)[rows] for name in given}, target_prob=log.target_prob[rows], names=log.names
    )


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_the_episodes_does_not_matter(answer, seed):
    again = evaluate(permuted(LOG, seed), **SETTINGS)
    assert again.value == pytest.approx(answer.value, rel=1e-12, abs=1e-12)
    assert again.interval == pytest.approx(answer.interval, rel=1e-10)
    assert names(again) == names(answer)
    assert {f.name: f.frequency for f in again.features} == {f.name: f.frequency for f in answer.features}
    assert again.bellman.value == pytest.approx(answer.bellman.value, rel=1e-9)  # folds go by the ids
    assert {c.code for c in again.warnings} == {c.code for c in answer.warnings}


@pytest.mark.parametrize("power", [6, -6])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_units_and_zero_points_do_not_matter(answer, power, shift):
    unit = 10.0 ** (power * np.array([1, 0, 1, -1, 1, 0]))
    scaled = {name: (getattr(LOG, name) + shift * np.arange(6)) * unit for name in ("observation", "next_observation")}
    again = evaluate(replace(LOG, **scaled), **SETTINGS)
    assert again.value == pytest.approx(answer.value, rel=1e-9, abs=1e-9)
    assert again.interval == pytest.approx(answer.interval, rel=1e-7)
    assert names(again) == names(answer)
    weights = {f.name: f.weight for f in answer.features}
    assert {f.name: pytest.approx(f.weight, rel=1e-6) for f in again.features} == weights


EFFECT, ENDS = np.array([3.0, 2.0, 3.0, -1.0]), np.array([1 / 3, 1 / 3, 1 / 4, 1 / 15])


def wards(seed=0, episodes=80, noise=10):
    """Four wards, each with its own reward and its own chance to leave; dummies, products with x₀, and noise columns.

    Most rows are those of the ward that is left last, most starts are elsewhere: without the dummies the value is that
    of the rows.
    """
    parts = [linear_walk(10 * seed + g, episodes, ends=ENDS[g], columns=2) for g in range(4)]
    ward = np.repeat(np.arange(4), [len(part) for part in parts])
    dummies = np.eye(4)[ward]
    rng = np.random.default_rng(seed)
    episode = np.concatenate([part.episode + g * episodes for g, part in enumerate(parts)])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("observation", "next_observation", "reward", "action", "terminated", "behavior_prob")
    }
    log = Transitions.from_arrays(
        **joined, episode=episode, target_prob=np.concatenate([part.target_prob for part in parts])
    )
    other = rng.normal(size=(2, len(ward), noise))
    here, there = (
        np.hstack([dummies, dummies * s[:, :1], z])
        for s, z in zip((log.observation, log.next_observation), other, strict=True)
    )
    return with_columns(replace(log, reward=log.reward + EFFECT[ward]), here, there)


def worth():
    """The mean over wards of Σ_t kᵗ E[r_t], k = γ(1 − q): E s₀ starts at 0 and drifts by 0.1 a step, E a = 0.6."""
    k = GAMMA * (1 - ENDS)
    return float(np.mean(0.1 / 0.3 * (1 / (1 - k) - 1 / (1 - 0.7 * k)) + (0.18 + EFFECT) / (1 - k)))


def test_a_selection_that_drops_heavy_columns_does_not_move_the_value():
    log = wards()
    every = evaluate(log, **SETTINGS)
    assert every.n_used == every.n_candidates == 20
    assert abs(every.value - worth()) < 4 * every.estimate.standard_error
    for penalty in (0.3, 1e3):
        few = evaluate(log, **SETTINGS, estimator=SparseTD(rho_theta=penalty, gamma=GAMMA, fit_intercept=True))
        assert len(few.features) < 10
        assert few.value == pytest.approx(every.value, rel=1e-12)
        assert few.interval == pytest.approx(every.interval, rel=1e-12)
    alone = few.comparisons[0]  # nothing is left of the features, and this is what they would say
    assert abs(alone.value - every.value) > 3 * every.estimate.standard_error


def test_noise_columns_hardly_move_the_value():
    few, many = (evaluate(wards(1, noise=noise), **SETTINGS) for noise in (0, 20))
    assert many.n_used == few.n_used + 20
    assert abs(many.value - few.value) < 0.5 * few.estimate.standard_error
    assert many.estimate.standard_error < 1.3 * few.estimate.standard_error
