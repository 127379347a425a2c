"""Every penalty: its prox is the argmin that defines it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsetd.penalties import L1, Custom, ElasticNet, GroupL1, NoPenalty, Penalty, Ridge

GROUPS = np.array([0, 1, 0, 2, 1])
PENALTIES = [NoPenalty(), L1(0.4, 0.7), Ridge(0.5, 0.2), ElasticNet(0.5, 0.3, 0.6), GroupL1(GROUPS, 0.4, 0.2)]
PENALTIES.append(Custom(lambda x, step: x / (1 + step), lambda x: 0.5 * float(np.sum(x**2))))
FACTOR = np.array([1.0, 0.0, 2.0, 0.5, 1.0])

points = hnp.arrays(float, (2, 5), elements=st.floats(-5, 5, allow_subnormal=False))


def name(value) -> str:
    return type(value).__name__


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
@settings(max_examples=60, deadline=None)
@given(x=points, u=points, step=st.floats(0.01, 3))
def test_the_prox_is_no_worse_than_any_other_point(penalty, x, u, step) -> None:
    def value(z) -> float:
        return penalty.value(z) + np.sum((z - x) ** 2) / (2 * step)

    best = penalty.prox(x, step)
    assert value(best) <= value(u) + 1e-9
    assert value(best) <= value(best + 1e-3 * (u - best)) + 1e-9


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if not isinstance(p, Custom)], ids=name)
def test_the_prox_is_the_optimum_that_cvxpy_finds(penalty) -> None:
    rng = np.random.default_rng(0)
    x, step = rng.normal(size=(2, 5)), 0.8
    factor = None if isinstance(penalty, GroupL1) else FACTOR
    weight = np.ones(5) if factor is None else factor
    u = cp.Variable((2, 5))
    h: cp.Expression = cp.Constant(0)
    if isinstance(penalty, GroupL1):
        for b, rho in enumerate((penalty.rho_w, penalty.rho_theta)):
            h += sum(rho * np.sqrt((g == GROUPS).sum()) * cp.norm(u[b, np.flatnonzero(g == GROUPS)]) for g in range(3))
    else:
        l1, l2 = penalty.shrinkage(2)
        for b in range(2):
            h += l1[b] * (weight @ cp.abs(u[b])) + 0.5 * l2[b] * (weight @ cp.square(u[b]))
    cp.Problem(cp.Minimize(h + cp.sum_squares(u - x) / (2 * step))).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(penalty.prox(x, step, factor), u.value, atol=2e-4)


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_a_penalty_keeps_the_protocol(penalty) -> None:
    assert isinstance(penalty, Penalty)
    x = np.random.default_rng(1).normal(size=(2, 5))
    np.testing.assert_allclose(penalty.prox(x, 1e-12), x, atol=1e-9)
    assert penalty.value(np.zeros((2, 5))) == 0.0


def test_theta_is_the_last_block_and_w_the_first() -> None:
    x = np.array([[1.0, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    assert L1(0.4, 0.7).value(x) == pytest.approx(5 * 0.7)
    assert L1(0.4, 0.7).value(x[:1]) == pytest.approx(5 * 0.4)


def test_an_unpenalised_group_is_left_alone() -> None:
    factor = np.where(GROUPS == 1, 0.0, 1.0)
    x = np.random.default_rng(2).normal(size=(2, 5))
    shrunk = GroupL1(GROUPS, 50.0, 50.0).prox(x, 1.0, factor)
    np.testing.assert_array_equal(shrunk[:, GROUPS == 1], x[:, GROUPS == 1])
    assert not shrunk[:, GROUPS != 1].any()
