"""Lazy = dense: the O(nnz) kernels against a NumPy loop that visits every coordinate in every step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsetd.solvers import direct, direct_kernels, sparse
from sparsetd.solvers.sparse_kernels import Rows
from sparsetd.system import Table

N_FEATURES = 40


def soft(v, threshold):
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def project(y, norm):
    if norm == 2:
        return y / max(1.0, np.sqrt(np.sum(y * y)))
    return np.clip(y, -1.0, 1.0)


@dataclass
class Problem:
    """A random stream, a random table and everything that can be chosen."""

    seed: int = 0
    n: int = 300
    k: int = 2
    saddle: bool = True
    extragradient: bool = False
    norm: float = 2
    schedule: str = "constant"
    l1: tuple[float, ...] = (0.01, 0.02)
    l2: tuple[float, ...] = (0.0, 0.0)
    damping: tuple[float, ...] = (0.0, 0.0)
    lam: float = 0.0
    trajectory: bool = True
    binary: bool = False
    average: bool = True
    average_dual: bool = True
    factor: np.ndarray | None = None
    d: int = N_FEATURES

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        n, d = self.n, self.d
        self.table = Table("random", *_random_table(rng, self.k), np.array(self.damping[: self.k]), self.lam)
        lengths = rng.integers(0, 7, n + 1)
        phi = self._rows(rng, lengths)
        other = phi if self.trajectory else self._rows(rng, rng.integers(0, 7, n))
        self.phi = Rows(phi.values, phi.indices, phi.indptr[: n + 1])
        self.phi_next = Rows(other.values, other.indices, other.indptr[1:]) if self.trajectory else other
        t = np.arange(1, n + 1)
        erratic = np.where(t % 7 == 0, 0.0, 0.05 * 10.0 ** -rng.integers(0, 5, n)) * (t > 2)
        alphas = {"constant": np.full(n, 0.05), "sqrt": 0.2 / np.sqrt(t), "inverse": 0.5 / t, "erratic": erratic}
        alpha = alphas[self.schedule]
        self.columns = {
            "reward": rng.normal(size=n),
            "discount": 0.9 * (rng.random(n) > 0.1),
            "fresh": rng.random(n) + 0.5,
            "fading": 0.9 * self.lam * (rng.random(n) > 0.05),
            "alpha": alpha,
            "weight": alpha,
        }
        self.x = rng.normal(size=(self.k, d)) * 0.3
        self.y = rng.normal(size=(self.k, d)) * 0.05 if self.saddle else np.zeros((0, d))

    def _rows(self, rng, lengths):
        indices = rng.integers(0, self.d, lengths.sum()).astype(np.int32)  # with duplicates in a row
        values = np.empty(0) if self.binary else rng.normal(size=lengths.sum())
        return Rows(values, indices, np.concatenate([[0], np.cumsum(lengths)]))

    def begin(self):
        setting = sparse.Setting(
            extragradient=self.extragradient,
            dual_norm=self.norm if self.saddle else None,
            l1=self.l1[: self.k],
            l2=self.l2[: self.k],
            constant=0.05 if self.schedule == "constant" else None,
            average=self.average,
            average_dual=self.average_dual,
        )
        sums = np.zeros_like(self.x), np.zeros_like(self.y)
        return sparse.begin(setting, self.table, self.x, self.y, *sums, self.factor)

    def lazy(self, *cuts):
        state, stops = self.begin(), [0, *cuts, self.n]
        for a, b in pairwise(stops):
            phi, phi_next = (Rows(r.values, r.indices, r.indptr[a : b + 1]) for r in (self.phi, self.phi_next))
            assert state.update(phi, phi_next, {name: c[a:b] for name, c in self.columns.items()}) == b - a
        assert state.n_steps == self.n
        return state.materialise()

    def dense(self):
        x, y, x_sum, y_sum = self.x, self.y, 0.0 * self.x, 0.0 * self.y
        k, e = self.k, np.zeros(self.d)
        factor = np.ones(self.d) if self.factor is None else self.factor
        l1, l2 = (np.array(v[:k])[:, None] * factor for v in (self.l1, self.l2))
        damping = self.table.damping[:, None]
        phi, phi_next = _dense(self.phi, self.d), _dense(self.phi_next, self.d)
        for t in range(self.n):
            r, g, c, fading, a, weight = (self.columns[name][t] for name in self.columns)
            e = c * phi[t] + fading * e
            B = np.stack([phi[t], g * phi_next[t], e])

            def move(at_x, at_y, r=r, a=a, B=B, x=x, y=y):
                residual = (self.table.M @ (at_x @ B.T).ravel() - r * self.table.m).reshape(k, 3) @ B
                if not self.saddle:
                    return soft(x - a * (residual + damping * at_x), a * l1) / (1 + a * l2), y
                adjoint = (self.table.M.T @ (at_y @ B.T).ravel()).reshape(k, 3) @ B
                return soft(x - a * adjoint, a * l1) / (1 + a * l2), project(y + a * residual, self.norm)

            at = move(x, y) if self.extragradient else (x, y)
            x_sum, y_sum = x_sum + weight * at[0], y_sum + weight * at[1]
            x, y = move(*at)
        return x, y, x_sum, y_sum

    def check(self, tol=1e-11):
        dual_sum = self.saddle and self.average and self.average_dual
        expected = {"x": True, "y": self.saddle, "x_sum": self.average, "y_sum": dual_sum}
        for name, lazy, dense in zip(expected, self.lazy(), self.dense(), strict=True):
            assert len(lazy) == self.k * expected[name], name
            if lazy.size:
                assert np.abs(lazy - dense).max() <= tol * max(1.0, np.abs(dense).max()), name
                if name in "xy":
                    assert np.array_equal(lazy == 0, dense == 0), name


def _random_table(rng, k):
    """A sparse random table, scaled so that the iteration stays bounded over the tested lengths."""
    M = rng.normal(size=(3 * k, 3 * k)) * (rng.random((3 * k, 3 * k)) < 0.4) * 0.2
    return M + 0.3 * np.diag(np.tile([1.0, 0.0, 0.0], k)), rng.normal(size=3 * k)


def _dense(rows, d):
    values = np.ones(len(rows.indices)) if len(rows.values) == 0 else rows.values
    out = np.zeros((len(rows.indptr) - 1, d))
    for t, (lo, hi) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        np.add.at(out[t], rows.indices[lo:hi], values[lo:hi])
    return out


SADDLES = [{"extragradient": e, "norm": n} for e in (False, True) for n in (2, np.inf)]
METHODS = [{"saddle": False}, {"saddle": False, "extragradient": True}, *SADDLES]
PENALTIES = [
    {"l1": (0.0, 0.0)},
    {"l1": (0.01, 0.02)},
    {"l1": (0.0, 0.05)},
    {"l1": (0.0, 0.0), "l2": (0.3, 0.0)},
    {"l1": (0.05, 0.02), "l2": (0.2, 0.7)},
]


@pytest.mark.parametrize("schedule", ["constant", "sqrt", "inverse"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_lazy_equals_dense(method, penalty, schedule):
    Problem(seed=1, schedule=schedule, **method, **penalty).check()


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("lam", [0.5, 0.95])
def test_traces(method, lam):
    Problem(seed=2, lam=lam, **method).check()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_one_block_on_binary_features_with_dual_average_or_without_any(method):
    Problem(seed=3, k=1, binary=True, **method).check()
    Problem(seed=3, average_dual=False, **method, schedule="sqrt").check()
    Problem(seed=3, average=False, **method, schedule="sqrt").check()


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("penalty", PENALTIES[1:], ids=str)
def test_features_with_a_penalty_of_their_own(method, penalty):
    factor = np.ones(N_FEATURES)
    factor[[0, 7, 8]], factor[20] = 0.0, 2.5
    Problem(seed=4, factor=factor, schedule="sqrt", **method, **penalty).check()


@pytest.mark.parametrize("damping", [(0.5, 0.0), (20.0, 0.0), (30.0, 3.0)])
@pytest.mark.parametrize("l1", [(0.0, 0.0), (0.02, 0.01)])
def test_damping_even_where_it_wipes_out_or_flips_a_block(damping, l1):
    Problem(seed=5, saddle=False, damping=damping, l1=l1).check()


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_flushes_and_full_generations_change_nothing(method, monkeypatch):
    monkeypatch.setattr(sparse, "horizon", lambda *_: 37)
    Problem(seed=6, **method).check()
    Problem(seed=6, schedule="sqrt", l2=(0.5, 0.1), **method).check()
    monkeypatch.setattr(sparse, "horizon", lambda *_: 10**4)
    monkeypatch.setattr(sparse, "GENERATIONS", 4)
    Problem(seed=6, n=1500, l2=(3.0, 1.0), **method).check()


@pytest.mark.parametrize("average_dual", [False, True])
def test_a_dual_scale_that_falls_without_end(average_dual):
    problem = Problem(seed=11, n=1500, average_dual=average_dual, l1=(0.0, 0.01))
    problem.columns["reward"] *= 30.0
    state = problem.begin()
    state.update(problem.phi, problem.phi_next, problem.columns)
    assert state.lines.counter[direct_kernels.GENERATION] >= 3
    problem.check(1e-10)


@pytest.mark.parametrize("l1", [(0.01, 0.02), (0.0, 0.3)])
def test_steps_that_jump_and_pause(l1):
    """Where the guide to the zero crossings is of little use, they are searched for."""
    Problem(seed=12, n=3000, schedule="erratic", l1=l1).check()


def test_long_run_stays_exact():
    Problem(seed=7, n=20_000, d=20, l1=(0.002, 0.005)).check(1e-10)
    Problem(seed=7, n=20_000, d=20, l1=(0.002, 0.005), schedule="sqrt").check(1e-10)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    method=st.sampled_from(METHODS),
    penalty=st.sampled_from(PENALTIES),
    schedule=st.sampled_from(["constant", "sqrt", "inverse"]),
    lam=st.sampled_from([0.0, 0.0, 0.7]),
    k=st.sampled_from([1, 2]),
    trajectory=st.booleans(),
    binary=st.booleans(),
    n=st.integers(0, 120),
)
def test_lazy_equals_dense_on_random_streams(seed, method, penalty, schedule, lam, k, trajectory, binary, n):
    Problem(
        seed=seed, n=n, k=k, lam=lam, schedule=schedule, trajectory=trajectory, binary=binary, **method, **penalty
    ).check(1e-10)


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 200), max_size=6),
    method=st.sampled_from(METHODS),
    schedule=st.sampled_from(["constant", "sqrt"]),
    lam=st.sampled_from([0.0, 0.8]),
    l2=st.sampled_from([(0.0, 0.0), (0.5, 0.3)]),
)
def test_any_chunking_gives_the_same_bits(cuts, method, schedule, lam, l2):
    problem = Problem(seed=8, n=200, schedule=schedule, lam=lam, l2=l2, **method)
    for whole, split in zip(problem.lazy(), problem.lazy(*sorted(cuts)), strict=True):
        assert np.array_equal(whole, split)


def test_materialising_does_not_disturb_the_stream():
    problem = Problem(seed=9)
    state = problem.begin()
    half = problem.n // 2
    for a, b in ((0, half), (half, problem.n)):
        phi, phi_next = (Rows(r.values, r.indices, r.indptr[a : b + 1]) for r in (problem.phi, problem.phi_next))
        state.update(phi, phi_next, {name: c[a:b] for name, c in problem.columns.items()})
        state.materialise()
    for whole, split in zip(problem.lazy(), state.materialise(), strict=True):
        assert np.array_equal(whole, split)


def test_materialising_in_blocks_that_do_not_divide_the_features(monkeypatch):
    monkeypatch.setattr(direct, "SWEEP", 7)
    Problem(seed=13).check()
    Problem(seed=13, schedule="sqrt").check()


def test_divergence_stops_at_the_row_whose_products_leave_the_limit():
    problem = Problem(seed=10, saddle=False, l1=(0.0, 0.0), n=100)
    problem.columns["alpha"] = np.full(100, 50.0)
    state = problem.begin()
    assert state.update(problem.phi, problem.phi_next, problem.columns, limit=1e6) < 100
    assert np.isfinite(state.materialise()[0]).all()


def test_a_line_is_one_cache_line():
    line = sparse.aligned_zeros(100, 8)
    assert line.ctypes.data % 64 == 0
    assert line.flags.c_contiguous
