"""Metrics and the paper's objective against literal matrices, exact problems and CVXPY."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

from reproduction import objective
from reproduction.walk_bases import walk
from sparsetd import SparseTD, metrics
from sparsetd.operators import td
from sparsetd.penalties import GroupL1, Ridge
from sparsetd.problems import boyan_chain, random_mdp, star
from sparsetd.system import Batch, Table, mean_system

PHI, PSI, E = np.eye(3)


def tdc_table(eta=2.0, lam=0.0):
    f = PHI - PSI
    return Table.two_blocks(
        "tdc",
        ww=eta * np.outer(PHI, PHI),
        wt=eta * np.outer(E, f),
        tw=(1 - lam) * np.outer(PSI, E),
        tt=np.outer(E, f),
        bw=eta * E,
        bt=E,
        lam=lam,
    )


def td_table(lam=0.0, trace="state"):
    return Table.one_block("td", np.outer(E, PHI - PSI), E, lam=lam, trace=trace)


def damped_table():
    return replace(tdc_table(), damping=np.array([0.7, 0.0]))


TABLES = [
    td_table(),
    td_table(0.7),
    td_table(0.7, "action"),
    td_table(0.7, "emphatic"),
    tdc_table(),
    tdc_table(lam=0.6),
    damped_table(),
]


@dataclass(frozen=True)
class Weights:
    """h(x) = Σ_b l1_b‖x_b‖₁ + ½ l2_b‖x_b‖², as any separable penalty states it."""

    l1: tuple[float, ...]
    l2: tuple[float, ...] = (0.0, 0.0)

    def shrinkage(self, n_blocks):
        return np.array(self.l1)[-n_blocks:], np.array(self.l2)[-n_blocks:]

    def value(self, x, factor=None):
        l1, l2 = self.shrinkage(len(x))
        factor = np.ones(x.shape[1]) if factor is None else factor
        return float((l1[:, None] * factor * np.abs(x)).sum() + (l2[:, None] * factor * x**2).sum() / 2)


def random_batch(n=60, d=5, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    phi, phi_next = rng.normal(size=(2, n, d))
    if rank is not None:
        mixing = rng.normal(size=(rank, d))
        phi, phi_next = phi[:, :rank] @ mixing, phi_next[:, :rank] @ mixing
    discount = np.where(rng.random(n) < 0.2, 0.0, 0.9)
    start = np.r_[True, discount[:-1] == 0]
    return Batch(phi, phi_next, rng.normal(size=n), discount, rng.uniform(0, 2, n), start, rng.uniform(0.5, 1.5, n))


def literal_errors(batch, theta, lam, trace):
    """g = (1/N) Σ δ_t e_t with the trace written out, and C."""
    e, follow_on, g = np.zeros(batch.n_features), 0.0, 0.0
    for t in range(len(batch)):
        gamma = 0.0 if batch.start[t] else batch.discount[t - 1]
        phi, ratio, interest = batch.phi[t], batch.ratio[t], batch.interest[t]
        follow_on = interest + gamma * (batch.ratio[t - 1] if t else 0.0) * follow_on
        emphasis = lam * interest + (1 - lam) * follow_on
        e = {
            "state": ratio * (interest * phi + gamma * lam * e),
            "action": interest * phi + ratio * gamma * lam * e,
            "emphatic": ratio * (emphasis * phi + gamma * lam * e),
        }[trace]
        delta = batch.reward[t] + batch.discount[t] * batch.phi_next[t] @ theta - phi @ theta
        g = g + delta * e / len(batch)
    return g, batch.phi.T @ batch.phi / len(batch)


def as_sparse(batch):
    return replace(batch, phi=sp.csr_array(batch.phi), phi_next=sp.csr_array(batch.phi_next))


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("trace", ["state", "action", "emphatic"])
@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_bellman_errors_equal_the_literal_ones(lam, trace, rank):
    batch, theta = random_batch(rank=rank), np.random.default_rng(1).normal(size=5)
    g, C = literal_errors(batch, theta, lam, trace)
    for data in (batch, as_sparse(batch)):
        assert metrics.neu(data, theta, lam=lam, trace=trace) == pytest.approx(g @ g, rel=1e-10)
        expected = g @ np.linalg.pinv(C, rcond=1e-10) @ g
        assert metrics.mspbe(data, theta, lam=lam, trace=trace) == pytest.approx(expected, rel=1e-8)
        assert metrics.rmspbe(data, theta, lam=lam, trace=trace) == pytest.approx(expected**0.5, rel=1e-8)


def test_mspbe_does_not_depend_on_how_the_features_are_written():
    batch, rng = random_batch(), np.random.default_rng(2)
    mixing, theta = rng.normal(size=(5, 5)), rng.normal(size=5)
    mixed = replace(batch, phi=batch.phi @ mixing, phi_next=batch.phi_next @ mixing)
    assert metrics.mspbe(mixed, np.linalg.solve(mixing, theta)) == pytest.approx(metrics.mspbe(batch, theta), rel=1e-9)


def test_more_features_than_rows_leave_only_the_td_errors():
    batch, theta = random_batch(n=4, d=9), np.ones(9)
    delta = metrics.td_errors(batch, theta)
    np.testing.assert_allclose(delta, batch.reward + batch.discount * batch.phi_next.sum(1) - batch.phi.sum(1))
    weighted = batch.ratio * batch.interest * delta
    assert metrics.mspbe(batch, theta) == pytest.approx(np.mean(weighted**2), rel=1e-10)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.name}-{t.lam}-{t.trace}-{t.damping[0]}")
def test_matrix_free_products_equal_the_matrices(table):
    batch, rng = random_batch(), np.random.default_rng(3)
    A, b = mean_system(table, batch)
    x, y = rng.normal(size=(2, table.n_blocks, 5))
    for data in (batch, as_sparse(batch)):
        np.testing.assert_allclose(objective.mean_residual(table, data, x).ravel(), A @ x.ravel() - b, atol=1e-12)
        np.testing.assert_allclose(objective.mean_adjoint(table, data, y).ravel(), A.T @ y.ravel(), atol=1e-12)
    for m in (1, 2, np.inf):
        expected = np.linalg.norm(A @ x.ravel() - b, ord=m)
        assert objective.residual_norm(table, batch, x, "inf" if m == np.inf else m) == pytest.approx(expected)
    assert objective.residual_norm(table, batch, x) == pytest.approx(np.linalg.norm(A @ x.ravel() - b))


def test_saddle_objective_is_below_the_primal_value():
    batch, table, rng = random_batch(), tdc_table(), np.random.default_rng(4)
    penalty = Weights((0.2, 0.1))
    A, b = mean_system(table, batch)
    x, y = rng.normal(size=(2, 2, 5))
    y /= np.linalg.norm(y)
    value = objective.saddle_objective(table, batch, x, y, penalty)
    assert value == pytest.approx(y.ravel() @ (A @ x.ravel() - b) + 0.2 * np.abs(x[0]).sum() + 0.1 * np.abs(x[1]).sum())
    assert value <= objective.primal_value(table, batch, x, penalty)
    r = objective.mean_residual(table, batch, x)
    best = objective.saddle_objective(table, batch, x, r / np.linalg.norm(r), penalty)
    assert best == pytest.approx(objective.primal_value(table, batch, x, penalty))


@pytest.mark.parametrize("m", [1, 2, "inf"])
@pytest.mark.parametrize(
    ("penalty", "factor"),
    [
        (Weights((0.2, 0.1)), None),
        (Weights((0.2, 0.1)), np.array([0.0, 1, 1, 2, 1])),
        (Weights((0.0, 0.1)), None),
        (Weights((0.05, 0.05), (0.3, 0.3)), None),
        (Weights((0.0, 0.0), (0.3, 0.5)), None),
        (None, None),
    ],
    ids=["l1", "unpenalised", "theta-only", "elastic", "ridge", "none"],
)
def test_the_gap_closes_at_the_saddle_point_and_never_overstates(m, penalty, factor):
    cp = pytest.importorskip("cvxpy")
    batch, table, rng = random_batch(n=12), tdc_table(), np.random.default_rng(5)
    A, b = mean_system(table, batch)
    l1, l2 = (np.zeros(2), np.zeros(2)) if penalty is None else penalty.shrinkage(2)
    each = np.ones(5) if factor is None else factor
    x, r = cp.Variable(10), cp.Variable(10)
    h = cp.sum(cp.multiply(np.outer(l1, each).ravel(), cp.abs(x)))
    h = h + cp.sum(cp.multiply(np.outer(l2, each).ravel(), cp.square(x))) / 2
    residual = r == A @ x - b
    problem = cp.Problem(cp.Minimize(cp.norm(r, m) + h), [residual])
    best = problem.solve(solver="CLARABEL")  # to its own 1e-8: more is not to be had on every processor
    x_best, y_best = x.value.reshape(2, 5), residual.dual_value.reshape(2, 5)
    y_best = y_best if np.vdot(y_best, A @ x.value - b) >= 0 else -y_best
    options = {"penalty": penalty, "fit_norm": m, "factor": factor}
    assert objective.primal_value(table, batch, x_best, **options) == pytest.approx(best, abs=1e-6)
    assert abs(objective.duality_gap(table, batch, x_best, y_best, **options)) < 1e-5
    for _ in range(20):
        x_any, y_any = rng.normal(size=(2, 2, 5))
        assert 0 <= objective.dual_value(table, batch, y_any, **options) <= best + 1e-7
        suboptimality = objective.primal_value(table, batch, x_any, **options) - best
        assert objective.duality_gap(table, batch, x_any, y_any, **options) >= suboptimality - 1e-7


def test_the_star_starts_at_the_known_error():
    mdp = star()
    assert metrics.exact_rmspbe(mdp, mdp.theta0) == pytest.approx(8.2214, abs=1e-4)
    for scale in (1e-6, 1.0, 1e6):  # what counts as a collinear feature does not depend on the unit
        scaled = replace(mdp, features=scale * mdp.features)
        assert metrics.exact_mspbe(scaled, mdp.theta0 / scale) == pytest.approx(8.2214**2, abs=2e-3)
    assert metrics.value_error(mdp, mdp.theta0) == pytest.approx(np.sqrt((6 * 9 + 144) / 7))
    assert metrics.exact_mspbe(mdp, np.zeros(8)) == 0.0


@pytest.mark.parametrize(("basis", "expected"), [("tabular", 1 / 6), ("inverted", 1 / 6), ("dependent", 0.1318)])
def test_the_walk_starts_at_the_known_errors(basis, expected):
    mdp = walk(basis=basis)
    assert metrics.exact_rmspbe(mdp, mdp.theta0) == pytest.approx(expected, abs=1e-4)


def test_exact_mspbe_is_the_distance_to_the_projected_bellman_image():
    mdp = random_mdp(np.random.default_rng(0), 12, 4, 2, misfit=1.0)
    theta = np.random.default_rng(1).normal(size=4)
    image = mdp.reward + mdp.gamma * mdp.transition @ mdp.features @ theta
    root = np.sqrt(mdp.xi)
    coef = np.linalg.lstsq(root[:, None] * mdp.features, root * image, rcond=None)[0]
    difference = mdp.features @ (theta - coef)
    assert metrics.exact_mspbe(mdp, theta) == pytest.approx(mdp.xi @ difference**2)
    assert metrics.exact_neu(mdp, theta) == pytest.approx(np.sum((mdp.b - mdp.A @ theta) ** 2))
    lstd = np.linalg.solve(mdp.A, mdp.b)
    assert metrics.exact_mspbe(mdp, lstd) == pytest.approx(0.0, abs=1e-20)
    assert metrics.value_error(mdp, lstd) > 0.1


def test_value_error_is_zero_at_the_truth():
    mdp = boyan_chain()
    assert metrics.value_error(mdp, mdp.theta_star) == pytest.approx(0.0, abs=1e-10)
    assert metrics.value_error(mdp, np.zeros(4)) == pytest.approx(np.sqrt(mdp.xi @ mdp.value**2))


@pytest.mark.parametrize("importance_sampled", [False, True])
def test_empirical_errors_tend_to_the_exact_ones(importance_sampled):
    mdp = random_mdp(np.random.default_rng(0), 12, 4, 2, misfit=1.0)
    batch, theta = mdp.sample(40_000, np.random.default_rng(1), importance_sampled=importance_sampled), np.ones(4)
    assert metrics.mspbe(batch, theta) == pytest.approx(metrics.exact_mspbe(mdp, theta), rel=0.05)
    assert metrics.neu(batch, theta) == pytest.approx(metrics.exact_neu(mdp, theta), rel=0.05)


def test_bad_arguments_are_named():
    batch = random_batch()
    with pytest.raises(ValueError, match=r"x has shape \(5,\): pass shape \(2, 5\)"):
        objective.mean_residual(tdc_table(), batch, np.ones(5))
    for norm in (3, "rmspbe"):
        with pytest.raises(ValueError, match=f'fit_norm must be 1, 2 or "inf", got {norm!r}'):
            objective.residual_norm(td_table(), batch, np.ones(5), norm)

    class Grouped(Weights):
        def shrinkage(self, n_blocks):  # noqa: ARG002
            return None

    with pytest.raises(TypeError, match="needs the conjugate of the penalty, which Grouped does not have"):
        objective.dual_value(td_table(), batch, np.ones((1, 5)), Grouped((1.0,)))


def test_a_group_penalty_has_a_gap_too():
    batch, penalty = random_batch(), GroupL1(np.array([0, 0, 1, 1, 1]), 0.05)
    model = SparseTD(gamma=0.9, groups=[0, 0, 1, 1, 1], rho_theta=0.05, eta=1e-9, standardize=False)
    rows = {"discount": batch.discount, "ratio": batch.ratio, "start": batch.start, "interest": batch.interest}
    model.fit(batch.phi, batch.reward, batch.phi_next, **rows)
    gap = objective.duality_gap(td(), batch, model.coef_, model.dual_, penalty)
    assert model.support_.any()
    assert gap == pytest.approx(model.dual_gap_, abs=1e-9)
    assert objective.duality_gap(td(), batch, model.coef_ + 0.1, model.dual_, penalty) > 1e-3


def test_with_a_quadratic_part_the_best_multiple_of_y_is_found():
    batch, penalty, y = random_batch(), Ridge(0.2), np.array([[0.3, -0.2, 0.5, 0.1, 0.4]])
    mean_A, mean_b = mean_system(td(), batch)
    shares = np.linspace(-1.0, 1.0, 20_001)[:, None] / max(1.0, float(np.linalg.norm(y)))
    duals = -(shares * y) @ mean_b - ((shares * y) @ mean_A) ** 2 @ np.full(5, 1 / (2 * 0.2))
    best = duals[shares[:, 0] >= 0].max()
    sign = 1.0 if best > 0 else -1.0
    found = objective.dual_value(td(), batch, sign * y, penalty)
    assert found == pytest.approx(duals[sign * shares[:, 0] >= 0].max(), rel=1e-5)
    assert found > 0.0
    assert found > duals[-1 if sign > 0 else 0] + 1e-6


def hashed(n=1000, d=2**14):
    """Rows of categories, some with two values and some with thousands, hashed into many columns."""
    rng = np.random.default_rng(0)
    sizes = [2, 5, 10, 100, 1000, 5000, 20_000, 2, 50, 10**5]
    indices = np.column_stack([rng.integers(0, k, n) * 7919 % (d - 50) + j for j, k in enumerate(sizes)])
    ones = np.ones(indices.size)
    phi = sp.csr_array((ones, indices.ravel(), np.arange(0, indices.size + 1, len(sizes))), shape=(n, d))
    phi.sum_duplicates()
    return phi, rng.normal(size=n)


def test_common_and_rare_hashed_columns_are_projected_on_in_few_steps(monkeypatch):
    phi, v = hashed()
    steps, lsmr = [], metrics.errors.lsmr
    monkeypatch.setattr(metrics.errors, "lsmr", lambda *a, **k: steps.append(found := lsmr(*a, **k)) or found)
    projected = metrics.errors.project_on_columns(phi, v)
    dense = phi[:, np.unique(phi.indices)].toarray()
    expected = dense @ np.linalg.lstsq(dense, v)[0]
    np.testing.assert_allclose(projected, expected, atol=1e-8)
    assert steps[0][2] < 60  # a hundred and more on the columns as they are, and without an end on 65,536 rows


def test_a_projection_that_would_not_end_says_so(monkeypatch):
    phi, v = hashed()
    monkeypatch.setattr(metrics.errors, "MOST_STEPS", 3)
    with pytest.warns(UserWarning, match="only known from below after 3 steps of LSMR"):
        part = metrics.errors.project_on_columns(phi, v)
    monkeypatch.undo()
    assert 0 < part @ part < v @ v


def test_rows_without_entries_project_to_nothing():
    phi = sp.csr_array((4, 3))
    np.testing.assert_array_equal(metrics.errors.project_on_columns(phi, np.ones(4)), np.zeros(4))
