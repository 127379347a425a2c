"""What a change of units, names or order does to the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.testing.logs import Log, assert_close, concerns, fitted


def permuting_features_permutes_coefficients(estimator: Any, rows: Log) -> None:
    order = np.array([2, 0, 3, 1])
    model = fitted(estimator, rows.with_features(lambda X: X[:, order]))
    assert np.allclose(model.coef_, fitted(estimator, rows).coef_[order], rtol=1e-8, atol=1e-9)


def flipping_a_feature_flips_its_coefficient(estimator: Any, rows: Log) -> None:
    sign = np.array([1.0, -1.0, 1.0, -1.0])
    model = fitted(estimator, rows.with_features(lambda X: X * sign))
    assert np.allclose(model.coef_, fitted(estimator, rows).coef_ * sign, rtol=1e-8, atol=1e-9)


def negating_rewards_negates_values(estimator: Any, rows: Log) -> None:
    concerns(getattr(estimator, "_odd", True))
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
    concerns(linear and getattr(solver, "exponent", 2.0) == 2.0 and getattr(estimator, "_homogeneous", True))
    model = fitted(estimator, rows)
    model.coef_ = 8.0 * model.coef_
    assert_close(model, fitted(estimator, rows.but(y=8.0 * rows.y)), "rewards times 8")


def a_feature_that_is_always_zero_gets_zero(estimator: Any, rows: Log) -> None:
    model = fitted(estimator, rows.with_features(lambda X: X * [1.0, 0.0, 1.0, 1.0]))
    assert abs(model.coef_[1]) < 1e-12


def an_extra_zero_feature_changes_nothing(estimator: Any, rows: Log) -> None:
    wide = rows.with_features(lambda X: np.column_stack([X, np.zeros(len(X))]))
    assert np.allclose(fitted(estimator, wide).coef_[:4], fitted(estimator, rows).coef_, rtol=1e-7, atol=1e-9)
