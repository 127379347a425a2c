"""Elimination on sums: against refits by hand, among correlated decoys, and whatever the units and the order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import SparseTD, SparseTDSelect
from sparsetd.penalties import L1
from sparsetd.selection.elimination import MeanSystem, distinct, drawn_path, eliminate, supports, survivors
from sparsetd.selection.sparse_td_select import dual_support
from sparsetd.solvers.mean import Matrix
from sparsetd.solvers.saddle import SUPPORT_TOLERANCE, Family, FitNorm, rho_grid, whitened
from sparsetd.system import Array, Batch

GAMMA, LENGTH = 0.9, 10


def decoys(rng: np.random.Generator, rows: int, columns: int, correlation: float) -> Batch:
    """Three autoregressive features carry the value, four decoys each share their shocks, the rest is noise."""
    n, a = rows // LENGTH, np.linspace(0.4, 0.8, columns)
    a[3:15] = np.repeat(a[:3], 4)

    def shock() -> Array:
        z = rng.normal(size=(n, columns))
        z[:, 3:15] = correlation * np.repeat(z[:, :3], 4, axis=1) + np.sqrt(1 - correlation**2) * z[:, 3:15]
        return z

    x, seen = shock(), []
    for _ in range(LENGTH):
        after = a * x + np.sqrt(1 - a**2) * shock()
        reward = x[:, :3] @ (np.array([1.0, -1.0, 0.8]) * (1 - GAMMA * a[:3])) + 0.5 * rng.normal(size=n)
        seen.append((x, after, reward, rng.choice([0.5, 1.5], size=n)))
        x = after
    phi, phi_next, reward, ratio = (np.stack(part, axis=1).reshape(n * LENGTH, -1) for part in zip(*seen, strict=True))
    start = np.arange(len(phi)) % LENGTH == 0
    one = np.ones(len(phi))
    return Batch(phi, phi_next, reward[:, 0], GAMMA * one, ratio[:, 0], start, one)


def fitted(batch: Batch, **parameters: Any) -> SparseTDSelect:
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    model = SparseTDSelect(gamma=GAMMA, fit_intercept=True, tol=1e-4, **parameters)
    return model.fit(batch.phi, batch.reward, batch.phi_next, **columns)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_relevant_features_are_found_among_their_decoys(correlation: float) -> None:
    kept = [
        set(np.flatnonzero(fitted(decoys(np.random.default_rng(s), 2000, 40, correlation)).support_)) for s in (1, 2)
    ]
    assert all({0, 1, 2} <= support for support in kept)
    assert sum(len(support) for support in kept) <= 8


def test_look_alikes_are_told_apart_by_the_rewards() -> None:
    logs = [decoys(np.random.default_rng(seed), 1000, 40, 0.95) for seed in range(4, 10)]
    kept = [set(np.flatnonzero(fitted(log).support_)) for log in logs]
    found = sum(len(support & {0, 1, 2}) for support in kept)
    assert found >= 16  # of 18; 13 where the TD system alone decides
    assert sum(map(len, kept)) - found <= 4


def driven(rng: np.random.Generator, n: int = 300, length: int = 8) -> Batch:
    """Feature 0 earns nothing but moves feature 1, which does; eight others are noise."""
    x, seen = rng.normal(size=(n, 10)), []
    for _ in range(length):
        after = 0.6 * x + 0.8 * rng.normal(size=x.shape)
        after[:, 1] = 0.9 * x[:, 0] + 0.4 * rng.normal(size=n)
        seen.append((x, after, x[:, 1:2] + 0.5 * rng.normal(size=(n, 1))))
        x = after
    phi, phi_next, reward = (np.stack(part, axis=1).reshape(n * length, -1) for part in zip(*seen, strict=True))
    one = np.ones(len(phi))
    return Batch(phi, phi_next, reward[:, 0], GAMMA * one, one, np.arange(len(phi)) % length == 0, one)


def test_a_feature_that_earns_nothing_but_leads_to_what_does_is_found() -> None:
    for seed in range(4):
        support = set(np.flatnonzero(fitted(driven(np.random.default_rng(seed))).support_))
        assert {0, 1} <= support
        assert len(support) <= 3


def test_neither_units_nor_the_order_of_episodes_matter() -> None:
    batch, rng = decoys(np.random.default_rng(3), 1000, 20, 0.5), np.random.default_rng(0)
    model = fitted(batch)
    units, means = 10.0 ** rng.integers(-6, 7, size=20), 10.0 * rng.normal(size=20)
    other = replace(batch, phi=(batch.phi + means) * units, phi_next=(batch.phi_next + means) * units)
    moved = fitted(other)
    np.testing.assert_array_equal(moved.support_, model.support_)
    np.testing.assert_allclose(moved.coef_ * units, model.coef_, rtol=1e-6, atol=1e-12)
    order = rng.permutation(100)
    rows = (order[:, None] * LENGTH + np.arange(LENGTH)).ravel()
    shuffled = fitted(batch[rows])
    np.testing.assert_array_equal(shuffled.support_, model.support_)
    np.testing.assert_allclose(shuffled.coef_, model.coef_, rtol=1e-9)


def test_what_is_dropped_is_held_at_zero_as_in_a_constrained_fit() -> None:
    """Survivors of one step: the minimum of (θ̂ − θ)ᵀV⁻¹(θ̂ − θ) with one coordinate at 0 gives the next sizes."""
    rng = np.random.default_rng(4)
    A = np.eye(4) + 0.2 * rng.normal(size=(4, 4))
    root = rng.normal(size=(4, 4))
    omega, theta = root @ root.T + np.eye(4), np.array([3.0, 0.02, -2.0, 0.3])
    system = MeanSystem(A, A @ theta, np.eye(4), np.zeros(4, dtype=bool), 200, 50, 4)
    V = np.linalg.inv(A) @ omega @ np.linalg.inv(A).T / 200
    kept, least = [0, 1, 2, 3], np.inf
    while True:  # the same by solving the constrained problem anew for every set
        H = np.linalg.inv(V)
        now = np.zeros(4)
        now[kept] = np.linalg.solve(H[np.ix_(kept, kept)], (H @ theta)[kept])
        sizes = now[kept] ** 2 / np.diag(np.linalg.inv(H[np.ix_(kept, kept)]))
        least = sizes.min()
        if least > 9.0:
            break
        kept.pop(int(np.argmin(sizes)))
    assert survivors(system, omega, np.arange(4), 9.0).tolist() == kept
    assert 0 < len(kept) < 4


def test_free_columns_stay_and_an_empty_system_has_no_support() -> None:
    system = MeanSystem(np.eye(2), np.zeros(2), np.eye(2), np.array([False, True]), 100, 10, 1)
    known = lambda theta, columns, n: (np.eye(n), np.eye(len(columns)))  # noqa: ARG005, E731
    assert eliminate(system, known).tolist() == [1]
    assert supports(system) == []


def family_on(system: MeanSystem) -> Family:
    """The problems ‖C^{-1/2}(Aθ − b)‖₂ + ρ‖θ‖₁ of a mean system."""
    A, b = whitened(system.A, system.b, system.C)
    return Family(Matrix(A, b), FitNorm.of(2), L1(1.0), 1, (~system.free).astype(np.float64))


def test_the_supports_are_those_of_the_certified_path() -> None:
    rng = np.random.default_rng(9)
    for d in (12, 31, 60):
        X = rng.normal(size=(1500, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
        X[:, -1] = 1.0
        C, b = X.T @ X / 1500, X.T @ (X[:, 0] - X[:, 1] + rng.normal(size=1500)) / 1500
        system = MeanSystem(C, b, C, np.arange(d) == d - 1, 1500, 100, d - 1)
        found, family = supports(system), family_on(system)
        path = family.solutions(rho_grid(family.rho_max(), 60, 1e-3), SUPPORT_TOLERANCE, polish=False)
        proved = [np.flatnonzero((point.x != 0) | family.free).tolist() for point in path]
        assert len(found) >= 2
        assert all(support.tolist() in proved for support in found)


@pytest.mark.parametrize("copies", [0, 2])
def test_the_drawn_path_is_the_certified_one(copies: int) -> None:
    rng = np.random.default_rng(10)
    for d in (4, 25, 60):
        X = rng.normal(size=(1500, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
        X[:, :copies] = X[:, -1 - copies : -1]
        X[:, -1] = 1.0
        change = X - 0.9 * np.roll(0.5 * X, 1, axis=0)
        A, C, b = X.T @ change / 1500, X.T @ X / 1500, X.T @ (X[:, 2] + rng.normal(size=1500)) / 1500
        system = MeanSystem(A, b, C, np.arange(d) == d - 1, 1500, 100, d - 1)
        family, drawn = family_on(system), drawn_path(system, np.array([2]))
        assert drawn is not None
        rhos, coefs = drawn.rhos, drawn.coefs
        assert len(rhos) >= 2
        np.testing.assert_allclose(rhos, rho_grid(family.rho_max(), 30, 1e-2)[: len(rhos)], rtol=1e-9)
        assert (coefs[2, -1] != 0) or len(rhos) == 30 or np.count_nonzero(coefs[:, -1]) > 30
        proved = np.column_stack([point.x[:-1] for point in family.solutions(rhos, 1e-10)])
        np.testing.assert_allclose(X[:, :-1] @ coefs, X[:, :-1] @ proved, atol=1e-5)  # of copies, either may enter


def test_nothing_is_drawn_where_nothing_can_enter() -> None:
    for free, b in (([False, True], [0.0, 0.0]), ([True, True], [1.0, 1.0])):
        system = MeanSystem(np.eye(2), np.array(b), np.eye(2), np.array(free), 100, 10, 1)
        assert drawn_path(system, np.array([], dtype=np.intp)) is None


def test_with_more_features_than_rows_the_path_proposes() -> None:
    rng = np.random.default_rng(5)
    batch = decoys(rng, 600, 20, 0.0)
    noise = rng.normal(size=(601, 900))
    wide = replace(
        batch,
        phi=sp.csr_array(np.hstack([batch.phi, noise[:-1]])),
        phi_next=sp.csr_array(np.hstack([batch.phi_next, noise[1:]])),
    )
    kept = np.flatnonzero(fitted(wide).support_)
    assert {0, 1, 2} <= set(kept)
    assert len(kept) <= 6


def test_the_dual_support_is_that_of_the_transposed_equation() -> None:
    batch = decoys(np.random.default_rng(6), 800, 16, 0.0)
    start = np.zeros(16)
    start[[2, 5]] = 1.0
    assert {2, 5} <= set(dual_support(batch, start, 8).tolist())


def test_rmspbe_is_the_euclidean_problem_of_whitened_features() -> None:
    """In features with C = I the metric of C is the Euclidean one, and no basis changes the fitted values."""
    batch = decoys(np.random.default_rng(7), 500, 15, 0.7)
    rows = (batch.reward, batch.phi_next)
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    plain = {"gamma": GAMMA, "standardize": False, "tol": 1e-10}
    C = batch.phi.T @ batch.phi / len(batch)
    turn = np.linalg.inv(np.linalg.cholesky(C)).T
    white = (batch.phi @ turn, batch.reward, batch.phi_next @ turn)
    ours = SparseTD(rho_theta=0.3, fit_norm="rmspbe", **plain).fit(*white, **columns)
    euclidean = SparseTD(rho_theta=0.3 * np.sqrt(2), fit_norm=2, **plain).fit(*white, **columns)
    np.testing.assert_allclose(ours.coef_, euclidean.coef_, atol=1e-7)
    assert 0 < ours.support_.sum() < 15
    skew = SparseTD(rho_theta=0.0, fit_norm="rmspbe", **plain).fit(batch.phi, *rows, **columns)
    other = SparseTD(rho_theta=0.0, fit_norm="rmspbe", **plain).fit(*white, **columns)
    np.testing.assert_allclose(white[0] @ other.coef_, batch.phi @ skew.coef_, rtol=1e-6, atol=1e-9)


def test_rmspbe_needs_theta_alone() -> None:
    with pytest.raises(ValueError, match="leave out rho_w"):
        SparseTD(rho_theta=0.1, rho_w=0.1, fit_norm="rmspbe").fit(np.eye(5), np.ones(5))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_time_limit_ends_with_an_honest_gap() -> None:
    batch = decoys(np.random.default_rng(8), 400, 60, 0.7)
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    model = SparseTD(rho_theta=1e-4, fit_norm="inf", gamma=GAMMA, time_limit=0.0)
    model.fit(batch.phi, batch.reward, batch.phi_next, **columns)
    assert model.status_ == "not_converged"
    exact = SparseTD(rho_theta=1e-4, fit_norm="inf", gamma=GAMMA).fit(
        batch.phi, batch.reward, batch.phi_next, **columns
    )
    assert model.objective_ - exact.objective_ <= model.dual_gap_ + 1e-12


def test_of_copies_the_first_is_kept_whatever_the_order_of_the_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=400)
    wide = np.hstack([X, 7.0 * X[:, :1] + 1e-8 * rng.normal(size=(400, 1)), -X[:, 1:2]])
    for order in (np.arange(400), rng.permutation(400), np.arange(400)[::-1]):
        model = SparseTDSelect(gamma=0.0).fit(wide[order], y[order])
        assert model.support_[[0, 1, 4, 5]].tolist() == [True, True, False, False]


def test_distinct_columns_are_those_that_copy_no_earlier_one():
    columns = np.random.default_rng(4).normal(size=(50, 3))
    wide = columns[:, [0, 1, 0, 2, 1]] * [1.0, 1e3, -2.0, 1.0, 1e-5]
    assert distinct(wide.T @ wide).tolist() == [0, 1, 3]
    assert distinct(np.zeros((2, 2))).tolist() == [0, 1]
