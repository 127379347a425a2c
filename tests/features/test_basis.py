"""The basis that is built from raw columns: its functions written out naively, its bounds, its names, its shapes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from sparsetd.features import Basis
from sparsetd.features.basis import BOUND


def rows(n: int = 101, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [np.exp(rng.normal(size=n)), rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)]
    )


def scores(column: np.ndarray) -> np.ndarray:
    return np.clip(norm.ppf((rankdata(column) - 0.5) / len(column)), -BOUND, BOUND)


def test_functions_are_raw_columns_hinges_of_rank_scores_and_products_of_their_sides() -> None:
    X = rows()
    basis = Basis(n_knots=3).fit(X)
    psi, names = basis.transform(X), list(basis.get_feature_names_out(["lactate", "ill", "ward", "age"]))
    np.testing.assert_array_equal(psi[:, :4], X)
    z, w = scores(X[:, 0]), scores(X[:, 3])
    np.testing.assert_allclose(psi[:, names.index("lactate by rank")], z + BOUND, atol=1e-9)
    median = names.index(f"lactate above {np.median(X[:, 0]):.3g}")
    np.testing.assert_allclose(psi[:, median], np.maximum(z, 0), atol=1e-9)
    both = psi[:, names.index("lactate high × age low")]
    np.testing.assert_allclose(both, np.maximum(z, 0) * np.maximum(-w, 0), atol=1e-9)
    np.testing.assert_allclose(psi[:, names.index("ill × age high")], X[:, 1] * np.maximum(w, 0), atol=1e-9)
    three = psi[:, names.index("lactate high × ill × age low")]
    np.testing.assert_allclose(three, np.maximum(z, 0) * X[:, 1] * np.maximum(-w, 0), atol=1e-9)
    assert sum(name.startswith("ward above") for name in names) == 2  # its two inner values
    assert not any(name.startswith("ill above") for name in names)  # a dummy stays a dummy
    assert len(names) == len(set(names)) == psi.shape[1] == len(basis.owners_)


def test_nothing_but_a_raw_column_grows_outside_the_range_of_the_rows() -> None:
    X = rows()
    basis = Basis().fit(X)
    inside = basis.transform(np.vstack([X.min(axis=0), X.max(axis=0)]))
    far = basis.transform(np.vstack([X.min(axis=0) - 1e6, X.max(axis=0) + 1e6]))
    np.testing.assert_array_equal(inside[:, 4:], far[:, 4:])


def test_units_and_monotone_changes_of_a_column_change_only_the_raw_column() -> None:
    X = rows(150)
    other = np.column_stack([np.log(X[:, 0]), 5 - 3 * X[:, 1], 1e6 * X[:, 2], X[:, 3] ** 3])
    same, moved = Basis().fit(X), Basis().fit(other)
    one, two = same.transform(X)[:, 4:], moved.transform(other)[:, 4:]
    kept = [i for i, f in enumerate(same.functions_[4:]) if 1 not in f.columns]  # the dummy was turned round
    np.testing.assert_allclose(one[:, kept], two[:, kept], atol=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 0.1, 10.0, 1e5])
def test_rounding_in_another_unit_changes_no_score(unit: float) -> None:
    """With 1,001 rows every 200th quantile is the value of a row: rounding must not move it past that row."""
    X = rows(1001)
    one, other = Basis().fit(X).transform(X), Basis().fit(unit * X).transform(unit * X)
    np.testing.assert_allclose(one[:, 4:], other[:, 4:], atol=1e-9)


@pytest.mark.parametrize("room", [0, 7, 40, 160])
def test_the_most_promising_columns_come_first_where_not_all_find_room(room: int) -> None:
    X = np.random.default_rng(1).normal(size=(80, 12))
    order = [5, 3, 0, 1, 2, 4, 6, 7, 8, 9, 10, 11]
    basis = Basis(max_functions=room, order=order).fit(X)
    beside = basis.functions_[12:]
    assert len(beside) <= room
    single = list(dict.fromkeys(f.columns[0] for f in beside if len(f.columns) == 1))
    assert single == order[: len(single)]
    if room == 40:
        assert {f.columns for f in beside if f.sides} >= {(5, 3), (5, 0), (3, 0)}


def test_products_of_three_columns_come_after_all_pairs() -> None:
    X = np.random.default_rng(1).normal(size=(80, 4))
    sizes = [len(Basis(max_fine=room).fit(X).functions_[4:]) for room in (0, 48, 55, 56, 80, 91, 92)]
    assert sizes == [48, 48, 48, 56, 80, 80, 92]  # 4 × 6 of one column, 6 × 4 of pairs, 4 × 8 of three, 12 of far ends
    beside = Basis(max_fine=56, order=[2, 0, 3, 1]).fit(X).functions_[4:]
    assert {f.columns for f in beside if len(f.columns) == 3} == {(2, 0, 3)}


def test_knots_between_come_last_and_are_quantiles() -> None:
    X = np.random.default_rng(1).normal(size=(999, 2))
    few, more, most = (Basis(max_fine=room).fit(X).functions_[2:] for room in (28, 40, 80))
    assert [len(each) for each in (few, more, most)] == [28, 40, 64]  # 2 × (6 + 6 + 12) of one column, 16 products
    assert set(few) < set(more) < set(most)
    knots = sorted(f.knot for f in more if f.columns == (0,) and f.knot > -BOUND)
    np.testing.assert_allclose(knots, norm.ppf(np.arange(1, 12) / 12), atol=1e-12)


def test_a_shape_is_the_mean_of_the_function_over_the_other_columns() -> None:
    X = rows(60)
    basis = Basis(n_knots=3).fit(X)
    theta = np.random.default_rng(2).normal(size=len(basis.functions_))
    at = np.array([0.5, 1.0, 3.0])
    shape = basis.profile(0, at) @ theta
    mean = []
    for value in at:
        held = X.copy()
        held[:, 0] = value
        mean.append((basis.transform(held) @ theta).mean())
    np.testing.assert_allclose(np.diff(shape), np.diff(mean), atol=1e-9)


def test_constant_columns_get_no_function() -> None:
    X = np.column_stack([np.ones(30), np.arange(30.0)])
    assert all(0 not in f.columns for f in Basis().fit(X).functions_[2:])


def test_rows_are_extended_as_they_are_transformed():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 6))
    X[:, 3], X[:, 4], X[:, 5] = rng.integers(0, 2, 400), rng.choice([1.1, 3.7], 400), rng.integers(0, 4, 400) * 1.1
    basis = Basis(max_functions=150).fit(X[:300])  # later rows lie outside of what was seen
    assert {len(f.columns) for f in basis.functions_} == {1, 2, 3}
    after, ended = np.vstack([X[1:], X[:1]]), rng.random(400) < 0.1
    after[::7] += 0.3  # successors that are no row of the log
    room = np.empty((2, 400, len(basis.functions_) + 1))
    room[0, :, :6], room[1, :, :6] = X, after
    basis.extend(room[0], room[1], ended)
    assert np.array_equal(room[0, :, :-1], basis.transform(X))
    assert np.array_equal(room[1, :, :-1], basis.transform(np.where(ended[:, None], X, after)))
