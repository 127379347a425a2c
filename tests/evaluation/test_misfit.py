"""Features that cannot represent the value, and states that were not recorded, are found; sound ones are left alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from evaluation.logs import GAMMA, asked, dense_part, linear_walk, one_step, with_columns

from sparsetd.evaluation import evaluate
from sparsetd.evaluation import misfit as module
from sparsetd.evaluation.cautions import unobserved_state
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.linear import LinearValue, sums_of
from sparsetd.evaluation.misfit import FADING, ExtraSums, Fit, Misfit, extra_sums, misfit
from sparsetd.evaluation.reading import together
from sparsetd.features.featurize import featurize
from sparsetd.logs import Transitions


def codes(log):
    return {c.code: c.severity for c in evaluate(log, gamma=GAMMA, features=None, n_resamples=0).warnings}


def probed(log):
    part = dense_part(featurize(log, None, GAMMA), Episodes.of_log(log, GAMMA))
    sums = sums_of(part)
    model, names = LinearValue.solve(sums), np.array([f"x{j}" for j in range(part.batch.n_features)])
    order = np.arange(len(names))
    extra = asked(part, extra_sums(model, order))
    fit = Fit(0, model, sums.C[0], (), None, model.influence(part))
    (found,) = together(replace(part, ratios=part.batch.ratio[None]), misfit(fit, extra, names, order))
    return found, model, part


def quadratic(seed=0, start=0.0):
    log = linear_walk(seed, 250, start=start)
    return replace(log, reward=log.observation[:, 0] ** 2 + 0.1 * log.reward)


def with_square(log):
    return with_columns(log, log.observation[:, 0] ** 2, log.next_observation[:, 0] ** 2)


@pytest.mark.parametrize("seed", range(2))
def test_a_value_quadratic_in_a_feature_is_found_and_accepted_with_its_square(seed):
    log = quadratic(seed)
    found = probed(log)[0]
    assert found.shape < 1e-4
    assert "x0 × x0" in found.columns
    assert "misspecified" in codes(log)
    assert not {"misspecified", "unobserved_state"} & set(codes(with_square(log)))


def test_what_is_missing_is_red_where_it_moves_the_value_and_amber_where_not():
    """A square is missing from one-step episodes: ratios that do not go with x hardly need any features."""
    x = np.random.default_rng(0).normal(size=400)
    reward, near = x**2 + 0.1 * np.random.default_rng(1).normal(size=400), np.tile([0.99, 1.01], 200)
    assert codes(one_step(x, reward, near))["misspecified"] == "amber"
    assert codes(one_step(x, reward, 2.0 * (x > 0)))["misspecified"] == "red"
    assert "misspecified" not in codes(one_step(np.column_stack([x, x**2]), reward, near))
    assert "misspecified" not in codes(one_step(x, reward, np.ones(400)))  # the mean return rests on no model


def test_the_change_is_what_giving_the_product_would_do():
    log = quadratic(2, start=1.0)
    one = replace(log, observation=log.observation[:, :1], next_observation=log.next_observation[:, :1], names=("x0",))
    found, model, _ = probed(one)
    wider = probed(with_square(one))[1]
    assert found.columns == ("x0 × x0",)
    assert found.change.value == pytest.approx(wider.value - model.value, rel=1e-9)


def hidden(seed=0, episodes=200):
    """z' = 0.9 z + noise; what is seen of it is x = z + noise, and the reward is z. Episodes end by a coin."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        z, over = rng.normal() / np.sqrt(1 - 0.9**2), False
        x = z + rng.normal()
        while not over:
            z_next, over = 0.9 * z + rng.normal(), rng.random() < 1 / 8
            x_next = z_next + rng.normal()
            rows.append((x, z, x_next, z_next, z + 0.3 * rng.normal(), over, episode))
            x, z = x_next, z_next
    x, z, x_next, z_next, reward, over, episode = map(np.array, zip(*rows, strict=True))
    log = Transitions.from_arrays(
        x[:, None],
        reward,
        x_next[:, None],
        terminated=over,
        episode=episode,
        names=["x0"],
        ratio=np.where(rng.random(len(x)) < 0.5, 0.9, 1.1),
    )
    return log, with_columns(log, z, z_next)


@pytest.mark.parametrize("seed", range(2))
def test_a_state_that_was_not_recorded_is_found_by_what_came_before(seed):
    unseen, seen = hidden(seed)
    found = probed(unseen)[0]
    assert found.memory < 1e-6
    assert any(name.startswith("x0 ") for name in found.remembered)
    assert "unobserved_state" in codes(unseen)
    assert not {"misspecified", "unobserved_state"} & set(codes(seen))


def test_sound_features_are_seldom_accused():
    """Bonferroni's p-values lie below 5 % in at most about 5 % of the logs: 7 of 40 would be bad luck."""
    found = [probed(linear_walk(100 + seed, 80))[0] for seed in range(40)]
    assert sum(f.shape < 0.05 for f in found) <= 7
    assert sum(f.memory < 0.05 for f in found) <= 7
    assert sum(f.outcomes < 0.05 for f in found) <= 7


def test_rounding_is_no_misfit():
    """Rewards that follow exactly from whole numbers: what is left is rounding, the same in every episode of a kind."""
    for seed in range(4):
        x = np.random.default_rng(seed).integers(0, 4, size=(400, 2)).astype(float)
        found = probed(one_step(x, x @ [0.3, 0.7] + 0.1, np.ones(400)))[0]
        assert (found.shape, found.memory, found.outcomes) == (1.0, 1.0, 1.0)
    once = linear_walk()
    first = np.diff(once.episode, prepend=-1) != 0
    assert "behavior_misfit" not in codes(with_columns(replace(once, reward=10.0 * first), first, 0.0 * first))


def test_the_statistics_are_those_of_the_formula_episode_by_episode():
    """t_z = Σ s̃ / √Σ s̃², with s̃ᵢ = Σρδz − (Σρz(φ − γφ')ᵀ) A⁻¹ Σρδφ over the rows of episode i."""
    _, model, part = probed(quadratic(3))
    batch, of = part.batch, part.episodes.of
    Z = np.random.default_rng(0).normal(size=(len(batch), 2)) + batch.phi[:, :1]
    ones = np.ones((len(batch), 1))
    phi, after = np.hstack([batch.phi, ones]), np.hstack([batch.phi_next, ones])
    change, delta = phi - batch.discount[:, None] * after, model.errors(part)
    A = (batch.ratio[:, None] * phi).T @ change
    expected = []
    for z in Z.T:
        lean = np.linalg.solve(A.T, (batch.ratio * z) @ change)
        rows = batch.ratio * delta * (z - phi @ lean)
        each = np.array([rows[of == i].sum() for i in range(of.max() + 1)])
        expected.append(each.sum() / np.sqrt((each**2).sum()))

    def statistics(columns):
        return ExtraSums.of(part, model, lambda *_: iter([columns]), np.arange(0)).statistics(model, phi.T @ phi)

    found = statistics(Z)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    explained = batch.phi @ [[1.0], [2.0], [0.5]] + 3.0
    np.testing.assert_array_equal(statistics(explained), [0.0])


def test_memory_is_of_the_same_episode_only():
    _, model, part = probed(linear_walk(6, 12))
    found, following = module.memory(part, model, np.array([2, 0]))
    names = ["c", "a", "the reward", "the error of the prediction"]
    assert module._memory_names(np.array(["c", "a"])) == [
        *(f"{name} one step before" for name in names),
        *(f"{name} in the steps before" for name in names),
    ]
    now = np.column_stack([part.batch.phi[:, [2, 0]], part.batch.reward, model.errors(part)])
    mean = before = np.zeros(4)
    for t, row in enumerate(now):
        if t in part.episodes.first:
            mean = before = np.zeros(4)
        mean = FADING * mean + (1 - FADING) * before
        np.testing.assert_allclose(found[t], [*before, *mean], rtol=1e-12, atol=1e-12)
        if t not in part.episodes.last:
            np.testing.assert_allclose(following[t], found[t + 1], rtol=1e-12, atol=1e-12)
        before = row


def frail(followed, seed=0, episodes=400, steps=6):
    """Patients differ in what was not recorded: it adds to every reward, and the actions may have followed it."""
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=(episodes, steps + 1)), rng.normal(size=(episodes, 1))
    likely = 1 / (1 + np.exp(-(1.5 if followed else 0.0) * u)) * np.ones((1, steps))
    action = (rng.random((episodes, steps)) < likely).astype(int)
    reward = x[:, :-1] + u + action * u + 0.3 * rng.normal(size=(episodes, steps))
    return Transitions.from_arrays(
        x[:, :-1].reshape(-1, 1),
        reward.ravel(),
        x[:, 1:].reshape(-1, 1),
        action=action.ravel(),
        terminated=np.tile(np.arange(steps) == steps - 1, episodes),
        behavior_prob=np.full(episodes * steps, 0.5) if not followed else np.full(episodes * steps, action.mean()),
        target_prob=np.where(action.ravel() == 1, 0.8, 0.2),
    )


@pytest.mark.parametrize("seed", range(2))
def test_patients_who_differ_are_amber_and_red_where_the_actions_followed_it(seed):
    assert codes(frail(False, seed))["unobserved_state"] == "amber"
    assert codes(frail(True, seed, episodes=3000))["unobserved_state"] == "red"


def test_the_drift_is_what_giving_the_memory_would_do():
    log = frail(True)
    found, model, part = probed(log)
    names = module._memory_names(np.array(["x0"]))
    some = [names.index(name) for name in found.remembered if not name.startswith("x0")]
    assert found.outcomes < 1e-6
    assert found.drift is not None
    every = [j for j, name in enumerate(names) if not name.startswith("x0")]
    assert set(some) <= set(every)
    wide = module._widened(part, module.memory, np.array([0]), np.array(every), model)
    assert LinearValue.solve(sums_of(wide)).value - model.value == pytest.approx(found.drift.value, rel=1e-6)


def practice(seen, seed=0, episodes=400, steps=5):
    """Every exercise adds to a skill, and only the exam at the end shows the skill; its column may be missing."""
    rng = np.random.default_rng(seed)
    action = rng.integers(2, size=(episodes, steps))
    skill = np.column_stack([np.zeros(episodes), np.cumsum(action - 0.5, axis=1)])
    step = np.tile(np.arange(steps + 1.0), (episodes, 1))
    columns = np.stack([step, skill if seen else rng.normal(size=step.shape)], axis=2)
    end = step[:, 1:] == steps
    return Transitions.from_arrays(
        columns[:, :-1].reshape(-1, 2),
        np.where(end, skill[:, 1:] + rng.normal(size=end.shape), 0.0).ravel(),
        columns[:, 1:].reshape(-1, 2),
        action=action.ravel(),
        terminated=end.ravel(),
        behavior_prob=np.full(end.size, 0.5),
        target_prob=np.where(action.ravel() == 1, 0.7, 0.3),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_state_that_only_the_choices_before_show_is_red(seed):
    """The true value is 1, a fifth of it from each exercise. Without the skill, only the last one seems to count."""
    hidden = evaluate(practice(False, seed), gamma=1.0, features=None, n_resamples=0)
    (found,) = (c for c in hidden.warnings if c.code == "unobserved_state")
    assert hidden.interval[1] < 0.6
    assert found.severity == "red"
    assert "the choices of the 4 rows before" in found.text
    seen = evaluate(practice(True, seed), gamma=1.0, features=None, n_resamples=0)
    assert seen.interval[0] < 1.0 < seen.interval[1]
    assert "unobserved_state" not in {c.code for c in seen.warnings}


def test_the_value_corrected_by_all_choices_is_the_sequential_doubly_robust_estimate():
    """v + (1/n) Σ γᵗ ρ₀ ⋯ ρ_t δ_t, episode by episode, where no episode is longer than the choices that count."""
    log = practice(False)
    found, model, part = probed(log)
    delta, e = model.errors(part), part.episodes
    corrections = []
    for i in range(len(e)):
        rows = slice(e.first[i], e.last[i] + 1)
        corrections.append(e.gamma ** np.arange(5) * np.cumprod(part.batch.ratio[rows]) @ delta[rows])
    assert found.follow.value == pytest.approx(np.mean(corrections), rel=1e-9)
    assert found.choices < 1e-6


def test_later_rows_count_by_the_weight_of_the_row_before_their_choices():
    _, model, part = probed(frail(False, episodes=30, steps=7))
    often, e, ratio, weight = module.choices(part, model), part.episodes, part.batch.ratio, model.weights(part)
    for t in range(len(ratio)):
        age, first = e.age[t], e.first[e.of[t]]
        begin = max(first, t - module.BEFORE)
        share = 1 / len(e) if age <= module.BEFORE else weight[begin]
        expected = share * e.gamma ** (t - begin) * np.prod(ratio[begin:t])
        np.testing.assert_allclose(often[t], expected, rtol=1e-12)


def test_a_part_may_have_fewer_rows_than_choices_that_count():
    _, model, part = probed(practice(False, steps=2))
    np.testing.assert_array_equal(module.choices(part.some(slice(0, 1)), model), module.choices(part, model)[:2])


def test_two_tests_that_agree_are_judged_together():
    """Where products and memory both stand out, they are red together where neither is by itself."""

    def severity(shape, change, drift, share=0.5):
        moves = [None if value is None else Estimate("", value, 0.2, 100.0) for value in (change, drift)]
        found = Misfit(shape=shape, outcomes=1e-4, change=moves[0], drift=moves[1])
        return unobserved_state(SimpleNamespace(misfit=found, own=Estimate("", 5.0, 1.0, 100.0, share=share)))[0]

    assert severity(1e-4, 0.6, 0.6) == "red"
    assert severity(1e-4, 0.2, 0.2) == "amber"  # the interval is wider than the value's standard error by far
    assert severity(1e-4, 1.2, -0.6) == "amber"
    assert severity(1.0, None, 0.6) == "amber"
    assert severity(1.0, None, 0.6, share=1.0) == "red"  # the columns as they came: a narrower interval
