"""Proposition 1: the averaged iterate of RO-TD reaches the optimum that CVXPY finds, for m = 1, 2 and ∞."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from reference import loops, proximal, systems

from reproduction.expected_system import expected_system
from sparsetd import ROTD, operators, problems
from sparsetd.solvers import PowerDecay
from sparsetd.system import mean_system

RHOS = [(0.05, 0.2), (0.3, 0.3)]  # of θ and w: the exact fit is optimal, and a trade-off is
NORMS = {1: 1, 2: 2, "inf": np.inf}


@pytest.fixture(scope="module")
def system():
    """A 20-state, 30-feature off-policy problem: its exact system, and a million transitions of the behaviour."""
    problem = problems.random_mdp(np.random.default_rng(11), n_states=20, n_features=30)
    return problem, expected_system(problem, operators.tdc(), importance_sampled=True)


def objective(A, b, x, m, rho) -> float:
    d = len(b) // 2
    return float(np.linalg.norm(A @ x - b, NORMS[m]) + rho[1] * np.abs(x[:d]).sum() + rho[0] * np.abs(x[d:]).sum())


def optimum(A, b, m, rho) -> float:
    d = len(b) // 2
    x = cp.Variable(2 * d)
    loss = cp.norm(A @ x - b, m if m != "inf" else "inf") + rho[1] * cp.norm1(x[:d]) + rho[0] * cp.norm1(x[d:])
    return float(cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize(("m", "reach"), [(1, 1.5e-2), (2, 1.5e-2), ("inf", 1.5e-1)])
@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_the_averaged_iterate_reaches_the_optimum(system, m, reach: float, rho: tuple[float, float]) -> None:
    problem, (A, b) = system
    batch = problem.sample(1_000_000, np.random.default_rng(0), importance_sampled=True)
    model = ROTD(rho_theta=rho[0], rho_w=rho[1], fit_norm=m, step_size=PowerDecay(0.001, 1000.0, 0.5), average="suffix")
    model.fit(batch.phi, batch.reward, batch.phi_next, discount=batch.discount, ratio=batch.ratio)
    best, start = optimum(A, b, m, rho), objective(A, b, np.zeros(len(b)), m, rho)
    assert best < 0.9 * start  # there is something to learn
    suboptimality = (objective(A, b, np.append(model.aux_, model.coef_), m, rho) - best) / (start - best)
    assert suboptimality <= reach


def test_the_mean_of_the_sampled_system_is_the_exact_one(system) -> None:
    problem, (A, b) = system
    A_hat, b_hat = mean_system(
        operators.tdc(), problem.sample(20_000, np.random.default_rng(1), importance_sampled=True)
    )
    assert np.abs(A_hat - A).max() < 0.1
    assert np.abs(b_hat - b).max() < 0.1


@pytest.mark.parametrize(("projection", "right"), [(proximal.project, True), (proximal.project_radial, False)])
def test_with_radial_scaling_the_uniform_fit_stays_at_the_wrong_point(system, projection, right: bool) -> None:
    """The counterexample: for n = 1 the paper's formula of Π_n is no projection, and its limit is another problem's."""
    _, (A, b) = system
    n, rho = 20_000, 0.3
    steps = 0.03 / np.sqrt(1.0 + np.arange(n + 1) / 1000.0)
    zero = np.zeros(len(b))
    x_bar = loops.primal_dual([(A, b)] * n, zero, zero, steps, 1, loops.l1(rho), projection)["x_bar"]
    best, start = optimum(A, b, "inf", (rho, rho)), np.abs(b).max()
    suboptimality = (objective(A, b, x_bar, "inf", (rho, rho)) - best) / (start - best)
    assert suboptimality < 0.05 if right else suboptimality >= 0.1, suboptimality


def test_reference_systems_agree_with_the_problem(system) -> None:
    problem, _ = system
    batch = problem.sample(300, np.random.default_rng(2))
    literal = systems.mean(
        systems.stream("tdc", batch.phi, batch.phi_next, batch.reward, batch.discount, ratio=batch.ratio)
    )
    ours = mean_system(operators.tdc(), batch)
    np.testing.assert_allclose(literal[0], ours[0], atol=1e-12)
    np.testing.assert_allclose(literal[1], ours[1], atol=1e-12)
