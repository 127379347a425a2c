"""The second-order and greedy estimators: chunks, containers, limits, and warnings that say what to do."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoLars

from sparsetd import LARSTD, LSTDL1, OMPTD
from sparsetd.estimators import LCPTD, RALP, DantzigLSTD

ALL = [
    LARSTD(rho_theta=0.05),
    LCPTD(rho_theta=0.05),
    DantzigLSTD(rho_theta=0.05),
    LSTDL1(rho_theta=0.02),
    LSTDL1(rho_theta=0.02, projected=True),
    OMPTD(rho_theta=0.05),
    RALP(budget=3.0),
]
STREAMED = [*ALL, LSTDL1(rho_theta=0.02, lam=0.6), OMPTD(rho_theta=0.05, lam=0.6)]


def names(estimators):
    return [type(e).__name__ for e in estimators]


def rows(n=400, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X, X_next = rng.normal(size=(n, d)), 0.4 * rng.normal(size=(n, d))
    y = X[:, :4] @ np.array([1.0, -1.0, 0.5, 0.8]) + 0.1 * rng.normal(size=n)
    more = {"ratio": rng.random(n) + 0.5, "discount": 0.9 * (rng.random(n) < 0.9), "start": rng.random(n) < 0.1}
    return X, y, X_next, more


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few rows alone may have no path
@pytest.mark.parametrize("estimator", STREAMED, ids=names(STREAMED))
@pytest.mark.parametrize(("n", "d"), [(400, 12), (60, 300)])
def test_any_split_gives_the_same_bits(estimator, n, d):
    X, y, X_next, more = rows(n, d)
    whole, parts = clone(estimator).fit(X, y, X_next, **more), clone(estimator)
    for first, last in pairwise([0, 1, 57, *(k for k in (256, 300) if k < n), n]):
        chunk = {name: values[first:last] for name, values in more.items()}
        parts.partial_fit(X[first:last], y[first:last], X_next[first:last], **chunk)
    assert whole.support_.any()
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert (parts.intercept_, parts.status_, parts.n_iter_) == (whole.intercept_, whole.status_, whole.n_iter_)


@pytest.mark.parametrize("estimator", ALL, ids=names(ALL))
def test_sparse_rows_and_float32(estimator):
    X, y, X_next, more = rows()
    X, X_next = X * (np.abs(X) > 0.7), X_next * (np.abs(X_next) > 0.3)
    dense = clone(estimator).fit(X, y, X_next, **more)
    sparse = clone(estimator).fit(sp.csr_array(X), y, sp.csr_array(X_next), **more)
    single = clone(estimator).fit(X.astype(np.float32), y, X_next.astype(np.float32), **more)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(single.coef_, dense.coef_, atol=1e-4)
    assert single.coef_.dtype == np.float32


@pytest.mark.parametrize("estimator", ALL, ids=names(ALL))
def test_intercept_is_a_constant_feature_without_penalty(estimator):
    X, y, X_next, more = rows()
    model = clone(estimator).set_params(fit_intercept=True).fit(X, y + 2.0, X_next, **more)
    ones = np.ones((len(X), 1))
    by_hand = clone(estimator).set_params(fit_intercept=False, unpenalized=[12])
    by_hand.fit(np.hstack([X, ones]), y + 2.0, np.hstack([X_next, ones]), **more)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), by_hand.coef_, atol=1e-9)
    assert abs(model.intercept_) > 0.5


@pytest.mark.parametrize("estimator", ALL, ids=names(ALL))
def test_pickle_keeps_the_stream(estimator):
    X, y, X_next, more = rows()
    first = {name: values[:300] for name, values in more.items()}
    rest = {name: values[300:] for name, values in more.items()}
    model = clone(estimator).partial_fit(X[:300], y[:300], X_next[:300], **first)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own bytes)
    for m in (model, copy):
        m.partial_fit(X[300:], y[300:], X_next[300:], **rest)
    np.testing.assert_array_equal(copy.coef_, model.coef_)


def test_without_discount_lars_td_is_lasso_lars():
    X, y, X_next, _ = rows()
    expected = LassoLars(alpha=0.05, fit_intercept=False).fit(X, y)
    model = LARSTD(gamma=0.0, rho_theta=0.05).fit(X, y, X_next)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(model.knots_, expected.alphas_, atol=1e-10)
    with_intercept = LARSTD(gamma=0.0, rho_theta=0.05, fit_intercept=True).fit(X, y + 1, X_next)
    expected = LassoLars(alpha=0.05).fit(X, y + 1)
    np.testing.assert_allclose(with_intercept.coef_, expected.coef_, atol=1e-10)
    assert with_intercept.intercept_ == pytest.approx(expected.intercept_)
    assert with_intercept.path_.shape == (len(with_intercept.knots_), 13)


def test_the_same_fixed_point_and_the_same_bits():
    X, y, X_next, more = rows()
    lars, lcp = (clone(e).fit(X, y, X_next, **more) for e in ALL[:2])
    np.testing.assert_array_equal(lars.coef_, lcp.coef_)
    warm = LCPTD(rho_theta=0.05, coef_init=lcp.coef_).fit(X, y, X_next, **more)
    np.testing.assert_array_equal(warm.coef_, lcp.coef_)
    assert warm.n_pivots_ == 0 < lcp.n_pivots_


def test_failed_paths_warn_and_say_what_to_do():
    y = np.array([1.0, 1.1, 0.0, 0.0])
    X, X_next = np.eye(2)[[0, 1, 0, 1]], -2.0 * np.eye(2)[[1, 0, 1, 0]]  # A = [[1, 2], [2, 1]]/2: no P-matrix
    with pytest.warns(ConvergenceWarning, match="status 'ray': .*P-matrix.*DantzigLSTD"):
        model = LARSTD(gamma=1.0, rho_theta=0.01).fit(X, y, X_next)
    assert (model.status_, model.n_turns_) == ("ray", 1)
    assert model.rho_reached_ == pytest.approx(0.1)
    assert DantzigLSTD(gamma=1.0, rho_theta=0.01).fit(X, y, X_next).status_ == "converged"
    X, y, X_next, more = rows()
    with pytest.warns(ConvergenceWarning, match="max_steps"):
        assert LARSTD(max_steps=2).fit(X, y, X_next, **more).status_ == "step_limit"
    with pytest.warns(ConvergenceWarning, match="larger budget"):
        assert RALP(budget=1e-3, fit_intercept=False).fit(X, y, X_next, **more).status_ == "infeasible"


def test_a_quadratic_part_makes_the_path_reach_its_end():
    y = np.array([1.0, 1.1, 0.0, 0.0])
    X, X_next = np.eye(2)[[0, 1, 0, 1]], -2.0 * np.eye(2)[[1, 0, 1, 0]]
    model = LARSTD(gamma=1.0, rho_theta=0.61, l1_ratio=0.01 / 0.61).fit(X, y, X_next)
    assert (model.status_, model.n_turns_) == ("converged", 0)
