"""A fit whose numbers cannot be right says so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from sparsetd import LSTD, ROTD, TDC, SparseTD
from sparsetd.estimators.base import DivergenceWarning
from sparsetd.estimators.plausible import Watch
from sparsetd.system import Batch


def rows(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_stream_with_values_beyond_ten_times_the_bound_is_suspicious(form):
    X, y = rows()
    model = ROTD(step_size=50.0, gamma=0.9)
    with pytest.warns(DivergenceWarning, match="ROTD predicts values of up to .* allow 10 at most"):
        model.fit(form(X), y)
    assert model.status_ == "suspicious"
    with pytest.warns(DivergenceWarning, match="values of up to"):
        model.partial_fit(form(X), y)


def test_values_within_the_bound_are_not_suspicious():
    X, y = rows()
    assert TDC(gamma=0.9).fit(X, y).status_ == "finished"
    assert LSTD(gamma=0.9).fit(X, y).status_ == "converged"


def test_the_bound_counts_rewards_of_earlier_calls_and_the_start():
    X, y = rows()
    model = TDC(gamma=0.5, step_size=0.01).partial_fit(X, 1000 * y)
    assert model.partial_fit(X, 0.001 * y).status_ == "finished"  # its values are still those of the large rewards
    assert TDC(step_size=1e-6, coef_init=np.full(6, 1e6)).fit(X, y).status_ == "finished"


def test_the_bound_is_ten_times_the_largest_reward_over_one_less_the_discount():
    X = np.array([[0.0], [0.0], [2.0]])
    batch = Batch(X, X, np.array([0.5, 0.0, -1.0]), np.array([0.75, 0.0, 0.0]), *np.ones((3, 3)))
    watch = Watch().after(batch)  # allows max|r|/(1 − γ) = 4, at φ = 2
    assert watch.complaint(np.array([19.9]), None) == ""
    assert "40.2 on rows" in watch.complaint(np.array([20.1]), None)
    assert watch.complaint(np.array([100.1]), np.array([10.1])) == ""
    assert "not finite" in watch.complaint(np.array([np.inf]), None)


def test_a_median_far_outside_of_what_rewards_allow_is_suspicious():
    X = np.ones((3, 1))
    batch = Batch(X, X, np.array([0.0, 1.0, 1.0]), np.array([0.95, 0.95, 0.0]), *np.ones((3, 3)))
    watch = Watch().after(batch)  # allows 0 to 20
    assert watch.complaint(np.array([-9.9]), None) == watch.complaint(np.array([29.9]), None) == ""
    assert "values around -54 on rows whose rewards and discounts allow 0 to 20" in watch.complaint(
        np.array([-54.0]), None
    )
    assert watch.complaint(np.array([-54.0]), np.array([-60.0])) == ""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", [SparseTD(), TDC(), LSTD(alpha=0.1)])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_features_whose_squares_vanish_do_not_end_as_converged(model, form):
    X, y = rows(d=3)
    with pytest.warns(DivergenceWarning, match="rescale"):
        assert clone(model).fit(form(1e-310 * X), y).status_ == "suspicious"


@pytest.mark.parametrize("name", ["LSTD", "LARSTD", "OMPTD", "LSTDL1", "DantzigLSTD", "RALP", "SparseTD"])
@pytest.mark.parametrize("dense_first", [True, False])
def test_dense_and_sparse_rows_may_alternate_in_every_batch_method(name, dense_first):
    from sparsetd import estimators

    X, y = rows(80, 4)
    forms = (np.asarray, csr_array) if dense_first else (csr_array, np.asarray)
    model, whole = getattr(estimators, name)(gamma=0.5), getattr(estimators, name)(gamma=0.5)
    for part, form in zip((slice(0, 40), slice(40, 80)), forms, strict=True):
        model.partial_fit(form(X[part]), y[part])
        whole.partial_fit(X[part], y[part])
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-9)
    assert model._state.batch().is_sparse != dense_first  # what is kept has the form of the first rows


def test_an_old_parameter_name_is_refused_with_the_new_one():
    with pytest.raises(TypeError, match=r"LSTD has no parameter rho_theta .*write alpha"):
        LSTD(rho_theta=0.1)
    with pytest.raises(TypeError, match="write alpha"):
        LSTD().set_params(rho_theta=0.1)
