"""The linear value function, its coefficients and what is held out, with refits and row-by-row sums as oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from sparsetd import LSTD
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.held_out import HeldOut, agreement, bellman_error, corrected_returns, cross_fit
from sparsetd.evaluation.linear import LinearValue, coefficients, fitted
from sparsetd.evaluation.moments import MAX_COLUMNS, Moments, Part, chosen
from sparsetd.features.featurize import featurize
from sparsetd.selection import value_interval
from sparsetd.transitions import Transitions

GAMMA = 0.9


def chain(rng, n_episodes=200, states=4, ratio=True, starts=1):
    """A random MDP with two actions, begun in `starts` states in turn; its log and the exact value of state 0."""
    P = rng.dirichlet(np.ones(states + 1), size=(2, states))  # column `states` ends the episode
    R = rng.normal(size=(2, states))
    mu, pi = (rng.dirichlet(np.ones(2) * 3, size=states) for _ in range(2))
    pi = pi if ratio else mu
    rows = []
    for episode in range(n_episodes):
        s = episode % starts
        while s < states:
            a = int(rng.random() > mu[s, 0])
            after = int(rng.choice(states + 1, p=P[a, s]))
            rows.append((s, a, R[a, s] + rng.normal() * 0.1, after, episode, mu[s, a], pi[s, a]))
            s = after
    s, a, r, after, episode, behavior, target = map(np.array, zip(*rows, strict=True))
    eye = np.eye(states + 1)[:, :states]
    log = Transitions.from_arrays(
        eye[s],
        r,
        eye[after],
        action=a,
        terminated=after == states,
        episode=episode,
        behavior_prob=behavior,
        target_prob=target,
    )
    P_pi, r_pi = np.einsum("sa,asn->sn", pi, P)[:, :states], np.einsum("sa,as->s", pi, R)
    return log, np.linalg.solve(np.eye(states) - GAMMA * P_pi, r_pi)[0]


def fit(log, support=None):
    batch, episodes = featurize(log, None, GAMMA), Episodes.of_log(log, GAMMA)
    columns = (
        np.arange(batch.n_features - 1) if support is None else np.asarray(support)
    )  # one column less: a constant is added
    return fitted(batch, columns, episodes)


def held_out(part, n_folds):
    fold = np.arange(len(part.episodes)) % n_folds
    folds = Moments.of(part, fold, n_folds)
    return cross_fit(part, folds, fold), folds


def test_it_is_lstd():
    log, _ = chain(np.random.default_rng(0))
    model, batch, _ = fit(log)
    phi = np.hstack([batch.phi[:, :-1], np.ones((len(batch), 1))])
    phi_next = np.hstack([batch.phi_next[:, :-1], np.ones((len(batch), 1))])
    A = sum(r * np.outer(f, f - d * g) for r, f, g, d in zip(batch.ratio, phi, phi_next, batch.discount, strict=True))
    b = sum(r * w * f for r, w, f in zip(batch.ratio, batch.reward, phi, strict=True))
    np.testing.assert_allclose(model.theta, np.linalg.solve(A, b), rtol=1e-9)


@pytest.mark.parametrize("starts", [1, 4])
def test_influence_is_what_leaving_an_episode_out_changes(starts):
    log, _ = chain(np.random.default_rng(1), 120, starts=starts)
    model, _, episodes = fit(log)
    value, influence = model.start_value()
    n = len(episodes)
    without = []
    for i in range(n):
        kept = log[np.flatnonzero(episodes.of != i)]
        without.append(fit(kept)[0].start_value()[0])
    jackknife = (n - 1) * (value - np.array(without))
    assert np.corrcoef(jackknife, influence)[0, 1] > 0.99
    assert influence.std() == pytest.approx(jackknife.std(), rel=0.05)
    assert abs(influence.mean()) < 1e-10


def test_coefficient_errors_match_the_jackknife():
    log, _ = chain(np.random.default_rng(2), 100)
    model, _, episodes = fit(log)
    errors = [e.standard_error for e in model.coefficients()]
    without = np.array([fit(log[np.flatnonzero(episodes.of != i)])[0].theta[:-1] for i in range(100)])
    jackknife = np.sqrt(99 / 100 * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(errors, jackknife, rtol=0.15)


def test_intervals_cover_the_exact_value():
    rng = np.random.default_rng(3)
    covered, errors = [], []
    world = rng.integers(1 << 30)
    truth = None
    for seed in range(120):
        rng = np.random.default_rng(world)
        log, truth = chain_from(rng, np.random.default_rng(seed))
        model, _, _ = fit(log)
        value, influence = model.start_value()
        estimate = Estimate.of_influence("", value, influence, n_fitted=4)
        low, high = estimate.interval()
        covered.append(low <= truth <= high)
        errors.append(value - truth)
    assert 0.89 <= np.mean(covered) <= 0.99
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(120)


def chain_from(world, sample):
    """As `chain`, with the MDP from one generator and the episodes from another."""

    class Both:
        dirichlet = staticmethod(world.dirichlet)

        @staticmethod
        def normal(size=None):
            return world.normal(size=size) if size is not None else sample.normal()

        random, choice = staticmethod(sample.random), staticmethod(sample.choice)

    return chain(Both, 150)


def test_a_constant_column_does_no_harm():
    log, _ = chain(np.random.default_rng(4))
    model, batch, episodes = fit(log)
    wide = featurize(
        Transitions.from_arrays(
            np.hstack([log.observation, np.zeros((len(log), 1))]), log.reward,
            np.hstack([log.next_observation, np.zeros((len(log), 1))]), terminated=log.terminated, episode=log.episode,
            ratio=log.importance_ratio(),
        ), None, GAMMA,
    )  # fmt: skip
    same = LinearValue.fit(wide, np.array([0, 1, 2, 4]), episodes)
    assert same.start_value()[0] == pytest.approx(model.start_value()[0], rel=1e-9)
    assert batch.n_features == 4


def test_the_answer_does_not_depend_on_the_units_of_the_features():
    log, _ = chain(np.random.default_rng(12))
    model, batch, episodes = fit(log)
    units = np.array([1e-9, 1e9, 1e4, 1.0])
    other = replace(batch, phi=batch.phi * units, phi_next=batch.phi_next * units)
    again = LinearValue.fit(other, model.support, episodes)
    assert again.start_value()[0] == pytest.approx(model.start_value()[0], rel=1e-9)
    np.testing.assert_allclose(again.start_value()[1], model.start_value()[1], rtol=1e-6, atol=1e-9)
    held = cross_fit(batch, model.support, episodes, 3, np.random.default_rng(0))
    same = (bellman_error(rows, model.support, episodes, held).value for rows in (batch, other))
    assert next(same) == pytest.approx(next(same), rel=1e-9)


def test_a_state_that_is_never_left_leaves_the_value_undetermined():
    # State 0 leads to state 1 and the record stops there; what state 1 is worth, nobody has seen.
    eye = np.eye(2)
    log = Transitions.from_arrays(eye[[0, 0]], [1.0, 2.0], eye[[1, 1]], truncated=[True, True])
    episodes = Episodes.of_log(log, GAMMA)
    assert not LinearValue.fit(featurize(log, None, GAMMA), np.arange(2), episodes).determined()
    assert LinearValue.fit(featurize(log, None, 0.0), np.arange(2), episodes).determined()


def test_collinear_columns_leave_the_value_determined():
    log, _ = chain(np.random.default_rng(13))
    model, batch, episodes = fit(log)
    twice = replace(batch, phi=np.hstack([batch.phi] * 2), phi_next=np.hstack([batch.phi_next] * 2))
    assert model.determined()
    assert LinearValue.fit(twice, np.arange(8), episodes).determined()


def test_a_singular_equation_is_solved_by_the_pseudo_inverse_though_rounding_hides_it():
    """BC of rank 2 has the pseudo-inverse C⁺B⁺; elimination leaves a third pivot that is seldom exactly 0."""
    signs = np.array([[1.0, 1.0], [1.0, -1.0]])  # columns of length 1: nothing is rescaled
    log = Transitions.from_arrays(signs, np.ones(2), signs, episode=[0, 1], truncated=[1, 1])
    rows, rng = (featurize(log, None, GAMMA), np.arange(2), Episodes.of_log(log, GAMMA)), np.random.default_rng(0)
    for _ in range(5):
        B, C, b = rng.random((3, 2)), rng.random((2, 3)), rng.random(3)
        exact = C.T @ np.linalg.solve(C @ C.T, np.linalg.solve(B.T @ B, B.T @ b))
        np.testing.assert_allclose(LinearValue.fit(*rows, equation=(B @ C, b)).theta, exact, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_are_collinear_up_to_rounding_change_nothing(seed):
    log, _ = chain(np.random.default_rng(15))
    model, batch, episodes = fit(log)
    mix = np.random.default_rng(seed).normal(size=(3, 6))  # six mixtures of three columns
    mixed = replace(batch, phi=batch.phi[:, :-1] @ mix, phi_next=batch.phi_next[:, :-1] @ mix)
    again = LinearValue.fit(mixed, np.arange(6), episodes)
    assert again.determined()
    assert again.start_value()[0] == pytest.approx(model.start_value()[0], rel=1e-9)
    np.testing.assert_allclose(again.start_value()[1], model.start_value()[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("share", "determined"), [(0.5e-4, True), (2e-4, False)])
def test_a_ten_thousandth_of_the_start_may_be_undetermined(share, determined):
    # The target never acts as logged where φ ≠ 0, so nothing is known of θ; c = (φ₀/2, 1) and ‖φ‖ = √(1/3) in rows.
    start = 2 * share / np.sqrt(3)
    log = Transitions.from_arrays(
        [[0.0], [start], [1.0]], np.ones(3), np.zeros((3, 1)), episode=[0, 1, 1], terminated=[1, 0, 1], ratio=[1, 0, 0]
    )
    model = LinearValue.fit(featurize(log, None, GAMMA), np.arange(1), Episodes.of_log(log, GAMMA))
    assert model.determined() == determined


def test_the_equation_of_the_choice_is_that_of_all_features():
    log, _ = chain(np.random.default_rng(11))
    _, batch, episodes = fit(log)
    few, every = replace(batch, phi=batch.phi[:, :-1], phi_next=batch.phi_next[:, :-1]), np.arange(3)
    choice = choose(few, default_estimator(GAMMA))
    assert choice.equation is not None
    given, own = (LinearValue.fit(few, every, episodes, equation) for equation in (choice.equation, None))
    np.testing.assert_allclose(given.theta, own.theta, rtol=1e-9)
    np.testing.assert_allclose(given.start_value()[1], own.start_value()[1], rtol=1e-9)
    assert choose(few, SparseTDCV(gamma=GAMMA, lam=0.5, fit_intercept=True)).equation is None


def test_sparse_rows_give_the_same_answer():
    log, _ = chain(np.random.default_rng(5))
    model, batch, episodes = fit(log)
    sparse = type(batch)(sp.csr_array(batch.phi), sp.csr_array(batch.phi_next), *list(vars(batch).values())[2:])
    again = LinearValue.fit(sparse, model.support, episodes)
    np.testing.assert_allclose(again.theta, model.theta, rtol=1e-12)


def test_no_features_at_all_is_a_constant_value():
    log, _ = chain(np.random.default_rng(6))
    model, batch, _ = fit(log, support=np.array([], dtype=int))
    gain = batch.ratio @ batch.reward / (batch.ratio @ (1 - batch.discount))
    assert model.start_value()[0] == pytest.approx(gain)


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match="stronger penalty"):
        design(sp.csr_array((2, MAX_COLUMNS + 1)), np.arange(MAX_COLUMNS + 1))


def test_cross_fitting_predicts_rows_it_has_not_seen():
    log, _ = chain(np.random.default_rng(7), 60)
    model, batch, episodes = fit(log)
    held = cross_fit(batch, model.support, episodes, 3, np.random.default_rng(0))
    for k in range(3):
        mine = held.fold[episodes.of] == k
        other = fit(log[np.flatnonzero(~mine)])[0]
        np.testing.assert_allclose(held.value[mine], other.predict(batch.phi[mine]), rtol=1e-9)
        assert (held.value_next[log.terminated] == 0).all()


def test_bellman_error_of_the_truth_is_chance():
    rng = np.random.default_rng(8)
    ratios = []
    for _ in range(25):
        log, _ = chain(rng, 150)
        model, batch, episodes = fit(log)
        held = cross_fit(batch, model.support, episodes, 5, rng)
        found = bellman_error(batch, model.support, episodes, held)
        ratios.append(found.value / found.noise)
    assert 0.9 < np.mean(ratios) < 1.8


def test_bellman_error_of_a_wrong_function_is_more_than_chance():
    log, _ = chain(np.random.default_rng(9), 400)
    model, batch, episodes = fit(log)
    held = cross_fit(batch, model.support, episodes, 5, np.random.default_rng(0))
    wrong = HeldOut(held.value + 2 * batch.phi[:, 0], held.value_next, held.fold)
    found = bellman_error(batch, model.support, episodes, wrong)
    assert found.value > 5 * found.noise


def test_bellman_error_and_its_noise_are_those_of_the_mean_error_of_every_fold():
    """gᵀC⁻¹g row by row, and trace(C⁻¹ Cov g) by the jackknife: leave each episode of the fold out."""
    log, _ = chain(np.random.default_rng(16), 200)
    model, batch, episodes = fit(log)
    fold, zero = np.arange(200) % 2, np.zeros(len(log))
    held = HeldOut(zero + 5.0, zero, fold)  # far too high: longer episodes err more, and g is far from 0
    phi = np.hstack([batch.phi[:, :-1], np.ones((len(log), 1))])
    scores, metric = (batch.ratio * (batch.reward - 5.0))[:, None] * phi, np.linalg.inv(phi.T @ phi / len(log))
    values, noises = [], []
    for k in (0, 1):
        mine = fold[episodes.of] == k
        g = scores[mine].mean(axis=0)
        values.append(g @ metric @ g)
        without = [scores[mine & (episodes.of != i)].mean(axis=0) for i in np.flatnonzero(fold == k)]
        noises.append(sum(d @ metric @ d for d in without - np.mean(without, axis=0)) * 99 / 100)
    found = bellman_error(batch, model.support, episodes, held)
    assert found.value == pytest.approx(np.mean(values), rel=1e-9)
    assert found.noise == pytest.approx(np.mean(noises), rel=0.1)


def test_the_constant_beside_the_bellman_error_is_the_fit_without_features():
    log, _ = chain(np.random.default_rng(17), 60)
    model, batch, episodes = fit(log)
    fold = np.arange(60) % 3
    c = fit(log, support=np.array([], dtype=int))[0].theta[0]
    flat = HeldOut(np.full(len(log), c), np.where(log.terminated, 0.0, c), fold)
    found = bellman_error(batch, model.support, episodes, flat)
    assert found.constant == pytest.approx(found.value, rel=1e-9)


def test_corrected_returns_are_plain_returns_on_policy():
    log, _ = chain(np.random.default_rng(10), 50, ratio=False)
    _, batch, episodes = fit(log)
    held = HeldOut(np.random.default_rng(0).normal(size=len(log)), np.zeros(len(log)), np.zeros(50))
    returns = corrected_returns(batch, episodes, held)
    np.testing.assert_allclose(returns[episodes.first], log.returns(GAMMA), rtol=1e-12)


def test_agreement_groups_every_row():
    log, _ = chain(np.random.default_rng(11), 80)
    model, batch, episodes = fit(log)
    held = cross_fit(batch, model.support, episodes, 4, np.random.default_rng(0))
    groups = agreement(batch, episodes, held, 0.95)
    assert sum(g["count"] for g in groups) == len(log)
    predicted = [g["predicted"] for g in groups]
    assert predicted == sorted(predicted)
    assert all(g["interval"][0] <= g["observed"] <= g["interval"][1] for g in groups)


def test_the_intervals_of_agreement_follow_from_what_more_of_an_episode_changes():
    """Var of a group's mean = Σ_i (∂ mean / ∂ weight of episode i)², by finite differences; 1.645 is the 95 % point."""
    log, _ = chain(np.random.default_rng(18), 100)
    _, batch, episodes = fit(log)
    held = HeldOut(batch.phi[:, 0] + 1.0, np.zeros(len(log)), np.zeros(100))
    returns, order = corrected_returns(batch, episodes, held), np.argsort(held.value, kind="stable")
    for group, rows in zip(agreement(batch, episodes, held, 0.9), np.array_split(order, 10), strict=True):
        more = 1e-6 * (episodes.of[rows] == np.arange(100)[:, None])
        change = [np.average(returns[rows], weights=1 + m) - np.average(returns[rows], weights=1 - m) for m in more]
        half = 1.644854 * np.linalg.norm(change) / 2e-6
        assert group["interval"] == pytest.approx((group["observed"] - half, group["observed"] + half), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_agrees_with_that_of_the_selection_layer(seed):
    """Two implementations that share no code: cluster sums there, row scores here."""
    log, _ = chain(np.random.default_rng(20 + seed), 80)
    model, batch, _ = fit(log)
    value, influence = model.start_value()
    own = Estimate.of_influence("", value, influence, n_fitted=4)
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    rows = (batch.phi[:, :-1], batch.reward, batch.phi_next[:, :-1])
    other = value_interval(LSTD(gamma=GAMMA, fit_intercept=True).fit(*rows, **columns), *rows, **columns)
    assert other.estimate[0] == pytest.approx(own.value, rel=1e-9)
    assert other.standard_error[0] == pytest.approx(own.standard_error * np.sqrt((79 - 4) / 80), rel=1e-9)
