"""DR with implied weights: LSTD on its own episodes, right when one of its two models is, and a second opinion."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation.clinic import GAMMA, Clinic, policy_of, tables
from evaluation.logs import asked, dense_part

from sparsetd.evaluation import evaluate
from sparsetd.evaluation.action_values import ActionRows, robust_with_q, second_opinion
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.held_out import doubly_robust, held_out_sums, without_each
from sparsetd.evaluation.linear import LinearValue, sums_of
from sparsetd.evaluation.reading import Ask
from sparsetd.evaluation.target import Target
from sparsetd.features.featurize import featurize

CLINIC, TABLE = Clinic(2), tables(1, seed=4)[0]
TRUTH = CLINIC.value(TABLE)


def posed(n, seed=0, columns=slice(None)):
    log = CLINIC.log(n, seed).with_target(policy_of(TABLE))
    batch = featurize(log, None, GAMMA)
    part = dense_part(batch, Episodes.of_log(log, GAMMA), np.arange(4)[columns])
    fold = np.arange(n) % 5
    return part, sums_of(part, fold, 5), fold


def robust(part, folds, fold):
    args = (without_each(folds), np.eye(part.states.shape[1]), 0.0, np.array([0.0]), 2.0)
    sums = asked(part, Ask(held_out_sums, args, (fold,)))
    return doubly_robust(*sums.values[2:], 2.0, len(part.episodes), len(part.batch))


def test_it_is_the_mean_of_the_corrected_values_of_the_folds():
    """Spelt out for every fold: fit on the others, correct on the fold."""
    part, folds, fold = posed(100)
    terms = np.empty(100)
    for k in range(5):
        others = np.flatnonzero((fold != k)[part.episodes.of])
        phi, phi_next = (np.hstack([f, np.ones((len(f), 1))]) for f in (part.batch.phi, part.batch.phi_next))
        phi, phi_next = phi[:, 1:], phi_next[:, 1:]  # the columns add up to the constant
        psi = phi - part.batch.discount[:, None] * phi_next
        A = (part.batch.ratio[others, None] * phi[others]).T @ psi[others]
        theta = np.linalg.solve(A, phi[others].T @ (part.batch.ratio * part.batch.reward)[others])
        first = part.episodes.first
        weight = phi @ np.linalg.solve(A.T, phi[first][fold != k].sum(axis=0))
        error = part.batch.ratio * (part.batch.reward - psi @ theta)
        own = phi[first] @ theta + np.bincount(part.episodes.of, weight * error)
        terms[fold == k] = own[fold == k]
    found = robust(part, folds, fold)
    assert found.value == pytest.approx(terms.mean())
    assert found.standard_error == pytest.approx(terms.std(ddof=1) / 10)


def test_on_its_own_episodes_the_correction_of_lstd_is_zero():
    part, folds, _ = posed(80)
    model = LinearValue.solve(folds)
    correction = model.weights(part) @ (part.batch.ratio * model.errors(part))
    assert correction == pytest.approx(0.0, abs=1e-9)


def test_the_truth_is_covered_where_the_features_are_right():
    found = [robust(*posed(300, seed)) for seed in range(20)]
    inside = [low <= TRUTH <= high for low, high in (e.interval(0.95) for e in found)]
    assert np.mean(inside) >= 0.85
    assert np.mean([e.value for e in found]) == pytest.approx(TRUTH, abs=0.1)


def test_without_propensities_lstd_q_is_a_second_opinion():
    log, policy = CLINIC.log(400, propensities=False), policy_of(TABLE)
    found = evaluate(log, policy, gamma=GAMMA, n_resamples=0)
    row = next(e for e in found.comparisons if e.name.startswith("LSTD-Q"))
    assert row.value == pytest.approx(TRUTH, abs=0.4)
    assert not any(c.code == "opinions_differ" for c in found.warnings)
    known = evaluate(CLINIC.log(400), policy, gamma=GAMMA, n_resamples=0)
    assert not any(e.name.startswith("LSTD-Q") for e in known.comparisons)


def test_a_disagreement_is_said():
    """A classifier that knows nothing of the state makes the V-form wrong; LSTD-Q does not use it."""
    from sklearn.dummy import DummyClassifier

    log, policy = CLINIC.log(3000, propensities=False), policy_of(tables(1, seed=1)[0])
    found = evaluate(log, policy, gamma=GAMMA, n_resamples=0, classifier=DummyClassifier())
    assert any(c.code == "opinions_differ" for c in found.warnings)


def test_a_target_that_cannot_be_asked_about_successors_has_no_second_opinion():
    log = CLINIC.log(50)
    target = Target.of(np.full(len(log), 0.5), log)
    assert second_opinion(log, target, None, None, GAMMA, Episodes.of_log(log, GAMMA), np.zeros(50)) is None


def test_with_q_it_is_right_although_the_propensities_are_wrong():
    """Ratios of a behaviour that nobody followed: q carries the value, and its errors are small whatever they weigh."""
    log, policy = CLINIC.log(600), policy_of(TABLE)
    rows = ActionRows.of(log, _Three(), GAMMA, policy)
    ratio = np.where(log.action == 1, 1.5, 0.7)
    found = robust_with_q(rows, ratio, np.arange(600) % 5)
    low, high = found.interval(0.99)
    assert low < TRUTH < high
    known = evaluate(CLINIC.log(400, propensities=False), policy, gamma=GAMMA, n_resamples=0)
    row = next(e for e in known.comparisons if e.name == "DR with q")
    assert row.value == pytest.approx(TRUTH, abs=0.4)


class _Three:
    """Three of the four columns: the constant has the fourth."""

    def transform(self, observation):
        return observation[:, :3]
