"""FoundUnits that a stream finds: the plain rule on rows in those units, whatever the rows came in."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsetd import ROTD, TDC, TDRC, operators, penalties, solvers
from sparsetd.estimators import GTD, ROTDLasso
from sparsetd.problems import random_mdp
from sparsetd.solvers.compiled.rules import GX, REACH
from sparsetd.solvers.found_units import FIRST, FoundUnits
from sparsetd.storage.cache import Checkpoint
from sparsetd.system import Batch

N, D = 300, 6
SIZES = np.array([1e3, 1.0, 1e-3, 10.0, 0.1, 1.0])
SOLVERS = [
    solvers.DistanceOverGradients(rescale=True),
    solvers.DistanceOverGradients(rescale=True, extragradient=True),
    solvers.SaddleDistanceOverGradients(rescale=True, average="none"),
    solvers.LeastSquaresDistanceOverGradients(rescale=True),
]


def log(sparse: bool = False, constant: bool = False, n: int = N) -> Batch:
    """Columns of very different sizes; with a constant one the others are far from zero."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(n + 1, D)) * (rng.random((n + 1, D)) < 0.6)
    if constant:
        rows = 10.0 + rng.normal(size=(n + 1, D))
    rows *= SIZES
    if constant:
        rows[:, 2] = 1.0
    phi, phi_next = (sp.csr_array(rows[s]) if sparse else rows[s].copy() for s in (slice(n), slice(1, None)))
    discount = np.where(rng.random(n) < 0.1, 0.0, 0.9)
    return Batch(phi, phi_next, rng.normal(size=n), discount, np.ones(n), rng.random(n) < 0.1, np.ones(n))


def run(solver: Any, batch: Batch, table: Any, cuts: tuple[int, ...] = (), start: Any = None) -> Any:
    state, ends = solver.init(table, D, np.float64, start), (0, *cuts, len(batch))
    for first, stop in itertools.pairwise(ends):
        solver.update(state, batch[first:stop], table, penalties.NoPenalty())
    return state, solver.result(state, table, penalties.NoPenalty())


@pytest.mark.parametrize("lam", [0.0, 0.6])
@pytest.mark.parametrize(("sparse", "constant"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_any_split_gives_the_same_bits(solver: Any, sparse: bool, constant: bool, lam: float) -> None:
    batch, table = log(sparse, constant), operators.tdc(lam=lam)
    whole, one = run(solver, batch, table)
    pieces, other = run(solver, batch, table, cuts=(1, 15, 16, 17, 40, 64, 200))
    assert whole.units.scale is not None
    assert (whole.units.constant >= 0) == constant
    for a, b in ((whole.units.scale, pieces.units.scale), (one.coef, other.coef), (one.coef_last, other.coef_last)):
        assert np.array_equal(a, b)


def test_a_short_stream_gives_the_same_bits_row_by_row() -> None:
    """Averages forget at rows 2, 4 and 8 too, before the sizes are looked at for the first time."""
    batch, table = log(n=FIRST + 2), operators.tdc()
    one, other = (run(SOLVERS[0], batch, table, cuts)[1] for cuts in ((), tuple(range(1, FIRST + 2))))
    assert np.array_equal(one.coef, other.coef)


@pytest.mark.parametrize("lam", [0.0, 0.6])
def test_sparse_rows_give_what_dense_ones_do(lam: float) -> None:
    table, solver = operators.tdc(lam=lam), SOLVERS[0]
    dense, sparse = (run(solver, log(kind), table)[1] for kind in (False, True))
    np.testing.assert_allclose(sparse.coef * SIZES, dense.coef * SIZES, rtol=0, atol=1e-10)


@pytest.mark.parametrize("model", [TDC(), TDRC(), ROTD()], ids=lambda model: type(model).__name__)
def test_a_column_that_a_sparse_row_names_twice_counts_once(model: Any) -> None:
    """Popular columns come several times in a row, and the sizes of the columns differ by 10⁴."""
    rng, n, d = np.random.default_rng(4), 600, 40
    lengths = rng.integers(1, 12, n + 1)
    indices = rng.zipf(1.3, lengths.sum()) % d
    values = rng.normal(size=len(indices)) * 10.0 ** (indices % 5 - 2)
    rows = sp.csr_array((values, indices, np.append(0, np.cumsum(lengths))), shape=(n + 1, d))
    assert not rows.has_canonical_format
    y, dense = rng.normal(size=n), rows.toarray()
    found = clone(model).fit(rows[:n], y, rows[1:])
    exact = clone(model).fit(dense[:n], y, dense[1:])
    assert found._state.units.scale is not None
    np.testing.assert_allclose(found.coef_, exact.coef_, rtol=0, atol=1e-10 * np.abs(exact.coef_).max())


def test_it_is_the_plain_rule_on_rows_in_these_units() -> None:
    """An oracle that shares no code: standardise the first rows by hand, then run the rule on what follows them."""
    batch, table = log(constant=True, n=FIRST + 14), operators.tdc()
    seen = batch.phi[:FIRST]
    shift, scale = seen.mean(axis=0), seen.std(axis=0)
    shift[2], scale[2] = 0.0, 1.0
    after = batch[FIRST:]
    by_hand = Batch((after.phi - shift) / scale, (after.phi_next - shift) / scale, *list(vars(after).values())[2:])
    expected = run(solvers.DistanceOverGradients(), by_hand, table)[1].coef_last / scale
    expected[2] -= expected @ shift
    found = run(SOLVERS[0], batch, table)[1].coef_last
    np.testing.assert_allclose(found * scale, expected * scale, rtol=1e-9)


def test_columns_of_similar_size_are_left_alone() -> None:
    batch, table = log(), operators.tdc()
    even = Batch(batch.phi / SIZES, batch.phi_next / SIZES, *list(vars(batch).values())[2:])
    state, found = run(SOLVERS[0], even, table)
    assert state.units.scale is None
    assert np.array_equal(found.coef, run(solvers.DistanceOverGradients(), even, table)[1].coef)


def test_a_checkpoint_keeps_the_units(tmp_path: Any) -> None:
    batch, table, solver = log(constant=True), operators.tdc(), SOLVERS[2]
    state = solver.init(table, D)
    solver.update(state, batch[:100], table, penalties.NoPenalty())
    Checkpoint(tmp_path, "c", "rows").save(lambda: state, 300, now=True)
    again, _ = Checkpoint(tmp_path, "c", "rows").load(solver.init(table, D))
    for each in (state, again):
        solver.update(each, batch[100:], table, penalties.NoPenalty())
    assert np.array_equal(state.primal, again.primal)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_small_change_of_units_late_in_a_stream_loses_nothing(solver: Any) -> None:
    table, nothing = operators.tdc(lam=0.6), penalties.NoPenalty()
    state, before = run(solver, log(constant=True, n=1500), table)
    dual, record = state.dual, state.record.copy()
    others = np.arange(D) != 2  # the constant column keeps its 1
    wider, far = (np.where(others, by * state.units.scale, 1.0) for by in (1.5, 100.0))
    state.change_units(replace(state.units, scale=wider, shift=0.999 * state.units.shift))
    after = solver.result(state, table, nothing)
    for a, b in ((after.coef, before.coef), (after.coef_last, before.coef_last)):
        np.testing.assert_allclose(a * SIZES, b * SIZES, rtol=1e-6)
    assert dual is None or np.allclose(state.dual * SIZES, dual * SIZES, rtol=1e-6)
    assert np.array_equal(np.delete(state.record, REACH), np.delete(record, REACH))
    state.change_units(replace(state.units, scale=far))
    assert state.totals.weight == state.record[GX] == 0.0
    np.testing.assert_allclose(state.primal[-1] * SIZES, before.coef_last * SIZES, rtol=1e-6)


@pytest.mark.parametrize("model", [GTD(), TDRC(), ROTDLasso(), TDC(), ROTD()], ids=lambda m: type(m).__name__)
def test_predictions_do_not_depend_on_the_units_of_the_columns(model: Any) -> None:
    batch, other = log(), np.array([1e-2, 1e2, 7.0, 1e4, 1e-3, 0.5])
    rows = batch.phi, batch.phi_next
    columns = {"discount": batch.discount, "start": batch.start}
    first = model.fit(rows[0], batch.reward, rows[1], **columns).predict(rows[0])
    again = model.fit(rows[0] * other, batch.reward, rows[1] * other, **columns).predict(rows[0] * other)
    assert np.abs(first).max() > 0
    np.testing.assert_allclose(again, first, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", [TDC, ROTD])
def test_bad_columns_learn_nearly_as_well_as_standardised_ones(kind: Any) -> None:
    rng = np.random.default_rng(11)
    mdp = random_mdp(rng, 40, 8, 3, gamma=0.9, off_policy=0.4)
    rows = mdp.trajectory(8000, rng)
    mean, deviation, size = rows.phi.mean(axis=0), rows.phi.std(axis=0), 10.0 ** rng.uniform(-3, 3, 8)

    def error(shift: Any, scale: Any) -> float:
        X, X_next = (rows.phi - shift) * scale, (rows.phi_next - shift) * scale
        model = kind(gamma=mdp.gamma, fit_intercept=True).fit(X, rows.reward, X_next, ratio=rows.ratio)
        return float(np.sqrt(1.0 - model.score(X, rows.reward, X_next, ratio=rows.ratio)))

    assert error(mean - 10.0 * deviation, size) <= 1.5 * error(mean, 1.0 / deviation)


def test_coefficients_go_there_and_back() -> None:
    """θ of these units predicts on rows in these units what its image predicts on the rows as they came."""
    rng = np.random.default_rng(5)
    units = FoundUnits(np.zeros((3, 4)), 0, np.array([2.0, 0.5, 10.0, 1.0]), np.array([3.0, -1.0, 0.2, 0.0]), 3)
    x, rows = rng.normal(size=(2, 4)), np.append(rng.normal(size=(6, 3)), np.ones((6, 1)), axis=1)
    np.testing.assert_allclose(rows @ units.coefficients(x).T, units.rows_in(rows) @ x.T)
    np.testing.assert_allclose(units.coefficients_in(units.coefficients(x)), x)
