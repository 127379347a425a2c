"""Selection probabilities, and intervals that cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import kurtosis
from scipy.stats import t as student

from sparsetd.estimators.lstd import LSTD
from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.problems import random_mdp, with_noise_features
from sparsetd.selection import stability_selection, value_interval
from sparsetd.selection.episodes import clustered_error, clusters, halves, powers
from sparsetd.selection.intervals import clustered
from sparsetd.system import Batch


def sample(seed: int, n: int = 1000, noise_features: int = 16) -> tuple[Any, Batch, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 20, 4, 4, reward_noise=0.2, off_policy=0.3)
    batch = with_noise_features(mdp.trajectory(n, rng, horizon=10), noise_features, rng)
    return mdp, batch, {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}


def test_relevant_features_are_stable_and_named() -> None:
    _, batch, columns = sample(9, n=2000)
    names = [f"feature {j}" for j in range(20)]
    X, X_next = (pd.DataFrame(rows, columns=names) for rows in (batch.phi, batch.phi_next))
    result = stability_selection(
        X, batch.reward, X_next, n_resamples=6, random_state=0, max_false=2.0, gamma=0.9, **columns
    )
    assert np.flatnonzero(result.support).tolist() == [0, 1, 2, 3]
    assert {name for name, _ in result.table()[:4]} == set(names[:4])
    assert result.false_selections == 4**2 / (0.5 * 20)  # q² / ((2τ − 1) d), and q = ⌊√(max_false (2τ − 1) d)⌋
    again = stability_selection(
        X, batch.reward, X_next, n_resamples=6, random_state=0, max_false=2.0, n_jobs=2, gamma=0.9, **columns
    )
    np.testing.assert_array_equal(again.probabilities, result.probabilities)


def test_the_halves_of_a_draw_complement_each_other() -> None:
    """Of two episodes each is a half, and another feature matters in each."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    start = np.arange(200) % 100 == 0
    y = np.where(np.arange(200) < 100, X[:, 0], X[:, 1])
    result = stability_selection(X, y, n_resamples=3, random_state=0, gamma=0.0, start=start)
    assert result.probabilities.tolist() == [0.5, 0.5]


def test_a_column_that_no_row_has_is_named() -> None:
    model = LSTD().fit(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="column='rato' is not known; did you mean 'ratio'"):
        value_interval(model, np.eye(3), np.ones(3), rato=np.ones(3))


def test_stability_needs_a_threshold_above_half_and_rows() -> None:
    with pytest.raises(ValueError, match="threshold"):
        stability_selection(np.eye(3), np.ones(3), threshold=0.5)
    with pytest.raises(ValueError, match="1 row"):
        stability_selection(np.ones((1, 2)), np.ones(1))


def test_intervals_cover_the_exact_values() -> None:
    covered, value_covered = [], []
    for seed in range(40):
        mdp, batch, columns = sample(100 + seed, n=600, noise_features=4)
        model = LSTD(gamma=0.9).fit(batch.phi, batch.reward, batch.phi_next, **columns)
        values = mdp.features @ mdp.theta_star
        at = np.hstack([mdp.features, np.zeros((20, 4))])
        rows = (model, batch.phi, batch.reward, batch.phi_next)
        states = value_interval(*rows, at=at, **columns)
        policy = value_interval(*rows, **columns)
        covered.append(np.mean((states.low <= values) & (values <= states.high)))
        value_covered.append(policy.low[0] <= mdp.start @ values <= policy.high[0])
    assert 0.88 < np.mean(covered) <= 0.99
    assert np.mean(value_covered) > 0.85


def test_a_higher_level_is_a_wider_interval() -> None:
    _, batch, columns = sample(1, n=1500)
    rows = (batch.phi, batch.reward, batch.phi_next)
    model = SparseTD(rho_theta=0.2, gamma=0.9, fit_intercept=True).fit(*rows, **columns)
    usual, wide = (value_interval(model, *rows, level=level, **columns) for level in (0.95, 0.99))
    assert wide.low < usual.low < usual.high < wide.high


@pytest.mark.parametrize("states", [np.eye(4), None])
def test_the_error_is_that_of_leaving_out_one_cluster_at_a_time(states: Any) -> None:
    """The sandwich linearises the estimate, and so does the jackknife to first order in 1/n."""
    _, batch, _ = sample(2, n=3000)
    cluster, columns = clusters(batch.start), np.arange(4)
    estimate, error, _ = clustered(batch, columns, 0.0, states)
    without = [batch[np.flatnonzero(cluster != k)] for k in range(int(cluster[-1]) + 1)]
    left = np.array([clustered(rows, columns, 0.0, states)[0] for rows in without])
    jackknife = np.sqrt((len(left) - 1) / len(left) * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(error, jackknife, rtol=0.05)
    np.testing.assert_allclose(estimate, left.mean(axis=0), rtol=0.01)


def test_the_interval_of_a_mean_is_students() -> None:
    """With γ = 0 and one constant feature, V is the mean reward: mean ± t_{n−1} s/√n, as in any textbook."""
    reward = np.random.default_rng(5).uniform(size=25)
    rows, columns = (np.ones((25, 1)), reward, np.ones((25, 1))), {"start": np.ones(25, dtype=bool)}
    model = LSTD(gamma=0.0).fit(*rows, **columns)
    expected = student.interval(0.9, 24, loc=reward.mean(), scale=reward.std(ddof=1) / 5)
    for at in (None, [[1.0]]):
        found = value_interval(model, *rows, at=at, level=0.9, **columns)
        np.testing.assert_allclose([found.low[0], found.high[0]], expected, rtol=1e-9)


def test_the_clustered_error_is_that_of_a_mean_and_heavy_tails_have_few_degrees_of_freedom() -> None:
    values = np.random.default_rng(0).normal(size=(3, 40)) ** [[1], [1], [3]] + [[0.0], [5.0], [0.0]]
    for fitted in (0, 4):
        error, freedom = clustered_error(powers(values), 40, fitted)
        np.testing.assert_allclose(error, np.std(values, axis=1) / np.sqrt(39 - fitted), rtol=1e-9)
        expected = np.minimum(39 - fitted, 80 / (kurtosis(values, axis=1, fisher=False) - 1))
        np.testing.assert_allclose(freedom, expected, rtol=1e-9)
        assert freedom[2] < 0.5 * freedom[0]
    assert clustered_error(np.zeros(4), 40) == (0.0, 39.0)


def test_halves_are_halves() -> None:
    masks = list(halves(9, 50, np.random.default_rng(0)))
    assert {int(mask.sum()) for mask in masks} == {4}
    assert np.all((np.mean(masks, axis=0) > 0.2) & (np.mean(masks, axis=0) < 0.7))


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_the_estimates_are_the_predictions_of_a_refitted_model(lam: float) -> None:
    _, batch, columns = sample(6)
    rows = (batch.phi, batch.reward, batch.phi_next)
    model = SparseTD(rho_theta=0.8, gamma=0.9, lam=lam, fit_intercept=True, refit=True).fit(*rows, **columns)
    assert 0 < model.support_.sum() < 20
    for at in (batch.phi[:3], sp.csr_array(batch.phi[:3])):
        estimate = value_interval(model, *rows, at=at, **columns).estimate
        np.testing.assert_allclose(estimate, model.predict(batch.phi[:3]), rtol=1e-6)
    policy = value_interval(model, *rows, **columns).estimate[0]
    assert policy == pytest.approx(model.predict(batch.phi[batch.start]).mean(), rel=1e-6)


def test_the_interval_does_not_depend_on_the_units_of_the_features() -> None:
    _, batch, columns = sample(4, noise_features=0)
    units = np.array([1e-8, 1e8, 1.0, 10.0])
    found = []
    for scale in (np.ones(4), units):
        rows = (batch.phi * scale, batch.reward, batch.phi_next * scale)
        model = LSTD(gamma=0.9).fit(*rows, **columns)
        found += [value_interval(model, *rows, at=at, **columns) for at in (None, rows[0][:3])]
    for one, other in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(other.low, one.low, rtol=1e-6)
        np.testing.assert_allclose(other.estimate, one.estimate, rtol=1e-6)


def test_what_cannot_be_answered_is_refused() -> None:
    _, batch, columns = sample(3)
    with pytest.warns(Warning, match="every coefficient to zero"):
        empty = SparseTD(rho_theta=1e6, gamma=0.9).fit(batch.phi, batch.reward, batch.phi_next, **columns)
    with pytest.raises(ValueError, match="selected no feature"):
        value_interval(empty, batch.phi, batch.reward, batch.phi_next, **columns)
    model = LSTD(gamma=0.9).fit(batch.phi, batch.reward, batch.phi_next, **columns)
    with pytest.raises(ValueError, match="columns"):
        value_interval(model, batch.phi, batch.reward, batch.phi_next, at=np.ones((1, 3)), **columns)
