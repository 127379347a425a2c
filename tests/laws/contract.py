"""What all estimators share: the attributes after a fit, what the columns mean, containers, and refusals."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from laws.small_log import Log, assert_close, assert_same, fitted, log, numbers, streamed

NAMES = list("abcd")

# --- what a fit leaves behind -----------------------------------------------------------------------------------------


def attributes_are_what_the_docs_say(estimator: Any, rows: Log) -> None:
    model = clone(estimator)
    assert model.fit(rows.X, rows.y, rows.X_next) is model
    for name in ("coef_", "coef_last_", "aux_", "dual_", "intercept_", "support_", "n_iter_", "status_", "history_"):
        assert hasattr(model, name), f"{name} is missing after fit"
    model = fitted(estimator, rows)
    assert model.coef_.shape == model.coef_last_.shape == model.support_.shape == (4,)
    assert model.aux_ is None or model.aux_.shape == (4,)
    assert isinstance(model.intercept_, float)
    assert isinstance(model.n_iter_, int)
    assert model.n_iter_ >= 1
    assert re.fullmatch("[a-z_]+", model.status_), f"status_ is {model.status_!r}"
    assert all(np.isfinite(a).all() for a in numbers(model)), "something learnt is not finite"
    lengths = {len(column) for column in model.history_.values()}
    assert len(lengths) <= 1, f"columns of history_ have lengths {sorted(lengths)}"


def support_is_what_the_docs_say(estimator: Any) -> None:
    for tolerance in (0.0, 0.3):
        model = fitted(estimator, log(), support_tol=tolerance)
        magnitude = np.abs(model.coef_)
        assert np.array_equal(model.support_, magnitude > tolerance * magnitude.max())


def prediction_is_linear(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows)
    values = rows.X @ model.coef_ + model.intercept_
    for X in (rows.X, sp.csr_array(rows.X)):
        assert np.allclose(model.predict(X), values, rtol=1e-12, atol=1e-12)


def score_is_at_most_one_and_zero_for_zero(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows)
    score = model.score(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert np.isfinite(score)
    assert score <= 1.0 + 1e-12
    model.coef_, model.intercept_ = np.zeros_like(model.coef_), 0.0
    assert abs(model.score(rows.X, rows.y, rows.X_next, **rows.keywords)) < 1e-12


def arguments_are_left_alone(estimator: Any, rows: Log) -> None:
    model, before = clone(estimator), copy.deepcopy(rows)
    parameters = repr(model.get_params())
    model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)
    assert repr(model.get_params()) == parameters
    for name, column in vars(rows).items():
        assert np.array_equal(column, getattr(before, name)), f"fit changed {name}"


def a_fit_forgets_what_was_before(estimator: Any, rows: Log) -> None:
    other = log(seed=1)
    for model in (clone(estimator), fitted(estimator, other), streamed(estimator, other, ())):
        model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)
        assert_same(model, fitted(estimator, rows), "the same rows after something else")


def a_pickle_goes_on_with_the_stream(estimator: Any, rows: Log) -> None:
    model = streamed(estimator, rows[:20], ())
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own bytes)
    assert np.array_equal(model.predict(rows.X), copied.predict(rows.X))
    rest = rows[20:]
    copied.partial_fit(rest.X, rest.y, rest.X_next, **rest.keywords)
    assert_same(copied, streamed(estimator, rows, (20,)), "a stream through a pickle")


# --- what the columns mean --------------------------------------------------------------------------------------------


def the_next_row_is_the_successor(estimator: Any) -> None:
    rows = log(n=600, d=3)  # more than are taken at once
    bare = rows.but(X_next=None, start=None, discount=None)
    explicit = bare.but(X_next=np.roll(rows.X, -1, axis=0), discount=np.append(np.full(599, 0.7), 0.0))
    assert_same(fitted(estimator, bare, gamma=0.7), fitted(estimator, explicit, gamma=0.7), "X_next=None")


def the_row_before_a_start_terminates(estimator: Any, rows: Log) -> None:
    ends = np.append(rows.start[1:], True)
    explicit = rows.but(X_next=np.roll(rows.X, -1, axis=0), discount=np.where(ends, 0.0, rows.discount))
    assert_same(fitted(estimator, rows.but(X_next=None)), fitted(estimator, explicit), "X_next=None with starts")


def columns_that_are_left_out_have_their_defaults(estimator: Any, rows: Log) -> None:
    one, none = rows.but(ratio=np.ones(len(rows.y))), rows.but(ratio=None)
    assert_same(fitted(estimator, one), fitted(estimator, none), "ratio 1 against none")
    model, again = fitted(estimator, rows), clone(estimator)
    again.fit(rows.X, rows.y, rows.X_next, **rows.keywords, interest=np.ones(len(rows.y)))
    assert_same(model, again, "interest 1 against none")
    discounted, bare = rows.but(discount=np.full(len(rows.y), 0.6)), rows.but(discount=None)
    assert_same(fitted(estimator, discounted, gamma=0.2), fitted(estimator, bare, gamma=0.6), "discount against gamma")


def an_intercept_is_a_constant_feature(estimator: Any, rows: Log) -> None:
    wide = rows.with_features(lambda X: np.column_stack([X, np.ones(len(X))]))
    inside = fitted(estimator, rows, fit_intercept=True)
    outside = fitted(estimator, wide, fit_intercept=False, unpenalized=(4,))
    assert np.allclose(np.append(inside.coef_, inside.intercept_), outside.coef_, rtol=1e-9, atol=1e-9)


# --- containers -------------------------------------------------------------------------------------------------------


def any_array_of_the_same_numbers_is_the_same(estimator: Any, rows: Log) -> None:
    strided = rows.but(X=np.repeat(rows.X, 2, axis=1)[:, ::2], X_next=np.asfortranarray(rows.X_next))
    frozen = log()
    for column in vars(frozen).values():
        column.setflags(write=False)
    lists = Log(*(column.tolist() for column in vars(rows).values()))
    for what, same in (("strided and Fortran", strided), ("read-only", frozen), ("lists", lists)):
        assert_same(fitted(estimator, rows), fitted(estimator, same), what)


def features_of_other_types_are_numbers(estimator: Any, rows: Log) -> None:
    whole = rows.but(X=np.rint(3 * rows.X).astype(np.int32), X_next=np.rint(3 * rows.X_next).astype(np.int64))
    real, single = whole.with_features(np.float64), rows.with_features(np.float32)
    assert_same(fitted(estimator, real, gamma=0.5), fitted(estimator, whole, gamma=0.5), "integer features")
    model = fitted(estimator, single.with_features(np.float64))
    assert_close(model, fitted(estimator, single), "float32 against float64", tolerance=2e-3)


def one_of_the_two_matrices_may_be_sparse(estimator: Any, rows: Log) -> None:
    for mixed in (rows.but(X=sp.csr_array(rows.X)), rows.but(X_next=sp.csr_array(rows.X_next))):
        assert_close(fitted(estimator, rows), fitted(estimator, mixed), "one of X and X_next sparse")


def frames_equal_arrays_and_give_names(estimator: Any, rows: Log) -> None:
    for package, columns in (("pandas", "columns"), ("polars", "schema")):
        if find_spec(package) is not None:
            frame = import_module(package).DataFrame
            model = fitted(estimator, rows.with_features(lambda X: frame(X, **{columns: NAMES})))  # noqa: B023
            assert_same(fitted(estimator, rows), model, f"{package} frames")
            assert list(model.feature_names_in_) == NAMES


# --- refusals: one sentence that names the argument and the first bad row ---------------------------------------------


def a_bad_number_is_refused_with_its_row(estimator: Any, rows: Log) -> None:
    bad = [(name, 13, np.nan, "NaN") for name in ("X", "y", "X_next", "ratio", "discount")]
    bad += [(name, 13, np.inf, "inf") for name in ("X", "y", "X_next", "ratio")]
    bad += [("ratio", 5, -0.5, r"-0\.5"), ("discount", 6, 1.5, r"1\.5"), ("start", 9, 7, "start")]
    for name, row, value, said in bad:
        column = np.array(getattr(rows, name), dtype=float)
        column[row] = value
        _refused(estimator, rows.but(**{name: column}), rf"\b{name}\b", rf"row {row}\b", said)


def columns_of_another_size_are_refused(estimator: Any, rows: Log) -> None:
    for name in ("ratio", "discount", "start"):
        column = getattr(rows, name)
        for other in (column[:-1], np.append(column, column[:1])):
            _refused(estimator, rows.but(**{name: other}), name, "48")
    _refused(estimator, rows.but(X_next=rows.X_next[:-1]), "X_next", "47", "48")
    _refused(estimator, rows.but(X_next=rows.X_next[:, :-1]), "3 features", "4 features")
    _refused(estimator, rows[:0], "0 sample")
    _refused(estimator, rows.with_features(lambda X: X[:, :0]), "0 feature")
    model, wide = streamed(estimator, rows, ()), log(d=5)
    _says(lambda: model.partial_fit(wide.X, wide.y, wide.X_next), "5 features")


def bad_hyperparameters_are_refused(estimator: Any, rows: Log) -> None:
    bad: list[tuple[str, Any]] = [("gamma", gamma) for gamma in (-0.1, 1.1, np.nan, "high")]
    bad += [("step_size", -1.0), ("rho_theta", -1.0), ("rho_w", -1.0), ("alpha", -1.0), ("eta", 0.0), ("lam", 2.0)]
    bad += [("n_passes", 0), ("average", "al"), ("fit_norm", 3), ("support_tol", 1.0), ("coef_init", [1.0])]
    known = estimator.get_params()
    for name, value in bad:
        if name in known:
            _refused(estimator, rows, name, **{name: value})
    for unknown in ("nobody", 99):
        _refused(estimator, rows, "unpenalized", str(unknown), unpenalized=(unknown,))


def _refused(estimator: Any, rows: Log, *wanted: str, **parameters: Any) -> None:
    _says(lambda: fitted(estimator, rows, **parameters), *wanted)


def _says(action: Callable[[], Any], *wanted: str) -> None:
    """Raise unless the action is refused in a sentence that has all the wanted patterns."""
    try:
        action()
    except (ValueError, TypeError) as error:
        sentence = str(error)
    else:
        raise AssertionError(f"nothing was said about {', '.join(wanted)}")
    for pattern in wanted:
        assert re.search(pattern, sentence), f"{sentence!r} does not say {pattern!r}"
