"""The exact answers of the trust benchmark, each against another way of computing it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import logit

from benchmarks.trust.families import (
    clinic,
    corridor,
    decoys,
    inventory,
    machine,
    scales,
    speeds,
    systems_build,
    systems_report,
)
from benchmarks.trust.families.system import draw as draw_system
from benchmarks.trust.finite import FiniteProblem
from benchmarks.trust.gaussian import GaussianProblem
from benchmarks.trust.plain import start_value
from benchmarks.trust.rivals import boosting_value, kernel_value

FINITE = {"machine": machine.machine, "inventory": inventory.shop, "corridor": partial(corridor.corridor, 8, 0.05)}


def random_policy(problem: FiniteProblem, seed: int) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(problem.reward.shape[1]), size=problem.n_states)


@pytest.mark.parametrize("name", [*FINITE, "clinic"])
def test_chances_sum_to_one(name: str) -> None:
    problem = clinic.clinic(0) if name == "clinic" else FINITE[name]()
    assert problem.transition.min() >= 0
    np.testing.assert_allclose(problem.transition.sum(axis=2), 1, atol=1e-12)
    assert problem.start.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", FINITE)
def test_values_agree_with_sweeps_over_the_states(name: str) -> None:
    problem = FINITE[name]()
    policy, V = random_policy(problem, 0), np.zeros(problem.n_states)
    for _ in range(1500):
        ahead = np.append(problem.gamma * V, problem.end_reward)
        V = (policy * (problem.reward + problem.transition @ ahead)).sum(axis=1)
    np.testing.assert_allclose(problem.values(policy), V, rtol=1e-9)


@pytest.mark.parametrize("name", FINITE)
def test_simulated_returns_have_the_exact_mean(name: str) -> None:
    problem, rng = FINITE[name](), np.random.default_rng(1)
    policy = random_policy(problem, 1)
    steps = problem.simulate(8000, policy, rng)
    earned = np.bincount(steps.episode, problem.gamma**steps.age * problem.rewards(steps, rng))
    assert abs(earned.mean() - problem.value(policy)) < 4 * earned.std() / np.sqrt(len(earned))


def test_no_policy_beats_the_best_or_falls_below_the_worst() -> None:
    problem = machine.machine()
    best, worst = problem.value(problem.extreme()), problem.value(problem.extreme(best=False))
    others = [problem.value(random_policy(problem, seed)) for seed in range(20)]
    assert worst < min(others) < max(others) < best


def test_the_limit_of_lstd_is_the_truth_with_exact_columns_and_where_a_long_log_leads_without() -> None:
    problem, target = machine.machine(), machine.policy(0.1, True)
    behavior = machine.policy(0.6, True)
    exact, coarse = (machine.columns(exact)[0] for exact in (True, False))
    assert problem.limit(target, behavior, exact) == pytest.approx(problem.value(target), abs=1e-9)
    case = machine.draw(np.random.default_rng(2), random=0.6, asked=0.1, exact=False, episodes=20_000)
    found = start_value(case.log, case.gamma, case.log.importance_ratio(), np.arange(3))
    assert found == pytest.approx(problem.limit(target, behavior, coarse), abs=0.3)  # its standard error is below 0.1


@pytest.mark.parametrize("curve", [0.0, 0.3])
def test_the_closed_form_is_the_mean_of_simulated_returns(curve: float) -> None:
    p, k = 0.7, 3
    problem = GaussianProblem(
        speed=np.array([0.95, 0.5, 0.0]),
        push=np.array([0.3, -0.2, 0.5]),
        weight=np.array([0.2, 1.0, -1.0]),
        curve=np.full(k, curve),
        mean=np.array([1.0, 0.0, -1.0]),
        leaning=np.zeros(k),
        offset=float(logit(p)),
        bonus=0.4,
        goes_on=0.9,
    )
    steps = problem.simulate(20_000, np.random.default_rng(3))
    first = np.searchsorted(steps.episode, np.arange(20_000))
    age = np.arange(len(steps.reward)) - first[steps.episode]
    earned = np.bincount(steps.episode, problem.gamma**age * steps.reward)
    assert abs(earned.mean() - problem.value(p)) < 4 * earned.std() / np.sqrt(len(earned))


def test_lstd_by_hand_solves_the_equations_row_by_row() -> None:
    log = replace(corridor.draw(np.random.default_rng(4), places=4, episodes=60).log)
    ratio, gamma, k = log.importance_ratio(), 0.98, log.observation.shape[1] + 1
    A, b = np.zeros((k, k)), np.zeros(k)
    for t in range(len(log)):
        now, after = np.append(1, log.observation[t]), np.append(1, log.next_observation[t])
        A += ratio[t] * np.outer(now, now - gamma * after * (not log.terminated[t]))
        b += ratio[t] * now * log.reward[t]
    theta = np.linalg.solve(A, b)
    expected = np.mean([np.append(1, row) @ theta for row in log.observation[log.start]])
    assert start_value(log, gamma, ratio, np.arange(k - 1)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_decoys_look_like_what_they_stand_beside(correlation: float) -> None:
    x = decoys.draw(np.random.default_rng(5), correlation=correlation, rows=20_000).log.observation
    between = np.corrcoef(x.T)[:6, 6:36]
    own = between[np.arange(30) % 6, np.arange(30)]
    np.testing.assert_allclose(own, correlation, atol=0.12)


@pytest.mark.parametrize("kind", scales.KINDS)
def test_odd_columns_span_what_the_plain_ones_do(kind: str) -> None:
    plain = speeds.draw(np.random.default_rng(6), noise=4, episodes=30)
    odd = scales.draw(np.random.default_rng(6), base=partial(speeds.draw, noise=4, episodes=30), kind=kind)
    assert odd.truth == plain.truth
    columns = odd.log.observation
    scaled = np.column_stack([np.ones(len(columns)), (columns - columns.mean(axis=0)) / (columns.std(axis=0) + 1e-300)])
    fitted = scaled @ np.linalg.lstsq(scaled, plain.log.observation, rcond=1e-12)[0]
    np.testing.assert_allclose(fitted, plain.log.observation, atol=1e-5)


def test_a_share_of_the_cut_episodes_is_marked_as_terminated() -> None:
    draw = partial(speeds.draw, goes_on=0.98, cut=10, episodes=400, noise=2)
    right, wrong = (draw(np.random.default_rng(7), wrong=share).log for share in (0.0, 0.5))
    cut = int(right.truncated.sum())
    assert 250 < cut < 400  # .98^10 of the episodes go on after ten steps
    assert 0.35 * cut < wrong.terminated.sum() - right.terminated.sum() < 0.65 * cut
    assert not np.any(wrong.terminated & wrong.truncated)


@pytest.mark.parametrize("make", [systems_build.drug, systems_build.programme, systems_report.glucose])
def test_the_truth_of_a_system_is_the_mean_of_the_returns_of_its_rows(make: Any) -> None:
    system = make()
    steps = system.simulate(system.targets["strong"], 4000, np.random.default_rng(5))
    earned = np.bincount(steps["episode"], system.gamma ** steps["age"] * steps["reward"])
    value, error = system.value("strong", 4000)
    assert abs(earned.mean() - value) < 4 * np.hypot(error, earned.std() / np.sqrt(4000))
    chance = system.behavior(steps["now"])
    np.testing.assert_allclose(chance.sum(axis=1), 1, atol=1e-9)
    assert chance.min() > 0.01  # every action is taken somewhere near


def test_the_rivals_find_the_value_of_a_smooth_problem() -> None:
    case = draw_system(np.random.default_rng(3), make=systems_build.queue, target="mild", episodes=400)
    found = kernel_value(case.log, case.gamma, case.log.importance_ratio())
    assert abs(found - case.truth) < 1.0  # the standard deviation of a return is 5
    assert case.policy is not None
    assert abs(boosting_value(case.log, case.gamma, case.policy, rounds=8) - case.truth) < 2.0
