"""Complexity, ρ₂ and Proposition 1: what is measured is what is said, and verdicts follow the rows."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from reproduction import complexity, interpolation, proposition_1
from reproduction.expected_system import expected_system
from reproduction.experiment import Unit
from reproduction.verdict import NOT_REPRODUCED, REPRODUCED, UNDER_READING
from sparsetd.operators import tdc
from sparsetd.penalties import L1

COMPLEXITY = dataclasses.replace(
    complexity.COMPLEXITY.quick, n_seeds=1, n_samples=60, d_grid=(50, 100), n_grid=(20, 40), p_grid=(4, 8), d=100, p=5
)
INTERPOLATION = dataclasses.replace(interpolation.INTERPOLATION.quick, n_seeds=1, n_random=400)
PROPOSITION = dataclasses.replace(proposition_1.PROPOSITION_1.quick, n_seeds=1, n_samples=3000)


def frame(experiment, settings):
    rows = []
    for unit in experiment.units(settings):
        rows.append(pd.DataFrame(experiment.run(settings, unit)).assign(unit=unit.name, seed=unit.seed))
    return pd.concat(rows, ignore_index=True)


@pytest.fixture(scope="module")
def interpolation_rows():
    return frame(interpolation.INTERPOLATION, INTERPOLATION)


@pytest.fixture(scope="module")
def proposition_rows():
    return frame(proposition_1.PROPOSITION_1, PROPOSITION)


def draw(figures):
    for figure in figures:
        fig, axes = plt.subplots(1, figure.panels, squeeze=False)
        figure.draw(list(axes[0]))
        plt.close(fig)


def timed(rotd=lambda n, d: n * d, lars=lambda d, p: d * p**3.0):
    """Rows as if every point took exactly this long."""
    rows = []
    for series in complexity.SERIES:
        for n, d, p in complexity.grid(complexity.COMPLEXITY.full, series):
            seconds = 1e-9 * (lars(d, p) if p else rotd(n, d))
            rows.append({"series": series, "N": n, "d": d, "p": p, "active": p, "seconds": seconds})
    return pd.DataFrame(rows)


def test_fitted_exponents_are_those_put_in():
    a, b = complexity.joint_exponents(timed(lars=lambda d, p: d**1.1 * p**1.7))
    assert (a, b) == (pytest.approx(1.1), pytest.approx(1.7))
    assert complexity.exponent(timed(), "RO-TD, N") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rows", "verdicts"),
    [
        (timed(), (REPRODUCED, REPRODUCED, REPRODUCED)),
        (timed(lars=lambda d, p: 500 * d * p), (REPRODUCED, UNDER_READING, REPRODUCED)),
        (timed(lambda n, d: n * d**2.0, lambda d, p: d**1.5 * p**4.0), (NOT_REPRODUCED, NOT_REPRODUCED, REPRODUCED)),
        (timed(lars=lambda d, _: d), (REPRODUCED, UNDER_READING, NOT_REPRODUCED)),
    ],
)
def test_verdicts_on_cost_follow_the_times(rows, verdicts):
    settings = complexity.COMPLEXITY.full
    summary = complexity.summarize(settings, rows)
    assert tuple(claim.verdict for claim in summary.claims) == verdicts
    draw(complexity.plot(settings, rows))


def test_cost_is_measured_on_paths_of_the_stated_length():
    rows = frame(complexity.COMPLEXITY, COMPLEXITY)
    assert set(rows["series"]) == set(complexity.SERIES)
    lars = rows[rows["series"] == "LARS-TD, p"]
    np.testing.assert_array_equal(lars["p"], [4, 8])
    assert (lars["active"] >= lars["p"] - 2).all()
    assert (rows["seconds"] >= 0).all()


def test_without_w_the_proximal_iteration_is_td(interpolation_rows):
    for problem in interpolation.PROBLEMS:
        _, to_td = interpolation.curve(interpolation_rows, problem, "proximal GQ(λ)", "to_TD")
        _, to_gq = interpolation.curve(interpolation_rows, problem, "proximal GQ(λ)", "to_GQ")
        _, cosine = interpolation.curve(interpolation_rows, problem, "proximal GQ(λ)", "cosine")
        assert to_gq[0] == pytest.approx(0.0, abs=1e-12)
        assert to_td[-1] == pytest.approx(0.0, abs=1e-10)
        assert cosine[-1] == pytest.approx(1.0)


def test_verdict_on_rho_w(interpolation_rows):
    summary = interpolation.summarize(INTERPOLATION, interpolation_rows)
    assert [c.verdict for c in summary.claims] == [UNDER_READING, UNDER_READING]
    swapped = interpolation_rows.copy()
    names = {"proximal GQ(λ)": "RO-GQ(λ)", "RO-GQ(λ)": "proximal GQ(λ)"}
    swapped["method"] = swapped["method"].replace(names)
    assert [c.verdict for c in interpolation.summarize(INTERPOLATION, swapped).claims] == [REPRODUCED, REPRODUCED]
    neither = interpolation_rows.assign(to_TD=1.0, cosine=0.0)
    assert {c.verdict for c in interpolation.summarize(INTERPOLATION, neither).claims} == {NOT_REPRODUCED}
    draw(interpolation.plot(INTERPOLATION, interpolation_rows))


def test_direction_of_the_saddle_step_is_the_adjoint():
    unit = Unit("star", 0, {"problem": "star"})
    given = interpolation.data(INTERPOLATION, unit)
    d = given.batch.n_features
    x, y = np.random.default_rng(0).normal(size=(2, 2, d))

    class State:
        primal, dual = x, y

    A, b = given.A.reshape(2 * d, 2 * d), given.b.ravel()
    np.testing.assert_allclose(interpolation._direction(given, State), -(A.T @ y.ravel())[d:])
    State.dual = None
    np.testing.assert_allclose(interpolation._direction(given, State), (b - A @ x.ravel())[d:])
    still = np.concatenate([np.zeros(d), x[1]])
    np.testing.assert_allclose(interpolation._td_direction(given, x[1]), (b - A @ still)[d:])


@pytest.mark.parametrize("m", proposition_1.NORMS)
def test_minimum_agrees_with_cvxpy(m):
    mdp = proposition_1.problem(PROPOSITION)
    A, b = expected_system(mdp, tdc(PROPOSITION.eta), importance_sampled=True)
    d, penalty = mdp.n_features, L1(*PROPOSITION.rho_large)
    x = cp.Variable(2 * d)
    objective = cp.norm(A @ x - b, m) + penalty.rho_w * cp.norm1(x[:d]) + penalty.rho_theta * cp.norm1(x[d:])
    expected = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert proposition_1.Objective(A, b, penalty, m).minimum() == pytest.approx(expected, rel=1e-6)


def test_suboptimality_is_relative_to_zero(proposition_rows):
    assert (proposition_rows["value"] > -1e-9).all()
    first = proposition_rows[(proposition_rows["t"] == 1) & (proposition_rows["variant"] == "constant")]["value"]
    np.testing.assert_allclose(first, 1.0, atol=1e-6)  # y is still zero, so x has not moved


def test_verdicts_on_proposition_1_follow_the_rows(proposition_rows):
    draw(proposition_1.plot(PROPOSITION, proposition_rows))
    t = proposition_rows["t"]
    falling = proposition_rows.assign(value=t**-0.5)
    assert proposition_1.summarize(PROPOSITION, falling).claims[0].verdict == REPRODUCED
    floor = falling.assign(value=np.where(falling["variant"] == "constant", 0.05, t**-0.5))
    assert proposition_1.summarize(PROPOSITION, floor).claims[0].verdict == UNDER_READING
    assert proposition_1.summarize(PROPOSITION, falling.assign(value=0.1)).claims[0].verdict == NOT_REPRODUCED
