"""Importance sampling against a population that is enumerated, not sampled.

Every trajectory of a small MDP is repeated in proportion to its probability, so the empirical distribution *is* the
population and each estimator must return the exact value of the target policy, found here by backward recursion.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise
from operator import add
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from sparsetd.evaluation import support
from sparsetd.evaluation.episodes import Episodes, Facts, Weighed
from sparsetd.evaluation.estimate import Estimate
from sparsetd.logs import Transitions

GAMMA = 0.9
NAMES = ["WIS", "PDIS", "WPDIS"]
HORIZON = 3
BEHAVIOR = {0: (Fraction(1, 4), Fraction(3, 4)), 1: (Fraction(1, 2), Fraction(1, 2))}
TARGET = {0: (Fraction(3, 5), Fraction(2, 5)), 1: (Fraction(1, 10), Fraction(9, 10))}
# (state, action) -> list of (probability, next state, reward); state 2 is terminal.
MODEL = {
    (0, 0): [(Fraction(1, 2), 0, 1.0), (Fraction(1, 2), 1, -2.0)],
    (0, 1): [(Fraction(1, 2), 1, 0.5), (Fraction(1, 2), 2, 1.0)],
    (1, 0): [(Fraction(1), 0, -1.0)],
    (1, 1): [(Fraction(1, 2), 2, 4.0), (Fraction(1, 2), 1, 0.25)],
}


def exact_value(state, steps):
    """V_π by backward recursion; `steps` decisions are left."""
    if steps == 0 or state == 2:
        return 0.0
    return sum(
        float(TARGET[state][a] * p) * (r + GAMMA * exact_value(nxt, steps - 1))
        for a in (0, 1)
        for p, nxt, r in MODEL[state, a]
    )


def trajectories(state=0, steps=HORIZON):
    """Every trajectory as (probability under the behaviour, rows); the last allowed step ends the episode."""
    if steps == 0 or state == 2:
        yield Fraction(1), []
        return
    for a in (0, 1):
        for p, nxt, r in MODEL[state, a]:
            for q, rest in trajectories(nxt, steps - 1):
                yield BEHAVIOR[state][a] * p * q, [(state, a, r, nxt, HORIZON - steps), *rest]


def population():
    rows, episode = [], []
    for p, path in trajectories():
        count = p * 8**HORIZON
        assert count.denominator == 1
        for _ in range(int(count)):
            number = episode[-1] + 1 if episode else 0
            rows += path
            episode += [number] * len(path)
    s, a, r, nxt, age = map(np.array, zip(*rows, strict=True))
    end = np.diff(episode, append=-1) != 0
    mu = np.array([float(BEHAVIOR[i][j]) for i, j in zip(s, a, strict=True)])
    pi = np.array([float(TARGET[i][j]) for i, j in zip(s, a, strict=True)])
    log = Transitions.from_arrays(
        s[:, None], r, nxt[:, None], action=a, terminated=end, episode=episode, behavior_prob=mu, target_prob=pi
    )
    return log, age


LOG, AGE = population()
EPISODES = Episodes.of_log(LOG, GAMMA)
TRUTH = exact_value(0, HORIZON)


def test_the_population_is_what_it_claims():
    assert len(EPISODES) == 8**HORIZON
    np.testing.assert_array_equal(EPISODES.age, AGE)
    assert (
        abs(EPISODES.returns.mean() - TRUTH) > 0.1
    )  # the target is worth something else, or the tests below are empty


def estimate(name, episodes, n_parts=1):
    """WIS, PDIS or WPDIS from the sums of the episodes' parts."""
    cut = np.linspace(0, len(episodes), n_parts + 1).astype(int)
    parts = [SimpleNamespace(episodes=episodes.some(slice(a, b))) for a, b in pairwise(cut)]
    facts, ages = reduce(add, map(Facts.of, parts)), reduce(add, map(support.by_age, parts))
    moved = reduce(add, (support.sampling_influences(part, facts, ages) for part in parts))
    return dict(zip(NAMES, support.sampling_estimates(facts, ages, moved), strict=True))[name]


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_importance_sampling_is_exact_on_the_population(name, n_parts):
    assert estimate(name, EPISODES, n_parts).value == pytest.approx(TRUTH, abs=1e-12)


def test_on_policy_everything_is_the_mean_return():
    same = Episodes.of_log(LOG, GAMMA, np.ones(len(LOG)))
    for name in NAMES:
        found = estimate(name, same)
        assert found.value == pytest.approx(same.returns.mean(), abs=1e-12)
        assert found.standard_error == pytest.approx(same.returns.std(ddof=1) / np.sqrt(len(same)), rel=1e-9)
    assert Facts.of_episodes(same).weights.ess == pytest.approx(len(same))


def sample(rng, n):
    """n episodes drawn from the population."""
    picked = rng.integers(len(EPISODES), size=n)
    rows = np.concatenate([np.arange(EPISODES.first[i], EPISODES.last[i] + 1) for i in picked])
    number = np.repeat(np.arange(n), (EPISODES.last - EPISODES.first + 1)[picked])
    log = Transitions.from_arrays(
        LOG.observation[rows], LOG.reward[rows], LOG.next_observation[rows], terminated=LOG.terminated[rows],
        episode=number, ratio=LOG.importance_ratio()[rows],
    )  # fmt: skip
    return Episodes.of_log(log, GAMMA)


@pytest.mark.parametrize("name", NAMES)
def test_standard_errors_match_the_spread_over_samples(name):
    rng = np.random.default_rng(0)
    found = [estimate(name, sample(rng, 300)) for _ in range(150)]
    spread = np.std([e.value for e in found])
    assert np.mean([e.standard_error for e in found]) == pytest.approx(spread, rel=0.2)
    covered = np.mean([low <= TRUTH <= high for low, high in (e.interval() for e in found)])
    assert covered >= 0.88


def left_out(estimator, episodes, *columns):
    """The jackknife's standard error: the estimator itself on all episodes but one."""
    n, values = len(episodes), []
    for i in range(n):
        rest = episodes.some(np.arange(n) != i)
        values.append(estimator(rest, *(column[episodes.of != i] for column in columns)).value)
    return np.sqrt((n - 1) / n * np.sum((values - np.mean(values)) ** 2))


@pytest.mark.parametrize("name", ["WIS", "WPDIS"])
def test_the_error_of_weighted_means_is_that_of_leaving_episodes_out(name):
    rng = np.random.default_rng(1)
    episodes = sample(rng, 12)  # few, so that one weight matters
    estimator = partial(estimate, name)
    assert estimator(episodes).standard_error == pytest.approx(left_out(estimator, episodes), rel=1e-9)


def test_an_episode_with_all_the_weight_is_no_certainty():
    zero, end = np.zeros((3, 1)), [True] * 3
    log = Transitions.from_arrays(zero, [1.0, 2.0, 9.0], zero, terminated=end, episode=[0, 1, 2], ratio=[1, 1, 1e9])
    most, all_of_it = Episodes.of_log(log, 1.0), Episodes.of_log(log, 1.0, np.array([0.0, 0.0, 1.0]))
    # Without episode 2 the mean is 1.5; without the others it is 9 to a millionth.
    assert estimate("WIS", most).standard_error == pytest.approx(np.sqrt(2 / 3 * 7.5**2 * 2 / 3), rel=1e-6)
    assert estimate("WIS", all_of_it).standard_error == pytest.approx(np.sqrt(2 / 3 * 9.0**2 * 2 / 3), rel=1e-6)


def test_zero_ratios_leave_nothing_to_weigh():
    nothing = Episodes.of_log(LOG, GAMMA, np.zeros(len(LOG)))
    assert Facts.of_episodes(nothing).weights.ess == 0.0
    assert estimate("PDIS", nothing).value == 0.0
    for name in ("WIS", "WPDIS"):
        found = estimate(name, nothing)
        assert np.isnan(found.value)
        assert found.standard_error == np.inf


def long_log(ratio, n=3000):
    log = Transitions.from_arrays(np.zeros((n, 1)), np.ones(n), np.zeros((n, 1)), truncated=np.arange(n) % 1500 == 1499)
    return Episodes.of_log(log, 1.0, np.full(n, ratio))


def test_long_products_do_not_overflow_into_nonsense():
    big = long_log(4.0)  # 4^1500 is not a float
    assert estimate("WIS", big).value == pytest.approx(1500.0)
    assert estimate("WPDIS", big).value == pytest.approx(1500.0)
    assert np.isnan(estimate("PDIS", big).value)
    assert estimate("PDIS", big).standard_error == np.inf
    assert estimate("WIS", long_log(0.25)).value == pytest.approx(1500.0)


def test_a_cut_episode_leaves_the_denominators():
    # Episode 0 terminates after one step with reward 1; episode 1 is cut after one step with reward 3.
    log = Transitions.from_arrays(
        np.zeros((3, 1)),
        [1.0, 3.0, 5.0],
        np.zeros((3, 1)),
        episode=[0, 1, 2],
        terminated=[1, 0, 1],
        truncated=[0, 1, 0],
    )
    two = Transitions.from_arrays(
        np.zeros((4, 1)), [1.0, 3.0, 0.0, 5.0], np.zeros((4, 1)), episode=[0, 1, 2, 2], terminated=[1, 0, 0, 1],
        truncated=[0, 1, 0, 0],
    )  # fmt: skip
    assert estimate("WPDIS", Episodes.of_log(log, 1.0)).value == pytest.approx(3.0)
    # age 0: (1+3+0)/3; age 1: the terminated episode counts with 0, the cut one does not count: (0+5)/2
    assert estimate("WPDIS", Episodes.of_log(two, 1.0)).value == pytest.approx(4 / 3 + 5 / 2)


def test_a_heavy_tail_widens_the_interval():
    rng = np.random.default_rng(0)
    normal, heavy = rng.normal(size=2000), np.zeros(2000)
    heavy[0] = 50.0
    assert Estimate.of_influence("", 0.0, normal).freedom == pytest.approx(1999, rel=0.15)
    assert Estimate.of_influence("", 0.0, heavy).freedom < 3
    assert Estimate.of_influence("", 0.0, np.zeros(5)).interval() == (0.0, 0.0)
    assert Estimate.of_influence("", 0.0, np.zeros(1)).standard_error == np.inf


def test_effective_sample_size():
    with np.errstate(divide="ignore"):
        found = [Weighed.of(np.log(w), np.zeros(len(w))).ess for w in (np.ones(5), np.eye(3)[0], np.array([2.0, 1.0]))]
    assert found == pytest.approx([5.0, 1.0, 9 / 5])


def test_interval_is_students():
    estimate = Estimate("x", 1.0, 0.5, 11.0, freedom=10.0)
    low, high = estimate.interval(0.9)
    assert (low + high) / 2 == pytest.approx(1.0)
    assert (high - low) / 2 == pytest.approx(0.5 * student.ppf(0.95, 10))
    with pytest.raises(ValueError, match="`level` must lie"):
        estimate.interval(95)


@pytest.mark.parametrize(
    ("ratio", "gamma", "message"),
    [
        (np.ones(3), 0.9, "`ratio` must hold"),
        (-np.ones(len(LOG)), 0.9, "`ratio` must hold"),
        (None, 1.5, "`gamma` must lie"),
    ],
)
def test_wrong_input_is_named(ratio, gamma, message):
    with pytest.raises(ValueError, match=message):
        Episodes.of_log(LOG, gamma, ratio)


@pytest.mark.parametrize("lengths", [(3, 1, 4, 1, 5), (30, 2)])
def test_running_weights_are_those_of_each_episode_alone(lengths):
    """Many short episodes are summed age by age, few long ones one by one."""
    rng = np.random.default_rng(0)
    ratio = rng.exponential(size=sum(lengths)) * (rng.random(sum(lengths)) > 0.2)
    found = Episodes.of_columns(ratio, ratio, np.array(lengths), np.ones(len(lengths), bool), 0.9).log_weight
    with np.errstate(divide="ignore"):
        expected = [np.cumsum(np.log(part)) for part in np.split(ratio, np.cumsum(lengths)[:-1])]
    assert np.array_equal(found, np.concatenate(expected))
