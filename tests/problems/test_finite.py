"""Exact answers of the finite problems against enumeration, iteration of the Bellman operator and sampling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reproduction.action_values import action_value_trajectory, state_action
from reproduction.expected_system import expected_system
from reproduction.walk_bases import walk
from sparsetd.problems import FiniteMDP, boyan_chain, random_mdp, random_walk, star, with_noise_features
from sparsetd.system import Table, mean_system

# TDC with η = 3, as a literal table in the order φ ψ e (the library's own operators are tested elsewhere).
TDC = Table.two_blocks(
    "tdc",
    ww=3.0 * np.outer([1, 0, 0], [1, 0, 0]),
    wt=3.0 * np.outer([0, 0, 1], [1, -1, 0]),
    tw=np.outer([0, 1, 0], [0, 0, 1]),
    tt=np.outer([0, 0, 1], [1, -1, 0]),
    bw=3.0 * np.array([0, 0, 1]),
    bt=np.array([0, 0, 1.0]),
)


def small(seed=0, **settings):
    return random_mdp(np.random.default_rng(seed), 6, 4, 2, n_actions=2, branching=3, **settings)


def every_problem():
    bases = [walk(basis=basis) for basis in ("tabular", "inverted", "dependent")]
    off_policy_walk = random_walk(7, left_reward=-1.0, target_right=0.6)
    return [star(), *bases, off_policy_walk, boyan_chain(), small(misfit=1.0, reward_noise=0.3)]


problems = pytest.mark.parametrize("mdp", every_problem(), ids=lambda mdp: f"{mdp.n_states}x{mdp.n_features}")


def rmspbe(mdp, theta):
    g = mdp.b - mdp.A @ theta
    return np.sqrt(g @ np.linalg.pinv(mdp.C) @ g)


def test_the_star_is_the_paper_s():
    mdp = star()
    np.testing.assert_allclose(mdp.xi, np.full(7, 1 / 7), atol=1e-14)
    assert rmspbe(mdp, mdp.theta0) == pytest.approx(8.2214, abs=1e-4)
    assert np.linalg.matrix_rank(mdp.C) == 7
    np.testing.assert_array_equal(mdp.value, np.zeros(7))
    np.testing.assert_allclose(mdp.features @ mdp.theta0, [3, 3, 3, 3, 3, 3, 12])


@pytest.mark.parametrize(("basis", "expected"), [("tabular", 0.1667), ("inverted", 0.1667), ("dependent", 0.1318)])
def test_the_walk_is_the_paper_s(basis, expected):
    mdp = walk(basis=basis)
    np.testing.assert_allclose(mdp.xi[1:-1], np.array([1, 2, 3, 2, 1]) / 9, atol=1e-14)
    np.testing.assert_allclose(mdp.value, [0, *np.arange(1, 6) / 6, 0], atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(mdp.features[1:-1], axis=1), 1.0)
    assert rmspbe(mdp, mdp.theta0) == pytest.approx(expected, abs=1e-4)


def test_dependent_features_of_five_states_are_those_of_the_paper():
    rows = walk(basis="dependent").features[1:-1]
    expected = [[1, 0, 0], np.array([1, 1, 0]) / 2**0.5, np.ones(3) / 3**0.5, np.array([0, 1, 1]) / 2**0.5, [0, 0, 1]]
    np.testing.assert_allclose(rows, expected, atol=1e-15)


@pytest.mark.parametrize("n", [2, 3, 8, 19])
def test_longer_walks_have_linear_values(n):
    np.testing.assert_allclose(random_walk(n).value, np.r_[0, np.arange(1, n + 1), 0] / (n + 1), atol=1e-12)
    assert (np.linalg.norm(walk(n, "dependent").features[1:-1], axis=1) > 0.99).all()


@pytest.mark.parametrize(("n", "weights"), [(13, [-24, -16, -8, 0]), (3, [-4, 0]), (9, [-16, -12, -8, -4, 0])])
def test_boyan_chain_is_linear_in_its_features(n, weights):
    mdp = boyan_chain(n, len(weights))
    np.testing.assert_allclose(mdp.value, -2.0 * np.arange(n), atol=1e-12)
    np.testing.assert_allclose(mdp.theta_star, weights)
    np.testing.assert_allclose(mdp.features @ mdp.theta_star, mdp.value, atol=1e-12)
    np.testing.assert_allclose(np.linalg.solve(mdp.A, mdp.b), mdp.theta_star, atol=1e-9)
    for sizes in [(12, 4), (13, 6), (2, 2), (13, 1)]:
        with pytest.raises(ValueError, match="does not fit"):
            boyan_chain(*sizes)


@problems
def test_value_is_the_limit_of_the_bellman_operator(mdp):
    value = np.zeros(mdp.n_states)
    for _ in range(4000):
        target = mdp.R + mdp.gamma * np.where(mdp.terminal, 0.0, value)
        value = np.where(mdp.terminal, 0.0, np.einsum("sa,asn,asn->s", mdp.target, mdp.P, target))
    np.testing.assert_allclose(mdp.value, value, atol=1e-10)
    np.testing.assert_allclose((mdp.target * mdp.action_value).sum(axis=1), value, atol=1e-10)


@problems
def test_the_system_is_the_sum_over_all_transitions(mdp):
    A, b, C = 0.0, 0.0, 0.0
    for a in range(mdp.n_actions):
        for s in range(mdp.n_states):
            for t in range(mdp.n_states):
                p = mdp.xi[s] * mdp.target[s, a] * mdp.P[a, s, t]
                phi, psi = mdp.features[s], mdp.gamma * (not mdp.terminal[t]) * mdp.features[t]
                A, b = A + p * np.outer(phi, phi - psi), b + p * mdp.R[a, s, t] * phi
        C = sum(x * np.outer(phi, phi) for x, phi in zip(mdp.xi, mdp.features, strict=True))
    np.testing.assert_allclose(mdp.A, A, atol=1e-12)
    np.testing.assert_allclose(mdp.b, b, atol=1e-12)
    np.testing.assert_allclose(mdp.C, C, atol=1e-12)


@problems
def test_traces_sum_the_discounted_powers_of_the_chain(mdp):
    lam, left, power = 0.6, 0.0, mdp.features.T * mdp.xi
    for _ in range(200):
        left, power = left + power, lam * mdp.gamma * power @ mdp.transition
    A, b = mdp.system(lam)
    np.testing.assert_allclose(A, left @ (mdp.features - mdp.gamma * mdp.transition @ mdp.features), atol=1e-10)
    np.testing.assert_allclose(b, left @ mdp.reward, atol=1e-10)


@problems
def test_xi_is_what_a_long_run_visits(mdp):
    behaviour = np.einsum("sa,asn->sn", mdp.behavior, mdp.P)
    visits, state = np.zeros(mdp.n_states), mdp.start
    for step in range(20_000):
        visits += state * (step >= 10_000)
        state = state @ behaviour
        state = np.where(mdp.terminal, 0.0, state) + state[mdp.terminal].sum() * mdp.start
    np.testing.assert_allclose(mdp.xi, visits / visits.sum(), atol=1e-3)


@problems
@pytest.mark.parametrize("importance_sampled", [False, True])
def test_sampled_means_tend_to_the_expected_system(mdp, importance_sampled):
    expected, _ = expected_system(mdp, TDC, importance_sampled=importance_sampled)
    chunks = mdp.sample(20_000, np.random.default_rng(1), importance_sampled=importance_sampled)
    means = np.array([mean_system(TDC, chunks[i : i + 500])[0] for i in range(0, 20_000, 500)])
    error = np.abs(means.mean(axis=0) - expected)
    assert (error <= 5 * means.std(axis=0) / np.sqrt(len(means)) + 1e-9).all()


@problems
def test_ratios_turn_behaviour_into_target(mdp):
    """E[ρ φ(φ − ψ)ᵀ] over the behaviour = A, and eq:UNIFY's blocks are C, A and C − Aᵀ."""
    d = mdp.n_features
    blocks = np.block([[3.0 * mdp.C, 3.0 * mdp.A], [mdp.C - mdp.A.T, mdp.A]])
    for importance_sampled in (False, True):
        A, b = expected_system(mdp, TDC, importance_sampled=importance_sampled)
        np.testing.assert_allclose(A, blocks, atol=1e-12)
        np.testing.assert_allclose(b.reshape(2, d), [3.0 * mdp.b, mdp.b], atol=1e-12)


@problems
def test_a_trajectory_is_one_stream_of_episodes(mdp):
    batch = mdp.trajectory(3000, np.random.default_rng(0))
    goes_on = ~batch.start[1:]
    assert batch.start[0]
    np.testing.assert_array_equal(batch.phi_next[:-1][goes_on], batch.phi[1:][goes_on])
    np.testing.assert_array_equal(batch.discount[:-1] == 0, batch.start[1:])
    assert batch.ratio.mean() == pytest.approx(1.0, abs=5 * batch.ratio.std() / np.sqrt(3000) + 1e-12)


def test_the_star_s_ratios_are_seven_and_zero():
    for batch in (
        star().trajectory(500, np.random.default_rng(0)),
        star().sample(500, np.random.default_rng(0), importance_sampled=True),
    ):
        solid = (batch.phi_next == star().features[6]).all(axis=1)
        np.testing.assert_allclose(batch.ratio, np.where(solid, 7.0, 0.0))
    assert (star().sample(50, np.random.default_rng(0)).phi_next == star().features[6]).all()


def test_truncation_restarts_without_ending():
    batch = star().trajectory(20, np.random.default_rng(0), horizon=5)
    np.testing.assert_array_equal(np.flatnonzero(batch.start), [0, 5, 10, 15])
    assert (batch.discount == 0.99).all()


def test_same_seed_same_rows():
    one, two = (small().trajectory(50, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.phi, two.phi)
    np.testing.assert_array_equal(one.reward, two.reward)


@problems
def test_the_chain_of_pairs_has_the_action_values(mdp):
    pairs = state_action(mdp)
    np.testing.assert_allclose(pairs.value, mdp.action_value.ravel(), atol=1e-10)
    assert pairs.n_features == mdp.n_actions * mdp.n_features
    if mdp.n_actions > 1:
        weighted = pairs.features.T * pairs.xi
        blocks = np.linalg.norm(weighted @ pairs.features, axis=1).reshape(mdp.n_actions, -1)
        assert (blocks.sum(axis=1) > 0).all()


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_gq_rows_tend_to_the_system_of_the_pairs(lam):
    """E[e_t(φ_t − γφ̄_{t+1})ᵀ] with e_t = φ_t + ρ_t γ λ e_{t−1}, written out, against the exact matrix."""
    mdp = small(misfit=1.0, gamma=0.8)
    batch = action_value_trajectory(mdp, 40_000, np.random.default_rng(0))
    e, traces = np.zeros(batch.n_features), []
    for t in range(len(batch)):
        e = batch.phi[t] + batch.ratio[t] * 0.8 * lam * e
        traces.append(e)
    terms = np.einsum("ti,tj->tij", traces, batch.phi - 0.8 * batch.phi_next)
    means = terms.reshape(40, 1000, 8, 8).mean(axis=1)
    expected, _ = state_action(mdp).system(lam)
    assert (np.abs(means.mean(axis=0) - expected) <= 5 * means.std(axis=0) / np.sqrt(40) + 1e-9).all()
    assert np.abs(expected).max() > 0.1


def test_random_mdp_has_the_value_it_promises():
    mdp = random_mdp(np.random.default_rng(3), 40, 30, 5, reward_noise=2.0)
    assert np.count_nonzero(mdp.theta_star) == 5
    assert set(np.sign(mdp.theta_star)) == {-1.0, 0.0, 1.0}
    np.testing.assert_allclose(mdp.value, mdp.features @ mdp.theta_star, atol=1e-10)
    np.testing.assert_allclose(np.linalg.solve(mdp.A, mdp.b), mdp.theta_star, atol=1e-7)
    assert mdp.xi.min() > 0
    assert np.abs(mdp.target - mdp.behavior).max() > 0.05


def test_every_action_of_a_garnet_branches_and_the_first_joins_all_states():
    P, s = random_mdp(np.random.default_rng(3), 40, 30, 5, branching=4).P, np.arange(40)
    assert ((P[1:] > 0).sum(axis=2) == 4).all()
    assert (P[0, s, (s + 1) % 40] >= 0.1).all()


def test_noise_features_follow_the_stream_and_leave_the_solution():
    batch = random_walk().trajectory(20_000, np.random.default_rng(0))
    noisy = with_noise_features(batch, 2, np.random.default_rng(1), scale=2.0)
    goes_on = ~batch.start[1:]
    np.testing.assert_array_equal(noisy.phi_next[:-1][goes_on], noisy.phi[1:][goes_on])
    np.testing.assert_array_equal(noisy.phi[:, :5], batch.phi)
    psi = noisy.discount[:, None] * noisy.phi_next
    A = noisy.phi.T @ (noisy.phi - psi) / len(batch)
    np.testing.assert_allclose(A[5:, 5:], 4 * np.eye(2), atol=0.2)
    np.testing.assert_allclose(A[:5, 5:], 0.0, atol=0.1)
    np.testing.assert_allclose(np.linalg.solve(A, noisy.phi.T @ batch.reward / len(batch))[5:], 0.0, atol=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.5}, r"gamma=1.5 is outside \[0, 1\]"),
        ({"P": np.full((2, 7, 7), 0.5)}, r"P\[0\] is not a distribution in row 0"),
        ({"R": np.zeros((2, 7, 6))}, r"R has shape \(2, 7, 6\)"),
        ({"R": np.full((2, 7, 7), np.nan)}, r"R holds NaN or infinity, first at index \(0, 0, 0\)"),
        ({"features": np.eye(6)}, "one row for each of the 7 states"),
        ({"behavior": np.tile([1.0, 0.0], (7, 1))}, "behavior never takes action 1 in state 0"),
        ({"target": np.ones((7, 2))}, "target is not a distribution in row 0"),
        ({"start": np.ones(7)}, "start is not a distribution"),
        ({"weights": -np.ones(7)}, "weights is not a distribution"),
        ({"P": np.eye(7)}, r"use FiniteMDP.chain"),
    ],
)
def test_bad_tables_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        replace(star(), **change)


def test_questions_without_an_answer_are_refused():
    still = FiniteMDP.chain(np.eye(2), np.ones(2), np.eye(2), 1.0, np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="gamma=1 needs a target policy that terminates"):
        _ = still.value
    with pytest.raises(ValueError, match="several stationary distributions"):
        _ = still.xi
    given = replace(still, gamma=0.5, weights=np.array([0.25, 0.75]))
    np.testing.assert_allclose(given.xi, [0.25, 0.75])
    np.testing.assert_allclose(given.value, [2.0, 2.0])
    with pytest.raises(ValueError, match="n >= 1"):
        star().sample(0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="without traces"):
        expected_system(star(), replace(TDC, lam=0.5))
    with pytest.raises(ValueError, match="n_states >= 2"):
        random_walk(1)
    with pytest.raises(ValueError, match="choose one of"):
        walk(basis="fourier")
    for settings, name in [({"n_relevant": 40}, "n_relevant"), ({"branching": 0}, "branching")]:
        with pytest.raises(ValueError, match=name):
            random_mdp(np.random.default_rng(0), **settings)


def test_an_mdp_shows_its_size_not_its_tables():
    assert repr(star()) == "FiniteMDP(7 states, 2 actions, 8 features, gamma=0.99)"
    assert len(repr(random_mdp(np.random.default_rng(0)))) < 80
