"""A better policy: found where there is one, not where there is none, and what is printed is what was tested."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from evaluation.clinic import GAMMA, N_STATES, Clinic

from sparsetd.control import rollout
from sparsetd.estimators import model_file
from sparsetd.evaluation import Improvement, Robustness, ScorePolicy, compare, evaluate, improve, sensitivity
from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.score_policy import candidates, recipes
from sparsetd.logs import Transitions, concatenate, read
from sparsetd.logs.partition import fingerprints, taught
from sparsetd.storage.container import CorruptFileError

CLINIC = Clinic(1)
LOG = CLINIC.log(500)


@pytest.fixture(scope="module")
def found():
    return improve(LOG, gamma=GAMMA, n_resamples=1)


def test_a_better_policy_is_found_and_recommended(found):
    gain = CLINIC.value(found.policy(np.eye(N_STATES))) - CLINIC.value(CLINIC.behavior)
    best = max(CLINIC.value(np.eye(3)[list(choice)]) for choice in np.ndindex(*(3,) * N_STATES)) - CLINIC.value(
        CLINIC.behavior
    )
    assert found.recommended
    assert gain > 0.8 * best
    assert found.interval[0] < gain < found.interval[1]
    assert "It is better and is recommended" in str(found)
    assert found.n_learnt + found.evaluation.overlap.n_episodes == LOG.n_episodes


def test_without_an_effect_nothing_is_recommended():
    result = improve(Clinic(1, effect=0.0).log(400), gamma=GAMMA)
    assert not result.recommended
    assert "It is not recommended: it is not shown to be better" in result.sentence()


def test_the_test_knows_only_the_other_episodes(found):
    """The difference is that of the evaluation on the episodes that were not learnt from."""
    assert found.evaluation.overlap.n_episodes == 250
    by_action = [p.gain.value for p in found.where if p.group.startswith("action")]
    assert sum(by_action) == pytest.approx(found.evaluation.value - found.evaluation.modelled.value)
    assert found.difference.value == found.evaluation.difference.value
    assert found.interval == found.evaluation.difference.interval(0.95)


def with_test(found, **change):
    """The improvement whose only split is another."""
    return Improvement.of([replace(found.splits[0], **change)])


def test_what_speaks_against_a_policy_is_said(found):
    """A test with a red caution, or a part to learn from that did not speak for it, recommends nothing."""
    red = replace(found.evaluation, warnings=(Caution("x", "red", "No."),))
    doubted = with_test(found, evaluation=red)
    assert not doubted.recommended
    assert "the test itself is not to be trusted" in doubted.sentence()
    recipe, inner = found.candidates[0]
    unsure = with_test(found, candidates=((recipe, replace(inner, value=0.0)),))
    assert not unsure.recommended
    assert "did not speak for it" in unsure.sentence()
    weak = with_test(found, evaluation=replace(found.evaluation, robustness=Robustness(1.04, 10.0)))
    assert not weak.recommended
    assert "an unrecorded cause that changes the odds of the actions by 1.04 would explain it away" in weak.sentence()


def test_the_median_of_several_splits_decides(found):
    """One lucky split among three recommends nothing; the policy and its test are those of the median."""
    lucky, own = found.splits[0], found.evaluation
    poor = replace(lucky, evaluation=replace(own, difference=replace(own.difference, value=-1.0)))
    worse = replace(lucky, evaluation=replace(own, difference=replace(own.difference, value=-2.0)))
    three = Improvement.of((lucky, worse, poor))
    assert (three.difference.value, three.evaluation) == (-1.0, poor.evaluation)
    assert not three.recommended
    ends = [split.evaluation.difference.interval(0.975) for split in (lucky, poor, worse)]
    assert three.interval == pytest.approx(np.median(ends, axis=0))
    with pytest.raises(ValueError, match="`n_resamples` is 4: pass an odd number of splits"):
        improve(LOG, gamma=GAMMA, n_resamples=4)


def test_answers_are_a_sentence_in_a_console_and_a_page_in_a_notebook(found):
    policies = {"now": "behavior", "first": "0"}
    answers = (found, compare(LOG, policies, gamma=GAMMA), sensitivity(LOG, "0", gamma=GAMMA, confounding=[2.0]))
    for answer in answers:
        assert repr(answer) == answer.sentence()
        assert len(repr(answer)) < 600
        assert answer._repr_html_().startswith("<iframe srcdoc=")
        assert "What to do next" in answer._repr_html_()


def test_the_same_seed_gives_the_same_policy_and_another_split_another(found):
    assert improve(LOG, gamma=GAMMA, n_resamples=1).difference.value == found.difference.value
    assert improve(LOG, gamma=GAMMA, n_resamples=1, random_state=1).difference.value != found.difference.value


def test_what_is_printed_is_what_acts(found):
    """The probabilities follow from the printed scores alone."""
    data = found.policy.to_dict()
    scores = np.array([[row[name] for name in (*found.policy.names, "constant")] for row in data["scores"]])
    assert scores == pytest.approx(found.policy.scores, abs=1e-12)
    printed = {line.split()[0]: line.split()[1:] for line in str(found.policy).splitlines() if line.startswith("  ")}
    for column, name in enumerate((*found.policy.names, "constant")):
        shown = [float(score.replace("−", "-")) for score in printed[name][: len(scores)]]
        assert shown == np.round(scores[:, column], 3).tolist()


def test_the_printed_rule_can_be_followed_by_hand(found):
    """Means, standard deviations and tables as they are printed give the very probabilities of the policy."""
    policy = replace(found.policy, rule="tilt", strength=1.5)
    data = policy.to_dict()
    used = list(data["center"])
    s = np.random.default_rng(0).normal(size=(20, N_STATES))
    z = np.column_stack(
        [(s[:, policy.names.index(c)] - data["center"][c]) / data["scale"][c] for c in used] + [np.ones(20)]
    )
    habit, merit = (np.array([list(row.values()) for row in data[key]]) for key in ("habit", "merit"))
    usual = np.exp(z @ habit.T) / np.exp(z @ habit.T).sum(axis=1, keepdims=True)
    share = np.exp(z @ habit.T + data["strength"] * (z @ merit.T)) * (usual >= 0.02)
    assert data["rule"] == "tilt"
    assert policy(s) == pytest.approx(share / share.sum(axis=1, keepdims=True), abs=1e-12)
    for c in used:
        line = next(line.split() for line in str(policy).splitlines() if line.startswith(f"  {c} "))
        assert [float(unit) for unit in line[-2:]] == [data["center"][c], data["scale"][c]]
        assert float(f"{data['scale'][c]:.6g}") == data["scale"][c]


NAMED = replace(LOG, action_names=("rest", "drug", "surgery"))


def test_actions_are_known_by_their_names(found, tmp_path):
    """A log may number them otherwise; one without their names is refused."""
    named = improve(NAMED, gamma=GAMMA, n_resamples=1)
    assert named.difference.value == found.difference.value
    assert "Score of surgery" in str(named.policy)
    assert ">action surgery<" in named.page()
    model_file.save(named.policy, tmp_path / "p.sparsetd")
    policy = model_file.load(tmp_path / "p.sparsetd")
    turned = replace(LOG, action=2 - LOG.action, action_names=("surgery", "drug", "rest"))
    assert np.array_equal(turned.with_target(policy).target_prob, NAMED.with_target(policy).target_prob)
    with pytest.raises(ValueError, match="chooses 'rest', which the log does not know"):
        LOG.with_target(policy)
    assert rollout(_Env(), policy, np.random.default_rng(0))[0].total == policy.act(np.eye(N_STATES)[:1])[0]


class _Env:
    """One step in the first state, which pays the number of the action."""

    def reset(self, seed):
        assert seed >= 0
        return np.eye(N_STATES)[0], {}

    def step(self, action):
        return np.eye(N_STATES)[0], float(action), True, False, {}


def test_every_recipe_makes_a_policy_of_probabilities():
    made = candidates(LOG, GAMMA, 3)
    assert set(made) == set(recipes(N_STATES))
    for policy in made.values():
        table = policy(np.eye(N_STATES))
        assert table.sum(axis=1) == pytest.approx(np.ones(N_STATES))
        assert table.min() >= 0


def test_one_recipe_alone_makes_the_same_policy():
    for recipe, policy in candidates(LOG, GAMMA, 3).items():
        alone = candidates(LOG, GAMMA, 3, recipe)
        assert list(alone) == [recipe]
        assert alone[recipe](np.eye(N_STATES)).tobytes() == policy(np.eye(N_STATES)).tobytes()


def test_few_columns_are_those_that_tell_actions_apart():
    rng = np.random.default_rng(0)
    n = 4000
    s = rng.normal(size=(n, 8))
    action = rng.integers(2, size=n)
    reward = np.where(action == 1, s[:, 2] - s[:, 6], 0.0) + s[:, 0]
    log = Transitions.from_arrays(
        s, reward, s, action=action, terminated=np.ones(n, bool), behavior_prob=np.full(n, 0.5)
    )
    few = [p for r, p in candidates(log, GAMMA, 2).items() if r.few]
    assert all({2, 6} <= set(p.columns) and len(p.columns) == 5 for p in few)
    greedy = next(p for p in few if p.rule == "greedy")
    assert np.mean(greedy.act(s) == (s[:, 2] > s[:, 6])) > 0.97


HABIT = np.log([[0.6, 0.3, 0.1]]).T
MERIT = np.array([[0.0], [1.0], [2.0]])


def constant_policy(rule, strength, habit=HABIT, merit=MERIT):
    none = np.zeros(0)
    return ScorePolicy(("a",), none.astype(int), none, none, habit, merit, rule, strength, none.astype(np.uint64))


@pytest.mark.parametrize(
    ("rule", "strength", "expected"),
    [
        ("greedy", 0.05, [0, 0, 1]),
        ("greedy", 0.2, [0, 1, 0]),
        ("greedy", 0.9, [1, 0, 0]),
        ("safe", 0.2, [0, 0.9, 0.1]),
        ("tilt", 0.0, [0.6, 0.3, 0.1]),
        ("tilt", 1.0, np.array([0.6, 0.3 * np.e, 0.1 * np.e**2]) / (0.6 + 0.3 * np.e + 0.1 * np.e**2)),
    ],
)
def test_the_rules_by_hand(rule, strength, expected):
    assert constant_policy(rule, strength)([[7.0]])[0] == pytest.approx(np.array(expected, dtype=float))


def test_what_was_hardly_ever_done_is_not_advised():
    rare = constant_policy("tilt", 3.0, np.log([[0.99, 0.01]]).T, np.array([[0.0], [9.0]]))
    assert rare([[0.0]])[0] == pytest.approx([1.0, 0.0])


def test_a_policy_is_saved_and_loaded_to_the_bit(found, tmp_path):
    model_file.save(found.policy, tmp_path / "p.sparsetd", notes={"log": "x"})
    back = model_file.load(tmp_path / "p.sparsetd")
    s = np.random.default_rng(0).normal(size=(50, N_STATES))
    assert back(s).tobytes() == found.policy(s).tobytes()
    assert back.names == LOG.names
    assert str(back) == str(found.policy)


@pytest.mark.parametrize(
    "field",
    [
        {"rule": "wild"},
        {"habit": np.zeros((3, 2))},
        {"merit": np.full((3, 1), np.nan)},
        {"columns": np.array([9])},
        {"names": (3,)},
        {"strength": np.inf},
    ],
)
def test_a_file_with_tables_that_do_not_fit_is_refused(field, tmp_path):
    broken = constant_policy("tilt", 1.0)
    for name, value in field.items():
        object.__setattr__(broken, name, value)
    model_file.save(broken, tmp_path / "p.sparsetd")
    with pytest.raises(CorruptFileError, match="do not fit together"):
        model_file.load(tmp_path / "p.sparsetd")


def test_other_columns_are_refused(found):
    with pytest.raises(ValueError, match="learnt from 4 observed columns, but row 0 has 2"):
        found.policy([[1.0, 2.0]])
    renamed = replace(LOG, names=("well", "sick", "worse", "worst"))
    with pytest.raises(ValueError, match="was fitted to a column 'ill' that the data does not have"):
        renamed.with_target(found.policy)
    turned = LOG.with_columns(["worst", "worse", "ill", "well"])
    assert np.array_equal(turned.with_target(found.policy).target_prob, LOG.with_target(found.policy).target_prob)


def one_action(log):
    return Transitions.from_arrays(
        log.observation, log.reward, log.next_observation, action=0 * log.action, terminated=log.terminated
    )


@pytest.mark.parametrize(
    ("log", "more", "sentence"),
    [
        (CLINIC.log(30), {}, "The smaller part of the split has 15 of 30 episodes, too few"),
        (LOG, {"learn": 0.99}, "The smaller part of the split has 5 of 500 episodes"),
        (LOG, {"learn": 1.0}, "`learn` must lie strictly between 0 and 1"),
        (one_action(LOG), {}, "The log shows a single action"),
    ],
)
def test_bad_input_is_one_sentence(log, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        improve(log, gamma=GAMMA, **more)


def test_too_many_weights_are_refused_by_name():
    wide = Transitions.from_arrays(
        np.zeros((60, 1600)), np.zeros(60), np.zeros((60, 1600)), action=np.arange(60) % 2, terminated=np.ones(60, bool)
    )
    with pytest.raises(ValueError, match="2 actions times 1600 observed columns are more than 3000 weights"):
        candidates(wide, GAMMA, 2)


def test_a_policy_is_not_judged_on_the_episodes_that_taught_it(found):
    """All that judge refuse, and say how to go on; on the other episodes they say what the test said."""
    own = r"learnt from 250 of these 500 episodes.*log.part.*--part.*improve"
    for judge in (evaluate, sensitivity):
        with pytest.raises(ValueError, match=own):
            judge(LOG, found.policy, gamma=GAMMA)
    policies = {"now": "behavior", "new": found.policy}
    with pytest.raises(ValueError, match=f"policy 'new': .*{own}"):
        compare(LOG, policies, gamma=GAMMA)
    rest = LOG[np.flatnonzero(~taught(found.policy, LOG)[LOG.episode - LOG.episode[0]])]
    compared = compare(rest, policies, gamma=GAMMA)
    assert compared.differences["new", "now"].value == pytest.approx(found.difference.value)


def test_an_episode_is_known_by_what_happened_in_it(found):
    turned = LOG.with_columns(["worst", "worse", "ill", "well"])
    backwards = concatenate(list(LOG.episodes())[::-1])
    assert np.array_equal(taught(found.policy, turned), taught(found.policy, LOG))
    assert np.array_equal(taught(found.policy, backwards), taught(found.policy, LOG)[::-1])
    assert not taught(found.policy, CLINIC.log(100, seed=9)).any()
    assert not taught("behavior", LOG).any()


def test_the_order_of_the_log_does_not_matter(found):
    named = replace(LOG, episode_id=LOG.episode)
    backwards = concatenate([e for e in list(named.episodes())[::-1]])
    assert improve(backwards, gamma=GAMMA, n_resamples=1).difference.value == pytest.approx(found.difference.value)


def test_episodes_that_look_alike_are_told_apart_by_their_ids():
    one = Transitions.from_arrays([[1.0]] * 5, [0.0, 1.0, 0.0, 0.0, 1.0], action=[0] * 5, terminated=[True] * 5)
    policy = replace(constant_policy("tilt", 1.0), learnt_from=fingerprints(one[:3]))
    assert not taught(policy, one).any()  # without ids nobody can tell
    named = replace(one, episode_id=np.array([4, 7, 1, 9, 2]))
    policy = replace(policy, learnt_from=fingerprints(named[:3]))
    assert taught(policy, named).tolist() == [True, True, True, False, False]
    assert taught(policy, named[[2, 3, 4, 1, 0]]).tolist() == [True, False, False, True, True]
    assert not taught(replace(policy, learnt_from=fingerprints(named[:1])), named).any()  # one in five may be chance


def test_an_action_that_a_part_of_the_log_never_takes_is_no_obstacle():
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=120)
    action[5] = 2  # in one episode alone, so that most parts have none
    log = read(
        {
            "obs_x": rng.normal(size=120),
            "action": action,
            "reward": rng.normal(size=120),
            "episode": np.repeat(np.arange(40), 3),
            "terminated": np.tile([False, False, True], 40),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = improve(log, gamma=0.9, n_resamples=1)
    assert found.policy(log.observation).shape == (120, 3)
