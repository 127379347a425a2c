"""Every caution: a log where it is given, with its severity, and one where it is not."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from evaluation.logs import GAMMA, found_by, linear_walk, one_step, with_columns
from sklearn.base import BaseEstimator

from sparsetd.evaluation import evaluate
from sparsetd.evaluation.cautions import RULES, Caution, by_severity, worst
from sparsetd.evaluation.episodes import Episodes, Facts
from sparsetd.evaluation.support import Support
from sparsetd.logs import Transitions, concatenate
from sparsetd.report.page import page

LOG = linear_walk()
N = len(LOG)
FIRST = np.isin(np.arange(N), np.flatnonzero(np.diff(LOG.episode, prepend=-1)))


class Fixed(BaseEstimator):
    """Chooses the columns it is told to."""

    def __init__(self, columns=()):
        self.columns = columns

    def fit(self, phi, *_, **__):
        self.support_ = np.isin(np.arange(phi.shape[1]), self.columns)
        self.status_ = "finished"
        return self


def found(log, **change):
    return evaluate(log, **{"gamma": GAMMA, "n_resamples": 0, "features": None, **change})


def codes(log, **change):
    return {c.code: c.severity for c in found(log, **change).warnings}


def tilted(seed=0, n=400):
    """One step, x ~ N(0, 1); the target acts as the log does where x < 0 and twice as often, elsewhere never."""
    x = np.random.default_rng(seed).normal(size=n)
    return x, 2.0 * (x < 0)


def shifted(by):
    """The rewards moved by a row within their episodes, 0 where none is left."""
    reward = np.roll(LOG.reward, by)
    gone = FIRST if by == 1 else np.append(FIRST[1:], True)
    return replace(LOG, reward=np.where(gone, 0.0, reward))


def long_walk():
    """Episodes that end after exactly 8 rows or by a coin before, all marked as terminated."""
    log = linear_walk(3, 80, cut_after=8)
    early = (np.arange(len(log)) % 8 < 7) & (np.random.default_rng(3).random(len(log)) < 0.03)
    age = np.arange(len(log)) % 8
    ended = np.array([early[i - a : i].any() for i, a in enumerate(age)])
    keep = np.flatnonzero(~ended)
    return replace(log, terminated=log.truncated | early, truncated=np.zeros(len(log), bool))[keep]


def without_survivors():
    """A coin ends episodes of at most 4 rows; of those that go on the last row was left out without a successor."""
    log = linear_walk(3, 120, cut_after=4)
    age, ends = np.arange(len(log)) % 4, np.random.default_rng(3).random(len(log)) < 0.15
    over = np.array([ends[i - a : i].any() for i, a in enumerate(age)])
    goes_on = ~np.append(ends[1:], False)
    return replace(log, terminated=ends, truncated=(age == 2) & ~ends & goes_on)[~over & ((age < 3) | ends)]


def test_few_ends_at_a_time_limit_are_red_with_a_clock_only():
    log = without_survivors()
    bounds = log._bounds()
    longest = np.flatnonzero(np.diff(bounds) == 4)
    few = ~np.isin(log.episode, longest[4:])
    some, age = log[few], (np.arange(len(log)) - bounds[:-1].repeat(np.diff(bounds)))[few]
    assert codes(some)["ends_without_survivors"] == "amber"
    assert codes(with_columns(some, age, age + 1))["ends_without_survivors"] == "red"


def never_ends():
    """With γ = 1 a target that never takes what ends an episode earns rewards for ever."""
    return replace(LOG, target_prob=np.where(LOG.terminated, 0.0, LOG.target_prob))


def out_of_range():
    """Rewards of 0 and 1 that rise steeply where the target acts as logged: a line through them passes 1 at x = 0."""
    x = np.linspace(-3, 3, 401)
    weight = 1.0 * (x < -1)
    return one_step(x, (x > -1.5).astype(float), weight / weight.mean())


def reset_successors():
    cut = linear_walk(4, 60, cut_after=6)
    after = cut.next_observation.copy()
    last = np.flatnonzero(cut.truncated)[:-1]
    after[last] = cut.observation[last + 1]
    return replace(cut, next_observation=after)


def only(rows):
    """The rows as if they were all there is; an index would know that they are not neighbours."""
    names = ("observation", "reward", "next_observation", "action", "terminated", "episode", "behavior_prob")
    return Transitions.from_arrays(
        **{name: getattr(LOG, name)[rows] for name in names}, target_prob=LOG.target_prob[rows]
    )


def repeated():
    return only(np.sort(np.append(np.arange(N), np.flatnonzero(~LOG.terminated)[:5])))


def coded():
    code = np.random.default_rng(0).integers(-1, 3, size=N).astype(float)
    return with_columns(LOG, code, code)


def with_ratio(ratio):
    return replace(LOG, ratio=ratio, behavior_prob=None, target_prob=None)


X, TILT = tilted()
CASES = {
    "few_effective_episodes": ("red", lambda: with_ratio(1.0 * (LOG.episode < 5)), {}),
    "extrapolation": ("amber", lambda: one_step(X, X, TILT), {"gamma": 0.5}),
    "undetermined": ("red", never_ends, {"gamma": 1.0}),
    "impossible_value": ("red", out_of_range, {}),
    "no_width": ("red", lambda: replace(LOG, reward=np.zeros(N)), {}),
    "few_episodes": ("amber", lambda: linear_walk(1, 15), {}),
    "cut_episodes": ("red", lambda: linear_walk(2, cut_after=6), {}),
    "discounted_outcome": ("amber", lambda: replace(LOG, reward=LOG.reward * LOG.terminated), {}),
    "no_feature": ("amber", lambda: LOG, {"estimator": Fixed()}),
    "selection_disagrees": ("amber", lambda: linear_walk(5, start=3.0), {"estimator": Fixed((2,))}),
    "low_coverage": ("red", lambda: replace(LOG, target_prob=np.where(LOG.action == 1, 0.0, LOG.target_prob)), {}),
    "wrong_ratios": ("red", lambda: replace(LOG, behavior_prob=LOG.behavior_prob / 5), {}),
    "large_ratio": ("note", lambda: with_ratio(np.where(np.arange(N) == 7, 150.0, 1.0)), {}),
    "behavior_misfit": ("red", lambda: replace(LOG, reward=10.0 * FIRST), {}),
    "timeouts_marked_as_terminals": ("red", long_walk, {}),
    "ends_without_survivors": ("red", without_survivors, {}),
    "successors_after_a_reset": ("amber", reset_successors, {}),
    "broken_chains": ("amber", lambda: only(np.flatnonzero((np.arange(N) % 10 != 4) | LOG.terminated)), {}),
    "first_rewards_are_zero": ("amber", lambda: shifted(1), {}),
    "rewards_fit_a_neighbour": ("amber", lambda: shifted(1), {}),
    "codes_of_missing_text": ("amber", coded, {}),
    "repeated_rows": ("amber", repeated, {}),
    "repeated_episodes": ("amber", lambda: concatenate([LOG, LOG[LOG.episode < 20]]), {}),
    "impossible_propensities": ("amber", lambda: replace(LOG, behavior_prob=LOG.behavior_prob / 5), {}),
}


def test_a_sound_log_needs_no_caution():
    sound = found(LOG)
    assert sound.warnings == ()
    assert sound.severity is None
    assert {f.name for f in sound.features} >= {"x0", "x1"}


@pytest.mark.parametrize("code", CASES)
def test_a_caution_is_given_where_it_should_be(code):
    severity, log, change = CASES[code]
    assert codes(log(), **change).get(code) == severity


def test_a_discount_that_hardly_changes_an_outcome_is_a_note():
    log = replace(LOG, reward=LOG.reward * LOG.terminated)
    assert codes(log, gamma=0.99999)["discounted_outcome"] == "note"


@pytest.mark.parametrize(
    ("code", "log", "change"),
    [
        ("undetermined", lambda: LOG, {"gamma": 1.0}),
        ("few_episodes", lambda: linear_walk(1, 20), {}),
        ("cut_episodes", lambda: linear_walk(2, cut_after=6), {"gamma": 0.5}),
        ("discounted_outcome", lambda: LOG, {}),
        ("discounted_outcome", lambda: replace(LOG, reward=LOG.reward * LOG.terminated), {"gamma": 1.0}),
        ("no_feature", lambda: LOG, {"estimator": Fixed((0,))}),
        ("selection_disagrees", lambda: linear_walk(5, start=3.0), {"estimator": Fixed((0, 1))}),
        ("extrapolation", lambda: one_step(X, X, np.ones(len(X))), {"gamma": 0.5}),
        ("behavior_misfit", lambda: with_columns(replace(LOG, reward=10.0 * FIRST), FIRST, 0.0 * FIRST), {}),
        ("timeouts_marked_as_terminals", lambda: linear_walk(3, 80, cut_after=8), {}),
        ("ends_without_survivors", long_walk, {}),
        ("ends_without_survivors", lambda: linear_walk(4, 60, cut_after=6), {}),
        ("successors_after_a_reset", lambda: linear_walk(4, 60, cut_after=6), {}),
    ],
)
def test_a_caution_is_not_given_where_its_cause_is_gone(code, log, change):
    assert code not in codes(log(), **change)


@pytest.mark.parametrize("code", [code for code, case in CASES.items() if case[0] == "red"])
def test_a_page_that_must_not_be_used_says_so_first_and_shows_nothing_in_green(code):
    _, log, change = CASES[code]
    answer = found(log(), **change)
    assert answer.severity == "red"
    text = page(answer.to_dict())
    assert re.search(r'<p class="([^"]*)"><strong>([^<]*)', text).groups() == ("alert red", "Do not use this answer.")
    assert text.index("Do not use this answer.") < text.index('class="answer doubtful"')
    assert 'class="card good"' not in text
    assert str(answer).startswith("DO NOT USE: ")


SOUND = Support(effective_rows=900.0, effective_episodes=200.0, negative=0.0, n_rows=1000, n_episodes=400)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"effective_episodes": 100.0}, {}),  # a quarter
        ({"effective_episodes": 99.0}, {"few_effective_episodes": "amber"}),  # but many of their rows count
        ({"effective_episodes": 99.0, "effective_rows": 199.0}, {"few_effective_episodes": "red"}),
        ({"effective_episodes": 101.0, "n_episodes": 4000}, {}),  # enough, whatever their share
        ({"effective_episodes": 49.0, "n_episodes": 100}, {"few_effective_episodes": "amber"}),
        ({"effective_episodes": 7.0, "n_episodes": 10}, {"few_effective_episodes": "red"}),
        ({"effective_rows": 49.0}, {"few_effective_episodes": "amber"}),
        ({"effective_rows": 9.0}, {"few_effective_episodes": "red"}),
        ({"negative": 0.05}, {}),
        ({"negative": 0.06}, {"extrapolation": "amber"}),
        ({"negative": 0.31}, {"extrapolation": "red"}),
        ({"negative": 0.06, "effective_rows": 49.0}, {"few_effective_episodes": "amber", "extrapolation": "red"}),
    ],
)
def test_the_limits_of_the_support(change, expected):
    evidence = {"support": replace(SOUND, **change), "facts": SimpleNamespace(most=np.array([1.0, 1.0, 8.0]))}
    said = {code: found_by(code, **evidence) for code in ("few_effective_episodes", "extrapolation")}
    assert {code: entry[0] for code, entry in said.items() if entry} == expected


def test_few_effective_episodes_of_single_steps_are_counted_and_not_divided():
    """A deterministic target of one of 40 actions weighs 50 of 2,000 one-step episodes: enough for a mean."""
    single = SimpleNamespace(most=np.array([1.0, 40.0, 1.0]))
    some = Support(effective_rows=51.0, effective_episodes=51.0, negative=0.0, n_rows=2000, n_episodes=2000)
    assert found_by("few_effective_episodes", support=some, facts=single) is None
    for count, severity in ((49.0, "amber"), (19.0, "red")):
        fewer = replace(some, effective_episodes=count)
        assert found_by("few_effective_episodes", support=fewer, facts=single)[0] == severity


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"log_loss": 0.7}, ["behavior_uninformative"]),
        ({"n_floored": 2}, ["behavior_floored"]),
        ({"n_floored": 1}, []),
    ],
)
def test_the_quality_of_an_estimated_behaviour_is_told(change, expected):
    behavior = SimpleNamespace(**{"log_loss": 0.5, "log_loss_marginal": 0.7, "n_floored": 0, "floor": 0.01, **change})
    behavior.table = np.zeros((100, 2))
    rules = ("behavior_uninformative", "behavior_floored")
    assert [code for code in rules if found_by(code, behavior=behavior)] == expected
    assert [found_by(code, behavior=None) for code in rules] == [None, None]


def test_every_code_has_a_case():
    """Those of overlap and of the fit of the features have tests of their own."""
    elsewhere = {"misspecified", "unobserved_state", "behavior_uninformative", "behavior_floored", "opinions_differ"}
    elsewhere |= {"one_record", "fragile", "repeated_ids"}
    assert {rule.code for rule in RULES} == set(CASES) | elsewhere


def test_the_page_of_the_documentation_is_the_table():
    docs = Path(__file__).parents[2] / "docs"
    made = runpy.run_path(str(docs / "extensions" / "cautions_page.py"))["page"]()
    assert (docs / "cautions.md").read_text(encoding="utf-8") == made


def test_a_log_that_was_copied_as_a_whole_is_not_to_be_used():
    assert codes(concatenate([LOG, LOG]))["repeated_episodes"] == "red"


def test_the_worst_comes_first():
    note, amber, red = (Caution(s, s, "") for s in ("note", "amber", "red"))
    assert by_severity([note, amber, red, amber]) == (red, amber, amber, note)
    assert [worst(some) for some in ([], [note], [note, amber], [red, note])] == [None, "note", "amber", "red"]


def test_what_the_rewards_allow():
    """Once where rewards come at the end only; for ever where an episode was cut; twice the longest where none was."""

    def possible(gamma, **change):
        log = replace(LOG, **change)
        return Facts.of_episodes(Episodes.of_log(log, gamma)).possible()

    ends, longest = np.where(LOG.terminated, 2.0, 0.0), np.bincount(LOG.episode).max()
    assert possible(0.9, reward=ends) == (0.0, 2.0)
    assert possible(0.9, reward=np.full(N, -1.0)) == pytest.approx((-10 * (1 - 0.9 ** (2 * longest)), 0.0))
    assert possible(1.0, reward=np.full(N, 3.0)) == (0.0, 6.0 * longest)
    cut = {"terminated": np.zeros(N, bool), "truncated": LOG.terminated}
    assert possible(0.9, reward=np.full(N, 3.0), **cut) == pytest.approx((0.0, 30.0))
    assert possible(1.0, reward=np.full(N, 3.0), **cut) == (0.0, np.inf)
