"""Limits in which one method becomes another, or a library's estimator."""

from __future__ import annotations

import numpy as np
import pytest
from laws.small_log import Log, log
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, Ridge

from sparsetd import ETD, GQ, GTD2, LSTD, ROGQ, ROTD, TD, TDC, TDRC, LinearTD, operators, penalties, problems, solvers
from sparsetd.estimators import DivergenceWarning, MirrorDescentTD, ROTDLasso
from sparsetd.metrics import exact_rmspbe, mspbe
from sparsetd.solvers import PowerDecay
from sparsetd.system import Batch


def fit(model, rows: Log):
    return model.fit(rows.X, rows.y, rows.X_next, **rows.keywords)


@pytest.fixture
def rows() -> Log:
    return log(n=300, d=5, seed=3)


def test_lstd_at_gamma_zero_is_ridge_regression(rows: Log) -> None:
    X, y, n = rows.X, rows.y, len(rows.y)
    ours = LSTD(gamma=0.0, alpha=0.3).fit(X, y, X)
    np.testing.assert_allclose(ours.coef_, Ridge(alpha=0.3 * n, fit_intercept=False).fit(X, y).coef_, rtol=1e-9)
    ours = LSTD(gamma=0.0, alpha=0.3, fit_intercept=True).fit(X, y, X)
    theirs = Ridge(alpha=0.3 * n).fit(X, y)
    np.testing.assert_allclose(
        np.append(ours.coef_, ours.intercept_), np.append(theirs.coef_, theirs.intercept_), rtol=1e-9
    )


def test_lstd_weights_by_the_ratio_as_weighted_least_squares_does(rows: Log) -> None:
    weighted = Ridge(alpha=1e-10, fit_intercept=False).fit(rows.X, rows.y, sample_weight=rows.ratio)
    np.testing.assert_allclose(
        LSTD(gamma=0.0).fit(rows.X, rows.y, rows.X, ratio=rows.ratio).coef_, weighted.coef_, rtol=1e-7
    )


def test_l1_td_at_gamma_zero_is_the_lasso(rows: Log) -> None:
    X, y = rows.X, rows.y
    model = LinearTD(
        gamma=0.0,
        penalty=penalties.L1(0.2),
        solver=solvers.Stochastic(PowerDecay(0.05, 300, 1.0), average="suffix"),
        n_passes=400,
    )
    np.testing.assert_allclose(
        model.fit(X, y, X).coef_, Lasso(alpha=0.2, fit_intercept=False).fit(X, y).coef_, atol=0.01
    )


@pytest.mark.parametrize("saddle", [False, True])
def test_traces_of_lambda_zero_are_no_traces(rows: Log, saddle: bool) -> None:
    """GQ(0) on state features without ratios is TDC, and RO-GQ(0) is RO-TD."""
    plain = rows.__class__(rows.X, rows.y, rows.X_next, None, rows.discount, rows.start)
    one, other = (ROTD(rho_theta=0.01), ROGQ(rho_theta=0.01)) if saddle else (TDC(), GQ())
    np.testing.assert_array_equal(fit(one, plain).coef_, fit(other, plain).coef_)


def test_tdrc_without_regularisation_is_tdc_and_with_much_of_it_td(rows: Log) -> None:
    np.testing.assert_allclose(fit(TDRC(beta=0.0), rows).coef_, fit(TDC(), rows).coef_, rtol=1e-12)
    np.testing.assert_allclose(
        fit(TDRC(beta=90.0, step_size=0.01), rows).coef_, fit(TD(step_size=0.01), rows).coef_, atol=5e-3
    )


def test_a_huge_penalty_on_w_turns_prox_tdc_into_td(rows: Log) -> None:
    forced = LinearTD(operator="tdc", penalty=penalties.L1(0.0, rho_w=1e6), solver=solvers.Stochastic(0.01))
    np.testing.assert_allclose(fit(forced, rows).coef_, fit(TD(step_size=0.01), rows).coef_, rtol=1e-12)


def test_in_ro_td_a_huge_penalty_on_w_leaves_no_w(rows: Log) -> None:
    model = fit(ROTD(rho_w=1e6), rows)
    assert not model.aux_.any()
    assert model.coef_.any()


@pytest.mark.filterwarnings("ignore:.*set every coefficient to zero")
def test_a_penalty_of_rho_max_or_more_leaves_no_theta(rows: Log) -> None:
    """min ‖Ax − b‖₂ + ρ‖x‖₁ is solved by 0 iff ρ ≥ ‖Aᵀb‖_∞/‖b‖₂; the last iterate of RO-TD then stays at 0."""
    model = ROTD(rho_theta=1e3, rho_w=1e3, average="none")
    assert not fit(model, rows).coef_.any()


def test_emphatic_td_is_td_where_nothing_follows(rows: Log) -> None:
    """With γ = 0 every follow-on is the interest, 1."""
    one, other = ETD(gamma=0.0), TD(gamma=0.0)
    np.testing.assert_allclose(
        one.fit(rows.X, rows.y, rows.X, ratio=rows.ratio).coef_,
        other.fit(rows.X, rows.y, rows.X, ratio=rows.ratio).coef_,
    )


def test_p_norm_two_is_euclidean(rows: Log) -> None:
    np.testing.assert_allclose(fit(MirrorDescentTD(p=2.0), rows).coef_, fit(TD(step_size=0.01), rows).coef_, rtol=1e-10)


def test_lambda_one_with_discount_is_the_monte_carlo_regression() -> None:
    """LSTD(1) on whole episodes is the regression of returns on features."""
    rng = np.random.default_rng(0)
    n, gamma = 400, 0.9
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    start = np.arange(n) % 20 == 0
    G, total = np.zeros(n), 0.0
    for t in reversed(range(n)):
        total = y[t] + gamma * total * (not (t + 1 == n or start[t + 1]))
        G[t] = total
    wanted = np.linalg.lstsq(X, G, rcond=None)[0]
    np.testing.assert_allclose(LSTD(gamma=gamma, lam=1.0).fit(X, y, start=start).coef_, wanted, rtol=1e-9)


FAST, SLOW = PowerDecay(0.2, 2000.0, 0.7), PowerDecay(0.05, 2000.0, 0.7)
WALKERS = [TD(step_size=FAST), TDC(step_size=FAST), GTD2(step_size=FAST), ETD(step_size=SLOW)]


@pytest.mark.parametrize("model", WALKERS, ids=lambda m: type(m).__name__)
def test_on_policy_methods_agree_with_the_exact_values_of_the_walk(model) -> None:
    problem = problems.random_walk()
    batch: Batch = problem.trajectory(60_000, np.random.default_rng(5))
    model.set_params(gamma=1.0, average="suffix")
    model.fit(batch.phi, batch.reward, batch.phi_next, discount=batch.discount, start=batch.start)
    np.testing.assert_allclose(problem.features @ model.coef_, problem.value, atol=0.06)


@pytest.mark.parametrize("step_size", [0.01, "auto"])
def test_td_on_the_star_says_that_it_diverges_long_before_its_numbers_overflow(step_size) -> None:
    star = problems.star()
    log = star.trajectory(20_000, np.random.default_rng(0))
    model = TD(gamma=star.gamma, step_size=step_size, coef_init=star.theta0)
    with pytest.warns(DivergenceWarning, match="TD diverged"):
        model.fit(log.phi, log.reward, log.phi_next, ratio=log.ratio)
    assert np.abs(model.coef_last_).max() < 1e12
    scaled = TD(gamma=star.gamma, step_size=step_size, coef_init=1e6 * star.theta0)  # the scale is the run's own
    with pytest.warns(DivergenceWarning, match="TD diverged"):
        scaled.fit(log.phi, log.reward, log.phi_next, ratio=log.ratio)
    assert scaled.n_iter_ == model.n_iter_


@pytest.mark.filterwarnings("ignore:TD diverged")
def test_on_the_star_td_diverges_and_the_others_converge() -> None:
    problem = problems.star()
    batch = problem.sample(20_000, np.random.default_rng(0))
    start = np.array([1.0, 1, 1, 1, 1, 1, 10, 1])

    def rmspbe(model) -> float:
        model.set_params(gamma=0.99, coef_init=start)
        return exact_rmspbe(problem, model.fit(batch.phi, batch.reward, batch.phi_next, discount=batch.discount).coef_)

    assert rmspbe(TD(step_size=0.01)) > 1e6
    for model in (TDC(step_size=0.01, eta=10.0), GTD2(step_size=0.01, eta=10.0), ROTD(step_size=0.01)):
        assert rmspbe(model) < 0.1


def test_the_extension_solves_its_lasso() -> None:
    """min ½‖Ax − b‖² + ρ‖x‖₁ over the empirical system, against coordinate descent."""
    rows = log(n=40, d=3, seed=1)
    table, rho = operators.tdc(), 0.05
    from sparsetd.system import mean_system

    ones = np.ones(40)
    A, b = mean_system(table, Batch(rows.X, rows.X_next, rows.y, np.full(40, 0.5), ones, rows.start, ones))
    wanted = Lasso(alpha=rho / len(b), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, b).coef_
    model = ROTDLasso(
        gamma=0.5, rho_theta=rho, rho_w=rho, step_size=PowerDecay(0.1, 2000.0, 0.7), n_passes=6000, average="suffix"
    )
    model.fit(rows.X, rows.y, rows.X_next, start=rows.start)
    np.testing.assert_allclose(np.append(model.aux_, model.coef_), wanted, atol=0.015)


def test_the_fixed_point_of_lstd_has_no_projected_error(rows: Log) -> None:
    model = fit(LSTD(gamma=0.8), rows)
    batch = Batch(rows.X, rows.X_next, rows.y, rows.discount, rows.ratio, rows.start, np.ones(len(rows.y)))
    assert mspbe(batch, model.coef_) < 1e-20
    assert model.score(rows.X, rows.y, rows.X_next, **rows.keywords) == pytest.approx(1.0)


def test_a_singular_system_is_reported_and_solved_by_the_least_norm(rows: Log) -> None:
    X, X_next = np.hstack([rows.X, rows.X[:, :1]]), np.hstack([rows.X_next, rows.X_next[:, :1]])
    with pytest.warns(ConvergenceWarning, match="5 independent equations for 6 unknowns"):
        model = LSTD(gamma=0.8).fit(X, rows.y, X_next, **rows.keywords)
    assert (model.status_, model.rank_) == ("singular", 5)
    assert model.coef_[0] == pytest.approx(model.coef_[-1])
    np.testing.assert_allclose(model.predict(X), fit(LSTD(gamma=0.8), rows).predict(rows.X), rtol=1e-7)
