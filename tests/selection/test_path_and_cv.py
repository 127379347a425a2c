"""The path, cross-validation and the estimators built on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from laws import LAWS
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsetd.estimators.sparse_td import SparseTD
from sparsetd.problems import random_mdp, with_noise_features
from sparsetd.selection import SparseTDSelect, rho_max, sparse_td_path
from sparsetd.selection.episodes import clusters, episode_folds, episode_of
from sparsetd.selection.path import FoldSums, choose
from sparsetd.solvers.mean import refit, selected_rows
from sparsetd.system import mean_system

QUICK: dict[str, Any] = {"n_folds": 3, "n_rhos": 6, "eps": 0.1}


def log(seed: int, n: int = 600, noise_features: int = 25, **kwargs: Any) -> tuple[Any, dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 20, 4, 4, reward_noise=0.1, **kwargs)
    batch = with_noise_features(mdp.trajectory(n, rng, horizon=20), noise_features, rng)
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    return mdp, columns, batch


def test_the_path_begins_at_zero_and_agrees_with_cold_fits() -> None:
    _, columns, batch = log(0)
    rows = (batch.phi, batch.reward, batch.phi_next)
    path = sparse_td_path(*rows, n_rhos=6, eps=0.1, gamma=0.9, **columns)
    assert path.rho_max == pytest.approx(rho_max(*rows, gamma=0.9, **columns))
    assert path.n_active[0] == 0 < path.n_active[1]
    assert path.dual_gaps.max() < 1e-7
    for rho, coef in zip(path.rhos[1:], path.coefs.T[1:], strict=True):
        np.testing.assert_allclose(coef, SparseTD(rho_theta=rho, gamma=0.9).fit(*rows, **columns).coef_, atol=1e-7)


def test_given_weights_are_solved_from_the_largest_and_the_intercept_is_no_feature() -> None:
    _, columns, batch = log(2, n=300, noise_features=4)
    rows = (batch.phi, batch.reward + 1.0, batch.phi_next)
    path = sparse_td_path(*rows, rhos=[0.05, 0.4, 0.1], gamma=0.9, fit_intercept=True, **columns)
    assert path.rhos.tolist() == [0.4, 0.1, 0.05]
    for rho, coef in zip(path.rhos, path.coefs.T, strict=True):
        cold = SparseTD(rho_theta=rho, gamma=0.9, fit_intercept=True).fit(*rows, **columns)
        assert cold.intercept_ != 0.0
        np.testing.assert_allclose(coef, cold.coef_, atol=1e-7)


def test_rho_max_in_closed_form() -> None:
    _, columns, batch = log(1)
    A, b = mean_system(SparseTD().triple()[0], batch)
    ours = rho_max(batch.phi, batch.reward, batch.phi_next, gamma=0.9, standardize=False, **columns)
    assert ours == pytest.approx(np.sqrt(2) * np.abs(A.T @ b).max() / np.linalg.norm(b))


def test_rho_max_needs_a_penalty_that_selects() -> None:
    with pytest.raises(ValueError, match="l1_ratio"):
        rho_max(np.eye(3), np.ones(3), l1_ratio=0.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_cross_validation_finds_the_relevant_features(sparse: bool) -> None:
    mdp, columns, batch = log(3, n=2000, off_policy=0.3)
    phi, phi_next = (sp.csr_array(rows) if sparse else rows for rows in (batch.phi, batch.phi_next))
    model = SparseTDSelect(gamma=0.9, choice="one_standard_error").fit(phi, batch.reward, phi_next, **columns)
    assert np.flatnonzero(model.support_).tolist() == [0, 1, 2, 3]
    values = mdp.features @ mdp.theta_star
    error = mdp.features @ model.coef_[:4] - values
    assert np.sqrt(mdp.xi @ error**2 / (mdp.xi @ values**2)) < 0.1
    assert model.dual_gap_ < 1e-7
    assert model.cv_errors_.shape == (30, 5)
    assert 0 < model.rho_theta_ < model.rho_max_


def test_the_refit_is_lstd_on_the_support() -> None:
    _, columns, batch = log(3)
    model = SparseTD(rho_theta=0.3, gamma=0.9, refit=True).fit(batch.phi, batch.reward, batch.phi_next, **columns)
    support = np.flatnonzero(model.support_)
    A, b = mean_system(SparseTD().triple()[0], batch)
    assert 0 < len(support) < 29
    np.testing.assert_allclose(
        model.coef_[support], np.linalg.solve(A[np.ix_(support, support)], b[support]), rtol=1e-8
    )
    assert np.abs(model.coef_[support]).sum() > np.abs(model.coef_last_[support]).sum()


def test_held_out_errors_are_the_projected_bellman_error_of_lstd_on_the_other_folds() -> None:
    _, _, batch = log(4)
    features, folds, table = np.array([5, 0, 2]), episode_folds(batch.start, 3), SparseTD(lam=0.5).triple()[0]
    held = folds == 1
    sums = FoldSums(table, batch, folds)
    for more in (np.array([7]), features):  # what is known already must not be mixed up with what comes
        sums.cover(more, np.array([0]))
    length = np.sqrt((batch.phi[:, features] ** 2).mean(axis=0))
    theta = sums.without(1, features) / length
    np.testing.assert_allclose(theta, refit(table, batch, features, (~held).astype(float)), rtol=1e-9)
    phi, psi, e = (rows[held] for rows in selected_rows(table, batch, features))
    v = e.T @ (batch.reward[held] - (phi - psi) @ theta) / held.sum()
    expected = v @ np.linalg.solve(phi.T @ phi / held.sum(), v)
    none = np.array([], dtype=np.intp)
    found = sums.errors(1, np.sort(features), [features, none], [theta * length, sums.without(1, none)])
    np.testing.assert_allclose(found[0], expected)
    assert found[1] > found[0]


def test_held_out_errors_do_not_depend_on_the_units_of_the_features() -> None:
    _, _, batch = log(4)
    folds, table = episode_folds(batch.start, 3), SparseTD().triple()[0]
    units = np.ones(batch.n_features)
    units[:2] = 1e-6, 1e6
    other = replace(batch, phi=batch.phi * units, phi_next=batch.phi_next * units)
    errors = []
    for rows in (batch, other):
        sums, few = FoldSums(table, rows, folds), [np.arange(4), np.arange(2)]
        sums.cover(np.arange(4), np.arange(6))
        errors.append(sums.errors(1, np.arange(4), few, [sums.without(1, support) for support in few]))
    np.testing.assert_allclose(errors[1], errors[0], rtol=1e-6)


def test_the_path_of_a_fit_is_that_of_its_rows() -> None:
    _, columns, batch = log(12)
    rows = (batch.phi, batch.reward, batch.phi_next)
    model = SparseTDSelect(gamma=0.9, fit_intercept=True, **QUICK).fit(*rows, **columns)
    path = model.path(model.rhos_[1:], tol=1e-8)
    plain = sparse_td_path(*rows, rhos=model.rhos_[1:], gamma=0.9, fit_intercept=True, **columns)
    np.testing.assert_allclose(path.coefs, plain.coefs, atol=1e-8)
    assert path.rho_max == pytest.approx(model.rho_max_)


def test_only_a_fit_has_a_path() -> None:
    with pytest.raises(NotFittedError, match="call fit first"):
        SparseTDSelect().path([0.1])


def test_the_one_standard_error_rule_takes_the_larger_rho() -> None:
    errors = np.array([[9.0, 8.0, 9.0], [1.1, 0.9, 1.2], [1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    assert choose(errors, one_standard_error=False) == 2
    assert choose(errors) == 1


def test_a_wild_fold_does_not_select_nothing() -> None:
    errors = np.array([[1.0, 1.0, 1.0], [0.2, 0.2, 2.4], [0.0, 0.0, 2.4]])
    assert choose(errors) == 2


def test_folds_never_split_an_episode() -> None:
    start = np.random.default_rng(5).random(100) < 0.2
    folds, episode = episode_folds(start, 3), episode_of(start)
    assert all(len(np.unique(folds[episode == e])) == 1 for e in np.unique(episode))
    assert set(folds) == {0, 1, 2}
    one_each = episode_folds(np.array([1, 0, 1, 0, 0, 1], dtype=bool), 3)
    assert sorted(one_each[[0, 2, 5]]) == [0, 1, 2]
    np.testing.assert_array_equal(one_each, one_each[[0, 0, 2, 2, 2, 5]])
    np.testing.assert_array_equal(np.unique(episode_folds(np.zeros(10, dtype=bool), 5), return_counts=True)[1], 2)
    with pytest.raises(ValueError, match="n_folds=1"):
        episode_folds(start, 1)


def test_a_log_of_few_episodes_is_cut_into_blocks() -> None:
    start = np.zeros(100, dtype=bool)
    start[55] = True
    parts = clusters(start)
    assert np.all(np.diff(parts) >= 0)
    assert parts.max() + 1 == 11
    assert parts[54] != parts[55]


def test_groups_enter_together_and_names_are_kept() -> None:
    _, columns, batch = log(6, noise_features=8)
    groups = np.arange(12) // 2
    model = SparseTD(rho_theta=0.4, gamma=0.9, groups=groups, fit_intercept=True, standardize=False)
    model.fit(batch.phi, batch.reward, batch.phi_next, **columns)
    pairs = model.support_.reshape(6, 2)
    assert np.all(pairs[:, 0] == pairs[:, 1])
    assert 0 < pairs[:, 0].sum() < 6


def test_nothing_to_select_is_said() -> None:
    rng = np.random.default_rng(7)
    with pytest.warns(ConvergenceWarning, match="selected no feature"):
        model = SparseTDSelect(**QUICK).fit(rng.normal(size=(60, 5)), np.zeros(60))
    assert not model.coef_.any()


def test_a_warm_start_reaches_the_same_point() -> None:
    _, columns, batch = log(9)
    rows = (batch.phi, batch.reward, batch.phi_next)
    cold = SparseTD(rho_theta=0.2, gamma=0.9).fit(*rows, **columns)
    warm = SparseTD(rho_theta=0.2, gamma=0.9, coef_init=cold.coef_).fit(*rows, **columns)
    assert warm.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-10)


def test_w_may_stay_in_the_path() -> None:
    _, columns, batch = log(10)
    path = sparse_td_path(batch.phi, batch.reward, batch.phi_next, n_rhos=5, gamma=0.9, rho_w=50.0, **columns)
    alone = sparse_td_path(batch.phi, batch.reward, batch.phi_next, rhos=path.rhos, gamma=0.9, **columns)
    assert path.n_active[-1] > 0
    np.testing.assert_allclose(path.coefs, alone.coefs, atol=1e-6)


def test_given_rhos_are_used_as_they_are() -> None:
    _, columns, batch = log(8)
    model = SparseTDSelect(gamma=0.9, n_folds=3, rhos=[0.1, 0.4, 0.2])
    model.fit(batch.phi, batch.reward, batch.phi_next, **columns)
    np.testing.assert_array_equal(model.rhos_, [0.4, 0.2, 0.1])
    assert model.rho_theta_ in (0.4, 0.2, 0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([SparseTDSelect(**QUICK)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_law(law: Any) -> None:
    law(SparseTDSelect(**QUICK))
