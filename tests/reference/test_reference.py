"""The oracles are consistent: O(d) formulas = matrices, loops reduce to one another, projections are nearest."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from . import loops, mdps, proximal, systems


def transition(seed, d=4):
    rng = np.random.default_rng(seed)
    phi, phi_next, e, w, theta, y1, y2 = rng.normal(size=(7, d))
    return phi, phi_next, e, w, theta, y1, y2, float(rng.normal())


def random_stream(method="tdc", n=60, d=4, seed=0, **constants):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(2, n, d)) / 2
    return systems.stream(method, phi, phi_next, rng.normal(size=n), np.full(n, 0.9), rng.uniform(0, 2, n), **constants)


@pytest.mark.parametrize("seed", range(3))
def test_printed_formulas_equal_the_matrices(seed):
    phi, phi_next, e, w, theta, y1, y2, r = transition(seed)
    gamma, eta, lam, alpha = 0.9, 3.0, 0.4, 0.1
    x, y = np.concatenate([w, theta]), np.concatenate([y1, y2])
    A, b = systems.tdc(phi, phi_next, r, gamma, phi, eta)
    np.testing.assert_allclose(systems.eq_ytAt(y1, y2, phi, phi_next, gamma, eta), y @ A, atol=1e-12)
    np.testing.assert_allclose(systems.eq_Atxt_bt(w, theta, phi, phi_next, r, gamma, eta), A @ x - b, atol=1e-12)
    moved = np.concatenate(systems.eq_TDCupdate(w, theta, phi, phi_next, r, gamma, alpha, eta))
    np.testing.assert_allclose(moved, x - alpha * (A @ x - b), atol=1e-12)
    A, b = systems.gq(phi, phi_next, r, gamma, e, eta, lam)
    np.testing.assert_allclose(systems.eq_gqcase_ytAt(y1, y2, phi, phi_next, e, gamma, lam, eta), y @ A, atol=1e-12)
    residual = systems.eq_gqcase_Atxt_bt(w, theta, phi, phi_next, e, r, gamma, lam, eta)
    np.testing.assert_allclose(residual, A @ x - b, atol=1e-12)
    moved = np.concatenate(systems.eq_gq(w, theta, phi, phi_next, e, r, gamma, lam, alpha, eta))
    np.testing.assert_allclose(moved, x - alpha * (A @ x - b), atol=1e-12)


@pytest.mark.parametrize("method", ["tdc", "gtd", "gtd2", "tdrc", "htd", "gq"])
def test_every_two_block_method_has_the_td_fixed_point(method):
    """E[A]x = E[b] ⇒ w = 0 and θ = LSTD, on-policy and with λ = 0."""
    rng = np.random.default_rng(3)
    phi, phi_next = rng.normal(size=(2, 200, 3))
    data = phi, phi_next, rng.normal(size=200), np.full(200, 0.5)
    x = np.linalg.solve(*systems.mean(systems.stream(method, *data, eta=2.0)))
    theta = np.linalg.solve(*systems.mean(systems.stream("td", *data)))
    np.testing.assert_allclose(x, np.concatenate([np.zeros(3), theta]), atol=1e-10)


@pytest.mark.parametrize("n", [1, 1.5, 2, 3, 4, np.inf])
def test_projections_satisfy_the_variational_inequality(n):
    rng = np.random.default_rng(0)
    for y in rng.normal(size=(20, 5)) * 2:
        z = proximal.project(y, n)
        assert np.linalg.norm(z, ord=n) <= 1 + 1e-9
        points = rng.normal(size=(50, 5))
        points /= np.linalg.norm(points, ord=n, axis=1, keepdims=True)
        assert ((points - z) @ (y - z)).max() <= 1e-8


def test_links_are_inverse_and_p_2_is_plain_descent():
    x = np.random.default_rng(0).normal(size=6)
    np.testing.assert_allclose(proximal.link(proximal.link(x, 1.2), 6.0), x, atol=1e-12)
    pairs, x0 = random_stream(), np.ones(8)
    steps = 0.1 / np.sqrt(1 + np.arange(len(pairs) + 1))
    y0, prox = np.zeros(8), loops.l1(0.1)
    runs = [
        (loops.mirror_descent(pairs, x0, steps, 2.0, 0.1), loops.stochastic(pairs, x0, steps, prox)),
        (loops.mirror_prox_p_norm(pairs, x0, steps, 2.0, 0.1), loops.mirror_prox(pairs, x0, steps, prox)),
        (
            loops.mirror_prox_saddle(pairs, x0, y0, steps, p=2.0, rho=0.1),
            loops.mirror_prox_saddle(pairs, x0, y0, steps, prox=prox),
        ),
    ]
    for a, b in runs:
        np.testing.assert_allclose(a["x"], b["x"], atol=1e-12)
        np.testing.assert_allclose(a["x_bar"], b["x_bar"], atol=1e-12)


def test_the_average_includes_both_ends():
    pairs, x0 = random_stream(n=1), np.ones(8)
    run = loops.primal_dual(pairs, x0, np.zeros(8), [0.1, 0.3])
    np.testing.assert_allclose(run["x_bar"], (0.1 * x0 + 0.3 * run["x"]) / 0.4, atol=1e-15)


def test_twothreshold_shrinks_each_block_by_its_own_weight():
    x = np.array([3.0, -1.0, 3.0, -1.0])
    np.testing.assert_allclose(proximal.twothreshold(x, 0.5, 1.0, 4.0), [1.0, 0.0, 2.5, -0.5])


def test_emphatic_td_is_stable_on_the_star_where_td_is_not():
    """ETD(0)'s expected matrix is ΦᵀF(I − γP)Φ with F = diag((I − γPᵀ)⁻¹ξ): follow-on limit, positive semidefinite."""
    xi, P, _, features, _ = mdps.star()
    follow_on = np.linalg.solve(np.eye(7) - 0.99 * P.T, xi)
    key = np.diag(follow_on) @ (np.eye(7) - 0.99 * P)
    assert np.linalg.eigvalsh(key + key.T).min() > 0
    assert np.linalg.eigvals(features.T * xi @ (features - 0.99 * P @ features)).real.min() < -0.1


def test_the_reference_imports_nothing_from_the_library():
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("sparsetd") for name in imported), path
