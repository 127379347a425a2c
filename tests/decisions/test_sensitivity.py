"""Bounds under hidden confounding: equal to LSTD-Q at Γ = 1, to a linear program on a bandit, and around the truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from decisions.clinic import GAMMA, N_ACTIONS, Clinic, policy_of, tables
from scipy.optimize import linprog

from sparsetd import LSTD
from sparsetd.decisions import sensitivity
from sparsetd.evaluation import action_values
from sparsetd.evaluation.action_values import ActionRows, ActionValue
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
    found = sensitivity(LOG, policy_of(TABLE), gamma=GAMMA, features=_Identity())
    first, last = found.bounds[0], found.bounds[-1]
    assert first.confounding == 1.0
    assert (
        first.low.value
        == first.high.value
        == pytest.approx(
            ActionValue.fit(ActionRows.of(LOG, _Identity(), GAMMA, policy_of(TABLE))).start_value()[0], abs=1e-12
        )
    )
    lows, highs = ([getattr(b, side).value for b in found.bounds] for side in ("low", "high"))
    assert np.all(np.diff(lows) < 0)
    assert np.all(np.diff(highs) > 0)
    assert last.interval(0.95)[0] < last.low.value < last.high.value < last.interval(0.95)[1]


class _Identity:
    def __sklearn_clone__(self):
        return self

    def fit(self, _):
        return self

    def transform(self, observation):
        return np.asarray(observation)[:, :3]


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


class _Nothing(_Identity):
    def transform(self, observation):
        return np.zeros((len(observation), 1))


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
    found = sensitivity(LOG, policy_of(better), gamma=GAMMA, confounding=(1.2, 1.5, 2, 4, 8))
    ends = [b.difference_low.value for b in found.bounds]
    strengths = [b.confounding for b in found.bounds]
    assert ends[0] > 0 > ends[-1]
    after = next(i for i, end in enumerate(ends) if end <= 0)
    assert strengths[after - 1] < found.flips <= strengths[after]
    assert found.undecided < found.flips
    assert f"may flip from Γ = {found.flips:.2f} on" in str(found)
    firm = sensitivity(LOG, policy_of(better), gamma=GAMMA, confounding=[1.01])
    assert firm.flips is None
    assert "holds up to Γ = 1.01" in firm.sentence()


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
    assert found.bounds[-1].low.value == found.bounds[-1].interval(0.95)[0] == 0.0


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
