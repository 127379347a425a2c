"""What each method must keep by itself: streams, what ends and ratios do, dense = sparse, and symmetries."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from laws.small_log import Log, assert_close, assert_same, concerns, fitted, log, streamed

# --- any split of a stream gives bitwise the model of one call --------------------------------------------------------


def pieces_equal_one_call(estimator: Any, rows: Log) -> None:
    short, sparse = log(n=18, d=3), rows.with_features(sp.csr_array)
    single_rows = tuple(range(1, 18))
    splits = [(rows, (17,)), (rows, (1, 2, 5, 31, 47)), (short, single_rows), (sparse, (9, 10, 40))]
    for whole, cuts in splits:
        assert_same(streamed(estimator, whole, ()), streamed(estimator, whole, cuts), f"cuts at {cuts}")


def long_streams_split_too(estimator: Any) -> None:
    rows, once = log(n=600, d=3), {"n_passes": 1} if "n_passes" in estimator.get_params() else {}
    model = streamed(estimator, rows, ())
    assert_same(model, streamed(estimator, rows, (100, 256, 300, 599)), "pieces of 600 rows")
    assert_same(model, fitted(estimator, rows, **once), "one pass of fit against partial_fit")


# --- ends, ratios and discounts ---------------------------------------------------------------------------------------


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


def gamma_zero_ignores_the_successor(estimator: Any) -> None:
    rows = log().but(discount=None)
    one, other = fitted(estimator, rows, gamma=0.0), fitted(estimator, rows.but(X_next=rows.X_next[::-1]), gamma=0.0)
    assert_close(one, other, "γ = 0")


def a_row_of_ratio_zero_is_no_row(estimator: Any, rows: Log) -> None:
    """In a system of θ alone with the ratio in the trace, and no trace, A_t = b_t = 0: the answer is that of the other
    rows."""
    concerns(_of_theta_alone(estimator) and "step_size" not in estimator.get_params())
    concerns(_unpenalised(estimator))  # a mean over fewer rows that count moves penalised answers
    kept = np.arange(len(rows.y)) % 3 != 0
    zeroed = rows.but(ratio=np.where(kept, rows.ratio, 0.0))
    assert_close(fitted(estimator, rows[kept]), fitted(estimator, zeroed), "rows of ratio 0")


def a_step_of_ratio_zero_moves_nothing(estimator: Any, rows: Log) -> None:
    """Streaming in θ alone without a penalty: a row of ratio 0 leaves θ where it was."""
    concerns(_of_theta_alone(estimator) and "step_size" in estimator.get_params())
    concerns(_unpenalised(estimator) and not estimator.triple()[2].saddle)
    ratio = rows.ratio.copy()
    ratio[-5:] = 0.0
    one, other = fitted(estimator, rows.but(ratio=ratio)), fitted(estimator, rows[:-5])
    assert np.allclose(one.coef_last_, other.coef_last_, rtol=0, atol=1e-15)


def action_values_need_no_ratio_without_traces(estimator: Any, rows: Log) -> None:
    table = estimator.triple()[0]
    concerns(table.trace == "action" and table.lam == 0)
    assert_same(fitted(estimator, rows), fitted(estimator, rows.but(ratio=None)), "the ratio of action values at λ = 0")


def _of_theta_alone(estimator: Any) -> bool:
    table = estimator.triple()[0]
    return table.n_blocks == 1 and table.trace == "state" and table.lam == 0


def _unpenalised(estimator: Any) -> bool:
    shrinkage = estimator.triple()[1].shrinkage(1)
    return shrinkage is not None and not shrinkage[0].any() and not shrinkage[1].any()


# --- dense = sparse ---------------------------------------------------------------------------------------------------


def csr_equals_dense(estimator: Any, rows: Log) -> None:
    """About half of the features are zero; in disorder or not, the same numbers give the same model."""
    keep = np.random.default_rng(7).random(rows.X.shape) < 0.5
    thin = rows.but(X=rows.X * keep, X_next=rows.X_next * keep[::-1])
    for container in (sp.csr_array, _disordered):
        assert_close(fitted(estimator, thin), fitted(estimator, thin.with_features(container)), container.__name__)


def action_blocks_in_csr_equal_dense(estimator: Any) -> None:
    rng = np.random.default_rng(3)

    def blocks(X: Any) -> Any:
        action = rng.integers(2, size=(len(X), 1))
        return np.hstack([X * action, X * (1 - action)])

    rows = log(n=60, d=3).with_features(blocks)
    assert_close(fitted(estimator, rows), fitted(estimator, rows.with_features(sp.csr_array)), "CSR action blocks")


def _disordered(X: Any) -> Any:
    """CSR with every entry in two halves, and the columns of a row in falling order."""
    matrix = sp.coo_array(X)
    i, j, halves = np.tile(matrix.row, 2), np.tile(matrix.col, 2), np.tile(matrix.data / 2, 2)
    order = np.lexsort([-j, i])
    ends = np.append(0, np.cumsum(np.bincount(i, minlength=matrix.shape[0])))
    return sp.csr_array((halves[order], j[order], ends), shape=matrix.shape)


# --- what a change of units, names or order does to the answer --------------------------------------------------------


def permuting_and_flipping_features_does_so_to_coefficients(estimator: Any, rows: Log) -> None:
    order, sign = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, 1.0, -1.0])
    coef = fitted(estimator, rows).coef_
    permuted = fitted(estimator, rows.with_features(lambda X: X[:, order])).coef_
    flipped = fitted(estimator, rows.with_features(lambda X: X * sign)).coef_
    assert np.allclose(permuted, coef[order], rtol=1e-8, atol=1e-9)
    assert np.allclose(flipped, coef * sign, rtol=1e-8, atol=1e-9)


def the_units_of_standardized_features_do_not_matter(estimator: Any, rows: Log) -> None:
    concerns(getattr(estimator, "standardize", False))
    units = np.array([1.0, 1e-3, 7.0, 200.0])
    coef = fitted(estimator, rows).coef_
    scaled = fitted(estimator, rows.with_features(lambda X: X * units)).coef_
    assert np.allclose(scaled * units, coef, rtol=1e-6, atol=1e-8)


def values_have_the_sign_of_the_rewards(estimator: Any, rows: Log) -> None:
    nothing = fitted(estimator, rows.but(y=np.zeros(len(rows.y))))
    assert np.abs(nothing.coef_).max() < 1e-12
    concerns(getattr(estimator, "_odd", True))
    negated = fitted(estimator, rows.but(y=-rows.y))
    assert np.allclose(negated.coef_, -fitted(estimator, rows).coef_, rtol=1e-8, atol=1e-9)


def scaling_rewards_scales_values(estimator: Any, rows: Log) -> None:
    """Return where the method is linear in the rewards: no penalty and no dual ball."""
    table, penalty, solver = estimator.triple()
    shrinkage = penalty.shrinkage(table.n_blocks)
    linear = shrinkage is not None and not shrinkage[0].any() and not getattr(solver, "saddle", False)
    concerns(linear and getattr(solver, "exponent", 2.0) == 2.0 and getattr(estimator, "_homogeneous", True))
    model = fitted(estimator, rows)
    model.coef_ = 8.0 * model.coef_
    assert_close(model, fitted(estimator, rows.but(y=8.0 * rows.y)), "rewards times 8")


def a_feature_that_is_always_zero_counts_for_nothing(estimator: Any, rows: Log) -> None:
    wide = fitted(estimator, rows.with_features(lambda X: np.insert(X, 1, 0.0, axis=1))).coef_
    assert abs(wide[1]) < 1e-12
    assert np.allclose(np.delete(wide, 1), fitted(estimator, rows).coef_, rtol=1e-7, atol=1e-9)
