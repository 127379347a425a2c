"""The level of single intervals that hold together, against what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from sparsetd.evaluation import Estimate
from sparsetd.evaluation.estimate import Together, pointwise_level


def orthonormal(n, k, seed=0):
    """k columns of mean zero without any correlation."""
    raw = np.random.default_rng(seed).normal(size=(n, k))
    return np.linalg.qr(raw - raw.mean(axis=0))[0]


@pytest.mark.parametrize("k", [2, 5, 10])
def test_independent_estimates_have_sidaks_level(k):
    assert pointwise_level(orthonormal(400, k), 0.95) == pytest.approx(0.95 ** (1 / k), abs=4e-4)


def test_copies_of_one_estimate_need_no_correction():
    column = orthonormal(100, 1)
    assert pointwise_level(np.hstack([column, -2 * column, 3 * column + 1]), 0.95) == pytest.approx(0.95, abs=1e-3)


def test_equal_correlation_agrees_with_one_dimensional_integration():
    k, r = 6, 0.7
    base = orthonormal(500, k + 1)
    columns = np.sqrt(r) * base[:, [0]] + np.sqrt(1 - r) * base[:, 1:]

    def inside(q):  # P(max |√r Z₀ + √(1−r) Z_i| ≤ q), given Z₀
        def given(z):
            ends = [norm.cdf((side * q - np.sqrt(r) * z) / np.sqrt(1 - r)) for side in (1, -1)]
            return (ends[0] - ends[1]) ** k * norm.pdf(z)

        return quad(given, -9, 9)[0]

    exact = brentq(lambda q: inside(q) - 0.95, 1, 4)
    assert norm.ppf(0.5 + pointwise_level(columns, 0.95) / 2) == pytest.approx(exact, abs=0.012)


def test_a_constant_influence_does_not_count():
    columns = orthonormal(300, 2)
    assert pointwise_level(np.hstack([columns, np.zeros((300, 3))]), 0.9) == pointwise_level(columns, 0.9)


def test_each_estimate_keeps_its_degrees_of_freedom():
    estimates = {"a": Estimate("a", 1.0, 0.1, 50, 5.0), "b": Estimate("b", 2.0, 0.1, 50, 500.0)}
    found = Together(estimates, 0.95, pointwise_level(orthonormal(50, 2), 0.95))
    assert found.interval("a") == estimates["a"].interval(found.each)
    assert np.ptp(found.interval("a")) > np.ptp(found.interval("b"))
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_is_a_probability(level):
    with pytest.raises(ValueError, match="`level` must lie strictly between 0 and 1"):
        pointwise_level(orthonormal(50, 2), level)
