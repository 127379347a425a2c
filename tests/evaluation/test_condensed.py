"""Estimators find on the sums of a log in shards what they find on all rows in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.test_shards import log, split

from sparsetd import LARSTD, LSTD, LSTDL1, OMPTD, TDC, SparseTD, SparseTDSelect
from sparsetd.estimators import LCPTD, RALP, DantzigLSTD
from sparsetd.evaluation.condensed import condense
from sparsetd.features.featurize import featurize
from sparsetd.selection import sparse_td_path, stability_selection, value_interval

GAMMA = 0.9
SETTINGS = {"gamma": GAMMA, "fit_intercept": True}


def in_memory(whole, rows, centre=True):
    """All rows in the units of the condensed ones, which have no centre where there is no intercept."""
    batch = featurize(whole, None, GAMMA)
    X, after = ((s - centre * rows.units.shift) / rows.units.scale for s in (batch.phi, batch.phi_next))
    return (X, batch.reward, after), {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}


@pytest.mark.parametrize("kind", ["plain", "cut", "far", "heavy", "ratio"])
@pytest.mark.parametrize(
    "model",
    [
        LSTD(**SETTINGS),
        LSTD(**SETTINGS, alpha=0.1),
        LSTD(gamma=GAMMA),
        SparseTD(**SETTINGS, rho_theta=0.05),
        SparseTD(**SETTINGS, rho_theta=0.05, fit_norm="rmspbe", standardize=False),
        SparseTD(gamma=GAMMA, rho_theta=0.05, rho_w=0.1),
        LSTDL1(**SETTINGS, rho_theta=0.05),
        LARSTD(**SETTINGS, rho_theta=0.05),
        LCPTD(**SETTINGS, rho_theta=0.05),
        OMPTD(**SETTINGS),
        DantzigLSTD(**SETTINGS, rho_theta=0.05),
    ],
    ids=lambda model: repr(model).replace("gamma=0.9", "")[:40],
)
@pytest.mark.filterwarnings("ignore:.*w absorbs")
def test_coefficients_are_those_of_all_rows(model, kind):
    whole = log(kind)
    rows = condense(split(whole, 7, 0), gamma=GAMMA)
    assert (rows.batch().phi.shape, rows.n_rows) == ((5, 5), len(whole))
    columns, more = in_memory(whole, rows, model.fit_intercept)
    expected, found = model.fit(*columns, **more), rows.fitted(model)
    assert np.any(expected.coef_)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-7)
    own = rows.fit(model)
    np.testing.assert_allclose(own.predict(whole.observation), found.predict(columns[0]), rtol=1e-9, atol=1e-7)


def test_models_that_standardise_need_no_standardised_sums():
    parts, model = split(log("far"), 3, 0), SparseTD(**SETTINGS, rho_theta=0.05)
    even, raw = (condense(parts, gamma=GAMMA, standardize=way).fit(model) for way in (True, False))
    np.testing.assert_allclose(raw.coef_, even.coef_, rtol=1e-5)
    np.testing.assert_allclose(raw.intercept_, even.intercept_, rtol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "cut", "far", "zeros", "discrete"])
def test_sparse_td_select_chooses_the_features_of_all_rows(kind):
    whole, model = log(kind), SparseTDSelect(**SETTINGS)
    rows = condense(split(whole, 7, 0), gamma=GAMMA)
    columns, more = in_memory(whole, rows)
    expected, found = model.fit(*columns, **more), rows.fitted(model)
    assert 0 < expected.support_.sum() < 4
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.rho_theta_, expected.rho_theta_, rtol=1e-8)


@pytest.mark.parametrize("kind", ["plain", "cut", "far"])
def test_the_path_the_halves_and_the_interval_are_those_of_all_rows(kind):
    whole = log(kind)
    rows = condense(split(whole, 7, 0), gamma=GAMMA)
    columns, more = in_memory(whole, rows)
    expected, found = sparse_td_path(*columns, **more, **SETTINGS, n_rhos=5), rows.path(n_rhos=5)
    np.testing.assert_allclose(found.rhos, expected.rhos, rtol=1e-8)
    np.testing.assert_allclose(found.coefs, expected.coefs, rtol=1e-3, atol=1e-3)
    model = rows.fit(LSTD(**SETTINGS, alpha=0.0))
    model.support_ = np.array([True, False, True, True])
    for at in (None, whole.observation[:3]):
        given = None if at is None else (at - rows.units.shift) / rows.units.scale
        seen, own = value_interval(model, *columns, **more, at=given), rows.value_interval(model, at=at)
        for name in ("estimate", "standard_error", "low", "high"):
            np.testing.assert_allclose(getattr(own, name), getattr(seen, name), rtol=1e-8)
    halves = rows.stability_selection(n_resamples=10, random_state=0)
    by_episode = stability_selection(*columns, **more, **SETTINGS, n_resamples=10, random_state=0)
    assert halves.false_selections == by_episode.false_selections
    np.testing.assert_allclose(halves.probabilities, by_episode.probabilities, atol=0.4)
    assert np.argmax(halves.probabilities) == np.argmax(by_episode.probabilities)


def test_redundant_columns_keep_the_system():
    whole = log("redundant")
    rows = condense(whole, gamma=GAMMA)
    (X, y, after), more = in_memory(whole, rows)
    X, after = (np.hstack([s, np.ones((len(s), 1))]) for s in (X, after))
    expected = X.T @ (more["ratio"][:, None] * (X - more["discount"][:, None] * after)) / len(whole)
    few = rows.batch()
    np.testing.assert_allclose(few.phi.T @ (few.phi - few.phi_next) / len(few), expected, atol=1e-9)
    np.testing.assert_allclose(few.phi.T @ few.reward / len(few), X.T @ (more["ratio"] * y) / len(whole), atol=1e-9)


def test_what_cannot_be_had_from_sums_says_so():
    rows = condense(log("plain"), gamma=GAMMA)
    for model, words in (
        (TDC(gamma=GAMMA), "row by row"),
        (LSTD(gamma=0.5), "condensed with gamma=0.9"),
        (LSTD(gamma=GAMMA, lam=0.5), "trace of every row"),
        (RALP(gamma=GAMMA), "single rows"),
        (SparseTDSelect(**SETTINGS, choice="best"), "by elimination"),
    ):
        with pytest.raises(ValueError, match=words):
            rows.fit(model)
    wide = np.zeros((len(log("plain")), 1501))
    many = replace(log("plain"), observation=wide, next_observation=wide, names=None)
    with pytest.raises(ValueError, match="up to 1,500"):
        condense(many, gamma=GAMMA)
