"""Automatic steps on sparse rows: the O(nnz) kernels against the dense ones, which visit every coordinate."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsetd import ROTD, TDC, operators, penalties, solvers, system
from sparsetd.estimators import RDATD
from sparsetd.solvers import lazy as lazy_states
from sparsetd.solvers import state as states
from sparsetd.solvers.compiled.awake import Hot
from sparsetd.solvers.compiled.crossings import _search
from sparsetd.solvers.compiled.law import Lines
from sparsetd.storage.cache import Checkpoint
from sparsetd.system import Batch


@pytest.fixture(autouse=True)
def few_features_have_places_too(monkeypatch):
    monkeypatch.setattr(states, "FEW", 0)


D = 40
NOTHING = penalties.NoPenalty()


def stream(n=200, d=D, seed=0):
    """Rows with duplicate indices, empty ones, terminal ones, episodes, and ratios that are sometimes 0."""
    rng = np.random.default_rng(seed)

    def rows():
        lengths = rng.integers(0, 7, n)
        indices, ends = rng.integers(0, d, lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
        return sp.csr_array((rng.normal(size=len(indices)), indices.astype(np.int32), ends), shape=(n, d))

    discount, ratio = 0.9 * (rng.random(n) > 0.1), rng.uniform(0.0, 1.7, n) * (rng.random(n) > 0.1)
    start = rng.random(n) < 0.1
    return Batch(rows(), rows(), rng.normal(size=n), discount, ratio, start, rng.uniform(0.5, 1.5, n))


def dense(batch):
    return Batch(*(system.dense(v) if sp.issparse(v) else v for v in vars(batch).values()))


def usual(solver):
    """The penalty for which a solver is there."""
    return penalties.L1(0.02, 0.02) if isinstance(solver, solvers.DualAveraging) else NOTHING


def take(solver, table, chunks, penalty=None, x0=None, factor=None, dtype=np.float64):
    penalty = penalty or usual(solver)
    state = solver.init(table, chunks[0].n_features, dtype, x0)
    for chunk in chunks:
        solver.update(state, chunk, table, penalty, factor)
    solution = solver.result(state, table, penalty, factor)
    state.settle()
    return state, solution


def cut(batch, *places):
    return [batch[first:last] for first, last in pairwise((0, *places, len(batch)))]


def close(one, other, tolerance=1e-10):
    scale = max(np.abs(other).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(one, other, rtol=0.0, atol=tolerance * scale)


def compare(solver, table, batch, tolerance=1e-10, by=None, **more):
    """Both ways of taking rows; `by` names the pass over the dense ones, where it is not the compiled one."""
    lazy, sparse = take(solver, table, [batch], **more)
    with pytest.MonkeyPatch.context() as patch:
        if by is not None:
            patch.setattr("sparsetd.solvers.stream.pass_for", lambda *_: by)
        plain, full = take(solver, table, [dense(batch)], **more)
    assert lazy.lazy is not None
    assert plain.lazy is None
    found = lazy.settled()  # with features in their own order
    pairs = [
        (lazy.primal, plain.primal),
        (sparse.coef, full.coef),
        (lazy.record, plain.record),
        (found.earlier.x, plain.earlier.x),
    ]
    if sparse.aux is not None:
        pairs.append((sparse.aux, full.aux))
    if sparse.dual is not None:
        pairs += [(sparse.dual, full.dual), (lazy.dual, plain.dual)]
    if isinstance(solver, solvers.DualAveraging):
        pairs += [(found.more[name], plain.more[name]) for name in ("share", "sum_x", "sum_y")]
        assert np.array_equal(lazy.primal == 0.0, plain.primal == 0.0)
    for one, other in pairs:
        close(one, other, tolerance)
    if table.lam > 0:  # entries of 1e-12 are dropped, and would have grown where ratios exceed 1
        np.testing.assert_allclose(found.trace[0], plain.trace[0], rtol=0.0, atol=1e-8)
    assert sparse.status == full.status
    return lazy


TABLES = {
    "td": operators.td,
    "tdc": operators.tdc,
    "gtd": operators.gtd,
    "gtd2": operators.gtd2,
    "gq": operators.gq,
    "etd": operators.etd,
    "tdrc": operators.tdrc,
}
STOCHASTIC = [
    solvers.DistanceOverGradients(),
    solvers.DistanceOverGradients(average="all", extragradient=True),
    solvers.DistanceOverGradients(average="none", radius=0.5),
]
SADDLE = [
    solvers.SaddleDistanceOverGradients(),
    solvers.SaddleDistanceOverGradients(average="none"),
    solvers.SaddleDistanceOverGradients(average="suffix", radius=0.7),
    solvers.LeastSquaresDistanceOverGradients(),
]
DUAL_AVERAGING = [
    solvers.DualAveraging(average="all", sparse=False),
    solvers.DualAveraging(),
    solvers.DualAveraging(average="none"),
]
SOLVERS = STOCHASTIC + SADDLE + DUAL_AVERAGING
PENALTIES = {"none": NOTHING, "ridge": penalties.Ridge(0.05, 0.02)}


def identify(solver):
    return type(solver).__name__


# Solvers, whether there is one block (or two), λ, and whether x_0 is not 0. A line is a kernel for sparse rows and one
# for dense rows, which take seconds; every pair of settings is in a line.
KERNELS = [
    (STOCHASTIC[::2], True, 0.0, True),
    (STOCHASTIC[::2], False, 0.7, False),
    (STOCHASTIC[1:2], False, 0.0, False),
    (STOCHASTIC[1:2], True, 0.7, True),
    (SADDLE, False, 0.0, True),
    (SADDLE, True, 0.7, False),
]
CASES = [(solver, *settings) for several, *settings in KERNELS for solver in several]


@pytest.mark.parametrize(("solver", "one", "lam", "warm"), CASES, ids=str)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_sparse_equals_dense(solver, one, lam, warm, penalty):
    for seed, build in enumerate(TABLES.values()):
        table = build(lam=lam)
        if (table.n_blocks == 1) == one and not (solver.saddle and table.damping.any()):
            x0 = np.random.default_rng(seed).normal(size=D) if warm else None
            compare(solver, table, stream(seed=seed), penalty=PENALTIES[penalty], x0=x0)


def test_sparse_equals_dense_where_the_successor_meets_w():
    compare(solvers.DistanceOverGradients(), operators.htd(), stream())


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    solver=st.sampled_from(DUAL_AVERAGING),
    name=st.sampled_from(["td", "tdc", "gtd2", "gq"]),
    lam=st.sampled_from([0.0, 0.7]),
    rho=st.sampled_from([(0.0, 0.0), (0.01, 0.05), (0.3, 0.0), (2.0, 2.0)]),
    l1_ratio=st.sampled_from([0.5, 1.0]),
    special=st.booleans(),
)
def test_sparse_dual_averaging_equals_dense(seed, solver, name, lam, rho, l1_ratio, special):
    """The dense pass of NumPy compiles nothing, and every combination would be a kernel of its own."""
    factor = np.append([0.0, 0.5, 3.0], np.ones(D - 3)) if special else None
    penalty = penalties.ElasticNet(*rho, l1_ratio=l1_ratio)
    for at in (seed, seed + 1):
        compare(solver, TABLES[name](lam=lam), stream(seed=at), by="numpy", penalty=penalty, factor=factor)


def test_a_coordinate_that_is_zero_for_half_of_the_weight_is_zero_in_both():
    """Equal weights make such ties common; rounding must not decide them."""
    table, penalty = operators.gq(), penalties.L1(0.01, 0.05)
    state = compare(solvers.DualAveraging(), table, stream(seed=44), penalty=penalty)
    share = state.more["share"] + state.more["earlier_share"]
    weight = state.totals.weight + state.earlier.weight
    assert np.any(np.isclose(2.0 * share, weight, rtol=1e-12))


@pytest.mark.parametrize("solver", SOLVERS, ids=identify)
def test_any_cut_gives_the_same_bits(solver):
    batch, table = stream(), operators.tdc(lam=0.5)
    whole, one = take(solver, table, [batch])
    pieces, other = take(solver, table, cut(batch, 1, 2, 31, 64, 65, 150))
    for a, b in ((whole.x, pieces.x), (whole.record, pieces.record), (one.coef, other.coef), (one.aux, other.aux)):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("solver", SOLVERS, ids=identify)
@pytest.mark.parametrize("order", ["dense first", "sparse first"])
def test_dense_and_sparse_batches_alternate(solver, order):
    batch, table = stream(), operators.tdc(lam=0.5)
    chunks = cut(batch, 40, 64, 130)
    mixed = [dense(c) if (i % 2 == 0) == (order == "dense first") else c for i, c in enumerate(chunks)]
    _, one = take(solver, table, mixed)
    _, other = take(solver, table, [dense(batch)])
    close(one.coef, other.coef)
    close(one.aux, other.aux)


def test_a_penalty_that_needs_all_coordinates_goes_on_densely_and_comes_back():
    solver, table, first, second, third = (
        solvers.DistanceOverGradients(),
        operators.tdc(lam=0.5),
        *cut(stream(), 60, 90),
    )
    ends = []
    for form in (lambda b: b, dense):
        state = solver.init(table, D)
        solver.update(state, form(first), table, NOTHING)
        solver.update(state, form(second), table, penalties.L1(0.05, 0.05))
        assert state.lazy is None
        solver.update(state, form(third), table, NOTHING)
        ends.append(solver.result(state, table, NOTHING).coef)
    close(*ends)


@pytest.mark.parametrize("factor", [np.ones(D), np.append(0.0, np.ones(D - 1))], ids=["ones", "one free"])
def test_a_ridge_with_a_factor(factor):
    solver, table, penalty = solvers.DistanceOverGradients(), operators.td(), penalties.Ridge(0.5)
    states = [take(solver, table, [b], penalty, factor=factor)[0] for b in (stream(), dense(stream()))]
    assert (states[0].lazy is not None) == bool(np.all(factor == 1.0))
    close(states[0].primal, states[1].primal)


@pytest.mark.parametrize("solver", [SOLVERS[0], SOLVERS[3], SOLVERS[6], *DUAL_AVERAGING], ids=identify)
def test_flushes_generations_and_room_change_nothing(solver, monkeypatch):
    monkeypatch.setattr(lazy_states, "GENERATIONS", 2)
    monkeypatch.setattr(lazy_states, "ROOM", 4)
    monkeypatch.setattr(lazy_states, "horizon", lambda d: d // 4)
    table = operators.tdc(lam=0.7) if solver.saddle else operators.tdrc(lam=0.7)
    compare(solver, table, stream(400), x0=None if solver.saddle else np.ones(D))


@pytest.mark.parametrize("solver", [SOLVERS[0], DUAL_AVERAGING[1]], ids=identify)
def test_a_long_trace_gets_the_room_it_needs(solver):
    batch = stream(500, d=3000)
    ones = np.ones(len(batch))
    batch = replace(batch, discount=0.9 * ones, ratio=ones, start=ones == 0.0)
    state = compare(solver, operators.tdc(lam=0.99), batch)
    first = take(solver, operators.tdc(), [batch[:1]])[0]
    kind = Hot if state.lazy["pass"] == "awake" else Lines
    assert kind(*state.lazy["lines"]).counter[0] > len(kind(*first.lazy["lines"]).names)


def test_factors_that_wipe_out_or_flip_a_block():
    """A damping so large that 1 − α·damping is near −1, and one that wipes w out."""
    solver = solvers.DistanceOverGradients()
    for beta in (1.0, 30.0):
        compare(solver, operators.tdrc(beta=beta), stream(seed=3))


def test_a_long_stream_stays_exact():
    for solver in (solvers.DistanceOverGradients(), solvers.SaddleDistanceOverGradients(), solvers.DualAveraging()):
        compare(solver, operators.tdc(), stream(70_000, seed=5), tolerance=1e-9)


@pytest.mark.parametrize("solver", SOLVERS, ids=identify)
def test_single_precision_comes_out_in_single_precision(solver):
    batch, table = stream(60), operators.tdc()
    state, single = take(solver, table, [batch], dtype=np.float32)
    _, double = take(solver, table, [batch])
    assert single.coef.dtype == state.x.dtype == np.float32
    np.testing.assert_allclose(single.coef, double.coef, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=identify)
def test_a_copy_and_a_checkpoint_go_on_bit_for_bit(solver, tmp_path):
    batch, table, penalty = stream(), operators.tdc(lam=0.5), usual(solver)
    first, second = cut(batch, 90)
    state, _ = take(solver, table, [first])
    Checkpoint(tmp_path, "state", "rows").save(lambda: state, 300, now=True)
    others = [copy.deepcopy(state), Checkpoint(tmp_path, "state", "rows").load(solver.init(table, D))[0]]
    for other in (state, *others):
        solver.update(other, second, table, penalty)
    wanted = solver.result(state, table, penalty).coef
    for other in others:
        assert np.array_equal(solver.result(other, table, penalty).coef, wanted)


@pytest.mark.parametrize("solver", [SOLVERS[0], SOLVERS[3], DUAL_AVERAGING[0]], ids=identify)
def test_divergence_is_seen_and_stops_where_the_dense_one_stops(solver):
    batch = stream(50)
    batch.phi.data[batch.phi.indptr[20] : batch.phi.indptr[23]] = 1e200
    x0 = None if solver in DUAL_AVERAGING else np.ones(D)
    (lazy, sparse), (_, full) = (take(solver, operators.td(), [b], x0=x0) for b in (batch, dense(batch)))
    assert sparse.status == full.status == "diverged"
    assert sparse.n_iter == full.n_iter >= 20
    assert lazy.lazy is not None
    close(sparse.coef_last, full.coef_last)


@pytest.mark.parametrize("solver", [SADDLE[0], DUAL_AVERAGING[1]], ids=identify)
def test_reading_the_state_does_not_disturb_the_stream(solver):
    table, (first, second), penalty = operators.tdc(lam=0.5), cut(stream(), 70), usual(solver)
    state = solver.init(table, D)
    solver.update(state, first, table, penalty)
    read, point = state.primal, take(solver, table, [dense(first)])[0]
    close(read, point.primal)
    close(state.dual, point.dual)
    again = state.primal  # of the arrays that were filled for y
    again[:] = 7.0
    assert np.array_equal(read, state.primal)
    solver.update(state, second, table, penalty)
    assert np.array_equal(state.primal, take(solver, table, [first, second])[0].primal)


@pytest.mark.parametrize(
    "solver",
    [
        solvers.SaddleDistanceOverGradients(fit_norm="inf"),
        solvers.SaddleDistanceOverGradients(fit_norm=1),
        solvers.DualAveraging(fit_norm=1),
        solvers.DualAveraging(radius=1.0),
        solvers.CoinBetting(),
    ],
    ids=identify,
)
def test_what_has_no_sparse_kernel_is_laid_out_densely(solver):
    how = {"penalty": NOTHING, "x0": np.ones(D)}
    (one, sparse), (_, full) = (take(solver, operators.tdc(lam=0.5), [b], **how) for b in (stream(), dense(stream())))
    assert one.lazy is None
    assert np.array_equal(sparse.coef, full.coef)


def test_dual_averaging_from_elsewhere_than_zero_is_laid_out_densely():
    solver, x0 = solvers.DualAveraging(), np.ones(D)
    (one, sparse), (_, full) = (take(solver, operators.tdc(lam=0.5), [b], x0=x0) for b in (stream(), dense(stream())))
    assert one.lazy is None
    assert np.array_equal(sparse.coef, full.coef)


def test_another_penalty_begins_a_new_sparse_state():
    solver, table, (first, second) = solvers.DualAveraging(), operators.tdc(lam=0.5), cut(stream(), 90)
    other, factor = penalties.L1(0.1, 0.0), np.append(0.0, np.ones(D - 1))
    one, two, same = (take(solver, table, [first])[0] for _ in range(3))
    two.rest()
    for state in (one, two):
        solver.update(state, second, table, other, factor)
    solver.update(same, second, table, usual(solver))
    assert np.array_equal(one.primal, two.primal)
    assert not np.array_equal(one.primal, same.primal)


def test_nothing_to_learn_moves_nothing():
    batch = stream(40)
    batch.reward[:] = 0.0
    for solver in SOLVERS:
        state, solution = take(solver, operators.tdc(), [batch])
        assert not state.x.any()
        assert not solution.coef.any()
        assert np.isfinite(state.record).all()


def test_a_step_visits_no_column_that_its_row_does_not_touch():
    """A line that no row touches keeps its bits although w is damped in every step."""
    batch, table = stream(60, d=80), operators.tdrc()
    batch = Batch(
        *(sp.csr_array((v.data, v.indices, v.indptr), (60, 200)) if sp.issparse(v) else v for v in vars(batch).values())
    )
    state, _ = take(solvers.DistanceOverGradients(average="all"), table, [batch], x0=np.ones(200))
    untouched = np.setdiff1d(np.arange(200), np.concatenate([batch.phi.indices, batch.phi_next.indices]))
    assert len(untouched) >= 120
    assert np.array_equal(Lines(*state.lazy["lines"]).line[untouched, :2], np.tile([0.0, 1.0], (len(untouched), 1)))


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_columns_have_places_in_the_order_in_which_they_came(lam):
    """Memory is written from its beginning on, and work on all columns is work on those that came."""
    batch, solver = stream(60, d=300), solvers.DistanceOverGradients(average="suffix")
    state, _ = take(solver, operators.gq(lam=lam), [batch[:7], batch[7:40], batch[40:]])
    rows = [m.indices[m.indptr[t] : m.indptr[t + 1]] for t in range(60) for m in (batch.phi, batch.phi_next)]
    came = list(dict.fromkeys(np.concatenate(rows).tolist()))
    assert 100 < len(came) < 250
    assert state.places.names[: state.places.count].tolist() == came
    assert np.array_equal(np.flatnonzero(state.places.of[:, 0]), np.sort(came))
    assert not Lines(*state.lazy["lines"]).line[len(came) :].any()


@pytest.mark.parametrize("solver", [SOLVERS[0], *DUAL_AVERAGING[:2]], ids=identify)
def test_a_successor_that_is_the_next_row_gets_its_place_once(solver):
    """φ' may share the memory of φ or be a copy, with any cut: places, and bits, are the same."""
    X, y = stream(90, d=300).phi, np.random.default_rng(0).normal(size=90)
    ones, after = np.ones(89), X[1:]
    shared = sp.csr_array((X.data[X.indptr[1] :], X.indices[X.indptr[1] :], X.indptr[1:] - X.indptr[1]), after.shape)
    batches = [Batch(X[:89], rows, y[:89], 0.9 * ones, ones, ones == 0, ones) for rows in (shared, after)]
    batches[0] = replace(batches[0], phi=sp.csr_array((X.data, X.indices, X.indptr[:90]), after.shape))
    assert np.shares_memory(batches[0].phi.indices, batches[0].phi_next.indices)
    states = [take(solver, operators.tdc(), chunks)[0] for chunks in ([batches[0]], cut(batches[1], 1, 30, 64))]
    assert np.array_equal(*(state.places.names for state in states))
    assert np.array_equal(*(state.primal for state in states))


ESTIMATORS = [
    TDC(gamma=0.9),
    ROTD(gamma=0.9),
    ROTD(gamma=0.9, fit_intercept=True),
    ROTD(gamma=0.9, rho_theta=0.01, rho_w=0.01, fit_intercept=True),
    RDATD(gamma=0.9),
]


@pytest.mark.parametrize("model", ESTIMATORS)
def test_the_default_of_an_estimator_takes_sparse_rows_lazily(model):
    batch = stream()
    one, other = (type(model)(**model.get_params()) for _ in range(2))
    one.fit(batch.phi, batch.reward)
    other.fit(batch.phi.toarray(), batch.reward)
    assert one._state.lazy is not None
    close(one.coef_, other.coef_)
    assert one.intercept_ == pytest.approx(other.intercept_, rel=1e-9, abs=1e-12)


def test_a_crossing_is_the_first_step_that_reaches_the_level():
    rng = np.random.default_rng(8)
    history = np.cumsum(rng.exponential(size=(300, 2)) ** 3, axis=0)  # steep and flat stretches
    for level in rng.uniform(history[0, 0], history[-1, 0], size=50):
        assert getattr(_search, "py_func", _search)(history, 0, 299, level) == np.searchsorted(history[:, 0], level)
