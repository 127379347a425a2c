"""How far functions beside the raw columns are used: the loss written out naively, and what the choice does."""

from __future__ import annotations

import numpy as np

from sparsetd.selection.shrinkage import CRITIC, LAMBDAS, Groups, losses, ridged, shrunk


def sums(curve: float, n_groups: int = 20, n: int = 100, seed: int = 0) -> tuple[Groups, np.ndarray, list]:
    """One-step episodes with the reward x₀ + curve·(x₁² − 1) + noise and the columns x₀, x₁, x₁² − 1, 1."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(n_groups):
        x = rng.normal(size=(n, 2))
        psi = np.column_stack([x, (x[:, 1] ** 2 - 1) / np.sqrt(2), np.ones(n)])
        pieces.append((psi, x[:, 0] + curve * (x[:, 1] ** 2 - 1) + rng.normal(size=n)))
    A = np.array([psi.T @ psi for psi, _ in pieces])
    b = np.array([psi.T @ r for psi, r in pieces])
    fold = np.arange(n_groups) // 4
    return Groups(A, b, A.sum(axis=0), np.full(n_groups, n), fold), np.array([0, 0, 1, 0], dtype=bool), pieces


def test_the_loss_is_the_sum_over_pairs_of_groups_of_a_fold() -> None:
    groups, penalised, pieces = sums(0.4)
    found = losses(groups, penalised, [(np.arange(4), 0.1)])
    C = groups.C / 2000
    metric = np.linalg.inv(C + CRITIC * np.diag(np.diag(C)))
    for k in range(5):
        others = [pieces[g] for g in range(20) if g // 4 != k]
        A = sum(psi.T @ psi for psi, _ in others) + 1600 * np.diag([0, 0, 0.1, 0])
        theta = np.linalg.solve(A, sum(psi.T @ r for psi, r in others))
        s = [psi.T @ (r - psi @ theta) / 400 for psi, r in pieces[4 * k : 4 * k + 4]]
        expected = 4 / 3 * sum(s[g] @ metric @ s[h] for g in range(4) for h in range(4) if g != h)
        np.testing.assert_allclose(found[0, k], expected, rtol=1e-9)


def test_a_curve_is_used_and_a_straight_line_is_left_alone() -> None:
    chosen = [[shrunk(*sums(curve, seed=seed)[:2])[0] for seed in range(12)] for curve in (0.0, 0.5)]
    assert sum(np.isinf(lam) or lam >= 0.3 for lam in chosen[0]) >= 8
    assert all(lam <= 0.1 for lam in chosen[1])


def test_an_infinite_ridge_is_the_fit_without_the_penalised_functions() -> None:
    groups, penalised, _ = sums(0.5)
    A, b = groups.A.sum(axis=0), groups.b.sum(axis=0)
    theta = ridged(A, b, 2000.0, penalised, np.arange(4), LAMBDAS[0])
    np.testing.assert_allclose(
        theta[[0, 1, 3]], np.linalg.solve(A[np.ix_([0, 1, 3], [0, 1, 3])], b[[0, 1, 3]]), rtol=1e-6
    )
    assert theta[2] == 0
