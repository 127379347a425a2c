"""How far functions beside the raw columns are used: the loss written out naively, and what the choice does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from sparsetd.selection.moments import Moments
from sparsetd.selection.shrinkage import CRITIC, LAMBDAS, losses, ridged, shrunk, widening

FOLD = np.arange(20) // 4


def moments(A: np.ndarray, b: np.ndarray, n_rows: np.ndarray) -> Moments:
    """Sums of groups of which only A (which is C), b and the number of rows matter."""
    return Moments(A, b, A, b, n_rows, n_rows, n_rows)


def sums(curve: float, n: int = 100, seed: int = 0) -> tuple[Moments, np.ndarray, list]:
    """One-step episodes with the reward x₀ + curve·(x₁² − 1) + noise and the columns x₀, x₁, x₁² − 1, 1."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(20):
        x = rng.normal(size=(n, 2))
        psi = np.column_stack([x, (x[:, 1] ** 2 - 1) / np.sqrt(2), np.ones(n)])
        pieces.append((psi, x[:, 0] + curve * (x[:, 1] ** 2 - 1) + rng.normal(size=n)))
    A = np.array([psi.T @ psi for psi, _ in pieces])
    b = np.array([psi.T @ r for psi, r in pieces])
    return moments(A, b, np.full(20, n)), np.array([0, 0, 1, 0], dtype=bool), pieces


def lam_and_shares(curve: float, seed: int) -> tuple[float, np.ndarray]:
    groups, penalised, _ = sums(curve, seed=seed)
    return shrunk(groups, FOLD, penalised)


def test_the_loss_is_the_sum_over_pairs_of_groups_of_a_fold() -> None:
    groups, penalised, pieces = sums(0.4)
    found = losses(groups, FOLD, penalised, [(np.arange(4), 0.1)])[..., 0]
    C = groups.C.sum(axis=0) / 2000
    metric = np.linalg.inv(C + CRITIC * np.diag(np.diag(C)))
    for k in range(5):
        others = [pieces[g] for g in range(20) if g // 4 != k]
        A = sum(psi.T @ psi for psi, _ in others) + 1600 * np.diag([0, 0, 0.1, 0])
        theta = np.linalg.solve(A, sum(psi.T @ r for psi, r in others))
        s = [psi.T @ (r - psi @ theta) / 400 for psi, r in pieces[4 * k : 4 * k + 4]]
        expected = 4 / 3 * sum(s[g] @ metric @ s[h] for g in range(4) for h in range(4) if g != h)
        np.testing.assert_allclose(found[0, k], expected, rtol=1e-6)


def test_a_curve_is_used_and_a_straight_line_is_left_alone() -> None:
    chosen = [[lam_and_shares(curve, seed)[0] for seed in range(12)] for curve in (0.0, 0.5)]
    assert sum(np.isinf(lam) or lam >= 0.3 for lam in chosen[0]) >= 8
    assert all(lam <= 0.1 for lam in chosen[1])


def test_an_infinite_ridge_is_the_fit_without_the_penalised_functions() -> None:
    groups, penalised, _ = sums(0.5)
    A, b = groups.A.sum(axis=0), groups.b.sum(axis=0)
    theta = ridged(groups.total(), penalised, np.arange(4), LAMBDAS[0])
    np.testing.assert_allclose(
        theta[[0, 1, 3]], np.linalg.solve(A[np.ix_([0, 1, 3], [0, 1, 3])], b[[0, 1, 3]]), rtol=1e-6
    )
    assert theta[2] == 0


def test_resampled_logs_agree_on_a_clear_choice_and_differ_on_an_open_one() -> None:
    clear, open_ = (lam_and_shares(curve, 1) for curve in (2.0, 0.05))
    for lam, shares in (clear, open_):
        assert shares.sum() == pytest.approx(1.0)
        assert shares[LAMBDAS.index(lam)] > 0
    assert clear[1][0] == 0  # no resampled log does without the curve
    assert open_[1].max() < 0.9


def test_copies_share_their_weight_and_what_the_rows_leave_open_stays_small() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    phi = np.column_stack([x, x, np.ones(500)])
    free = np.zeros(3, dtype=bool)
    own = moments((phi.T @ phi)[None], (phi.T @ (2 * x + 1))[None], np.array([500.0]))
    theta = ridged(own, free, np.arange(3), np.inf)
    np.testing.assert_allclose(theta, [1.0, 1.0, 1.0], rtol=1e-6)
    empty = moments(np.diag([500.0, 0.0])[None], np.array([[500.0, 250.0]]), np.array([500.0]))
    never_left = ridged(empty, free[:2], np.arange(2), np.inf)
    np.testing.assert_allclose(never_left, [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("apart", [0.0, 1e-9, 0.3, 1.0, 3.0, 20.0, 1e6])
def test_a_wider_interval_covers_although_its_centre_is_off(apart: float) -> None:
    half = widening(2.0 * apart, 2.0) * norm.ppf(0.975)
    assert norm.cdf(half - apart) - norm.cdf(-half - apart) == pytest.approx(0.95, abs=1e-6)


def test_nothing_to_widen_is_left_as_it_is() -> None:
    assert widening(0.0, 1.0) == widening(1.0, 0.0) == widening(1.0, np.inf) == 1.0
