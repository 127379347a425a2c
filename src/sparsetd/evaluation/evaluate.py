"""`evaluate`: from a log and a target policy to its value, with an interval and with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetd.engines import Engine, forget
from sparsetd.evaluation import importance, pictures, sanity, second_opinion
from sparsetd.evaluation.cautions import by_severity
from sparsetd.evaluation.choice import (
    MAX_RIVALS,
    Choice,
    Progress,
    affordable,
    choose,
    choose_on,
    frequencies,
    halves,
    rivals,
    scores_at,
    value_columns,
)
from sparsetd.evaluation.diagnostics import overlap
from sparsetd.evaluation.doubly_robust import doubly_robust, robust_terms
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate, check_level
from sparsetd.evaluation.held_out import (
    HeldOut,
    agreement,
    bellman_error,
    fold_sums,
    metric_of,
    predictions,
    thetas_of,
    without_each,
)
from sparsetd.evaluation.linear import LinearValue, coefficient_powers, coefficients, influences
from sparsetd.evaluation.misfit import behavior_misfit, extra_sums, misfit
from sparsetd.evaluation.moments import Ask, Moments, Part, as_logged, on_columns
from sparsetd.evaluation.opened import Opened, opened
from sparsetd.evaluation.parts import Parts
from sparsetd.evaluation.result import Evaluation, Feature
from sparsetd.evaluation.support import support, weights
from sparsetd.evaluation.verify import second_way, verify
from sparsetd.selection import SparseTDCV
from sparsetd.system import Array
from sparsetd.transitions.learnt import refuse_own
from sparsetd.transitions.partition import partition


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
        Who reads the shards: `sparsetd.engines.Processes(n)`, `sparsetd.dask.Dask(client)`; this process by default.
    checkpoint : path, optional
        A folder for what is known of each shard: a run that was killed continues from there. At the end that is
        removed, and nothing else.
    """
    tell = progress or (lambda _: None)
    check_level(level)
    tell("reading the ratios of the target policy")
    log = opened(transitions, target, gamma, features, classifier, engine, checkpoint)
    question, names, episodes = log.question, log.names, log.rows.episodes
    refuse_own(target, question.log)
    _check(episodes, n_folds)
    tell(f"choosing among {len(names)} features")
    fold = partition(log.rows.ids, n_folds)
    chosen = _chosen(log, estimator, fold, n_folds, n_resamples)
    choice, rows, columns, folds = chosen.choice, chosen.rows, chosen.columns, chosen.folds
    tell("finding the value and its interval, and checking it on held-out episodes")
    inside = np.searchsorted(columns, choice.support)
    model, fitted = LinearValue.solve(folds), LinearValue.solve(chosen.behavior)
    few = LinearValue.solve(folds.on(np.append(inside, folds.b.shape[1] - 1)))
    heavy, others, metric = _heaviest(model, folds, choice, columns), without_each(folds), metric_of(folds)
    thetas = thetas_of(others)
    influence, second, moved, of_few, powers, predicted, by_fold, robust, (weight, top), *extra = rows.answer(
        influences(model),
        second_way(model),
        influences(fitted).on(as_logged),
        influences(few).on(on_columns, inside),
        coefficient_powers(few).on(on_columns, inside),
        predictions(thetas, fold),
        fold_sums(metric, thetas, fold, episodes),
        robust_terms(others, fold),
        weights(model, heavy),
        *extra_sums(model, heavy),
    )
    verify(model, second)
    answer, held = _Answer.of(model, influence, fitted, moved, episodes), HeldOut(predicted[0], predicted[1], fold)
    kept = None
    if n_resamples:
        tell(f"choosing again on {n_resamples} random halves of the log")
        kept = _kept(log, chosen, n_resamples, seed)
    carried = support(weight, top, names[columns][heavy], episodes)
    missed = misfit(model, extra, rows, folds, names[columns], heavy, influence)
    selected = answer.on(few, of_few)
    shown = _features(few, powers, folds.spread()[inside], choice, log, level)
    spread, other = overlap(episodes, question.behavior is not None), None
    dr = doubly_robust(robust[0], robust[1], robust[2], len(episodes.reward))
    if question.behavior is not None:
        other = second_opinion.second_opinion(question.log, target, features, gamma)
    cautions = [
        *sanity.on_the_value(answer.model, answer.own, episodes),
        *carried.cautions(),
        *missed.cautions(answer.own),
        *behavior_misfit(answer.modelled, answer.observed, answer.apart),
        *sanity.on_the_selection(choice.support, answer.own, selected),
        *spread.cautions(),
        *sanity.on_the_behavior(question),
        *sanity.on_the_log(question),
        *second_opinion.cautions(answer.own, other),
    ]
    if checkpoint is not None:
        forget(checkpoint)
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
        bellman=bellman_error(metric, by_fold),
        features=tuple(feature.kept_in(None if kept is None else kept[feature.column]) for feature in shown),
        n_candidates=len(names),
        n_used=len(columns),
        comparisons=_comparisons(episodes, dr, selected.estimate, other),
        warnings=by_severity(cautions),
        behavior_policy=None if question.behavior is None else question.behavior.summary(),
        fit=pictures.sentence(choice, len(names), len(columns)),
        path=pictures.path(choice, names),
        convergence=pictures.convergence(choice.model),
        ratio_histogram=pictures.histogram(episodes.ratio),
        calibration=tuple(agreement(episodes, held, level)),
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
    def of(cls, model: LinearValue, influence: Array, fitted: LinearValue, moved: Array, episodes: Episodes) -> _Answer:
        """The observed return counts as the behaviour's value where every episode ended; else what the model makes of
        it.

        A cut episode did not earn all it would have, so there the same features are fitted to the behaviour itself.
        """
        returns = episodes.returns
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

    def on(self, few: LinearValue, influence: Array) -> sanity.Selected:
        """The value on some of the columns, and how it differs from that on all of them."""
        estimate = Estimate.of_influence("LSTD, features that matter", few.value, influence)
        change = Estimate.of_influence("", few.value - self.model.value, influence - self.influence)
        return sanity.Selected(estimate, change)


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

    `behavior` are the sums with the logged behaviour as the target, `groups` those of groups of episodes (None: later).
    """

    choice: Choice
    rows: Part | Parts
    columns: Array
    folds: Moments
    behavior: Moments
    groups: Moments | None = None


def _chosen(log: Opened, estimator: Any, fold: Array, n_folds: int, n_resamples: int) -> _Chosen:
    rows, every = log.rows, np.arange(len(log.names))
    asked = [Ask(Moments.of, (n_folds,), (fold,)), Ask(Moments.of).on(as_logged)]
    if isinstance(rows, Part) and (rows.batch.is_sparse or len(every) > affordable(len(rows.batch))):
        default = SparseTDCV(gamma=rows.episodes.gamma, fit_intercept=not rows.batch.is_sparse)
        default.set_params(standardize=rows.batch.is_sparse)
        choice = choose(rows.batch, default if estimator is None else estimator)
        columns = value_columns(rows.batch, choice.support)
        part = Part.of(rows.batch, rows.episodes, columns)
        return _Chosen(choice, part, columns, *part.answer(*asked))
    if isinstance(rows, Parts) and (estimator is not None or len(every) > affordable(len(rows.episodes.reward))):
        raise ValueError(
            f"A log in shards is evaluated on the sums of its features; an `estimator`, or {len(every):,} features of "
            f"{len(rows.episodes.reward):,} rows, need it in memory: pass `read(path)`."
        )
    if n_resamples and len(every) <= MAX_RIVALS:
        asked.append(halves(rows.ids))
    folds, *others = rows.answer(*asked)
    if isinstance(rows, Part) and estimator is not None:
        choice = choose(rows.batch, estimator)
    else:
        choice = choose_on(rows, folds)
    return _Chosen(choice, rows, every, folds, *others)


def _check(episodes: Episodes, n_folds: int) -> None:
    if len(episodes) < 2:
        raise ValueError(
            f"All {len(episodes.reward)} rows are one episode, and an interval needs several: number them in a column "
            "`episode`, or mark where they end in `terminated` or `truncated`."
        )
    if len(episodes) < n_folds:
        raise ValueError(f"The log has {len(episodes)} episodes, fewer than {n_folds} folds: use fewer folds.")
    if episodes.gamma == 1 and not episodes.complete.any():
        raise ValueError("`gamma` is 1 but no row of `terminated` is true: the value has no end; pass gamma below 1.")
    if not episodes.ratio.any():
        raise ValueError("`target_prob` is 0 in every row: the target policy takes none of the logged actions.")


def _heaviest(model: LinearValue, folds: Moments, choice: Choice, columns: Array) -> Array:
    """The columns of the sums that matter: those chosen, then the others, each by their share of the value's spread."""
    weight = np.abs(model.theta[:-1]) * folds.spread()
    first = np.isin(columns, choice.support)
    return np.lexsort((-weight, ~first))


def _features(
    few: LinearValue, powers: Array, spread: Array, choice: Choice, log: Opened, level: float
) -> list[Feature]:
    """The features that matter with LSTD's weights on them alone, the heaviest first."""
    out = []
    for width, column, e in zip(spread, choice.support, coefficients(few, powers), strict=True):
        low, high = (float(width * end) for end in e.interval(level))
        own = e.value / float(log.units.scale[column])
        out.append(Feature(str(log.names[column]), float(width * e.value), (low, high), own, None, int(column)))
    return sorted(out, key=lambda f: -abs(f.weight))


def _kept(log: Opened, chosen: _Chosen, n_resamples: int, seed: int) -> Array:
    """Selection frequency of every feature."""
    rows, d, groups, omega = log.rows, len(log.names), chosen.groups, chosen.choice.omega
    near, out = rivals(rows, d, chosen.choice), np.zeros(d)
    if groups is None:
        groups = rows.answer(halves(rows.ids).on(on_columns, near))[0]
    if omega is None or len(near) < d or len(omega) <= d:
        omega = scores_at(rows, groups, near)
    out[near] = frequencies(groups, omega, d, n_resamples, seed)
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
