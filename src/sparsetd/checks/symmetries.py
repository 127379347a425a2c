"""What a change of units, names or order does to the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.checks.logs import Log, assert_close, fitted, log


def permuting_features_permutes_coefficients(estimator: Any) -> None:
    rows, order = log(), np.array([2, 0, 3, 1])
    model = fitted(estimator, rows.but(X=rows.X[:, order], X_next=rows.X_next[:, order]))
    assert np.allclose(model.coef_, fitted(estimator, rows).coef_[order], rtol=1e-8, atol=1e-9)


def flipping_a_feature_flips_its_coefficient(estimator: Any) -> None:
    rows, sign = log(), np.array([1.0, -1.0, 1.0, -1.0])
    model = fitted(estimator, rows.but(X=rows.X * sign, X_next=rows.X_next * sign))
    assert np.allclose(model.coef_, fitted(estimator, rows).coef_ * sign, rtol=1e-8, atol=1e-9)


def negating_rewards_negates_values(estimator: Any, rows: Log) -> None:
    if not getattr(estimator, "_odd", True):
        return
    model = fitted(estimator, rows.but(y=-rows.y))
    assert np.allclose(model.coef_, -fitted(estimator, rows).coef_, rtol=1e-8, atol=1e-9)


def no_reward_no_value(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows.but(y=np.zeros(len(rows.y))))
    assert np.abs(model.coef_).max() < 1e-12


def scaling_rewards_scales_values(estimator: Any, rows: Log) -> None:
    """Where the method is linear in the rewards: no penalty and no dual ball."""
    table, penalty, solver = estimator._parts()
    shrinkage = penalty.shrinkage(table.n_blocks)
    linear = shrinkage is not None and not shrinkage[0].any() and not getattr(solver, "saddle", False)
    if not linear or getattr(solver, "exponent", 2.0) != 2.0 or not getattr(estimator, "_homogeneous", True):
        return
    assert_close(_scaled(fitted(estimator, rows), 8.0), fitted(estimator, rows.but(y=8.0 * rows.y)), "rewards times 8")


def a_feature_that_is_always_zero_gets_zero(estimator: Any, rows: Log) -> None:
    X, X_next = rows.X.copy(), rows.X_next.copy()
    X[:, 1] = X_next[:, 1] = 0.0
    model = fitted(estimator, rows.but(X=X, X_next=X_next))
    assert abs(model.coef_[1]) < 1e-12


def an_extra_zero_feature_changes_nothing(estimator: Any, rows: Log) -> None:
    zero = np.zeros((len(rows.y), 1))
    wide = rows.but(X=np.hstack([rows.X, zero]), X_next=np.hstack([rows.X_next, zero]))
    assert np.allclose(fitted(estimator, wide).coef_[:4], fitted(estimator, rows).coef_, rtol=1e-7, atol=1e-9)


def _scaled(model: Any, factor: float) -> Any:
    model.coef_ = factor * model.coef_
    return model
