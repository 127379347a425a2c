"""The linear value function, its coefficients and what is held out, with refits and row-by-row sums as oracles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from evaluation.logs import asked, fitted

from sparsetd import LSTD
from sparsetd.evaluation import held_out as module
from sparsetd.evaluation.episodes import Episodes, Facts
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.held_out import (
    HeldOut,
    agreement,
    bellman_error,
    corrected_returns,
    fine_bins,
    grouped,
    metric_of,
    prediction_counts,
    score_sums,
    tenths,
    without_each,
)
from sparsetd.evaluation.linear import LinearValue, Span, coefficients, score_powers, sums_of
from sparsetd.evaluation.reading import MAX_COLUMNS, Ask, chosen
from sparsetd.features.featurize import featurize
from sparsetd.logs import Transitions
from sparsetd.selection import value_interval
from sparsetd.selection.moments import Moments

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


def folds_of(part, n_folds):
    return np.arange(len(part.episodes)) % n_folds


def held_out(part, n_folds):
    folds = sums_of(part, folds_of(part, n_folds), n_folds)
    return module.held_out(part, folds_of(part, n_folds), without_each(folds)), folds


def predicted(part, value, after):
    """Predictions of s and s'."""
    return HeldOut(value, value - part.batch.discount * after)


def bellman(part, folds, held):
    """The Bellman error of given predictions, with folds of every n-th episode."""
    metric, batch, facts, n = metric_of(folds), part.batch, Facts.of(part), len(folds.n_rows)
    flat = batch.ratio * (batch.reward - (1 - batch.discount) * facts.gained / facts.left)
    errors = (batch.ratio * (batch.reward - held.change), flat)
    return bellman_error(metric, np.stack([score_sums(part, folds_of(part, n), e, metric, n) for e in errors]))


def test_it_is_lstd():
    log, _ = chain(np.random.default_rng(0))
    model, part = fit(log)
    batch = part.batch
    phi, phi_next = (np.hstack([rows, np.ones((len(batch), 1))]) for rows in (batch.phi, batch.phi_next))
    A = sum(r * np.outer(f, f - d * g) for r, f, g, d in zip(batch.ratio, phi, phi_next, batch.discount, strict=True))
    b = sum(r * w * f for r, w, f in zip(batch.ratio, batch.reward, phi, strict=True))
    np.testing.assert_allclose(model.theta, np.linalg.solve(A, b), rtol=1e-9)
    assert model.value == pytest.approx((phi[part.episodes.first] @ np.linalg.solve(A, b)).mean(), rel=1e-9)


def test_coefficient_errors_match_the_jackknife():
    log, _ = chain(np.random.default_rng(2), 100)
    model, part = fit(log)
    errors = [
        e.standard_error
        for e in coefficients(model, asked(part, Ask(score_powers, (model, np.eye(len(model.theta))[:-1]))))
    ]
    without = np.array([fit(log[np.flatnonzero(part.episodes.of != i)])[0].theta[:-1] for i in range(100)])
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
        model, part = fit(log)
        low, high = Estimate.of_influence("", model.value, model.influence(part)).interval()
        covered.append(low <= truth <= high)
        errors.append(model.value - truth)
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


@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_a_constant_column_does_no_harm(constant):
    log, _ = chain(np.random.default_rng(4))
    model, part = fit(log)
    batch, more = part.batch, np.full((len(log), 1), constant)
    wide = replace(batch, phi=np.hstack([more, batch.phi]), phi_next=np.hstack([more, batch.phi_next]))
    same, wider = fitted(wide, np.arange(4), part.episodes)
    assert same.value == pytest.approx(model.value, rel=1e-9)
    assert same.determined()
    np.testing.assert_allclose(same.influence(wider), model.influence(part), rtol=1e-6, atol=1e-9)


def test_the_answer_does_not_depend_on_the_units_of_the_features():
    log, _ = chain(np.random.default_rng(12))
    model, part = fit(log)
    units = np.array([1e-9, 1e9, 1e4])
    batch = replace(part.batch, phi=part.batch.phi * units, phi_next=part.batch.phi_next * units)
    again, other = fitted(batch, np.arange(3), part.episodes)
    assert again.value == pytest.approx(model.value, rel=1e-9)
    np.testing.assert_allclose(again.influence(other), model.influence(part), rtol=1e-6, atol=1e-9)
    held, folds = held_out(part, 3)
    same = bellman(other, sums_of(other, folds_of(other, 3), 3), held)
    # C⁻¹ of columns in other units is another matrix, but the error in its metric is the same number.
    assert same.value == pytest.approx(bellman(part, folds, held).value, rel=1e-6)


def test_a_state_that_is_never_left_leaves_the_value_undetermined():
    # State 0 leads to state 1 and the record stops there; what state 1 is worth, nobody has seen.
    eye = np.eye(2)
    log = Transitions.from_arrays(eye[[0, 0]], [1.0, 2.0], eye[[1, 1]], truncated=[True, True])
    episodes = Episodes.of_log(log, GAMMA)
    assert not fitted(featurize(log, None, GAMMA), np.arange(2), episodes)[0].determined()
    assert fitted(featurize(log, None, 0.0), np.arange(2), episodes)[0].determined()


def test_collinear_columns_leave_the_value_determined():
    log, _ = chain(np.random.default_rng(13))
    model, part = fit(log)
    batch = part.batch
    twice = replace(batch, phi=np.hstack([batch.phi] * 2), phi_next=np.hstack([batch.phi_next] * 2))
    assert model.determined()
    again = fitted(twice, np.arange(6), part.episodes)[0]
    assert again.determined()
    assert again.value == pytest.approx(model.value, rel=1e-9)


def test_a_singular_equation_is_solved_by_the_pseudo_inverse_though_rounding_hides_it():
    """BC of rank 2 has the pseudo-inverse C⁺B⁺; elimination leaves a third pivot that is seldom exactly 0."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        B, C, b = rng.random((3, 2)), rng.random((2, 3)), rng.random(3)
        exact = C.T @ np.linalg.solve(C @ C.T, np.linalg.solve(B.T @ B, B.T @ b))
        unit = np.eye(3)[None]  # columns of length 1 that are no combinations of one another: nothing is rescaled
        sums = Moments((B @ C)[None], b[None], unit, np.ones((1, 3)), *np.ones((3, 1)))
        np.testing.assert_allclose(LinearValue.solve(sums).theta, exact, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_are_collinear_up_to_rounding_change_nothing(seed):
    log, _ = chain(np.random.default_rng(15))
    model, part = fit(log)
    mix = np.random.default_rng(seed).normal(size=(3, 6))  # six mixtures of three columns
    mixed = replace(part.batch, phi=part.batch.phi @ mix, phi_next=part.batch.phi_next @ mix)
    again, other = fitted(mixed, np.arange(6), part.episodes)
    assert again.determined()
    assert again.value == pytest.approx(model.value, rel=1e-9)
    np.testing.assert_allclose(again.influence(other), model.influence(part), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("share", "determined"), [(0.5e-4, True), (2e-4, False)])
def test_a_ten_thousandth_of_the_start_may_be_undetermined(share, determined):
    # The target never acts as logged where φ ≠ 0, so nothing is known of θ; c = (φ₀/2, 1) and ‖φ‖ = √(1/3) in rows.
    start = 2 * share / np.sqrt(3)
    log = Transitions.from_arrays(
        [[0.0], [start], [1.0]], np.ones(3), np.zeros((3, 1)), episode=[0, 1, 1], terminated=[1, 0, 1], ratio=[1, 0, 0]
    )
    model = fitted(featurize(log, None, GAMMA), np.arange(1), Episodes.of_log(log, GAMMA))[0]
    assert model.determined() == determined


def test_sparse_rows_give_the_same_answer():
    log, _ = chain(np.random.default_rng(5))
    model, part = fit(log)
    batch = featurize(log, None, GAMMA)
    sparse = replace(batch, phi=sp.csr_array(batch.phi), phi_next=sp.csr_array(batch.phi_next))
    again = fitted(sparse, np.arange(3), part.episodes)[0]
    np.testing.assert_allclose(again.theta, model.theta, rtol=1e-12)


def test_no_features_at_all_is_a_constant_value():
    log, _ = chain(np.random.default_rng(6))
    model, part = fit(log, support=np.array([], dtype=int))
    batch = part.batch
    gain = batch.ratio @ batch.reward / (batch.ratio @ (1 - batch.discount))
    assert model.value == pytest.approx(gain)


def test_too_many_columns_are_refused():
    with pytest.raises(ValueError, match="stronger penalty"):
        chosen(sp.csr_array((2, MAX_COLUMNS + 1)), np.arange(MAX_COLUMNS + 1))


def test_cross_fitting_predicts_rows_it_has_not_seen():
    log, _ = chain(np.random.default_rng(7), 60)
    _, part = fit(log)
    held, _ = held_out(part, 3)
    for k in range(3):
        mine = folds_of(part, 3)[part.episodes.of] == k
        other = fit(log[np.flatnonzero(~mine)])[0]
        np.testing.assert_allclose(held.value[mine], part.states[mine] @ other.theta, rtol=1e-9)
        assert (held.change == held.value)[log.terminated].all()


def test_bellman_error_of_the_truth_is_chance():
    rng = np.random.default_rng(8)
    ratios = []
    for _ in range(25):
        log, _ = chain(rng, 150)
        part = fit(log)[1]
        held, folds = held_out(part, 5)
        found = bellman(part, folds, held)
        ratios.append(found.value / found.noise)
    assert 0.9 < np.mean(ratios) < 1.8


def test_bellman_error_of_a_wrong_function_is_more_than_chance():
    log, _ = chain(np.random.default_rng(9), 400)
    part = fit(log)[1]
    held, folds = held_out(part, 5)
    more = 2 * part.batch.phi[:, 0]
    wrong = HeldOut(held.value + more, held.change + more)
    found = bellman(part, folds, wrong)
    assert found.value > 5 * found.noise


def test_bellman_error_and_its_noise_are_those_of_the_mean_error_of_every_fold():
    """gᵀC⁻¹g row by row, and trace(C⁻¹ Cov g) by the jackknife: leave each episode of the fold out."""
    log, _ = chain(np.random.default_rng(16), 200)
    part = fit(log)[1]
    batch, episodes = part.batch, part.episodes
    fold, zero = np.arange(200) % 2, np.zeros(len(log))
    held = predicted(part, zero + 5.0, zero)  # far too high: longer episodes err more, and g is far from 0
    phi = np.hstack([batch.phi, np.ones((len(log), 1))])
    scores, metric = (batch.ratio * (batch.reward - 5.0))[:, None] * phi, np.linalg.inv(phi.T @ phi / len(log))
    values, noises = [], []
    for k in (0, 1):
        mine = fold[episodes.of] == k
        g = scores[mine].mean(axis=0)
        values.append(g @ metric @ g)
        without = [scores[mine & (episodes.of != i)].mean(axis=0) for i in np.flatnonzero(fold == k)]
        noises.append(sum(d @ metric @ d for d in without - np.mean(without, axis=0)) * 99 / 100)
    found = bellman(part, sums_of(part, fold, 2), held)
    assert found.value == pytest.approx(np.mean(values), rel=1e-9)
    assert found.noise == pytest.approx(np.mean(noises), rel=0.1)


def test_the_constant_beside_the_bellman_error_is_the_fit_without_features():
    log, _ = chain(np.random.default_rng(17), 60)
    part = fit(log)[1]
    fold = np.arange(60) % 3
    c = fit(log, support=np.array([], dtype=int))[0].theta[0]
    flat = predicted(part, np.full(len(log), c), np.where(log.terminated, 0.0, c))
    found = bellman(part, sums_of(part, fold, 3), flat)
    assert found.constant == pytest.approx(found.value, rel=1e-9)


def test_corrected_returns_are_plain_returns_on_policy():
    log, _ = chain(np.random.default_rng(10), 50, ratio=False)
    part = fit(log)[1]
    held = predicted(part, np.random.default_rng(0).normal(size=len(log)), np.zeros(len(log)))
    returns = corrected_returns(part.episodes, held)
    np.testing.assert_allclose(returns[part.episodes.first], log.returns(GAMMA), rtol=1e-12)


def test_corrected_returns_are_the_recursion_row_by_row():
    """G_t = v_t + ρ_t (r_t + γ G_{t+1} − v_t), a cut episode ending with v(s')."""
    rng = np.random.default_rng(19)
    log, _ = chain(rng, 30)
    cut = replace(log, terminated=np.zeros(len(log), bool), truncated=log.terminated)
    part = fit(cut)[1]
    value_next = rng.normal(size=len(log))
    held = predicted(part, rng.normal(size=len(log)), value_next)
    expected, after = np.empty(len(log)), 0.0
    for t in reversed(range(len(log))):
        after = value_next[t] if t in part.episodes.last else after
        expected[t] = held.value[t] + part.batch.ratio[t] * (log.reward[t] + GAMMA * after - held.value[t])
        after = expected[t]
    np.testing.assert_allclose(corrected_returns(part.episodes, held), expected, rtol=1e-9, atol=1e-9)


def test_groups_of_predictions_are_tenths_as_near_as_the_bins_allow():
    values, edges = np.random.default_rng(0).normal(size=5_000), np.linspace(-5, 5, 4_000)
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=4_001)
    sizes = np.bincount(np.searchsorted(tenths(counts, edges), values, side="right"))
    assert len(sizes) == 10
    assert abs(sizes - 500).max() <= 5
    assert tenths(np.array([0, 30, 0]), np.array([0.0, 1.0])).tolist() == [0.0] * 9  # equal ones stay together


def test_agreement_groups_every_row():
    log, _ = chain(np.random.default_rng(11), 80)
    part = fit(log)[1]
    (held, folds), fold = held_out(part, 4), np.arange(80) % 4
    edges = fine_bins(LinearValue.solve(folds), folds)
    counts = asked(part, Ask(prediction_counts, (without_each(folds), edges), (fold,)))
    assert counts.sum() == len(log)
    groups = agreement(grouped(part.episodes, held, tenths(counts, edges), 3.0), 3.0, 0.95)
    assert sum(g["count"] for g in groups) == len(log)
    predicted = [g["predicted"] for g in groups]
    assert predicted == sorted(predicted)
    assert all(g["interval"][0] <= g["observed"] <= g["interval"][1] for g in groups)


def test_the_intervals_of_agreement_follow_from_what_more_of_an_episode_changes():
    """Var of a group's mean = Σ_i (∂ mean / ∂ weight of episode i)², by finite differences; 1.645 is the 95 % point."""
    log, _ = chain(np.random.default_rng(18), 100)
    part = fit(log)[1]
    distinct = part.batch.phi[:, 0] + 1e-9 * np.arange(len(log))
    held = predicted(part, distinct, np.zeros(len(log)))
    returns, order = corrected_returns(part.episodes, held), np.argsort(held.value, kind="stable")
    tenth = np.array_split(order, 10)
    found = agreement(grouped(part.episodes, held, [distinct[rows[0]] for rows in tenth[1:]], 0.7), 0.7, 0.9)
    for group, rows in zip(found, tenth, strict=True):
        more = 1e-6 * (part.episodes.of[rows] == np.arange(100)[:, None])
        change = [np.average(returns[rows], weights=1 + m) - np.average(returns[rows], weights=1 - m) for m in more]
        half = 1.644854 * np.linalg.norm(change) / 2e-6
        assert group["interval"] == pytest.approx((group["observed"] - half, group["observed"] + half), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_agrees_with_that_of_the_selection_layer(seed):
    """Two ways that share no code: a linearisation (the sandwich) there, episodes left out here."""
    log, _ = chain(np.random.default_rng(20 + seed), 300)
    model, part = fit(log)
    batch = part.batch
    own = Estimate.of_influence("", model.value, model.influence(part))
    columns = {"ratio": batch.ratio, "discount": batch.discount, "start": batch.start}
    rows = (batch.phi, batch.reward, batch.phi_next)
    other = value_interval(LSTD(gamma=GAMMA, fit_intercept=True).fit(*rows, **columns), *rows, **columns)
    assert other.estimate[0] == pytest.approx(own.value, rel=1e-9)
    assert other.standard_error[0] == pytest.approx(own.standard_error, rel=0.1)


def test_the_sums_of_a_mixture_are_the_mixture_of_the_sums():
    """A quarter of the way from the behaviour to a policy: its sums follow from theirs, and no others do."""
    rng = np.random.default_rng(0)
    one, other = rng.exponential(size=(2, 50))
    span = Span.of(np.stack([one, 0.75 + 0.25 * one, other, np.ones(50)]))
    assert span.formed == [0, 1, 3]
    expected = [[1, 0, 0], [0, 1, 0], [0.75, 0.25, 0], [0, 0, 1], [1, 0, 0]]
    assert span.shares == pytest.approx(np.array(expected), abs=1e-12)
    near = np.stack([one, one + 1e-6 * other, other])
    assert Span.of(near).formed == [0, 1, 2, 3]  # 1e6 (near − one) would be rounding
