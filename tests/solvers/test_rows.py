"""The mean system of a stream: equal to the written-out sums, and to the bit the same for every way of cutting it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd.operators import etd, td, tdc
from sparsetd.penalties import ElasticNet, GroupL1
from sparsetd.solvers.mean import Matrix, MeanOperator, gathered
from sparsetd.solvers.rows import BLOCK, RowSolver, weights
from sparsetd.storage.cache import Checkpoint
from sparsetd.system import Batch, mean_system


def stream(n, d, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(2, n, d)) * (rng.random((2, n, d)) < 0.5)
    start = rng.random(n) < 0.1
    start[0] = True
    form = sp.csr_array if sparse else np.asarray
    return Batch(
        form(phi),
        form(phi_next),
        rng.normal(size=n),
        0.9 * (rng.random(n) < 0.9),
        rng.random(n) * 2,
        start,
        rng.random(n) + 0.5,
    )


def collect(batch, table, cuts=()):
    solver = RowSolver()
    state = solver.init(table, batch.n_features, np.float64)
    edges = [0, *cuts, len(batch)]
    for first, last in pairwise(edges):
        solver.update(state, batch[first:last], table)
    return state


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("table", [td(), td(0.7), etd(0.4)], ids=["td", "td(0.7)", "etd(0.4)"])
@pytest.mark.parametrize(("n", "d"), [(40, 7), (30, 60), (2 * BLOCK + 5, 6)])
def test_system_is_the_mean_of_the_rows(n, d, table, sparse):
    A, b = mean_system(table, stream(n, d))
    system = collect(stream(n, d, sparse=sparse), table).system(table)
    y = np.random.default_rng(1).normal(size=d)
    np.testing.assert_allclose(gathered(system, np.arange(d)), A, atol=1e-12)
    np.testing.assert_allclose(system.b, b, atol=1e-12)
    np.testing.assert_allclose(system.adjoint(y), A.T @ y, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.7])
@pytest.mark.parametrize("d", [5, 2 * BLOCK])
def test_any_cut_gives_the_same_bits(d, lam, sparse):
    batch, table = stream(2 * BLOCK + 77, d, sparse=sparse), td(lam)
    whole = collect(batch, table).system(table)
    for cuts in [(1,), (BLOCK,), (3, 100, 101, 2 * BLOCK - 1, 2 * BLOCK + 76), tuple(range(1, len(batch), 50))]:
        parts = collect(batch, table, cuts).system(table)
        assert type(parts) is type(whole)
        np.testing.assert_array_equal(parts.b, whole.b)
        np.testing.assert_array_equal(*(gathered(system, np.array([2])) for system in (parts, whole)))


def test_rows_are_folded_once_there_are_more_than_features():
    assert isinstance(collect(stream(BLOCK, 2 * BLOCK), td()).system(td()), MeanOperator)
    folded = collect(stream(2 * BLOCK, BLOCK), td())
    assert isinstance(folded.system(td()), Matrix)
    assert len(folded.batch()) == 0


def test_asking_for_the_system_changes_nothing():
    table, batch = td(0.5), stream(2 * BLOCK + 9, 4)
    state, asked = collect(batch[:300], table), collect(batch[:300], table)
    asked.system(table)
    for s in (state, asked):
        RowSolver().update(s, batch[300:], table)
    np.testing.assert_array_equal(state.system(table).A, asked.system(table).A)


def test_operators_of_two_blocks_are_refused():
    with pytest.raises(ValueError, match="operator 'tdc' is not"):
        RowSolver().init(tdc(), 3, np.float64)


def test_weights_of_the_penalty():
    rho, kappa, factor = weights(ElasticNet(0.4, l1_ratio=0.25), None, 3)
    assert (rho, kappa) == (pytest.approx(0.1), pytest.approx(0.3))
    np.testing.assert_array_equal(factor, np.ones(3))
    with pytest.raises(ValueError, match="GroupL1 does not separate"):
        weights(GroupL1(np.zeros(3, dtype=int), 0.1), None, 3)


@pytest.mark.parametrize(("d", "sparse"), [(5, False), (5, True), (600, False)])
def test_a_checkpoint_goes_on_where_it_stopped(d, sparse, tmp_path):
    table, batch = td(0.5), stream(2 * BLOCK + 9, d, sparse=sparse)
    state = collect(batch[:300], table)
    Checkpoint(tmp_path, "state", "rows").save(lambda: state, 300, now=True)
    copy, _ = Checkpoint(tmp_path, "state", "rows").load(RowSolver().init(table, d, np.float64))
    for s in (state, copy):
        RowSolver().update(s, batch[300:], table)
    np.testing.assert_array_equal(copy.system(table).b, state.system(table).b)
    np.testing.assert_array_equal(*(gathered(s.system(table), np.array([1])) for s in (copy, state)))
