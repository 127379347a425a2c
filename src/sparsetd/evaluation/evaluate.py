"""`evaluate`: from a log and a target policy to its value, with an interval and with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.evaluation import importance, learnt, pictures, sanity, second_opinion
from sparsetd.evaluation.cautions import by_severity
from sparsetd.evaluation.choice import (
    Choice,
    Progress,
    affordable,
    choose,
    choose_on,
    frequencies,
    rivals,
    value_columns,
)
from sparsetd.evaluation.diagnostics import overlap
from sparsetd.evaluation.doubly_robust import doubly_robust
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate, check_level
from sparsetd.evaluation.held_out import agreement, bellman_error, cross_fit
from sparsetd.evaluation.linear import LinearValue, coefficients
from sparsetd.evaluation.misfit import behavior_misfit, misfit
from sparsetd.evaluation.moments import Moments, Part
from sparsetd.evaluation.result import Evaluation, Feature
from sparsetd.evaluation.support import support
from sparsetd.evaluation.target import pose
from sparsetd.evaluation.verify import verify
from sparsetd.features.featurize import feature_names, featurize, fit_features
from sparsetd.selection import SparseTDCV
from sparsetd.solvers.saddle import Units
from sparsetd.system import Array, Batch
from sparsetd.transitions import Transitions
from sparsetd.transitions.partition import partition


def evaluate(
    transitions: Transitions,
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
    progress: Progress | None = None,
) -> Evaluation:
    """Value of the target policy at the start of an episode, from a log of another policy.

    LSTD with importance ratios on all features gives the value (on those that double selection keeps where the rows do
    not afford all of them, see `choice`), and leaving out one episode at a time gives its interval (see `linear`).
    Which features matter is a question of its own, answered beside it. `warnings` says what speaks against the answer;
    one of severity "red" means that the answer should not be used.

    Parameters
    ----------
    transitions : Transitions
        The log, in whole episodes.
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
    """
    tell = progress or (lambda _: None)
    check_level(level)
    tell("reading the ratios of the target policy")
    question = pose(transitions, target, classifier=classifier)
    log = question.log
    episodes = Episodes.of_log(log, gamma)
    _check(log, episodes, gamma, n_folds)
    prepared = _Prepared.of(log, features, gamma)
    batch, names = prepared.batch, prepared.names
    tell(f"choosing among {batch.n_features} features")
    fold = partition(log.ids(), n_folds)
    choice, part, folds, columns = _chosen(batch, episodes, estimator, gamma, fold, n_folds)
    tell("finding the value and its interval")
    answer = _Answer.of(part, folds, episodes)
    shown = _features(part, folds, choice, columns, prepared, level)
    tell("checking it on held-out episodes")
    held = cross_fit(part, folds, fold)
    kept = None
    if n_resamples:
        tell(f"choosing again on {n_resamples} random halves of the log")
        kept = _kept(batch, episodes, choice, log, n_resamples, seed)
    heavy = _heaviest(answer.model, part, choice, columns)
    carried = support(answer.model, part, names[columns], heavy)
    missed = misfit(answer.model, part, folds, names[columns], heavy, answer.influence)
    spread, selected = (
        overlap(episodes, question.behavior is not None),
        answer.on(part, folds, np.searchsorted(columns, choice.support)),
    )
    other = second_opinion.second_opinion(log, target, features, gamma) if question.behavior is not None else None
    cautions = [
        *sanity.on_the_value(answer.model, answer.own, episodes, part.batch),
        *carried.cautions(),
        *missed.cautions(answer.own),
        *behavior_misfit(answer.modelled, answer.observed, answer.apart),
        *sanity.on_the_selection(choice.support, answer.own, selected),
        *spread.cautions(),
        *sanity.on_the_behavior(question),
        *sanity.on_the_log(question),
        *learnt.cautions(target, log),
        *second_opinion.cautions(answer.own, other),
    ]
    return Evaluation(
        estimate=answer.own.resting_on(carried.effective_episodes),
        behavior=answer.behavior,
        observed=answer.observed,
        modelled=answer.modelled,
        difference=answer.gain.resting_on(carried.effective_episodes),
        target=question.target,
        gamma=gamma,
        level=level,
        overlap=spread,
        support=carried,
        bellman=bellman_error(part, folds, held),
        features=tuple(feature.kept_in(None if kept is None else kept[feature.column]) for feature in shown),
        n_candidates=batch.n_features,
        n_used=len(columns),
        comparisons=_comparisons(episodes, doubly_robust(part, folds, fold), selected.estimate, other),
        warnings=by_severity(cautions),
        behavior_policy=None if question.behavior is None else question.behavior.summary(),
        fit=pictures.sentence(choice, batch.n_features, len(columns)),
        path=pictures.path(choice, names),
        convergence=pictures.convergence(choice.model),
        ratio_histogram=pictures.histogram(batch.ratio),
        calibration=tuple(agreement(part, held, level)),
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
class _Prepared:
    """The rows of φ with columns of one scale (centred where they are dense), their names and their units."""

    batch: Batch
    names: Array
    units: Units

    @classmethod
    def of(cls, log: Transitions, features: Any, gamma: float) -> _Prepared:
        phi = fit_features(log, features)
        raw = featurize(log, phi, gamma)
        units = Units.of(raw.phi, centre=not raw.is_sparse)
        return cls(units.applied(raw), feature_names(phi, log), units)


@dataclass(frozen=True, eq=False)
class _Answer:
    """The value of the target and of the logged behaviour, with what each episode does to them."""

    model: LinearValue
    influence: Array
    own: Estimate
    observed: Estimate
    modelled: Estimate
    behavior: Estimate
    gain: Estimate
    apart: Estimate

    @classmethod
    def of(cls, part: Part, folds: Moments, episodes: Episodes) -> _Answer:
        """The observed return counts as the behaviour's value where every episode ended; else what the model makes of
        it.

        A cut episode did not earn all it would have, so there the same features are fitted to the behaviour itself.
        """
        model = LinearValue.solve(folds)
        influence = model.influence(part)
        verify(model, part)
        same = part.with_ratio(np.ones(len(part.batch)))
        fitted = LinearValue.solve(Moments.of(same))
        moved, returns = fitted.influence(same), episodes.returns
        around = returns - returns.mean()
        observed = Estimate.of_influence("observed mean return", float(returns.mean()), around)
        modelled = Estimate.of_influence("logged behaviour, modelled", fitted.value, moved)
        complete = bool(episodes.complete.all())
        behavior, theirs = (observed, around) if complete else (modelled, moved)
        return cls(
            model=model,
            influence=influence,
            own=_finite(Estimate.of_influence("linear TD, all features", model.value, influence)),
            observed=observed,
            modelled=modelled,
            behavior=behavior,
            gain=Estimate.of_influence("difference", model.value - behavior.value, influence - theirs),
            apart=Estimate.of_influence("", modelled.value - behavior.value, moved - theirs),
        )

    def on(self, part: Part, folds: Moments, columns: Array) -> sanity.Selected:
        """The value on some of the columns, and how it differs from that on all of them."""
        few = Part.of(part.batch, part.episodes, columns)
        model = LinearValue.solve(folds.on(np.append(columns, folds.b.shape[1] - 1)))
        influence = model.influence(few)
        estimate = Estimate.of_influence("LSTD, features that matter", model.value, influence)
        change = Estimate.of_influence("", model.value - self.model.value, influence - self.influence)
        return sanity.Selected(estimate, change)


def _finite(estimate: Estimate) -> Estimate:
    if not (np.isfinite(estimate.value) and np.isfinite(estimate.standard_error)):
        raise ValueError(
            "The value is not a finite number: the rewards or the features of this log are too large to be added up; "
            "bring them to smaller units."
        )
    return estimate


def _chosen(
    batch: Batch, episodes: Episodes, estimator: Any, gamma: float, fold: Array, n_folds: int
) -> tuple[Choice, Part, Moments, Array]:
    """The features that matter, and the part with its sums on the columns that the value is computed from."""
    if affordable(batch):
        part = Part.of(batch, episodes)
        folds = Moments.of(part, fold, n_folds)
        choice = choose_on(part, folds) if estimator is None else choose(batch, estimator)
        return choice, part, folds, np.arange(batch.n_features)
    default = SparseTDCV(gamma=gamma, fit_intercept=not batch.is_sparse, standardize=batch.is_sparse)
    choice = choose(batch, default if estimator is None else estimator)
    columns = value_columns(batch, choice.support)
    part = Part.of(batch, episodes, columns)
    return choice, part, Moments.of(part, fold, n_folds), columns


def _check(log: Transitions, episodes: Episodes, gamma: float, n_folds: int) -> None:
    if len(episodes) < 2:
        raise ValueError(
            f"All {len(log)} rows are one episode, and an interval needs several: number them in a column `episode`, "
            "or mark where they end in `terminated` or `truncated`."
        )
    if len(episodes) < n_folds:
        raise ValueError(f"The log has {len(episodes)} episodes, fewer than {n_folds} folds: use fewer folds.")
    if gamma == 1 and not log.terminated.any():
        raise ValueError("`gamma` is 1 but no row of `terminated` is true: the value has no end; pass gamma below 1.")
    if not episodes.ratio.any():
        raise ValueError("`target_prob` is 0 in every row: the target policy takes none of the logged actions.")


def _heaviest(model: LinearValue, part: Part, choice: Choice, columns: Array) -> Array:
    """The columns of the part that matter: those chosen, then the others, each by their share of the value's spread."""
    weight = np.abs(model.theta[:-1]) * part.batch.phi.std(axis=0)
    first = np.isin(columns, choice.support)
    return np.lexsort((-weight, ~first))


def _features(
    part: Part, folds: Moments, choice: Choice, columns: Array, prepared: _Prepared, level: float
) -> list[Feature]:
    """The features that matter with LSTD's weights on them alone, the heaviest first."""
    inside = np.searchsorted(columns, choice.support)
    few = Part.of(part.batch, part.episodes, inside)
    model = LinearValue.solve(folds.on(np.append(inside, folds.b.shape[1] - 1)))
    spread, out = few.batch.phi.std(axis=0), []
    for j, (column, e) in enumerate(zip(choice.support, coefficients(model, few), strict=True)):
        low, high = (float(spread[j] * end) for end in e.interval(level))
        own = e.value / float(prepared.units.scale[column])
        name = str(prepared.names[column])
        out.append(Feature(name, float(spread[j] * e.value), (low, high), own, None, int(column)))
    return sorted(out, key=lambda f: -abs(f.weight))


def _kept(batch: Batch, episodes: Episodes, choice: Choice, log: Transitions, n_resamples: int, seed: int) -> Array:
    """Selection frequency of every feature."""
    near, out = rivals(batch, choice), np.zeros(batch.n_features)
    rng = np.random.default_rng(seed)
    out[near] = frequencies(Part.of(batch, episodes, near), log.ids(), batch.n_features, n_resamples, rng)
    return out


def _comparisons(
    episodes: Episodes, robust: Estimate, selected: Estimate, other: Estimate | None
) -> tuple[Estimate, ...]:
    return (
        selected,
        *([] if other is None else [other]),
        robust,
        importance.weighted(episodes),
        importance.per_decision(episodes),
        importance.weighted_per_decision(episodes),
    )
