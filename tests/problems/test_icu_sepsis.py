"""ICU-Sepsis: the published values, the simulation against them, and the error bound against a tabular estimator."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks.evaluation import error_bound
from sparsetd.problems.icu_sepsis import NAMES, ICUSepsis

pytestmark = pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason="needs icu-sepsis")


@pytest.fixture(scope="module")
def problem():
    return ICUSepsis.load()


@pytest.mark.parametrize(("gamma", "expert", "optimal"), [(1.0, 0.78, 0.88), (0.99, 0.7222, 0.8013)])
def test_values_are_the_published_ones(gamma, expert, optimal):
    problem = ICUSepsis.load(gamma)
    tolerance = 0.006 if gamma == 1 else 1e-4
    assert problem.exact_value(problem.policy("expert")) == pytest.approx(expert, abs=tolerance)
    assert problem.exact_value(problem.policy("optimal")) == pytest.approx(optimal, abs=tolerance)


def test_policies_are_distributions(problem):
    for name in ("expert", "greedy", "half", "optimal"):
        np.testing.assert_allclose(problem.policy(name).sum(axis=1)[:713], 1.0)
    with pytest.raises(ValueError, match="choose 'expert'"):
        problem.policy("best")


def test_the_simulation_earns_the_exact_value(problem):
    log = problem.log(4000, problem.policy("expert"), np.random.default_rng(0))
    returns = log.returns(0.99)
    assert abs(returns.mean() - problem.exact_value(problem.policy("expert"))) < 4 * returns.std() / np.sqrt(4000)
    assert log.n_episodes == 4000
    assert log.names == NAMES
    np.testing.assert_allclose(log.importance_ratio(), 1.0)


def test_the_same_seed_gives_the_same_log_and_noise_is_carried_over(problem):
    a, b = (problem.log(50, problem.policy("expert"), np.random.default_rng(3), n_noise=2) for _ in range(2))
    np.testing.assert_array_equal(a.observation, b.observation)
    goes_on = ~a.terminated[:-1]
    np.testing.assert_array_equal(a.next_observation[:-1][goes_on], a.observation[1:][goes_on])
    assert a.names[-1] == "noise_1"


def test_the_bound_is_that_of_the_mean_return_on_policy(problem):
    """With ρ = 1 nothing beats the tabular estimate, whose variance is at most that of the mean return."""
    log = problem.log(4000, problem.policy("expert"), np.random.default_rng(1))
    bound = error_bound(problem, problem.policy("expert"), 4000)
    assert 0.9 * bound < log.returns(0.99).std() / np.sqrt(4000) < 1.1 * bound
    assert error_bound(problem, problem.policy("greedy"), 4000) > bound
