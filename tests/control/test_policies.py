"""Probabilities of the rules, against their definitions written out row by row."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetd.control import Rule, epsilon_greedy, greedy, softmax, uniform
from sparsetd.control.acting import draw_action

Q = np.array([[1.0, 3.0, 2.0], [0.0, 0.0, 0.0], [5.0, 5.0, -1.0], [-1e3, 0.0, 1e3]])


def values(observation):
    return Q[observation[:, 0].astype(int)]


STATES = np.arange(4)[:, None]


def test_greedy_shares_ties():
    assert np.array_equal(greedy(values)(STATES), [[0, 1, 0], [1 / 3] * 3, [0.5, 0.5, 0], [0, 0, 1]])


def test_epsilon_greedy_mixes_with_the_uniform_policy():
    expected = 0.7 * greedy(values)(STATES) + 0.3 * uniform(3)(STATES)
    assert epsilon_greedy(values, 0.3)(STATES) == pytest.approx(expected)


def test_softmax_is_the_boltzmann_distribution_and_cools_to_greedy():
    hot = softmax(values, 2.0)(STATES)
    assert hot[0] == pytest.approx(np.exp(Q[0] / 2) / np.exp(Q[0] / 2).sum())
    assert np.isfinite(hot).all()
    assert softmax(values, 1e-3)(STATES) == pytest.approx(greedy(values)(STATES))


@pytest.mark.parametrize("rule", [Rule(), Rule(0.2), Rule(temperature=0.7), Rule(0.1, 2.0)])
def test_a_row_alone_gets_the_probabilities_it_has_among_others(rule):
    rows = [rule(q) for q in Q]
    assert np.array(rows) == pytest.approx(rule(Q), abs=1e-15)


def test_draws_follow_the_probabilities_and_never_take_the_impossible():
    p, rng = np.array([0.0, 0.25, 0.75, 0.0]), np.random.default_rng(0)
    drawn = np.array([draw_action(p, u) for u in rng.random(4000)])
    assert set(drawn) == {1, 2}
    assert np.mean(drawn == 2) == pytest.approx(0.75, abs=0.03)
    assert draw_action(p, 1.0 - 1e-17) == 2


@pytest.mark.parametrize(("argument", "value"), [("epsilon", 1.5), ("epsilon", float("nan")), ("temperature", -1.0)])
def test_wrong_rules_are_refused_by_name(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}`"):
        Rule(**{argument: value})
