"""Every penalty: its prox is the argmin that defines it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsetd import penalties
from sparsetd.penalties import L1, Custom, ElasticNet, GroupL1, NoPenalty, Penalty, Ridge

GROUPS = np.array([0, 1, 0, 3, 1])  # no feature is in group 2
PENALTIES = [NoPenalty(), L1(0.4, 0.7), Ridge(0.5, 0.2), ElasticNet(0.5, 0.3, 0.6), GroupL1(GROUPS, 0.4, 0.2)]
PENALTIES.append(Custom(lambda x, step: x / (1 + step), lambda x: 0.5 * float(np.sum(x**2))))
KNOWN = {type(penalty).__name__ for penalty in PENALTIES} | {"Penalty"}
NEW = [getattr(penalties, name)(0.4, 0.2) for name in penalties.__all__ if name not in KNOWN]  # what was added since
FACTOR = np.array([1.0, 0.0, 2.0, 0.5, 1.0])
SHRINKAGE = {  # l1 of (w, θ) and l2 of (w, θ) of the penalties above
    NoPenalty: ([0.0, 0.0], [0.0, 0.0]),
    L1: ([0.7, 0.4], [0.0, 0.0]),
    Ridge: ([0.0, 0.0], [0.2, 0.5]),
    ElasticNet: ([0.18, 0.3], [0.12, 0.2]),
}

points = hnp.arrays(float, (2, 5), elements=st.floats(-5, 5, allow_subnormal=False))


def name(value) -> str:
    return type(value).__name__


@pytest.mark.parametrize("penalty", PENALTIES + NEW, ids=name)
@settings(max_examples=60, deadline=None)
@given(x=points, u=points, step=st.floats(0.01, 3))
def test_the_prox_is_no_worse_than_any_other_point(penalty, x, u, step) -> None:
    def value(z) -> float:
        return penalty.value(z) + np.sum((z - x) ** 2) / (2 * step)

    best = penalty.prox(x, step)
    assert value(best) <= value(u) + 1e-9
    assert value(best) <= value(best + 1e-3 * (u - best)) + 1e-9


def written_out(penalty, u, factor):
    """h(u) for cvxpy."""
    if isinstance(penalty, GroupL1):
        members = [np.flatnonzero(g == GROUPS) for g in (0, 1, 3)]
        weights = [np.sqrt(len(group)) * factor[group].mean() for group in members]
        norms = [[cp.norm(u[b, group]) for group in members] for b in range(2)]
        return sum(rho * weights[g] * norms[b][g] for b, rho in enumerate([0.2, 0.4]) for g in range(3))
    l1, l2 = SHRINKAGE[type(penalty)]
    return sum(l1[b] * (factor @ cp.abs(u[b])) + l2[b] / 2 * (factor @ cp.square(u[b])) for b in range(2))


@pytest.mark.parametrize("factor", [None, FACTOR], ids=["alike", "factor"])
@pytest.mark.parametrize("penalty", [p for p in PENALTIES if not isinstance(p, Custom)], ids=name)
def test_value_and_prox_are_those_of_the_formula(penalty, factor) -> None:
    x, step, u = np.random.default_rng(0).normal(size=(2, 5)), 0.8, cp.Variable((2, 5))
    h = written_out(penalty, u, np.ones(5) if factor is None else factor)
    cp.Problem(cp.Minimize(h + cp.sum_squares(u - x) / (2 * step))).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(penalty.prox(x, step, factor), u.value, atol=1e-6)
    assert penalty.value(u.value, factor) == pytest.approx(h.value, rel=1e-12)


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


def test_a_custom_penalty_without_a_value_says_so() -> None:
    with pytest.raises(ValueError, match="pass value_function=h"):
        Custom(lambda x, step: x).value(np.ones((1, 2)))  # noqa: ARG005
