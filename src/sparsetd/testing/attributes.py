"""What a fitted estimator has, and what fitting may not do."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 (of our own bytes, to see that it works)
import re
from typing import Any

import numpy as np
from sklearn.base import clone

from sparsetd.testing.logs import Log, assert_same, fitted, log, numbers, streamed


def fit_returns_the_estimator(estimator: Any, rows: Log) -> None:
    model = clone(estimator)
    assert model.fit(rows.X, rows.y, rows.X_next) is model


def attributes_are_all_there(estimator: Any) -> None:
    model = fitted(estimator, log())
    for name in ("coef_", "coef_last_", "aux_", "dual_", "intercept_", "support_", "n_iter_", "status_", "history_"):
        assert hasattr(model, name), f"{name} is missing after fit"


def shapes_follow_the_features(estimator: Any) -> None:
    model = fitted(estimator, log(d=4))
    assert model.coef_.shape == model.coef_last_.shape == model.support_.shape == (4,)
    assert model.aux_ is None or model.aux_.shape == (4,)
    assert isinstance(model.intercept_, float)


def everything_learnt_is_finite(estimator: Any) -> None:
    assert all(np.isfinite(a).all() for a in numbers(fitted(estimator, log())))


def status_is_a_word(estimator: Any) -> None:
    status = fitted(estimator, log()).status_
    assert re.fullmatch("[a-z_]+", status), f"status_ is {status!r}"


def rows_are_counted(estimator: Any) -> None:
    model = fitted(estimator, log(n=48))
    assert isinstance(model.n_iter_, int)
    assert model.n_iter_ >= 1


def history_is_a_table(estimator: Any) -> None:
    lengths = {len(column) for column in fitted(estimator, log()).history_.values()}
    assert len(lengths) <= 1, f"columns of history_ have lengths {sorted(lengths)}"


def support_is_what_the_docs_say(estimator: Any) -> None:
    for tolerance in (0.0, 0.3):
        model = fitted(estimator, log(), support_tol=tolerance)
        magnitude = np.abs(model.coef_)
        assert np.array_equal(model.support_, magnitude > tolerance * magnitude.max())


def prediction_is_linear(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows)
    assert np.allclose(model.predict(rows.X), rows.X @ model.coef_ + model.intercept_, rtol=1e-12, atol=1e-12)


def score_is_at_most_one(estimator: Any, rows: Log) -> None:
    score = fitted(estimator, rows).score(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert np.isfinite(score)
    assert score <= 1.0 + 1e-12


def score_of_nothing_is_zero(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows)
    model.coef_, model.intercept_ = np.zeros_like(model.coef_), 0.0
    assert abs(model.score(rows.X, rows.y, rows.X_next, **rows.keywords)) < 1e-12


def input_is_left_alone(estimator: Any, rows: Log) -> None:
    before = copy.deepcopy(rows)
    fitted(estimator, rows)
    for name, column in vars(rows).items():
        assert np.array_equal(column, getattr(before, name)), f"fit changed {name}"


def parameters_are_left_alone(estimator: Any, rows: Log) -> None:
    model = clone(estimator)
    before = copy.deepcopy(model.get_params())
    model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert repr(model.get_params()) == repr(before)


def fitting_twice_gives_the_same_bits(estimator: Any) -> None:
    assert_same(fitted(estimator, log()), fitted(estimator, log()), "the same rows")


def a_second_fit_forgets_the_first(estimator: Any) -> None:
    rows, other = log(seed=0), log(seed=1)
    model = fitted(estimator, other)
    model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert_same(model, fitted(estimator, rows), "fit after fit")


def a_fit_forgets_a_stream(estimator: Any, rows: Log) -> None:
    model = streamed(estimator, log(seed=1), ())
    model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert_same(model, fitted(estimator, rows), "fit after partial_fit")


def a_pickle_predicts_the_same(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows)
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own bytes)
    assert np.array_equal(model.predict(rows.X), copied.predict(rows.X))


def a_pickle_goes_on_with_the_stream(estimator: Any, rows: Log) -> None:
    model = streamed(estimator, rows[:20], ())
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own bytes)
    rest = rows[20:]
    copied.partial_fit(rest.X, rest.y, rest.X_next, **rest.keywords)
    assert_same(copied, streamed(estimator, rows, (20,)), "a stream through a pickle")
