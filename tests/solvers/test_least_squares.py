"""LSTD with a ridge against the written-out system, with fewer rows than features and with more."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import LSTD
from sparsetd.operators import td
from sparsetd.penalties import Ridge
from sparsetd.solvers import least_squares
from sparsetd.system import Batch

# Few rows are singular without a ridge, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore:LSTD has:sklearn.exceptions.ConvergenceWarning")


def rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X, X_next = rng.normal(size=(2, n, d)) * (rng.random((2, n, d)) < 0.5)
    return X, rng.normal(size=n), X_next, rng.uniform(0, 0.9, n), rng.random(n) * 2


def written_out(X, y, X_next, discount, ratio, lam, ridge):
    A, b, e = np.zeros((X.shape[1],) * 2), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t in range(len(y)):
        before = discount[t - 1] * lam * e if t else 0.0
        e = ratio[t] * (X[t] + before)
        A += np.outer(e, X[t] - discount[t] * X_next[t]) / len(y)
        b += y[t] * e / len(y)
    return np.linalg.solve(A + np.diag(ridge), b)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("lam", [0.0, 0.6])
@pytest.mark.parametrize(("n", "d"), [(6, 9), (40, 9), (300, 9), (300, 310)])
def test_l2_lstd_is_the_written_out_solution(n, d, lam, form):
    X, y, X_next, discount, ratio = rows(n, d)
    wanted = written_out(X, y, X_next, discount, ratio, lam, np.full(d, 0.3))
    model = LSTD(alpha=0.3, lam=lam).fit(form(X), y, form(X_next), discount=discount, ratio=ratio)
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-8, atol=1e-10)
    assert (model.status_, model.rank_) == ("converged", d)


@pytest.mark.parametrize("free", [0, 2])
def test_every_feature_may_have_its_own_ridge(free):
    X, y, X_next, discount, ratio = rows(20, 30)
    factor = np.random.default_rng(1).uniform(0.5, 2.0, 30)
    factor[:free] = 0.0
    wanted = written_out(X, y, X_next, discount, ratio, 0.0, 0.3 * factor)
    solver, table = least_squares.LeastSquares(), td()
    batch = Batch(X, X_next, y, discount, ratio, np.ones(20, bool), np.ones(20))
    state = solver.update(solver.init(table, 30, np.float64), batch, table)
    np.testing.assert_allclose(solver.result(state, table, Ridge(0.3), factor).coef, wanted, rtol=1e-8)


@pytest.mark.parametrize(("n", "ridge", "size"), [(20, 0.3, 20), (20, 0.0, 20), (40, 0.3, 30)])
def test_the_smaller_system_is_solved(n, ridge, size):
    X, y, X_next, _, _ = rows(n, 30)
    with patch.object(least_squares, "solve", wraps=least_squares.solve) as solve:
        LSTD(alpha=ridge).fit(X, y, X_next)
    assert solve.call_args.args[0].shape == (size, size)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n", [3, 20, 29])
def test_without_a_ridge_few_rows_give_the_solution_of_least_norm(n, form):
    X, y, X_next, discount, ratio = rows(n, 30)
    X[n // 2] = X[0]  # rows that are not independent
    X_next[n // 2] = X_next[0]
    discount[n // 2] = discount[0]
    A = (ratio[:, None] * X).T @ (X - discount[:, None] * X_next) / n
    wanted = np.linalg.pinv(A, rcond=1e-12) @ (X.T @ (ratio * y)) / n
    model = LSTD().fit(form(X), y, form(X_next), discount=discount, ratio=ratio)
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-7, atol=1e-9)
    assert (model.status_, model.rank_) == ("singular", n - 1)


def test_many_features_and_few_rows_take_no_square_matrix():
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 200_000), density=1e-4, rng=rng, format="csr")
    model = LSTD(gamma=0.5).fit(X, rng.normal(size=40), X[::-1].tocsr())
    assert np.isfinite(model.coef_).all()
    assert 0 < model.rank_ <= 40


@pytest.mark.parametrize(("alpha", "occurring"), [(0.0, 7), (0.5, 7), (0.0, 30_000)])
def test_features_that_no_row_has_cost_nothing(alpha, occurring):
    n, width = 20_000 if occurring == 7 else 30, 2**20
    rng = np.random.default_rng(1)
    columns = np.sort(rng.choice(width, occurring, replace=False))
    small = sp.csr_array((rng.normal(size=2 * n), rng.integers(0, occurring, 2 * n), np.arange(0, 2 * n + 1, 2)))
    wide = sp.csr_array((small.data, columns[small.indices], small.indptr), shape=(n, width))
    y = rng.normal(size=n)
    found, wanted = LSTD(gamma=0.5, alpha=alpha).fit(wide, y), LSTD(gamma=0.5, alpha=alpha).fit(small, y)
    np.testing.assert_allclose(found.coef_[columns[: small.shape[1]]], wanted.coef_, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(found.coef_) == np.count_nonzero(wanted.coef_)
    assert found.rank_ == (width if alpha else wanted.rank_)


def test_units_do_not_make_features_dependent():
    X, y, X_next, discount, ratio = rows(60, 4)
    units = np.array([1e-8, 1e8, 1.0, 10.0])
    plain = LSTD().fit(X, y, X_next, discount=discount, ratio=ratio)
    scaled = LSTD().fit(X * units, y, X_next * units, discount=discount, ratio=ratio)
    assert (scaled.status_, scaled.rank_) == ("converged", 4)
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-6)
