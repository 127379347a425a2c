"""One sentence about each wrong thing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from laws.small_log import log
from sklearn.base import clone

from sparsetd import LSTD, ROTD, TD, LinearTD, penalties, solvers
from sparsetd.estimators import PFGTD, DivergenceWarning, base
from sparsetd.logs.checks import finite as check_finite
from sparsetd.solvers import PowerDecay

ROWS = log()


def fit(model, **changes):
    rows = ROWS.but(**changes)
    return model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"gamma": 1.5}, r"gamma=1.5 must be a number in \[0, 1\]"),
        ({"gamma": True}, "gamma=True must be a number"),
        ({"eta": -1.0}, "eta=-1.0 must be a positive finite number"),
        ({"rho_theta": np.nan}, "rho_theta=nan must be a finite number of at least 0"),
        ({"step_size": 0.0}, "step_size=0.0 must be a positive number, or a function"),
        ({"step_size": np.inf}, "step_size=inf must be"),
        ({"n_passes": 1.5}, "n_passes=1.5 must be a whole number of at least 1"),
        ({"average": "sufix"}, "average='sufix' is not known; did you mean 'suffix'"),
        ({"fit_norm": "2"}, "fit_norm='2' is not known; did you mean '2'"),
        ({"radius": 0}, "radius=0 must be a positive number"),
    ],
)
def test_hyperparameters(parameters: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        fit(ROTD(**parameters))


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        (lambda t: np.zeros(len(t)), "step_size gave 0.0 at step 0; steps must be positive and finite"),
        (lambda t: 1.0 / (t - 3.0) ** 2, "step_size gave inf at step 3"),
        (lambda t: 0.1, "step_size returned shape \\(\\) for .* a schedule maps an array"),  # noqa: ARG005
    ],
)
def test_schedules(schedule, sentence: str) -> None:
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match=sentence):
        fit(TD(step_size=schedule))


def test_a_nan_in_a_sparse_matrix_is_found_in_its_row() -> None:
    X = sp.csr_array(ROWS.X)
    X.data[X.indptr[7] + 1] = np.nan
    with pytest.raises(ValueError, match=r"`X` must be finite, but row 7 holds nan"):
        fit(LSTD(), X=X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e150])
@pytest.mark.parametrize("where", ["X", "X_next"])
@pytest.mark.parametrize("model", [TD(step_size=0.1), TD(), ROTD(), ROTD(rho_theta=0.01), PFGTD(), ROTD(fit_norm=1)])
def test_a_stream_that_stops_at_a_bad_row_names_it_and_stays_as_it_was(model, where, bad, monkeypatch) -> None:
    monkeypatch.setattr(base, "WORTH_A_COPY", 0)
    model = fit(clone(model))
    before = model.coef_.copy(), model.n_iter_, [*model.history_["n_iter"]]
    rows = np.array(getattr(ROWS, where), dtype=float)
    rows[6, 1] = bad
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=rf"`{where}` must be .* but row 6 holds"):
            call(ROWS.but(**{where: rows}).X, ROWS.y, ROWS.but(**{where: rows}).X_next, **ROWS.keywords)
        assert np.array_equal(model.coef_, before[0])
        assert (model.n_iter_, model.history_["n_iter"]) == before[1:]
    again = fit(clone(model))
    for other in (model, again):
        other.partial_fit(ROWS.X, ROWS.y, ROWS.X_next, **ROWS.keywords)
    assert np.array_equal(model.coef_, again.coef_)


def test_numbers_too_large_to_compute_with_are_refused() -> None:
    check_finite("y", np.full(48, 1e100))  # their squares are finite
    check_finite("y", np.full(48, 1e30, dtype=np.float32))  # their squares, in this precision, are not
    for huge in (1e101, -1e200):
        X = np.ones((48, 2))
        X[3, 1] = huge
        for rows in (X, np.asfortranarray(X), sp.csr_array(X)):
            with pytest.raises(ValueError, match=r"`X` must be at most 1e\+100 in size, but row 3 holds -?1e\+\d+"):
                check_finite("X", rows)


def test_text_where_numbers_belong() -> None:
    with pytest.raises(TypeError, match="`ratio` must hold numbers, but row 0 holds"):
        fit(LSTD(), ratio=["a"] * 48)


def test_an_unknown_operator_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="operator='gdt2' is not known; did you mean 'gtd2'"):
        fit(LinearTD(operator="gdt2"))


def test_what_is_no_penalty_is_refused() -> None:
    with pytest.raises(TypeError, match="has no value, prox and shrinkage"):
        fit(LinearTD(penalty=0.1))


def test_a_saddle_point_needs_an_operator_without_damping() -> None:
    with pytest.raises(ValueError, match="operator 'gtd' damps w"):
        fit(LinearTD(operator="gtd", solver=solvers.PrimalDual()))


def test_least_squares_needs_a_system_in_theta() -> None:
    with pytest.raises(ValueError, match="operator 'tdc' is not"):
        fit(LinearTD(operator="tdc", solver=solvers.LeastSquares()))
    with pytest.raises(ValueError, match="no penalty but a ridge"):
        fit(LinearTD(penalty=penalties.L1(0.1), solver=solvers.LeastSquares()))


def test_a_custom_penalty_has_its_limits() -> None:
    own = penalties.Custom(lambda x, step: x)  # noqa: ARG005
    with pytest.raises(ValueError, match="Euclidean"):
        fit(LinearTD(penalty=own, solver=solvers.MirrorDescent(p=3.0)))
    with pytest.raises(ValueError, match="treats every feature alike"):
        fit(LinearTD(penalty=own, fit_intercept=True))
    with pytest.raises(ValueError, match="pass value_function"):
        own.value(np.zeros((1, 2)))


def test_divergence_warns_with_what_to_try() -> None:
    with pytest.warns(DivergenceWarning, match="TD diverged after .* rows .* smaller step_size"):
        model = fit(TD(step_size=1e5))
    assert model.status_ == "diverged"
    assert model.n_iter_ < 48
    assert np.isfinite(model.coef_).all()


def test_an_empty_support_warns() -> None:
    with pytest.warns(UserWarning, match="set every coefficient to zero: rho_theta=1e\\+06"):
        fit(ROTD(rho_theta=1e6))


def test_zero_rewards_are_not_blamed_on_the_penalty() -> None:
    with pytest.warns(UserWarning, match="set every coefficient to zero, because every reward is 0"):
        ROTD(rho_theta=0.1).fit(np.eye(3), np.zeros(3))


def test_a_power_decay_is_what_it_says() -> None:
    np.testing.assert_allclose(PowerDecay(2.0, 10.0, 1.0)(np.array([0, 10, 30])), [2.0, 1.0, 0.5])


def test_unpenalized_features_by_name_and_by_number() -> None:
    pd = pytest.importorskip("pandas")
    frame = {name: pd.DataFrame(getattr(ROWS, name), columns=list("abcd")) for name in ("X", "X_next")}
    by_name = fit(ROTD(rho_theta=0.5, unpenalized=("c",)), **frame)
    by_number = fit(ROTD(rho_theta=0.5, unpenalized=(-2,)))
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)


def test_history_has_the_points_between_chunks() -> None:
    rows = log(n=3000)
    model = TD(n_passes=2).fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert model.history_["n_iter"][-1] == model.n_iter_ == 6000
    assert len(model.history_["n_iter"]) == 12


def test_history_does_not_outweigh_sparse_rows() -> None:
    wide = sp.csr_array((np.ones(6000), np.arange(6000), np.arange(6001)), shape=(6000, 12_000))
    assert TD(step_size=0.1).fit(wide, np.ones(6000)).history_["n_iter"] == [6000]
    narrow = sp.csr_array(np.ones((6000, 2)))
    assert len(TD(step_size=0.1).fit(narrow, np.ones(6000)).history_["n_iter"]) == 12


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.ones(3), np.ones(3), "Expected 2D array"),
        (np.ones((3, 2)), np.ones(4), "inconsistent numbers of samples"),
        (np.ones((3, 2)), np.ones((3, 2)), "y should be a 1d array"),
        (np.ones((0, 2)), np.ones(0), "0 sample"),
        (np.ones((3, 0)), np.ones(3), "0 feature"),
        (np.ones((3, 2)) * 1j, np.ones(3), "Complex data not supported"),
        (np.array([[1.0, np.nan]]), np.ones(1), "`X` must be finite"),
        (np.ones((2, 2)), np.array([1.0, np.inf]), "`y` must be finite, but row 1 holds inf"),
    ],
)
def test_arrays_that_are_no_table_of_numbers(X, y, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TD().fit(X, y)


def test_arrays_are_read_as_lists_are_and_leave_no_names_of_a_frame_behind() -> None:
    frame, plain = pd.DataFrame(ROWS.X), np.ascontiguousarray(ROWS.X)
    frame.columns = [f"c{i}" for i in range(plain.shape[1])]
    model = TD(step_size=0.1).fit(frame, ROWS.y)
    named = model.coef_
    model.fit(plain, ROWS.y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == plain.shape[1]
    np.testing.assert_array_equal(model.coef_, named)
    np.testing.assert_array_equal(TD(step_size=0.1).fit(plain.tolist(), ROWS.y.tolist()).coef_, named)
    with pytest.raises(ValueError, match="expecting"):
        model.partial_fit(plain[:, 1:], ROWS.y)
