"""Estimators find on the few rows of a condensed log in shards what they find on all rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation.test_shards import log, split

from sparsetd import LSTD, SparseTD
from sparsetd.evaluation.condensed import condense
from sparsetd.features.featurize import featurize
from sparsetd.selection import sparse_td_path

GAMMA = 0.9


def in_memory(whole, rows):
    """All rows in the units of the condensed ones, with the constant."""
    batch = featurize(whole, None, GAMMA)
    X, after = (
        np.hstack([(s - rows.mean) / rows.scale, np.ones((len(whole), 1))]) for s in (batch.phi, batch.phi_next)
    )
    return (X, batch.reward, after), {"ratio": batch.ratio, "discount": batch.discount}


def few(rows):
    return (rows.X, rows.y, rows.X_next), {"discount": rows.discount}


@pytest.mark.parametrize("kind", ["plain", "cut", "far", "heavy", "ratio"])
def test_lstd_sparse_td_and_its_path_are_those_of_all_rows(kind):
    whole = log(kind)
    rows = condense(split(whole, 7, 0), gamma=GAMMA)
    assert (rows.X.shape, rows.n_rows, rows.names[-1]) == ((5, 5), len(whole), "constant")
    all_rows, condensed = in_memory(whole, rows), few(rows)
    for model in (LSTD(gamma=GAMMA), SparseTD(gamma=GAMMA, rho_theta=0.05, standardize=False)):
        expected, found = (model.fit(*columns, **more).coef_.copy() for columns, more in (all_rows, condensed))
        assert np.any(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    plain = {"gamma": GAMMA, "n_rhos": 5, "standardize": False}
    expected, found = (sparse_td_path(*c, **m, **plain) for c, m in (all_rows, condensed))
    np.testing.assert_allclose(found.rhos, expected.rhos, rtol=1e-8)
    np.testing.assert_allclose(found.coefs, expected.coefs, rtol=1e-3, atol=1e-3)


def test_redundant_columns_keep_the_system():
    whole = log("redundant")
    rows = condense(whole, gamma=GAMMA)
    (X, y, after), more = in_memory(whole, rows)
    expected = X.T @ (more["ratio"][:, None] * (X - more["discount"][:, None] * after)) / len(whole)
    np.testing.assert_allclose(rows.X.T @ (rows.X - rows.X_next) / len(rows.y), expected, atol=1e-9)
    np.testing.assert_allclose(rows.X.T @ rows.y / len(rows.y), X.T @ (more["ratio"] * y) / len(whole), atol=1e-9)
