"""`evaluate`: from a log and a target policy to its value, with an interval and with reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from sparsetd.evaluation import importance, pictures
from sparsetd.evaluation.choice import Choice, Progress, choose, frequencies
from sparsetd.evaluation.diagnostics import overlap
from sparsetd.evaluation.doubly_robust import doubly_robust, weighted_doubly_robust
from sparsetd.evaluation.episodes import Episodes
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.held_out import HeldOut, agreement, bellman_error, cross_fit
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.result import Evaluation, Feature
from sparsetd.evaluation.target import Question, pose
from sparsetd.features.featurize import feature_names, featurize, fit_features
from sparsetd.selection import SparseTDCV
from sparsetd.system import Array, Batch
from sparsetd.transitions import Transitions

MAX_ALL = 1_500  # beyond so many features the row "LSTD, all features" is left out
MAX_UNSEEN = 0.05  # mean discount at which episodes were cut (0: none was) from which that is said


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

    A sparse estimator chooses features, LSTD with importance ratios refits them, and the interval follows from how much
    each episode moved the answer (see `linear`). Importance-sampling and doubly robust rows stand beside it.

    Parameters
    ----------
    transitions : Transitions
        The log, in whole episodes.
    target : optional
        The policy asked for, in any form of `target`; what the log itself says by default.
    gamma : float
        Discount of one step.
    features : transformer, optional
        φ of an observation; its standardised columns by default. A penalty sees the columns as they come: end a
        pipeline with a `StandardScaler`.
    estimator : estimator, optional
        Whatever has a `support_` after `fit`; `SparseTDCV` by default. `LSTD()` keeps every feature.
    classifier : scikit-learn classifier, optional
        For the behaviour policy. Given, it is used even where the log has probabilities.
    level : float
        Of the intervals.
    n_folds, n_resamples : int
        Folds of episodes for what is held out; random halves of the log for the selection frequencies (0: none).
    seed : int
        Of folds and halves: the same seed gives the same bytes. The penalty and an estimated behaviour policy rest on
        folds that are dealt out in the order of the episodes: another order is another split, and may move the value by
        a part of its standard error.
    """
    tell = progress or (lambda _: None)
    rng = np.random.default_rng(seed)
    tell("reading the ratios of the target policy")
    question = pose(transitions, target, classifier=classifier)
    log = question.log
    episodes = Episodes.of_log(log, gamma)
    _check(log, episodes, gamma, n_folds)
    phi = _standardised(log) if features is None else fit_features(log, features)
    batch, names = featurize(log, phi, gamma), feature_names(phi, log)
    tell(f"choosing among {batch.n_features} features")
    choice = choose(batch, default_estimator(gamma) if estimator is None else estimator)
    model = LinearValue.fit(batch, choice.support, episodes)
    tell("fitting again on held-out folds")
    held = cross_fit(batch, choice.support, episodes, n_folds, rng)
    kept = frequencies(batch, choice, episodes, n_resamples, rng, tell)
    spread = overlap(episodes)
    own, logged, gain = _answers(model, batch, episodes, spread.ess_rows)
    return Evaluation(
        estimate=own,
        behavior=logged,
        difference=gain,
        target=question.target,
        gamma=gamma,
        level=level,
        overlap=spread,
        bellman=bellman_error(batch, choice.support, episodes, held),
        features=_features(model, names, kept, level),
        n_candidates=batch.n_features,
        comparisons=_comparisons(batch, episodes, held, choice),
        warnings=(*_on_the_value(model, own, episodes), *spread.warnings(), *_on_the_behavior(question)),
        behavior_policy=None if question.behavior is None else question.behavior.summary(),
        fit=pictures.sentence(choice.model),
        path=pictures.path(choice, batch, names),
        convergence=pictures.convergence(choice.model),
        ratio_histogram=pictures.histogram(batch.ratio),
        calibration=tuple(agreement(batch, episodes, held, level)),
        settings={
            "gamma": gamma,
            "level": level,
            "folds": n_folds,
            "resamples": n_resamples,
            "seed": seed,
            "model": repr(choice.again),
            **({} if classifier is None else {"classifier": repr(classifier)}),
        },
    )


def default_estimator(gamma: float) -> Any:
    """The estimator that chooses features unless another is given."""
    # The best penalty, not the one-standard-error rule: a missing feature biases the value, a spare one does not.
    return SparseTDCV(gamma=gamma, fit_intercept=True, one_standard_error=False)


def _standardised(log: Transitions) -> StandardScaler:
    """As `fit_features` with a `StandardScaler`, in two parts: s and s' side by side would be one more copy."""
    scaler, alive = StandardScaler().partial_fit(log.observation), ~log.terminated
    return scaler.partial_fit(log.next_observation[alive]) if alive.any() else scaler


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


def _answers(
    model: LinearValue, batch: Batch, episodes: Episodes, n_effective: float
) -> tuple[Estimate, Estimate, Estimate]:
    """The target's value, that of the logged behaviour, and their difference (from paired influences)."""
    value, influence = model.start_value()
    fitted = len(model.theta)
    if episodes.complete.all():
        returns = episodes.returns
        earned, moved = float(returns.mean()), returns - returns.mean()
    else:  # a cut episode did not earn all it would have: bootstrap it, with the same features
        same = Batch(
            batch.phi, batch.phi_next, batch.reward, batch.discount, np.ones(len(batch)), batch.start, batch.interest
        )
        earned, moved = LinearValue.fit(same, model.support, episodes).start_value()
    return (
        Estimate.of_influence("sparse linear TD", value, influence, n_effective, fitted),
        Estimate.of_influence("logged behaviour", earned, moved),
        Estimate.of_influence("difference", value - earned, influence - moved, n_effective, fitted),
    )


def _features(model: LinearValue, names: Array, kept: Array | None, level: float) -> tuple[Feature, ...]:
    """The features that were kept, the heaviest first."""
    scale = model.phi.std(axis=0)
    out = []
    for j, (column, e) in enumerate(zip(model.support, model.coefficients(), strict=True)):
        low, high = (float(scale[j] * end) for end in e.interval(level))
        frequency = None if kept is None else float(kept[column])
        out.append(Feature(str(names[column]), float(scale[j] * e.value), (low, high), e.value, frequency))
    return tuple(sorted(out, key=lambda f: -abs(f.weight)))


def _comparisons(batch: Batch, episodes: Episodes, held: HeldOut, choice: Choice) -> tuple[Estimate, ...]:
    rows = [
        importance.weighted(episodes),
        importance.per_decision(episodes),
        importance.weighted_per_decision(episodes),
        doubly_robust(episodes, held.value, held.value_next),
        weighted_doubly_robust(episodes, held.value, held.value_next),
    ]
    if len(choice.support) < batch.n_features <= min(MAX_ALL, len(batch) // 4):
        everything = LinearValue.fit(batch, np.arange(batch.n_features), episodes, choice.equation)
        value, influence = everything.start_value()
        rows.insert(0, Estimate.of_influence("LSTD, all features", value, influence, None, batch.n_features + 1))
    return tuple(rows)


def _on_the_value(model: LinearValue, own: Estimate, episodes: Episodes) -> list[str]:
    """What the number and its interval, or the rows beside them, do not say by themselves."""
    out = []
    if not model.determined():
        out.append(
            "The log does not determine the value: it has too few rows for these features, or none with weight in "
            "states that the target reaches; the number is one of many that fit."
        )
    if not len(model.support):
        out.append("No feature was kept: the value is taken to be the same in every state.")
    if own.standard_error <= 1e-9 * abs(own.value):
        out.append(
            "No episode with weight differs from the others: the interval has no width, which is no sign of certainty."
        )
    unseen = float((~episodes.complete * episodes.gamma ** (episodes.age[episodes.last] + 1)).mean())
    if unseen > MAX_UNSEEN:
        out.append(
            f"{int((~episodes.complete).sum())} of {len(episodes)} episodes were cut: the value counts what would have "
            "followed, WIS, PDIS and WPDIS do not."
        )
    return out


def _on_the_behavior(question: Question) -> list[str]:
    out = []
    found = question.behavior
    if found is not None and found.log_loss >= found.log_loss_marginal:
        out.append(
            "The estimated behaviour policy predicts actions no better than their frequencies: right if they did not "
            "depend on the state; otherwise try another classifier."
        )
    if found is not None and found.n_floored > 0.01 * len(question.log):
        out.append(f"{found.n_floored} estimated behaviour probabilities were raised to {found.floor:g}.")
    return out
