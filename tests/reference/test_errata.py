"""What is wrong, incomplete or surprisingly right in print: one test per erratum, computed from scratch.

E22 (the cost O(Ndp³) quoted for LARS-TD) is a count of operations from the literature and has no numerical test.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linprog, minimize

from . import loops, mdps, proximal, systems

GAMMA = mdps.STAR_GAMMA


def constant(value, n):
    return np.full(n + 1, value)


def nearest_on_unit_sphere(y, n, points=200_001):
    """The nearest point of ‖z‖_n = 1 in the plane, by walking all the way round."""
    angle = np.linspace(0, 2 * np.pi, points)
    z = np.stack([np.cos(angle), np.sin(angle)])
    z /= np.linalg.norm(z, ord=n, axis=0)
    return z[:, np.argmin(((z - y[:, None]) ** 2).sum(axis=0))]


def lasso_objective(A, b, rho, x):
    return 0.5 * np.sum((A @ x - b) ** 2) + rho * np.abs(x).sum()


def lasso(A, b, rho, n_iter=20_000):
    """min ½‖Ax − b‖² + ρ‖x‖₁ by proximal gradient."""
    step = 1.0 / np.linalg.norm(A, 2) ** 2
    pairs = [(A.T @ A, A.T @ b)] * n_iter
    return loops.stochastic(pairs, np.zeros(A.shape[1]), constant(step, n_iter), loops.l1(rho))["x"]


def small_regression(seed=0, rho=0.37):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, 5)), rng.normal(size=5), rho


def star_tdc(eta=10.0):
    xi, P, R, features, _ = mdps.star()
    return mdps.tdc_system(xi, P, R, features, GAMMA, eta)


def star_samples(n, seed=0, eta=10.0):
    """n iid sub-sampled transitions of the star: s uniform, s' = 7."""
    features = mdps.star()[3]
    phi = features[np.random.default_rng(seed).integers(7, size=n)]
    phi_next, each = np.tile(features[6], (n, 1)), np.ones(n, dtype=bool)
    return systems.stream("tdc", phi, phi_next, np.zeros(n), np.full(n, GAMMA), start=each, eta=eta)


def test_E1_radial_scaling_is_not_the_projection_for_n_above_2():
    y = np.array([2.0, 1.0])
    true, radial = proximal.project(y, 3), proximal.project_radial(y, 3)
    np.testing.assert_allclose(true, nearest_on_unit_sphere(y, 3), atol=1e-4)
    np.testing.assert_allclose(true, [0.930, 0.581], atol=1e-3)
    np.testing.assert_allclose(radial, [0.961, 0.481], atol=1e-3)
    assert np.linalg.norm(y - true) == pytest.approx(1.149, abs=1e-3)
    assert np.linalg.norm(y - radial) == pytest.approx(1.161, abs=1e-3)
    np.testing.assert_allclose(proximal.project_ln(y, 2), proximal.project_radial(y, 2), atol=1e-12)


def test_E2_radial_scaling_is_not_the_projection_for_n_1():
    y = np.array([1.5, 0.3])
    true, radial = proximal.project(y, 1), proximal.project_radial(y, 1)
    np.testing.assert_allclose(true, nearest_on_unit_sphere(y, 1), atol=1e-4)
    np.testing.assert_allclose(true, [1.0, 0.0], atol=1e-12)
    assert np.linalg.norm(y - true) == pytest.approx(0.583, abs=1e-3)
    assert np.linalg.norm(y - radial) == pytest.approx(0.680, abs=1e-3)


def test_E2_with_radial_scaling_the_uniform_fit_converges_to_the_wrong_point():
    rng, k, rho, n = np.random.default_rng(2), 6, 0.5, 20_000
    A = rng.normal(size=(k, k))
    b = A @ np.array([2.0, -1, 0, 0, 0, 0]) + 0.3 * rng.normal(size=k)
    one = np.ones((k, 1))
    # min t + ρ1ᵀ(p + q) over |A(p − q) − b| ≤ t: the optimum of ‖Ax − b‖_∞ + ρ‖x‖₁ as a linear programme
    G = np.block([[-one, A, -A], [-one, -A, A]])
    best = linprog(np.r_[1, rho * np.ones(2 * k)], G, np.r_[b, -b]).fun
    steps = 0.3 / np.sqrt(1 + np.arange(n + 1))
    excess = {}
    for projection in (proximal.project, proximal.project_radial):
        x = loops.primal_dual([(A, b)] * n, np.zeros(k), np.zeros(k), steps, 1, loops.l1(rho), projection)["x_bar"]
        excess[projection] = (np.abs(A @ x - b).max() + rho * np.abs(x).sum()) / best - 1
    assert excess[proximal.project] < 0.015
    assert excess[proximal.project_radial] > 0.1


def test_E3_first_line_of_formula2_misses_a_factor_rho():
    A, b, rho = small_regression()
    left = lasso_objective(A, b, rho, lasso(A, b, rho))
    cube = [{"type": "ineq", "fun": lambda y, s=s: 1 - s * A.T @ y, "jac": lambda _, s=s: -s * A.T} for s in (1, -1)]
    right = minimize(
        lambda y: -(b @ y - rho / 2 * y @ y),
        np.zeros(5),
        jac=lambda y: -(b - rho * y),
        constraints=cube,
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert right.success
    assert rho * -right.fun == pytest.approx(left, rel=1e-6)
    assert -right.fun != pytest.approx(left, rel=0.5)
    np.testing.assert_allclose(right.x, (b - A @ lasso(A, b, rho)) / rho, atol=1e-5)


def test_E4_second_line_of_formula2_is_the_left_side_over_rho_with_y_negated():
    A, b, rho = small_regression()
    rng = np.random.default_rng(1)
    for x in [lasso(A, b, rho), *rng.normal(size=(5, 5))]:
        r = A @ x - b
        u, y = np.sign(x), r / rho  # the maximisers of xᵀu over the cube and of yᵀr − ρ/2 yᵀy
        inner = x @ u + y @ r - rho / 2 * y @ y
        assert inner == pytest.approx(lasso_objective(A, b, rho, x) / rho, rel=1e-12)
        for v in y + 0.1 * rng.normal(size=(20, 5)):
            assert v @ r - rho / 2 * v @ v < y @ r - rho / 2 * y @ y


def test_E5_the_extension_as_printed_is_descent_ascent_in_scaled_variables_and_solves_the_lasso():
    A, b, rho = small_regression()
    n, zero = 40_000, np.zeros(5)
    pairs, steps = [(A, b)] * n, constant(0.02, n)
    printed = loops.least_squares_saddle_printed(pairs, zero + 0.3, zero, zero, steps, rho)
    scaled = loops.least_squares_saddle(pairs, zero + 0.3, zero, zero, steps, rho)
    np.testing.assert_allclose(printed["xs"], scaled["xs"], atol=1e-9)
    np.testing.assert_allclose(rho * printed["y"], scaled["y"], atol=1e-9)
    np.testing.assert_allclose(rho * printed["u"], scaled["u"], atol=1e-9)
    np.testing.assert_allclose(scaled["x"], lasso(A, b, rho), atol=1e-8)


def test_E6_neither_eta_above_1_nor_eta_above_0_is_the_condition():
    xi, P, R, features, _ = mdps.star()
    D, _, C = mdps.matrices(xi, P, R, features, GAMMA)
    values, vectors = np.linalg.eigh(C)
    whiten = vectors[:, values > 1e-10] / np.sqrt(values[values > 1e-10])
    bound = -np.linalg.eigvalsh(whiten.T @ (D + D.T) @ whiten / 2).min()
    assert bound == pytest.approx(0.805, abs=1e-3)

    def growth(eta):
        return -np.linalg.eigvals(star_tdc(eta)[0]).real.min()

    assert growth(0.1) == pytest.approx(0.039, abs=1e-3)  # η > 0 is not enough
    for eta in (0.5, 1.0, 10.0):  # η > 1 is not needed; the bound is sufficient, not necessary
        assert growth(eta) < 1e-12


def test_E7_nothing_bounds_x_and_the_minimiser_need_not_be_unique():
    A, b = star_tdc()
    null = np.linalg.svd(A)[2][-2:]
    x0 = np.concatenate([np.zeros(8), mdps.star()[4]])
    np.testing.assert_allclose(A @ (null.T @ [3.0, -4.0]), b, atol=1e-12)
    runs = [loops.primal_dual([(A, b)] * 200, scale * x0, np.zeros(16), constant(0.01, 200)) for scale in (1.0, 1e6)]
    assert np.linalg.norm(A @ runs[1]["x"] - b) > 1e4 * np.linalg.norm(A @ runs[0]["x"] - b)  # no L bounds both
    shifted = loops.primal_dual([(A, b)] * 200, x0 + null[0], np.zeros(16), constant(0.01, 200))
    np.testing.assert_allclose(shifted["x"] - runs[0]["x"], null[0], atol=1e-10)  # x differs for ever, A x does not


def test_E7_steps_of_one_over_root_t_converge_although_their_squares_have_no_sum():
    """Σα² grows without bound, Σα²/Σα falls, and the squared weights of the last step have a sum."""
    alpha = 1.0 / np.sqrt(np.arange(1, 1_000_001))
    sums, squares = np.cumsum(alpha), np.cumsum(alpha**2)
    marks = np.array([10**k for k in range(2, 7)]) - 1
    assert np.diff(squares[marks]) == pytest.approx(np.log(10.0), rel=0.05)
    assert (np.diff(squares[marks] / sums[marks]) < 0).all()
    tail = np.cumsum((alpha / sums) ** 2)
    assert tail[-1] - tail[marks[0]] < 0.01
    A, b, rho = small_regression()
    best = cp.Problem(cp.Minimize(cp.norm(A @ (x := cp.Variable(5)) - b) + rho * cp.norm1(x))).solve(cp.CLARABEL)
    reached = []
    for n in (300, 3_000, 30_000):
        x_bar = loops.primal_dual([(A, b)] * n, np.zeros(5), np.zeros(5), 0.3 * alpha[: n + 1], 2, loops.l1(rho))[
            "x_bar"
        ]
        reached.append(np.linalg.norm(A @ x_bar - b) + rho * np.abs(x_bar).sum() - best)
    assert reached[0] > 2 * reached[1] > 4 * reached[2] > -1e-9


def test_E8_the_average_of_sparse_iterates_is_not_sparse_and_contains_x_0():
    rng, d, n, alpha = np.random.default_rng(0), 50, 400, 0.02
    theta = np.zeros(d)
    theta[:5] = 1.0
    phi = rng.normal(size=(n, d))
    pairs = systems.stream("td", phi, np.zeros((n, d)), phi @ theta, np.zeros(n))
    run = loops.stochastic(pairs, np.zeros(d), constant(alpha, n), loops.l1(0.5))
    np.testing.assert_allclose(run["x_bar"], run["xs"].mean(axis=0), atol=1e-14)
    assert np.median((run["xs"][n // 2 :] != 0).sum(axis=1)) < d
    assert (run["x_bar"] != 0).all()


def test_E9_the_regularised_step_needs_x_minus_alpha_times_the_gradient():
    A, b, rho = small_regression()
    H, g, alpha = A.T @ A, A.T @ b, 0.01
    x = lasso(A, b, rho)
    np.testing.assert_allclose(proximal.soft_threshold(x - alpha * (H @ x - g), alpha * rho), x, atol=1e-10)
    assert np.linalg.norm(proximal.soft_threshold(H @ x - g, alpha * rho) - x) > 0.1


def test_E10_A_has_square_roots_but_its_symmetric_part_is_indefinite():
    A, _ = mdps.tdc_system(*mdps.walk("tabular"), gamma=1.0, eta=10.0)
    root = sqrtm(A)
    assert not np.allclose(A, A.T)
    np.testing.assert_allclose(root @ root, A, atol=1e-10)
    A_star, _ = star_tdc()
    assert np.linalg.eigvalsh((A_star + A_star.T) / 2).min() == pytest.approx(-3.51, abs=0.01)


def test_E11_the_matrix_of_gtd2_is_not_symmetric_but_monotone():
    xi, P, R, features, _ = mdps.star()
    D, _, C = mdps.matrices(xi, P, R, features, GAMMA)
    zero = np.zeros((8, 8))
    A = np.block([[C, D], [-D.T, zero]])
    assert not np.allclose(A, A.T)
    np.testing.assert_allclose((A + A.T) / 2, np.block([[C, zero], [zero, zero]]), atol=1e-14)
    flipped = np.vstack([A[:8], -A[8:]])
    np.testing.assert_allclose(flipped, flipped.T, atol=1e-14)
    assert np.linalg.eigvalsh(flipped).min() < -0.1 < 0.1 < np.linalg.eigvalsh(flipped).max()


def test_E12_without_a_reset_the_trace_leaks_from_one_episode_into_the_next():
    rng = np.random.default_rng(0)
    phi, discount, ones = rng.normal(size=(6, 3)), np.full(6, 0.9), np.ones(6)
    start = np.arange(6) % 3 == 0
    both = systems.traces("action", phi, discount, ones, start, ones, 0.8)
    second = systems.traces("action", phi[3:], discount[3:], ones[3:], start[3:], ones[3:], 0.8)
    leaking = systems.traces("action", phi, discount, ones, np.arange(6) == 0, ones, 0.8)
    np.testing.assert_allclose(both[3:], second, atol=1e-15)
    assert np.abs(leaking[3:] - second).min() > 1e-3


def test_E13_without_the_ratio_behaviour_data_give_another_system():
    xi, _, _, features, _ = mdps.star()
    rows = [(s, t, 7.0 * (t == 6), xi[s] / 7) for s in range(7) for t in range(7)]  # dashed 6/7 → 1–6, solid 1/7 → 7
    phi, phi_next = features[[s for s, *_ in rows]], features[[t for _, t, *_ in rows]]
    ratio, weight = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])

    def expected(ratio):
        n = len(rows)
        pairs = systems.stream("tdc", phi, phi_next, np.zeros(n), np.full(n, GAMMA), ratio, np.ones(n, bool), eta=10.0)
        return np.tensordot(weight, [A for A, _ in pairs], axes=1)

    np.testing.assert_allclose(expected(ratio), star_tdc()[0], atol=1e-12)
    assert np.abs(expected(np.ones(49)) - star_tdc()[0]).max() > 1.0


def test_E14_the_star_is_trivial_for_lstd_and_lars_td_not_divergent():
    xi, P, R, features, _ = mdps.star()
    D, b, _ = mdps.matrices(xi, P, R, features, GAMMA)
    assert np.abs(b).max() == 0.0  # LARS-TD stops at once: no feature correlates with the reward
    theta = np.linalg.lstsq(D, b, rcond=None)[0]
    value = np.linalg.solve(np.eye(7) - GAMMA * P, R)
    np.testing.assert_array_equal(features @ theta, value)
    assert mdps.rmspbe(xi, P, R, features, GAMMA, theta) == 0.0


def test_E15_the_star_violates_full_column_rank():
    xi, P, R, features, theta0 = mdps.star()
    _, _, C = mdps.matrices(xi, P, R, features, GAMMA)
    assert np.linalg.matrix_rank(C) == 7
    assert np.linalg.matrix_rank(star_tdc()[0]) == 14
    assert mdps.rmspbe(xi, P, R, features, GAMMA, theta0) == pytest.approx(8.2214, abs=1e-4)


def test_E16_the_two_curves_obey_hoelder_and_their_difference_is_not_the_duality_gap():
    n, (A, b) = 2000, star_tdc()
    x0 = np.concatenate([np.zeros(8), mdps.star()[4]])
    run = loops.primal_dual(star_samples(n), x0, np.zeros(16), constant(0.01, n))
    residuals = run["xs"] @ A.T - b
    norms, products = np.linalg.norm(residuals, axis=1), (run["ys"] * residuals).sum(axis=1)
    assert (products <= norms + 1e-12).all()
    assert (products < 0).mean() > 0.1
    # With h = ρ‖x‖₁ the gap of a pair is ‖Ax − b‖ + ρ‖x‖₁ + bᵀy for feasible y: it bounds the distance to the optimum,
    # and the difference of the curves does not: at y = r/‖r‖ the difference is 0 for every x.
    A, b, rho = small_regression()
    x, y = np.ones(5), A @ np.ones(5) - b
    y /= np.linalg.norm(y)
    assert np.linalg.norm(A @ x - b) - y @ (A @ x - b) == pytest.approx(0, abs=1e-12)
    feasible = y * min(1.0, rho / np.abs(A.T @ y).max())
    gap = np.linalg.norm(A @ x - b) + rho * np.abs(x).sum() + b @ feasible
    better = np.linalg.norm(b)  # the objective at x = 0
    assert gap >= np.linalg.norm(A @ x - b) + rho * np.abs(x).sum() - better > 0.5


def test_E16_strong_duality_holds():
    """min ‖Ax − b‖ + ρ‖x‖₁ equals its dual, max −bᵀy over ‖y‖ ≤ 1 and ‖Aᵀy‖_∞ ≤ ρ, and RO-TD's own game."""
    A, b, rho = small_regression()
    x, y = cp.Variable(5), cp.Variable(5)
    primal = cp.Problem(cp.Minimize(cp.norm(A @ x - b) + rho * cp.norm1(x))).solve(cp.CLARABEL)
    dual = cp.Problem(cp.Maximize(-b @ y), [cp.norm(y) <= 1, cp.norm_inf(A.T @ y) <= rho]).solve(cp.CLARABEL)
    assert primal == pytest.approx(dual, rel=1e-7)
    assert 0.1 < primal < np.linalg.norm(b)


def test_E17_the_objective_is_not_mspbe_and_small_penalties_do_not_shrink():
    xi, P, R, features = mdps.walk("dependent")
    scale = np.diag([1.0, 10.0, 1.0])
    theta = np.array([0.3, -0.2, 0.5])

    def both(features, theta):
        A, b = mdps.tdc_system(xi, P, R, features, 1.0, 10.0)
        x = np.concatenate([np.zeros(3), theta])
        return mdps.rmspbe(xi, P, R, features, 1.0, theta), np.linalg.norm(A @ x - b)

    mspbe, norm = both(features, theta)
    mspbe_scaled, norm_scaled = both(features @ scale, np.linalg.solve(scale, theta))
    assert mspbe == pytest.approx(mspbe_scaled, rel=1e-9)  # the same value function
    assert norm_scaled > 2 * norm

    A, b, _ = small_regression()
    exact = np.linalg.solve(A, b)
    rho = 0.9 / np.linalg.norm(np.linalg.solve(A.T, np.sign(exact)))  # ‖y‖ ≤ 1 with Aᵀy = −ρ sign(x): a certificate
    y = -rho * np.linalg.solve(A.T, np.sign(exact))
    assert np.linalg.norm(y) <= 1
    assert -b @ y == pytest.approx(rho * np.abs(exact).sum())  # dual value = primal value at the unshrunk solution
    assert np.abs(lasso(A, b, rho)).sum() < np.abs(exact).sum() - 1e-3  # the squared loss shrinks


def test_E18_without_w_ro_td_minimises_neu_and_is_not_the_td_update():
    eta = 10.0
    xi, P, R, features, theta = mdps.star()
    A, b = star_tdc(eta)
    D, b_theta, _ = mdps.matrices(xi, P, R, features, GAMMA)
    residual = A @ np.concatenate([np.zeros(8), theta]) - b
    td = D @ theta - b_theta
    assert np.linalg.norm(residual) == pytest.approx(np.sqrt(1 + eta**2) * np.linalg.norm(td))
    direction = (A.T @ residual)[8:]
    gradient = D.T @ td  # of NEU/2
    np.testing.assert_allclose(direction, (1 + eta**2) * gradient, rtol=1e-10)
    assert direction @ td < 0  # on the star the TD update even points the other way


@pytest.mark.parametrize("basis", ["tabular", "inverted", "dependent"])
def test_E19_the_walk_has_discount_1_and_still_a_unique_solution(basis):
    xi, P, R, features = mdps.walk(basis)
    D, b, _ = mdps.matrices(xi, P, R, features, 1.0)
    assert np.linalg.cond(D) < 1e3
    if basis != "dependent":
        np.testing.assert_allclose(features @ np.linalg.solve(D, b), np.arange(1, 6) / 6, atol=1e-12)


def test_E20_1365_features_cannot_be_independent_on_500_samples():
    assert sum(k**2 for k in (2, 4, 8, 16, 32)) + 1 == 1365
    features = np.random.default_rng(0).normal(size=(500, 1365))
    assert np.linalg.matrix_rank(features.T @ features) <= 500


def test_E21_6561_counts_state_features():
    coefficients = np.stack(np.meshgrid(*[range(3)] * 8, indexing="ij"), axis=-1).reshape(-1, 8)
    assert len(np.unique(coefficients, axis=0)) == 6561
    assert 3 * len(coefficients) == 19_683


def test_E23_mspbe_with_an_l1_penalty_is_a_lasso():
    """½ MSPBE(θ) + ρ‖θ‖₁ is the lasso on the rows of C^{−1/2}D, and its solution beats every neighbour."""
    xi, P, R, features = mdps.walk("inverted")
    D, b, C = mdps.matrices(xi, P, R, features, 1.0)
    whiten = np.linalg.inv(np.linalg.cholesky(C))
    rho, rng = 0.01, np.random.default_rng(0)

    def objective(theta):
        return 0.5 * mdps.rmspbe(xi, P, R, features, 1.0, theta) ** 2 + rho * np.abs(theta).sum()

    theta = lasso(whiten @ D, whiten @ b, rho)
    assert objective(theta) == pytest.approx(lasso_objective(whiten @ D, whiten @ b, rho, theta), rel=1e-9)
    around = theta + 0.05 * rng.normal(size=(200, len(theta))) * rng.integers(0, 2, (200, len(theta)))
    assert objective(theta) <= min(map(objective, around))
    assert objective(theta) < 0.9 * min(objective(np.zeros(len(theta))), objective(np.linalg.solve(D, b)))
