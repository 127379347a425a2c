"""Hand-set steps on sparse rows: the O(nnz) kernels against a NumPy loop that visits every coordinate in every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsetd import penalties, solvers
from sparsetd.solvers import lazy as lazy_states
from sparsetd.solvers import state as states
from sparsetd.solvers.compiled.law import GENERATION, Lines
from sparsetd.solvers.lazy import aligned_zeros
from sparsetd.system import Batch, Table, TraceCarry, trace_weights


@pytest.fixture(autouse=True)
def few_features_have_places_too(monkeypatch):
    monkeypatch.setattr(states, "FEW", 0)


N_FEATURES = 40
NORMS = {2: 2, 1: np.inf}  # the norm of the dual ball by the norm of the fit
SCHEDULES = {
    "constant": 0.05,
    "sqrt": lambda t: 0.2 / np.sqrt(t + 1.0),
    "inverse": lambda t: 0.5 / (t + 1.0),
    "erratic": lambda t: np.where(t % 7 == 6, 1e-9, 0.05 * 10.0 ** -((7919 * t) % 5).astype(float)),
}


def shrunk(v, threshold):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def project(y, norm):
    if norm == 2:
        return y / max(1.0, np.sqrt(np.sum(y * y)))
    return np.clip(y, -1.0, 1.0)


class Blocks(penalties.L1):
    """An elastic net with its own numbers for w and θ."""

    def __init__(self, l1, l2):
        self.numbers = np.array(l1), np.array(l2)

    def shrinkage(self, n_blocks):
        return tuple(part[-n_blocks:] for part in self.numbers)


@dataclass
class Problem:
    """A random stream, a random table and everything that can be chosen."""

    seed: int = 0
    n: int = 300
    k: int = 2
    saddle: bool = True
    extragradient: bool = False
    fit_norm: int = 2
    schedule: str = "constant"
    l1: tuple[float, float] = (0.01, 0.02)
    l2: tuple[float, float] = (0.0, 0.0)
    damping: tuple[float, float] = (0.0, 0.0)
    lam: float = 0.0
    trajectory: bool = True
    average: str = "all"
    factor: np.ndarray | None = None
    d: int = N_FEATURES
    law: str | None = "entries"
    at_zero: bool = False

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        n = self.n
        self.table = Table("random", *_random_table(rng, self.k), np.array(self.damping[: self.k]), self.lam)
        phi = self._rows(rng, n + 1)
        phi_next = phi[1:] if self.trajectory else self._rows(rng, n)
        discount, ratio = 0.9 * (rng.random(n) > 0.1), rng.random(n) + 0.5
        start, interest = rng.random(n) < 0.05, rng.random(n) + 0.5
        self.batch = Batch(phi[:n], phi_next, rng.normal(size=n), discount, ratio, start, interest)
        self.x = rng.normal(size=(self.k, self.d)) * 0.3
        self.y = rng.normal(size=(self.k, self.d)) * 0.05 if self.saddle else np.zeros((0, self.d))
        if self.at_zero:  # then features are kept in the order in which they come
            self.x, self.y = 0.0 * self.x, 0.0 * self.y

    def _rows(self, rng, n):
        lengths = rng.integers(0, 7, n)
        indices = rng.integers(0, self.d, lengths.sum()).astype(np.int32)  # with duplicates in a row
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return sp.csr_array((rng.normal(size=lengths.sum()), indices, ends), shape=(n, self.d))

    @property
    def solver(self):
        step = {"step_size": SCHEDULES[self.schedule], "average": self.average}
        if not self.saddle:
            return (solvers.MirrorProx if self.extragradient else solvers.Stochastic)(**step)
        kind = solvers.SaddleMirrorProx if self.extragradient else solvers.PrimalDual
        return kind(**step, fit_norm=self.fit_norm)

    def lazy(self, *cuts, look=False):
        solver, penalty = self.solver, Blocks(self.l1, self.l2)
        state = solver.init(self.table, self.d)
        state.x[:] = self.x
        if self.saddle:
            state.y[:] = self.y
        for a, b in pairwise([0, *cuts, self.n]):
            solver.update(state, self.batch[a:b], self.table, penalty, self.factor)
            if look:
                state.settle()
        self.state = state
        assert state.t == self.n
        assert self.n == 0 or (state.lazy["pass"] if state.lazy else None) == self.law
        state = state.settled()
        nothing = np.zeros((0, self.d))
        y, y_sum = (nothing, nothing) if state.y is None else (state.y, state.totals.y)
        return state.x, y, state.totals.x, y_sum

    def dense(self):
        x, y, x_sum, y_sum = self.x, self.y, 0.0 * self.x, 0.0 * self.y
        k, e = self.k, np.zeros(self.d)
        factor = np.ones(self.d) if self.factor is None else self.factor
        l1, l2 = (np.array(v[-k:])[:, None] * factor for v in (self.l1, self.l2))
        damping, batch = self.table.damping[:, None], self.batch
        phi, phi_next = batch.phi.toarray(), batch.phi_next.toarray()
        fresh, old = trace_weights(self.table, batch, TraceCarry())
        step = SCHEDULES[self.schedule]
        alpha = step(np.arange(self.n)) if callable(step) else np.full(self.n, step)
        for t in range(self.n):
            e = fresh[t] * phi[t] + old[t] * e
            B = np.stack([phi[t], batch.discount[t] * phi_next[t], e])

            def move(at_x, at_y, r=batch.reward[t], a=alpha[t], B=B, x=x, y=y):
                residual = (self.table.M @ (at_x @ B.T).ravel() - r * self.table.m).reshape(k, 3) @ B
                if not self.saddle:
                    return shrunk(x - a * (residual + damping * at_x), a * l1) / (1 + a * l2), y
                adjoint = (self.table.M.T @ (at_y @ B.T).ravel()).reshape(k, 3) @ B
                return shrunk(x - a * adjoint, a * l1) / (1 + a * l2), project(y + a * residual, NORMS[self.fit_norm])

            at = move(x, y) if self.extragradient else (x, y)
            x_sum, y_sum = x_sum + alpha[t] * at[0], y_sum + alpha[t] * at[1]
            x, y = move(*at)
        return x, y, x_sum, y_sum

    def check(self, tol=1e-11):
        for i, (lazy, dense) in enumerate(zip(self.lazy(), self.dense(), strict=True)):
            if lazy.size and (i < 2 or self.average != "none"):
                assert np.abs(lazy - dense).max() <= tol * max(1.0, np.abs(dense).max()), i
                if i < 2 and any(self.l1):
                    assert np.array_equal(lazy == 0, dense == 0), i


def _random_table(rng, k):
    """A sparse random table, scaled so that the iteration stays bounded over the tested lengths."""
    M = rng.normal(size=(3 * k, 3 * k)) * (rng.random((3 * k, 3 * k)) < 0.4) * 0.2
    return M + 0.3 * np.diag(np.tile([1.0, 0.0, 0.0], k)), rng.normal(size=3 * k)


METHODS = [{"saddle": False}, {"fit_norm": 2}, {"fit_norm": 1}]
TRIALS = [{"saddle": False, "extragradient": True}, {"extragradient": True}]
FREE = {"l1": (0.0, 0.0)}


@pytest.mark.parametrize("schedule", ["constant", "sqrt", "inverse"])
@pytest.mark.parametrize("l1", [(0.01, 0.02), (0.0, 0.05)])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_soft_thresholds(method, l1, schedule):
    Problem(seed=1, schedule=schedule, l1=l1, **method).check()


@pytest.mark.parametrize("l2", [(0.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize("method", [*METHODS[:2], *TRIALS], ids=str)
def test_without_an_l1_penalty(method, l2):
    Problem(seed=1, schedule="sqrt", l2=l2, **FREE, **method).check()


def test_the_box_without_a_penalty_is_a_soft_threshold_of_nothing():
    Problem(seed=1, fit_norm=1, l1=(0.0, 0.0)).check()


@pytest.mark.parametrize("lam", [0.5, 0.95])
@pytest.mark.parametrize("penalty", [FREE, {}], ids=["free", "bent"])
@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_traces(method, penalty, lam):
    Problem(seed=2, lam=lam, **penalty, **method).check()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_one_block_and_no_average(method):
    Problem(seed=3, k=1, **method).check()
    Problem(seed=3, average="none", **method, schedule="sqrt").check()


# Each pair of a dual or none, a trace or none and a step that changes or stays is in one of four kernels.
OWN_PENALTIES = [
    {"saddle": False, "lam": 0.0, "schedule": "constant"},
    {"saddle": False, "lam": 0.7, "schedule": "sqrt"},
    *({"fit_norm": norm, "lam": 0.0, "schedule": "sqrt"} for norm in NORMS),
    *({"fit_norm": norm, "lam": 0.7, "schedule": "constant"} for norm in NORMS),
]


@pytest.mark.parametrize("given", OWN_PENALTIES, ids=str)
def test_features_with_a_penalty_of_their_own(given):
    factor = np.ones(N_FEATURES)
    factor[[0, 7, 8]], factor[20] = 0.0, 2.5
    Problem(seed=4, factor=factor, **given).check()


WIDE = 900  # features, of which a short stream sees some
AT_ZERO = [
    {"saddle": False, "lam": 0.7, **FREE},
    {"saddle": False, "schedule": "sqrt", "k": 1},
    {"schedule": "sqrt", "lam": 0.7, "factor": np.where(np.arange(WIDE) % 300 == 7, 2.5, 1.0)},
    {"fit_norm": 1, "schedule": "sqrt"},
    {"l2": (0.3, 0.1), "extragradient": True, **FREE},
    {},
]


@pytest.mark.parametrize("given", AT_ZERO, ids=str)
def test_features_are_kept_in_the_order_in_which_they_come(given):
    problem = Problem(seed=14, n=80, d=WIDE, at_zero=True, **given)
    problem.check()
    places, came = problem.state.places, np.concatenate([problem.batch.phi.indices, problem.batch.phi_next.indices])
    own = [] if problem.factor is None else np.flatnonzero(problem.factor != 1.0)
    assert np.array_equal(np.sort(places.names[: places.count]), np.union1d(came, own))
    assert places.count < WIDE / 2
    for one, other in zip(problem.lazy(), problem.lazy(1, 2, 33, look=True), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("given", AT_ZERO, ids=str)
def test_few_features_stay_in_their_own_order(given, monkeypatch):
    monkeypatch.setattr(states, "FEW", WIDE)
    problem = Problem(seed=14, n=80, d=WIDE, at_zero=True, **given)
    problem.check()
    assert not problem.state.places


def test_features_that_are_not_zero_from_the_start_have_the_first_places():
    problem = Problem(seed=15, n=80, d=WIDE, saddle=False, **FREE)
    problem.x[:, np.arange(WIDE) % 50 != 3] = 0.0
    problem.check()
    assert problem.state.places.names[: WIDE // 50].tolist() == list(range(3, WIDE, 50))
    assert problem.state.count < WIDE / 2


@pytest.mark.parametrize("damping", [(0.5, 0.0), (20.0, 0.0), (30.0, 3.0)])
def test_damping_even_where_it_wipes_out_or_flips_a_block(damping):
    Problem(seed=5, saddle=False, damping=damping, **FREE).check()


@pytest.mark.parametrize(
    "given", [{"l2": (0.1, 0.1)}, {"saddle": False, "damping": (0.5, 0.0)}, {"extragradient": True}], ids=str
)
def test_a_threshold_with_anything_else_is_laid_out_densely(given):
    Problem(seed=5, law=None, **given).check()


@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_flushes_and_full_generations_change_nothing(method, monkeypatch):
    monkeypatch.setattr(lazy_states, "horizon", lambda *_: 37)
    monkeypatch.setattr(lazy_states, "GENERATIONS", 4)
    Problem(seed=6, **method).check()
    Problem(seed=6, schedule="sqrt", **method).check()
    Problem(seed=6, n=1500, l2=(3.0, 1.0), **FREE, **method).check()


@pytest.mark.parametrize("average", ["all", "none"])
def test_a_flush_begins_the_generations_anew(average, monkeypatch):
    monkeypatch.setattr(lazy_states, "horizon", lambda *_: 700)
    problem = Problem(seed=11, n=1500, l1=(0.0, 0.01), average=average)
    problem.batch.reward[:] *= 30.0
    problem.check(1e-10)


@pytest.mark.parametrize("cut", [1, 50])
def test_a_trace_that_began_on_dense_rows_goes_on_where_features_have_a_penalty_of_their_own(cut):
    factor = np.ones(N_FEATURES)
    factor[::2] = 0.5
    problem = Problem(seed=4, lam=0.9, factor=factor)
    whole, solver, penalty = problem.batch, problem.solver, Blocks(problem.l1, problem.l2)
    laid_out = replace(whole, phi=whole.phi.toarray(), phi_next=whole.phi_next.toarray())
    state = solver.init(problem.table, problem.d)
    state.x[:], state.y[:] = problem.x, problem.y
    for rows in (laid_out[:cut], whole[cut:]):
        solver.update(state, rows, problem.table, penalty, factor)
    assert state.lazy["pass"] == "entries"
    np.testing.assert_allclose(state.primal, problem.dense()[0], atol=1e-11)


@pytest.mark.parametrize("penalty", [FREE, {"l1": (0.0, 0.01)}], ids=["free", "bent"])
def test_a_dual_scale_that_falls_without_end(penalty, monkeypatch):
    monkeypatch.setattr(lazy_states, "horizon", lambda *_: 1 << 16)  # a flush would begin the generations anew
    problem = Problem(seed=11, n=1500, **penalty)
    problem.batch.reward[:] *= 30.0
    problem.check(1e-10)
    assert Lines(*problem.state.lazy["lines"]).counter[GENERATION] >= 4


@pytest.mark.parametrize("l1", [(0.01, 0.02), (0.0, 0.3)])
def test_steps_that_jump_and_pause(l1):
    """Where the guide to the zero crossings is of little use, they are searched for."""
    Problem(seed=12, n=3000, schedule="erratic", l1=l1).check()


def test_long_run_stays_exact():
    Problem(seed=7, n=20_000, d=20, l1=(0.002, 0.005)).check(1e-10)
    Problem(seed=7, n=20_000, d=20, l1=(0.002, 0.005), schedule="sqrt").check(1e-10)
    Problem(seed=7, n=20_000, d=20, **FREE).check(1e-10)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    method=st.sampled_from(METHODS),
    l1=st.sampled_from([(0.01, 0.02), (0.0, 0.05)]),
    how=st.sampled_from([("constant", 0.0), ("sqrt", 0.0), ("constant", 0.7)]),
    k=st.sampled_from([1, 2]),
    trajectory=st.booleans(),
    n=st.integers(0, 120),
)
def test_lazy_equals_dense_on_random_streams(seed, method, l1, how, k, trajectory, n):
    schedule, lam = how
    Problem(seed=seed, n=n, k=k, lam=lam, schedule=schedule, trajectory=trajectory, l1=l1, **method).check(1e-10)


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 200), max_size=6),
    method=st.sampled_from(METHODS[:2]),
    schedule=st.sampled_from(["constant", "sqrt"]),
    lam=st.sampled_from([0.0, 0.7]),
    penalty=st.sampled_from([FREE, {}]),
    look=st.booleans(),
)
def test_any_chunking_and_any_look_give_the_same_bits(cuts, method, schedule, lam, penalty, look):
    problem = Problem(seed=8, n=200, schedule=schedule, lam=lam, **penalty, **method)
    whole = [np.array(v) for v in problem.lazy()]
    for one, other in zip(whole, problem.lazy(*sorted(cuts), look=look), strict=True):
        assert np.array_equal(one, other)


def test_materialising_in_blocks_that_do_not_divide_the_features(monkeypatch):
    monkeypatch.setattr(states, "SWEEP", 7)
    Problem(seed=13).check()
    Problem(seed=13, schedule="sqrt").check()


def test_divergence_stops_at_the_row_whose_values_leave_the_scale_of_the_run():
    problem = Problem(seed=10, saddle=False, n=100, **FREE)
    solver = solvers.Stochastic(50.0)
    state = solver.update(solver.init(problem.table, problem.d), problem.batch, problem.table, penalties.NoPenalty())
    assert state.diverged
    assert state.t < 100
    assert np.isfinite(state.primal).all()


def test_a_line_is_one_cache_line():
    line = aligned_zeros(100, 8)
    assert line.ctypes.data % 64 == 0
    assert line.flags.c_contiguous
