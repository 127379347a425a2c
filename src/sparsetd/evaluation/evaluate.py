"""`evaluate`: from a log and a target policy to its value, with an interval and with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.evaluation import copies, importance, pictures, sanity, second_opinion
from sparsetd.evaluation.asks import Ask
from sparsetd.evaluation.cautions import Caution, by_severity
from sparsetd.evaluation.choice import (
    MAX_RIVALS,
    Choice,
    Progress,
    affordable,
    choose,
    choose_on,
    frequencies,
    rivals,
    scores_at,
    value_columns,
)
from sparsetd.evaluation.diagnostics import overlap
from sparsetd.evaluation.doubly_robust import doubly_robust, robust_sums
from sparsetd.evaluation.estimate import Estimate, check_level
from sparsetd.evaluation.facts import Facts, Weighed
from sparsetd.evaluation.groups import Groups
from sparsetd.evaluation.held_out import (
    agreement,
    bellman_error,
    fine_bins,
    fold_sums,
    group_sums,
    metric_of,
    prediction_counts,
    tenths,
    thetas_of,
    without_each,
)
from sparsetd.evaluation.linear import LinearValue, coefficient_powers, coefficients
from sparsetd.evaluation.misfit import behavior_misfit, extra_sums, misfit
from sparsetd.evaluation.moments import Moments, Part, as_logged, on_columns, plain_sums, sums
from sparsetd.evaluation.opened import Opened, opened
from sparsetd.evaluation.parts import Parts
from sparsetd.evaluation.result import Evaluation, Feature
from sparsetd.evaluation.support import support, weights
from sparsetd.evaluation.verify import second_way, verify
from sparsetd.logs.engines import Engine
from sparsetd.logs.learnt import refuse_own
from sparsetd.selection import SparseTDCV
from sparsetd.selection.episodes import powers
from sparsetd.solvers.saddle import Units
from sparsetd.storage.cache import Cache
from sparsetd.system import Array


def evaluate(
    transitions: Any,
    target: Any = None,
    *,
    gamma: float = 0.99,
    features: Any = None,
    estimator: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    n_folds: int = 5,
    n_resamples: int = 20,
    seed: int = 0,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Value of the target policy at the start of an episode, from a log of another policy.

    LSTD with importance ratios on all features gives the value (on those that double selection keeps where the rows do
    not afford all of them, see `choice`), and leaving out one episode at a time gives its interval (see `linear`).
    Which features matter is a question of its own, answered beside it. `warnings` says what speaks against the answer;
    one of severity "red" means that the answer should not be used.

    Parameters
    ----------
    transitions : Transitions, or path
        The log, in whole episodes. A folder or pattern of shards (see `sparsetd shard`) may be larger than memory.
    target : optional
        The policy asked for, in any form of `target`; what the log itself says by default.
    gamma : float
        Discount of one step.
    features : transformer, optional
        φ of an observation; its columns by default. Columns are brought to one scale here, so units do not matter.
    estimator : estimator, optional
        Chooses the features that matter: whatever has a `support_` after `fit`. By default the elimination of
        `SparseTDCV`. The value is not computed from its coefficients.
    classifier : scikit-learn classifier, optional
        For the behaviour policy. Given, it is used even where the log has probabilities.
    level : float
        Of the intervals.
    n_folds, n_resamples : int
        Folds of episodes for what is held out; random halves of the log for the selection frequencies (0: none).
    seed : int
        Of the halves. Folds and groups follow from the ids of the episodes, so the order of the log does not matter.
    engine : Engine, optional
        Who reads the shards: `logs.engines.Processes(n)`, `logs.dask.Dask(client)`; this process by default.
    checkpoint : path, optional
        A folder for what is known of each shard: a run that was killed continues from there. At the end that is
        removed, and nothing else.
    """
    tell = progress or (lambda _: None)
    check_level(level)
    log = opened(transitions, target, gamma, features, classifier, engine, checkpoint)
    question, names = log.question, log.names
    refuse_own(question.asked.form, question.log)
    groups = Groups.of(log, n_folds)
    tell(f"choosing among {len(names)} features")
    chosen = _chosen(log, estimator, groups, n_resamples)
    choice, rows, columns, folds, facts = chosen.choice, chosen.rows, chosen.columns, chosen.folds, chosen.facts
    tell("finding the value and its interval, and checking it on held-out episodes")
    inside = np.searchsorted(columns, choice.support)
    model, fitted = chosen.model, LinearValue.solve(chosen.behavior)
    few = LinearValue.solve(folds.on(np.append(inside, folds.b.shape[1] - 1)))
    heavy, others, metric = _heaviest(model, folds, choice, columns), chosen.others, metric_of(folds)
    thetas, fold, edges = thetas_of(others), groups.fold, pictures.ratio_edges(facts.least[1], facts.most[1])
    moved, second, power, by_fold, robust, carried, weighed, calibrated, ratios, extra = rows.answer(
        Ask(influence_powers, (model, fitted, few, inside, facts.mean_return, facts.complete)),
        second_way(model),
        coefficient_powers(few).on(on_columns, inside),
        fold_sums(metric, thetas, fold, facts),
        robust_sums(others, fold, model.value),
        weights(model, heavy, *folds.centre_and_spread()),
        Ask(importance.influence_powers, (facts, chosen.ages), whole=True),
        group_sums(thetas, fold, chosen.tenths, model.value),
        Ask(pictures.ratio_counts, (edges,)),
        extra_sums(model, heavy),
    )
    verify(model, second)
    answer = _Answer.of(model, fitted, few, moved, facts)
    kept = None
    if n_resamples:
        tell(f"choosing again on {n_resamples} random halves of the log")
        kept = _kept(log, chosen, groups, n_resamples, seed)
    support_ = support(carried, names[columns][heavy], facts.n_episodes)
    missed = misfit(model, extra, rows, folds, names[columns], heavy)
    shown = _features(few, power, folds.spread()[inside], choice, chosen.units, names, level)
    spread, other = overlap(facts, question.behavior is not None), None
    dr = doubly_robust(robust, model.value, facts.n_episodes, facts.n_rows)
    if question.behavior is not None:
        other = second_opinion.second_opinion(question, features, gamma)
    cautions = [
        *sanity.on_the_value(model, answer.own, facts),
        *support_.cautions(),
        *missed.cautions(answer.own),
        *behavior_misfit(answer.modelled, answer.observed, answer.apart),
        *sanity.on_the_selection(choice.support, answer.own, answer.selected),
        *spread.cautions(),
        *sanity.on_the_behavior(question),
        *sanity.on_the_log(question),
        *chosen.repeated,
        *second_opinion.cautions(answer.own, other),
    ]
    Cache(checkpoint).clear()
    return Evaluation(
        estimate=answer.own.resting_on(support_.effective_episodes),
        behavior=answer.behavior,
        observed=answer.observed,
        modelled=answer.modelled,
        difference=answer.gain.resting_on(support_.effective_episodes),
        target=question.target,
        gamma=gamma,
        level=level,
        overlap=spread,
        support=support_,
        bellman=bellman_error(metric, by_fold),
        features=tuple(feature.kept_in(None if kept is None else kept[feature.column]) for feature in shown),
        n_candidates=len(names),
        n_used=len(columns),
        comparisons=(
            answer.selected.estimate,
            *([] if other is None else [other]),
            dr,
            *importance.comparisons(facts, chosen.ages, weighed),
        ),
        warnings=by_severity(cautions),
        behavior_policy=(
            None if question.behavior is None else question.behavior.summary(facts.n_rows > len(question.log))
        ),
        fit=pictures.sentence(choice, len(names), len(columns)),
        path=pictures.path(choice, names),
        convergence=pictures.convergence(choice.model),
        ratio_histogram={"edges": edges.tolist(), "counts": ratios.tolist(), "zero": facts.n_zero},
        calibration=tuple(agreement(calibrated, model.value, level)),
        settings={
            "gamma": gamma,
            "level": level,
            "folds": n_folds,
            "resamples": n_resamples,
            "seed": seed,
            **({} if estimator is None else {"model": repr(estimator)}),
            **({} if classifier is None else {"classifier": repr(classifier)}),
        },
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    """The value of the target and of the logged behaviour, and their differences."""

    own: Estimate
    observed: Estimate
    modelled: Estimate
    behavior: Estimate
    gain: Estimate
    apart: Estimate
    selected: sanity.Selected

    @classmethod
    def of(cls, model: LinearValue, fitted: LinearValue, few: LinearValue, moved: Array, facts: Facts) -> _Answer:
        """From the powers of `influence_powers`."""
        value, logged = model.value, facts.mean_return if facts.complete else fitted.value
        values = (value, facts.mean_return, fitted.value, value - logged, fitted.value - logged)
        names = ("linear TD, all features", "observed mean return", "logged behaviour, modelled", "difference", "")
        named = zip(
            (*names, "LSTD, features that matter", ""), (*values, few.value, few.value - value), moved, strict=True
        )
        own, seen, modelled, gain, apart, *selected = (
            Estimate.of_powers(name, v, facts.n_episodes, power) for name, v, power in named
        )
        behavior = seen if facts.complete else modelled
        return cls(_finite(own), seen, modelled, behavior, gain, apart, sanity.Selected(*selected))


def influence_powers(
    part: Part, model: LinearValue, fitted: LinearValue, few: LinearValue, inside: Array, mean: float, complete: bool
) -> Array:
    """Powers of the influences on the value, the mean return, the model of the behaviour, the differences of the first
    and the third to the behaviour, the value on few columns, and its difference to the value.

    The observed return counts as the behaviour's value where every episode is `complete`; a cut episode did not earn
    all it would have, so there the same features are fitted to the behaviour itself.
    """
    own, returns, moved = model.influence(part), part.episodes.returns - mean, fitted.influence(as_logged(part))
    logged, of_few = returns if complete else moved, few.influence(on_columns(part, inside))
    return powers(np.stack([own, returns, moved, own - logged, moved - logged, of_few, of_few - own]))


def _finite(estimate: Estimate) -> Estimate:
    if not (np.isfinite(estimate.value) and np.isfinite(estimate.standard_error)):
        raise ValueError(
            "The value is not a finite number: the rewards or the features of this log are too large to be added up; "
            "bring them to smaller units."
        )
    return estimate


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The features that matter; the rows on the columns that the value is computed from, and their sums by fold.

    `model` is the fit to all folds, `others` those without each, `behavior` the sums with the logged behaviour as the
    target, `groups` those of groups of episodes (None: later).
    """

    choice: Choice
    rows: Part | Parts
    columns: Array
    folds: Moments
    model: LinearValue
    others: list[LinearValue]
    behavior: Moments
    groups: Moments | None
    facts: Facts
    ages: Weighed
    tenths: Array
    units: Units
    repeated: list[Caution]


def _chosen(log: Opened, estimator: Any, groups: Groups, n_resamples: int) -> _Chosen:
    rows, every, units, n_rows = log.rows, np.arange(len(log.names)), log.units, len(log.question.log)
    formed = len(every) <= affordable(n_rows) and not (isinstance(rows, Part) and rows.batch.is_sparse)
    if isinstance(rows, Parts) and (estimator is not None or not formed):
        raise ValueError(
            f"A log in shards is evaluated on the sums of its features; an `estimator`, or {len(every):,} features "
            "(more than 1,500, or than a tenth of its first 50,000 rows), need it in memory: pass `read(path)`."
        )
    columns, choice = every, None
    if isinstance(rows, Part) and not formed:
        units = Units.of(rows.batch.phi, centre=not rows.batch.is_sparse)
        whole = rows.in_units(units).whole()
        default = SparseTDCV(gamma=rows.episodes.gamma, fit_intercept=not rows.batch.is_sparse)
        default.set_params(standardize=rows.batch.is_sparse)
        choice = choose(whole.batch, default if estimator is None else estimator)
        columns = value_columns(whole.batch, choice.support)
        rows = Part.of(whole.batch, whole.episodes, columns)
    split = bool(n_resamples) and formed and len(every) <= MAX_RIVALS
    asked = sums(groups.group, n=groups.n) if split else sums(groups.fold, n=groups.n // groups.each)
    found, plain, facts, ages, episodes = rows.answer(
        asked,
        plain_sums(),
        Ask(Facts.of, whole=True),
        Ask(importance.by_age, whole=True),
        copies.digests(len(groups.group)),
    )
    _check(facts)
    behavior = found.as_logged(plain)
    if formed:
        units = found.units(log.units)
        found, behavior, rows = (
            found.in_units(log.units, units), behavior.in_units(log.units, units), rows.in_units(units),
        )  # fmt: skip
    if isinstance(rows, Part) and estimator is not None and choice is None:
        choice = choose(rows.whole().batch, estimator)
    folds = found.merged(groups.each) if split else found
    model, others = LinearValue.solve(folds), without_each(folds)
    edges = fine_bins(model, folds)
    beside = prediction_counts(thetas_of(others), groups.fold, edges)
    choice, (counts,) = choose_on(rows, folds, beside) if choice is None else (choice, rows.answer(beside))
    held = (found if split else None, facts, ages, tenths(counts, edges), units, copies.on_copies(episodes))
    return _Chosen(choice, rows, columns, folds, model, others, behavior, *held)


def _check(facts: Facts) -> None:
    if facts.gamma == 1 and not facts.n_complete:
        raise ValueError("`gamma` is 1 but no row of `terminated` is true: the value has no end; pass gamma below 1.")
    if facts.n_zero == facts.n_rows:
        raise ValueError("`target_prob` is 0 in every row: the target policy takes none of the logged actions.")


def _heaviest(model: LinearValue, folds: Moments, choice: Choice, columns: Array) -> Array:
    """The columns of the sums that matter: those chosen, then the others, each by their share of the value's spread."""
    weight = np.abs(model.theta[:-1]) * folds.spread()
    first = np.isin(columns, choice.support)
    return np.lexsort((-weight, ~first))


def _features(
    few: LinearValue, power: Array, spread: Array, choice: Choice, units: Units, names: Array, level: float
) -> list[Feature]:
    """The features that matter with LSTD's weights on them alone, the heaviest first."""
    out = []
    for width, column, e in zip(spread, choice.support, coefficients(few, power), strict=True):
        low, high = (float(width * end) for end in e.interval(level))
        own = e.value / float(units.scale[column])
        out.append(Feature(str(names[column]), float(width * e.value), (low, high), own, None, int(column)))
    return sorted(out, key=lambda f: -abs(f.weight))


def _kept(log: Opened, chosen: _Chosen, groups: Groups, n_resamples: int, seed: int) -> Array:
    """Selection frequency of every feature."""
    rows, d, formed, omega = log.rows.in_units(chosen.units), len(log.names), chosen.groups, chosen.choice.omega
    dense = not (isinstance(rows, Part) and rows.batch.is_sparse)
    near, out = rivals(chosen.facts.n_rows, d, dense, chosen.choice), np.zeros(d)
    if formed is None:
        formed = rows.answer(sums(groups.group, n=groups.n).on(on_columns, near))[0]
    if omega is None or len(near) < d or len(omega) <= d:
        omega = scores_at(rows, formed, near)
    out[near] = frequencies(formed, omega, d, n_resamples, seed)
    return out
