"""How far functions beside the raw columns are used: the loss written out naively, and what the choice does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from sparsetd.selection.moments import Moments
from sparsetd.selection.shrinkage import CRITIC, LAMBDAS, Groups, critic, losses, ridged, shrunk, widening


def sums(curve: float, n_groups: int = 20, n: int = 100, seed: int = 0) -> tuple[Groups, list]:
    """One-step episodes with the reward x₀ + curve·(x₁² − 1) + noise and the columns x₀, x₁, x₁² − 1, 1."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(n_groups):
        x = rng.normal(size=(n, 2))
        psi = np.column_stack([x, (x[:, 1] ** 2 - 1) / np.sqrt(2), np.ones(n)])
        pieces.append((psi, x[:, 0] + curve * (x[:, 1] ** 2 - 1) + rng.normal(size=n)))
    A = np.array([psi.T @ psi for psi, _ in pieces])
    b = np.array([psi.T @ r for psi, r in pieces])
    moments = Moments(A, b, A, b, *np.full((3, n_groups), n))
    return Groups(moments, 4, np.array([0, 0, 1, 0], dtype=bool), critic(moments)), pieces


def test_the_loss_is_the_sum_over_pairs_of_groups_of_a_fold() -> None:
    groups, pieces = sums(0.4)
    found = losses(groups, lambda *sums: ridged(*sums, groups.penalised, 0.1)[:, None])[..., 0]
    C = groups.moments.C.sum(axis=0) / 2000
    metric = np.linalg.inv(C + CRITIC * np.diag(np.diag(C)))
    for k in range(5):
        others = [pieces[g] for g in range(20) if g // 4 != k]
        A = sum(psi.T @ psi for psi, _ in others) + 1600 * np.diag([0, 0, 0.1, 0])
        theta = np.linalg.solve(A, sum(psi.T @ r for psi, r in others))
        s = [psi.T @ (r - psi @ theta) / 400 for psi, r in pieces[4 * k : 4 * k + 4]]
        expected = 4 / 3 * sum(s[g] @ metric @ s[h] for g in range(4) for h in range(4) if g != h)
        np.testing.assert_allclose(found[0, k], expected, rtol=1e-6)


def test_a_curve_is_used_and_a_straight_line_is_left_alone() -> None:
    chosen = [[shrunk(sums(curve, seed=seed)[0])[0] for seed in range(12)] for curve in (0.0, 0.5)]
    assert sum(np.isinf(lam) or lam >= 0.3 for lam in chosen[0]) >= 8
    assert all(lam <= 0.1 for lam in chosen[1])


def test_an_infinite_ridge_is_the_fit_without_the_penalised_functions() -> None:
    groups, _ = sums(0.5)
    A, b, n = groups.without()
    theta = ridged(A, b, n, groups.penalised, LAMBDAS[0])
    np.testing.assert_allclose(
        theta[[0, 1, 3]], np.linalg.solve(A[np.ix_([0, 1, 3], [0, 1, 3])], b[[0, 1, 3]]), rtol=1e-6
    )
    assert theta[2] == 0


def test_resampled_logs_agree_on_a_clear_choice_and_differ_on_an_open_one() -> None:
    clear, open_ = (shrunk(sums(curve, seed=1)[0]) for curve in (2.0, 0.05))
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
    theta = ridged(phi.T @ phi, phi.T @ (2 * x + 1), 500.0, free, np.inf)
    np.testing.assert_allclose(theta, [1.0, 1.0, 1.0], rtol=1e-6)
    never_left = ridged(np.diag([500.0, 0.0]), np.array([500.0, 250.0]), 500.0, free[:2], np.inf)
    np.testing.assert_allclose(never_left, [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("apart", [0.0, 1e-9, 0.3, 1.0, 3.0, 20.0, 1e6])
def test_a_wider_interval_covers_although_its_centre_is_off(apart: float) -> None:
    half = widening(2.0 * apart, 2.0) * norm.ppf(0.975)
    assert norm.cdf(half - apart) - norm.cdf(-half - apart) == pytest.approx(0.95, abs=1e-6)


def test_nothing_to_widen_is_left_as_it_is() -> None:
    assert widening(0.0, 1.0) == widening(1.0, 0.0) == widening(1.0, np.inf) == 1.0
