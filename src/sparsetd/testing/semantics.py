"""What the columns of a log mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from sparsetd.system import Array
from sparsetd.testing.logs import Log, assert_close, assert_same, concerns, fitted, log


def a_terminal_row_never_bootstraps(estimator: Any, rows: Log) -> None:
    other = rows.X_next.copy()
    other[rows.discount == 0] = 1e3
    assert (rows.discount == 0).any()
    assert_close(fitted(estimator, rows), fitted(estimator, rows.but(X_next=other)), "successors of terminal rows")


def a_truncated_row_does_bootstrap(estimator: Any, rows: Log) -> None:
    cut = np.append(rows.start[1:], True) & (rows.discount > 0)
    other = rows.X_next.copy()
    other[cut] *= -3.0
    assert cut.any()
    one, two = fitted(estimator, rows), fitted(estimator, rows.but(X_next=other))
    moved = np.abs(one.coef_last_ - two.coef_last_).max() > 0 or not one.coef_last_.any()
    assert moved, "the successor of a row that was only cut short had no effect"


def the_next_row_is_the_successor(estimator: Any, rows: Log) -> None:
    bare = rows.but(X_next=None, start=None, discount=None)
    explicit = bare.but(X_next=_shifted(rows.X), discount=np.append(np.full(len(rows.y) - 1, 0.7), 0.0))
    assert_same(fitted(estimator, bare, gamma=0.7), fitted(estimator, explicit, gamma=0.7), "X_next=None")


def the_row_before_a_start_terminates(estimator: Any, rows: Log) -> None:
    ends = np.append(rows.start[1:], True)
    explicit = rows.but(X_next=_shifted(rows.X), discount=np.where(ends, 0.0, rows.discount))
    assert_same(fitted(estimator, rows.but(X_next=None)), fitted(estimator, explicit), "X_next=None with starts")


def ratio_one_is_on_policy(estimator: Any, rows: Log) -> None:
    one, none = rows.but(ratio=np.ones(len(rows.y))), rows.but(ratio=None)
    assert_same(fitted(estimator, one), fitted(estimator, none), "ratio 1 against none")


def a_row_of_ratio_zero_is_no_row(estimator: Any, rows: Log) -> None:
    """In a system of θ alone with the ratio in the trace, and no trace, A_t = b_t = 0: the answer is that of the other
    rows."""
    table = estimator._parts()[0]
    streaming = "step_size" in estimator.get_params()
    concerns(table.n_blocks == 1 and table.trace == "state" and table.lam == 0 and not streaming)
    concerns(_unpenalised(estimator))  # a mean over fewer rows that count moves penalised answers
    kept = np.arange(len(rows.y)) % 3 != 0
    zeroed = rows.but(ratio=np.where(kept, rows.ratio, 0.0))
    model, rest = fitted(estimator, zeroed), fitted(estimator, rows[kept])
    assert_close(rest, model, "rows of ratio 0")


def a_step_of_ratio_zero_moves_nothing(estimator: Any, rows: Log) -> None:
    """Streaming in θ alone without a penalty: a row of ratio 0 leaves θ where it was."""
    table = estimator._parts()[0]
    concerns(table.n_blocks == 1 and table.trace == "state" and table.lam == 0)
    concerns("step_size" in estimator.get_params() and _unpenalised(estimator) and not estimator._parts()[2].saddle)
    ratio = rows.ratio.copy()
    ratio[-5:] = 0.0
    one, other = fitted(estimator, rows.but(ratio=ratio)), fitted(estimator, rows[:-5])
    assert np.allclose(one.coef_last_, other.coef_last_, rtol=0, atol=1e-15)


def action_values_need_no_ratio_without_traces(estimator: Any, rows: Log) -> None:
    table = estimator._parts()[0]
    concerns(table.trace == "action" and table.lam == 0)
    assert_same(fitted(estimator, rows), fitted(estimator, rows.but(ratio=None)), "the ratio of action values at λ = 0")


def discount_replaces_gamma(estimator: Any) -> None:
    rows = log().but(discount=np.full(48, 0.6))
    assert_same(fitted(estimator, rows, gamma=0.2), fitted(estimator, rows.but(discount=None), gamma=0.6), "discount")


def gamma_zero_ignores_the_successor(estimator: Any) -> None:
    rows = log().but(discount=None)
    one, other = fitted(estimator, rows, gamma=0.0), fitted(estimator, rows.but(X_next=rows.X_next[::-1]), gamma=0.0)
    assert_close(one, other, "γ = 0")


def interest_one_is_the_default(estimator: Any, rows: Log) -> None:
    model, again = fitted(estimator, rows), clone(estimator)
    again.fit(rows.X, rows.y, rows.X_next, **rows.keywords, interest=np.ones(len(rows.y)))
    assert_same(model, again, "interest 1")


def an_intercept_is_a_constant_feature(estimator: Any, rows: Log) -> None:
    wide = rows.with_features(lambda X: np.column_stack([X, np.ones(len(X))]))
    inside = fitted(estimator, rows, fit_intercept=True)
    outside = fitted(estimator, wide, fit_intercept=False, unpenalized=(4,))
    assert np.allclose(np.append(inside.coef_, inside.intercept_), outside.coef_, rtol=1e-9, atol=1e-9)


def _shifted(X: Array) -> Array:
    return np.vstack([X[1:], X[-1:]])


def _unpenalised(estimator: Any) -> bool:
    shrinkage = estimator._parts()[1].shrinkage(1)
    return shrinkage is not None and not shrinkage[0].any() and not shrinkage[1].any()
