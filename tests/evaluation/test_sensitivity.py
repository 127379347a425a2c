"""Bounds under hidden confounding: those of `evaluate` at Γ = 1, of a linear program on a bandit, around the truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from evaluation.clinic import GAMMA, N_ACTIONS, Clinic, policy_of, tables
from scipy.optimize import linprog

from sparsetd import LSTD
from sparsetd.evaluation import action_values, evaluate, sensitivity
from sparsetd.evaluation.action_values import ActionRows, ActionValue
from sparsetd.evaluation.confounding import strengths_of
from sparsetd.evaluation.evaluator import confounded as without_causes
from sparsetd.evaluation.evaluator import judge
from sparsetd.evaluation.linear import LinearValue, sums_of
from sparsetd.evaluation.reading import Settings
from sparsetd.evaluation.sensitivity import KINDS
from sparsetd.features.featurize import featurize
from sparsetd.logs import Transitions

CLINIC = Clinic(3)
LOG = CLINIC.log(200)
TABLE = tables(1, seed=5)[0]


def test_action_values_are_lstd_on_action_blocks(monkeypatch):
    monkeypatch.setattr(action_values, "RIDGE", 0.0)
    rows = ActionRows.of(LOG, _First(), GAMMA, policy_of(TABLE))
    found = ActionValue.fit(rows)
    batch = featurize(LOG, _First(constant=True), GAMMA, policy_of(TABLE))
    plain = LSTD(gamma=GAMMA).fit(batch.phi, batch.reward, batch.phi_next, discount=batch.discount, start=batch.start)
    assert found.theta.ravel() == pytest.approx(plain.coef_, abs=1e-9)
    value, influence = found.start_value()
    first = LOG.start
    expected = (np.einsum("ia,id->iad", rows.pi[first], rows.phi[first]).reshape(first.sum(), -1) @ plain.coef_).mean()
    assert value == pytest.approx(expected)
    assert influence.mean() == pytest.approx(0.0, abs=1e-9)


def always(observation):
    """Action 1, whatever is seen."""
    return np.tile([0.0, 1.0], (len(observation), 1))


class _First:
    """Three of the four columns (the fourth is what the constant leaves), with or without a constant."""

    def __init__(self, constant=False):
        self.constant = constant

    def transform(self, observation):
        ones = np.ones((len(observation), int(self.constant)))
        return np.hstack([observation[:, :3], ones])


def test_the_influence_is_what_leaving_an_episode_out_does():
    rows = ActionRows.of(LOG, _First(), GAMMA, policy_of(TABLE))
    value, influence = ActionValue.fit(rows).start_value()
    number = LOG.episode - LOG.episode[0]
    n = LOG.n_episodes
    left = [(n - 1) * (value - _value(LOG[np.flatnonzero(number != i)])) for i in range(0, n, 10)]
    assert np.corrcoef(left, influence[::10])[0, 1] > 0.99
    assert np.std(left) == pytest.approx(np.std(influence[::10]), rel=0.1)


def _value(log):
    return ActionValue.fit(ActionRows.of(log, _First(), GAMMA, policy_of(TABLE))).start_value()[0]


def test_without_confounding_the_bounds_are_the_value():
    found = sensitivity(LOG, policy_of(TABLE), gamma=GAMMA)
    alone = evaluate(LOG, policy_of(TABLE), gamma=GAMMA, n_resamples=0)
    first, last = found.bounds[0], found.bounds[-1]
    assert first.confounding == 1.0
    assert (first.low.value, first.high.value) == pytest.approx((alone.value, alone.value), abs=1e-9)
    assert first.interval(0.95) == pytest.approx(alone.interval, abs=1e-9)
    assert first.difference(0.95) == pytest.approx(alone.difference.interval(0.95), abs=1e-9)
    assert found.cautions == alone.warnings
    lows, highs = ([getattr(b, side).value for b in found.bounds] for side in ("low", "high"))
    assert np.all(np.diff(lows) < 0)
    assert np.all(np.diff(highs) > 0)
    assert last.interval(0.95)[0] < last.low.value < last.high.value < last.interval(0.95)[1]


class _Nothing:
    """One column of zeros: the constant is all there is."""

    def __sklearn_clone__(self):
        return self

    def fit(self, _):
        return self

    def transform(self, observation):
        return np.zeros((len(observation), 1))

    def get_feature_names_out(self, _):
        return ["nothing"]


@pytest.mark.parametrize("strength", [1.5, 4.0])
def test_on_a_bandit_the_bounds_are_those_of_a_linear_program(strength):
    """min Σ w_i y_i / n over weights between α and β of mean 1, for one state and one action of interest."""
    rng = np.random.default_rng(1)
    n, mu = 400, 0.3
    action = (rng.random(n) < mu).astype(int)
    reward = rng.gamma(2.0, size=n) + action
    prob = np.where(action == 1, mu, 1 - mu)
    columns = {"action": action, "terminated": np.ones(n, bool), "behavior_prob": prob}
    log = Transitions.from_arrays(rng.normal(size=(n, 1)), reward, np.zeros((n, 1)), **columns)
    found = sensitivity(log, always, gamma=1.0, confounding=[strength], features=_Nothing()).bounds[-1]
    y = reward[action == 1]
    low, high = mu + (1 - mu) / strength, mu + strength * (1 - mu)

    def program(c):
        return linprog(c, A_eq=np.ones((1, len(y))), b_eq=[len(y)], bounds=(low, high)).fun / len(y)

    assert found.low.value == pytest.approx(program(y), rel=0.02)
    assert found.high.value == pytest.approx(-program(-y), rel=0.02)


def test_the_truth_of_a_confounded_log_lies_inside():
    """u doubles the odds of action 1 and adds to the reward: Γ = 1 misses the truth, Γ = 2 does not."""
    rng = np.random.default_rng(0)
    n = 4000
    u = rng.random(n) < 0.5
    odds = np.where(u, 2.0, 0.5)
    action = (rng.random(n) < odds / (1 + odds)).astype(int)
    reward = 2.0 * u + 0.1 * rng.normal(size=n)
    columns = {"action": action, "terminated": np.ones(n, bool), "behavior_prob": np.full(n, 0.5)}
    log = Transitions.from_arrays(rng.normal(size=(n, 1)), reward, np.zeros((n, 1)), **columns)
    plain, hidden = sensitivity(log, always, gamma=1.0, confounding=[2.0]).bounds
    assert not plain.interval(0.95)[0] < 1.0 < plain.interval(0.95)[1]
    assert hidden.interval(0.95)[0] < 1.0 < hidden.interval(0.95)[1]


def test_where_the_sign_flips():
    better = np.eye(N_ACTIONS)[CLINIC.reward.argmax(axis=0)]
    found = sensitivity(LOG, policy_of(better), gamma=GAMMA, confounding=(1.2, 1.5, 2, 4, 8, 20))
    ends = [b.difference_low.value for b in found.bounds]
    strengths = [b.confounding for b in found.bounds]
    assert ends[0] > 0 > ends[-1]
    after = next(i for i, end in enumerate(ends) if end <= 0)
    assert strengths[after - 1] < found.flips <= strengths[after]
    assert found.undecided < found.flips
    assert f"From Γ = {found.flips:.2f} on the difference may have the other sign" in str(found)
    firm = sensitivity(LOG, policy_of(better), gamma=GAMMA, confounding=[1.01])
    assert firm.flips is None
    assert "keeps its sign up to Γ = 1.01" in firm.sentence()


def few_rows(seed, n_actions, p):
    """Rewards of 0 or 1 when episodes of ten steps end, and hardly any rows for the policy that is asked about."""
    rng, n = np.random.default_rng(seed), 100 * p // 6 * 2 + 100
    s, over = rng.normal(size=(n, p)), np.arange(n) % 10 == 9
    mu = np.array([0.8] + [0.2 / (n_actions - 1)] * (n_actions - 1))
    action = rng.choice(n_actions, p=mu, size=n)
    columns = {"action": action, "terminated": over, "behavior_prob": mu[action]}
    log = Transitions.from_arrays(s, (rng.random(n) < 0.5) * over, np.roll(s, -1, axis=0), **columns)
    return log, lambda observation: np.eye(n_actions)[np.ones(len(observation), dtype=int)]


def test_no_bound_lies_below_what_the_rewards_allow():
    """Few rows let a strong cause run away; but rewards between 0 and 1 are not worth less than nothing."""
    log, policy = few_rows(0, 2, 6)
    found = sensitivity(log, policy, gamma=0.99, confounding=[3.0, 10.0])
    assert found.bounds[0].low.value > 0.2
    assert found.bounds[-1].low.value >= 0.0


def test_chance_does_not_lead_beyond_what_the_rewards_allow_either():
    log, policy = few_rows(0, 2, 6)
    found = sensitivity(log, policy, gamma=0.99, confounding=[3.0, 10.0])
    plain, *_, strong = found.bounds
    alone = strong.low.interval(0.95), strong.high.interval(0.95)
    assert alone[0][0] < 0.0 or alone[1][1] > 1.0
    least, most = strong.interval(0.95)
    assert min(0.0, plain.interval(0.95)[0]) <= least <= strong.low.value
    assert strong.high.value <= most <= max(1.0, plain.interval(0.95)[1])
    done = found.evaluation.behavior.interval(0.95)
    low, high = strong.difference(0.95)
    assert low >= min(-done[1], plain.difference(0.95)[0])
    assert high <= max(1.0 - done[0], plain.difference(0.95)[1])
    assert "that rewards like the logged ones allow" in found.sentence()
    assert strong.is_cut(0.95)
    assert not plain.is_cut(0.95)
    assert "rewards" not in sensitivity(LOG, policy_of(TABLE), gamma=GAMMA, confounding=[1.1]).sentence()


@pytest.mark.parametrize("seed", range(6))
def test_bounds_widen_with_the_strength_whatever_the_fit(seed):
    log, policy = few_rows(seed, 4, 12)
    bounds = sensitivity(log, policy, gamma=0.99, confounding=[1.5, 3.0, 10.0]).bounds
    for before, after in pairwise(bounds):
        assert after.low.value <= before.low.value
        assert after.high.value >= before.high.value


@pytest.mark.parametrize("strength", [0.5, np.nan, np.inf])
def test_a_strength_below_one_is_refused(strength):
    with pytest.raises(ValueError, match=r"`confounding` is .*: pass Γ ≥ 1"):
        sensitivity(LOG, policy_of(TABLE), confounding=[strength])


def confounded(seed, n=1500, strength=2.0, effect=1.0, length=1):
    """u is new at every decision, changes the odds of action 1 by Γ and adds to the reward; the action does nothing."""
    rng = np.random.default_rng(seed)
    u = rng.random(n * length) < 0.5
    odds = np.where(u, strength, 1 / strength)
    action = (rng.random(len(u)) < odds / (1 + odds)).astype(int)
    s = rng.normal(size=(len(u), 1))
    ends = np.arange(len(u)) % length == length - 1
    columns = {"action": action, "terminated": ends, "behavior_prob": np.full(len(u), 0.5)}
    reward = effect * u + 0.5 * rng.normal(size=len(u)) + 0.2 * s[:, 0]
    return Transitions.from_arrays(s, reward, np.roll(s, -1, axis=0), episode=np.arange(len(u)) // length, **columns)


def test_a_gain_that_a_cause_explains_has_a_robustness_below_its_strength():
    """The action does nothing: the gain is all confounding of Γ = 2, so Γ* must not be above 2."""
    found = [evaluate(confounded(seed), always, gamma=0.9, n_resamples=0).robustness.gamma for seed in range(10)]
    assert all(1.0 < gamma <= 2.0 for gamma in found)
    real = confounded(0, strength=1.0)
    helped = Transitions.from_arrays(
        real.observation, real.reward + 3.0 * real.action, real.next_observation, action=real.action,
        terminated=real.terminated, behavior_prob=real.behavior_prob, episode=real.episode,
    )  # fmt: skip
    strong = evaluate(helped, always, gamma=0.9, n_resamples=0)
    assert strong.robustness.gamma is None or strong.robustness.gamma > 3.0
    assert "unrecorded cause" in str(evaluate(confounded(0), always, gamma=0.9, n_resamples=0))


def test_the_robustness_is_where_chance_and_confounding_explain_the_difference():
    log = confounded(3)
    star = evaluate(log, always, gamma=0.9, n_resamples=0).robustness.gamma
    found = sensitivity(log, always, gamma=0.9, confounding=[0.98 * star, 1.02 * star])
    before, after = (b.difference(0.95)[0] for b in found.bounds[1:])
    assert before > 0 > after
    assert found.undecided == pytest.approx(star, rel=0.02)


def test_other_kinds_of_causes_do_less_or_more_than_one_that_is_new_at_every_decision():
    log = confounded(1, n=300, length=4)
    ends = {kind: sensitivity(log, always, gamma=0.9, confounding=[1.5], kind=kind).bounds[1] for kind in KINDS}
    assert ends["first"].low.value > ends["every"].low.value > ends["persistent"].low.value
    assert ends["first"].high.value < ends["every"].high.value < ends["persistent"].high.value
    single = confounded(2, length=1)
    one, other = (sensitivity(single, always, confounding=[1.5], kind=kind).bounds[1] for kind in ("every", "first"))
    assert one.low.value == pytest.approx(other.low.value, abs=0.02)
    with pytest.raises(ValueError, match="`kind` is 'often': pass one of every, first, persistent"):
        sensitivity(log, always, kind="often")


def test_what_is_left_as_was_done_is_not_confounded():
    """A rule that follows the log but for few rows has narrow bounds, and the behaviour itself none."""
    log = confounded(4)
    rare = sensitivity(log, "1 if x0 > 2", gamma=0.9, confounding=[2.0]).bounds[1]
    often = sensitivity(log, "1 if x0 > -2", gamma=0.9, confounding=[2.0]).bounds[1]
    assert 0 < rare.high.value - rare.low.value < 0.2 * (often.high.value - often.low.value)
    same = sensitivity(log, "behavior", gamma=0.9, confounding=[2.0]).bounds[1]
    assert same.low.value == same.high.value == pytest.approx(log.returns(0.9).mean())


def test_the_strength_of_a_recorded_column_is_what_it_does_to_the_odds():
    rng = np.random.default_rng(0)
    s = rng.choice([-1.0, 1.0], size=(4000, 2))
    action = (rng.random(4000) < 1 / (1 + np.exp(-np.log(3.0) * s[:, 1]))).astype(int)
    log = Transitions.from_arrays(
        s, rng.normal(size=4000), s, action=action, terminated=np.ones(4000, bool), names=["age", "lactate"]
    )
    (first, strength), (other, none) = strengths_of(log)
    assert (first, other) == ("lactate", "age")
    assert strength == pytest.approx(3.0, rel=0.15)
    assert none == pytest.approx(1.0, abs=0.1)


def test_bounds_rest_on_the_fit_that_the_value_rests_on():
    """A value that is curved in its column: the functions of the basis and their ridge are in the bounds as well."""
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=1500), rng.integers(2, size=1500)
    log = Transitions.from_arrays(
        x, x**2 + action + 0.1 * rng.normal(size=1500), x, action=action, terminated=np.ones(1500, bool),
        behavior_prob=np.full(1500, 0.5),
    )  # fmt: skip
    (found,) = judge(log, {"target": always}, Settings(gamma=GAMMA, n_resamples=0))
    rows = without_causes(found.first, 0)
    assert found.first.basis.ridge(0) is not None
    again = LinearValue.solve(sums_of(rows.part).ridged(found.first.basis.ridge(0)))
    for plain in (rows.plain, again):
        assert plain.theta == pytest.approx(found.model.theta, abs=1e-9)
        assert plain.value == pytest.approx(found.value.value, abs=1e-9)


def test_a_certain_behaviour_leaves_nothing_to_a_cause():
    """μ = 1: the odds of what was done are infinite, and no factor changes them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    log = Transitions.from_arrays(
        x, x + rng.normal(size=300), x, action=np.ones(300, int), terminated=np.ones(300, bool),
        behavior_prob=np.ones(300), target_prob=rng.uniform(0.2, 0.8, size=300),
    )  # fmt: skip
    found = sensitivity(log, gamma=GAMMA, confounding=(3.0,), features=None)
    assert found.bounds[-1].low.value == pytest.approx(found.bounds[0].low.value, abs=1e-9)
    assert found.bounds[-1].high.value == pytest.approx(found.bounds[0].high.value, abs=1e-9)


def new_causes(seed, n=500, steps=8, noise=10):
    """An action that does nothing, taken more often where a cause that is new at every row pays."""
    rng = np.random.default_rng(seed)
    shape = (n, steps)
    cause = rng.random(shape) < 0.5
    seen, noises = rng.uniform(0, 100, shape), rng.normal(size=(*shape, noise))
    action = (rng.random(shape) < 1 / (1 + np.exp(2 - np.where(cause, 1.0, -1.0)))).astype(int)
    observation = np.concatenate([seen[..., None], noises], axis=2)
    return Transitions.from_arrays(
        observation.reshape(n * steps, -1),
        (10.0 * cause + rng.normal(size=shape)).ravel(),
        np.concatenate([observation[:, 1:], observation[:, -1:]], axis=1).reshape(n * steps, -1),
        action=action.ravel(),
        terminated=np.tile(np.arange(steps) == steps - 1, n),
        behavior_prob=np.where(action.ravel() == 1, action.mean(), 1 - action.mean()),
        names=[f"x{j}" for j in range(noise + 1)],
    )


def test_bounds_stay_open_where_few_rows_of_an_action_meet_many_functions():
    """With a function for every row a quantile follows the outcomes, and no cause seems to be able to change them."""

    log = new_causes(1)  # the functions of this log are used: where held-out episodes refuse them, nothing is many
    wide, raw = (
        sensitivity(log, "1 if x0 > 85", confounding=(5.0,), gamma=1.0, features=features).bounds[-1]
        for features in ("auto", None)
    )
    assert wide.high.value - wide.low.value > 0.5 * (raw.high.value - raw.low.value)
    assert wide.low.value < evaluate(log, "behavior", gamma=1.0).value < wide.high.value
