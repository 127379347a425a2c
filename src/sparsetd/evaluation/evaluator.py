"""The one evaluator: any number of policies, judged on one log from the same readings.

    first reading → a linear fit on some columns → value, influence, evidence

`first_reading` takes the sums of all columns of φ. Each policy then takes a walk (`_policy`). If there is only one
policy, another walk finds the details that only a single answer shows (`_detail`: features that matter, other
estimators, pictures). Walks go in step (`reading.together`): whatever they ask for next comes from one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from sparsetd._tools.workers import thread_pools
from sparsetd.evaluation import choice, held_out, support
from sparsetd.evaluation.action_values import second_opinion
from sparsetd.evaluation.behavior import BehaviorPolicy
from sparsetd.evaluation.cautions import Caution, by_severity, found_in
from sparsetd.evaluation.choice import Choice
from sparsetd.evaluation.confounding import Cause, Confounded, robustness, strengths_of
from sparsetd.evaluation.episodes import Facts
from sparsetd.evaluation.estimate import Estimate, Value, check_level
from sparsetd.evaluation.first_reading import Basis, Column, First, columns_of, first_reading
from sparsetd.evaluation.linear import (
    LinearValue,
    coefficients,
    influence,
    policy_sums,
    score_powers,
    second_way,
    sums_of,
    verify,
    wanted,
)
from sparsetd.evaluation.misfit import Fit, Misfit, extra_sums, misfit
from sparsetd.evaluation.reading import Ask, Opened, Part, Settings, Walk, answer, open_log, seen, together
from sparsetd.evaluation.result import Evaluation, Feature, Robustness, acts_sentence
from sparsetd.evaluation.support import Overlap, Support
from sparsetd.evaluation.target import Target
from sparsetd.logs import Transitions
from sparsetd.storage.cache import Cache
from sparsetd.system import Array

MOST_SHOWN = 1_000  # actions: with more of them no shares are shown
WIDE = 400  # columns; the products of wider logs gain from more than one thread


@dataclass(frozen=True, eq=False)
class Logged:
    """The logged behaviour: its observed mean return, its value by the model, and the difference of the two."""

    observed: Value
    modelled: Value
    apart: Value
    complete: bool

    @property
    def value(self) -> Value:
        """The value of the behaviour: the mean return, or the model's value if episodes were cut."""
        return self.observed if self.complete else self.modelled


def _behavior(first: First) -> Walk[Logged]:
    """The walk of the logged behaviour.

    An episode that was cut gets the model's own value of the rest added to its return. Then `apart` shows only the
    errors that the model made before the cut.
    """
    basis, facts = first.basis, first.facts[0]
    fitted = LinearValue.solve(basis.behavior)
    found = yield {"moved": basis.ask(Ask(_logged, (fitted, basis.tail, facts)))}
    moved, observed, beyond = first.log.joined(found.moved)
    seen, modelled = Value(facts.mean_return, observed), Value(fitted.value, moved)
    rest = Value(float(basis.tail @ fitted.theta) / facts.n_episodes, beyond)
    return Logged(seen, modelled, modelled.less(seen).less(rest), facts.complete)


def _logged(part: Part, fitted: LinearValue, tail: Array, facts: Facts) -> list[Array]:
    """The influence of every cluster on the modelled value, on the mean return, and on the mean of γᴸv(s_L)."""
    e, n = part.episodes, facts.n_episodes
    ends, beyond = e.last[~e.complete], np.full(len(e), -float(tail @ fitted.theta) / n)
    ahead = (part.states[ends] - part.changes[ends]) @ fitted.theta  # γv(s_L)
    beyond[~e.complete] += ahead * e.gamma ** e.age[ends]
    scores = e.rows_by_cluster(fitted.errors(part) * (part.states @ (tail @ fitted.inverse)))
    sums = (e.by_cluster(e.returns - facts.mean_return), e.by_cluster(beyond) + scores)
    return [np.stack([fitted.influence(part), *(each * (facts.n_clusters / n) for each in sums)])]


@dataclass(frozen=True, eq=False)
class Detail:
    """Details of one policy, which `evaluate` shows and `compare` does not.

    `few` is the value on the features that matter alone, and `alone` the same as an estimate with a name. `n_chosen` is
    the number of these features, `others` are other estimates, and `shown` are more fields of an `Evaluation`.
    """

    few: Value
    alone: Estimate
    others: tuple[Estimate, ...]
    n_chosen: int
    shown: dict[str, Any]


class Fitted(NamedTuple):
    """The fit of one policy: its value, what of the log carries it, and the tests of its features."""

    model: LinearValue
    value: Value
    support: Support
    misfit: Misfit


@dataclass(frozen=True, eq=False)
class Judged:
    """The k-th policy on a log: its value with the influence of every cluster, and all that may speak against it."""

    first: First
    k: int
    logged: Logged
    model: LinearValue
    value: Value
    support: Support
    misfit: Misfit
    detail: Detail | None
    opinions: tuple[Estimate, ...] = ()
    acts: dict[str, Any] | None = None
    never: float = 0.0
    robustness: Robustness | None = None
    cautions: tuple[Caution, ...] = ()

    @property
    def name(self) -> str:
        return self.first.log.target_names[self.k]

    @property
    def facts(self) -> Facts:
        return self.first.facts[self.k]

    @property
    def log(self) -> Transitions:
        return self.first.log.log

    @property
    def behavior(self) -> BehaviorPolicy | None:
        """The behaviour, if it had to be estimated."""
        return self.first.log.behavior

    @property
    def sample_mean(self) -> bool:
        """Whether the value is the mean return, which rests on no model."""
        return self.facts.as_logged

    @property
    def overlap(self) -> Overlap:
        return support.overlap(self.facts, self.never)

    @cached_property
    def own(self) -> Estimate:
        return self.value.estimate("linear TD, all features").resting_on(self.support.effective_episodes)

    @property
    def gain(self) -> Value:
        return self.value.less(self.logged.value)

    @property
    def difference(self) -> Estimate:
        return self.gain.estimate("difference").resting_on(self.support.effective_episodes)

    @property
    def compared(self) -> Detail | None:
        """The details, unless the value is curved: then it cannot be compared on fewer columns."""
        return self.detail if self.first.basis.ridge(0) is None else None

    def evaluation(self) -> Evaluation:
        """The `Evaluation` of this policy."""
        log, detail, settings = self.first.log, self.detail, self.first.log.settings
        observed = self.logged.observed.estimate("observed mean return")
        modelled = self.logged.modelled.estimate("logged behaviour, modelled")
        return Evaluation(
            estimate=self.own,
            behavior=observed if self.logged.complete else modelled,
            observed=observed,
            modelled=modelled,
            difference=self.difference,
            target=log.targets[self.k].words,
            gamma=settings.gamma,
            level=settings.level,
            overlap=self.overlap,
            support=self.support,
            n_candidates=log.n_candidates,
            n_used=len(self.first.basis.columns),
            comparisons=() if detail is None else (detail.alone, *self.opinions, *detail.others),
            warnings=self.cautions,
            behavior_policy=None if log.behavior is None else log.behavior.summary(self.facts.n_rows > len(log.log)),
            settings=settings.shown(),
            acts=None if self.acts is None else {**self.acts, "sentence": acts_sentence(**self.acts)},
            robustness=self.robustness,
            **({} if detail is None else detail.shown),
        )


def judge(source: Any, targets: Mapping[str, Any], settings: Settings) -> tuple[Judged, ...]:
    """Judge every target on the log, with the details if there is only one target."""
    check_level(settings.level)
    with _open(source, targets, settings) as log:
        return _judged(log)


@contextmanager
def _open(source: Any, targets: Mapping[str, Any], settings: Settings) -> Iterator[Opened]:
    """Open the log. BLAS has one thread until the end: the products of a narrow log are too small for more."""
    with thread_pools().limit(limits=1, user_api="blas") as pools:
        log = open_log(source, targets, settings)
        if len(log.names) > WIDE:
            pools.restore_original_limits()
        yield log


def _judged(log: Opened) -> tuple[Judged, ...]:
    targets, settings = log.target_names, log.settings
    single = len(targets) == 1
    first = first_reading(log, details=single)
    for name, facts in zip(targets, first.facts, strict=True):
        if facts.gamma == 1 and not facts.n_complete:
            raise ValueError(
                "`gamma` is 1 but no row of `terminated` is true: the value has no end; pass gamma below 1."
            )
        if facts.n_zero == facts.n_rows:
            whose = "" if single else f"policy {name!r}: "
            raise ValueError(
                f"{whose}`target_prob` is 0 in every row: the target policy takes none of the logged actions."
            )
    before = _before_details(first) if single else None
    settings.tell("finding the value and its interval, and checking it on held-out episodes")
    walks = [_policy(first, k, None if before is None else before[0]) for k in range(len(targets))]
    details = [] if before is None else [_detail(first, *before)]
    logged, *found = together(first.basis.rows, _behavior(first), *walks, *details)
    detail = found.pop() if details else None
    # The strengths take long and are the same for all policies; `cache` finds them once, if any needs them.
    strengths = cache(partial(strengths_of, log.log))
    judged = [_with_evidence(first, k, logged, own, detail, strengths) for k, own in enumerate(found)]
    if settings.checkpoint is not None:
        Cache(settings.checkpoint).clear()
    return tuple(judged)


def gains(source: Any, targets: Mapping[str, Any], settings: Settings) -> list[Value]:
    """The difference of every target to the logged behaviour, without tests or details: enough to rank many."""

    def value(first: First, k: int) -> Walk[Value]:
        model = LinearValue.solve(first.basis.moments[k])
        found = yield {"influence": first.basis.ask(Ask(influence, (model,)), k)}
        return first.basis.widened(k, model.value, first.log.joined(found.influence))

    with _open(source, targets, settings) as log:
        first = first_reading(log, details=False)
        walks = [value(first, k) for k in range(len(targets))]
        logged, *values = together(first.basis.rows, _behavior(first), *walks)
    return [value.less(logged.value) for value in values]


def _policy(first: First, k: int, chosen: Choice | None) -> Walk[Fitted]:
    """The walk of one policy: its fit, the influence of every cluster, its support, and tests of its features."""
    log, basis, facts, folds = first.log, first.basis, first.facts[k], first.basis.moments[k]
    model, names = LinearValue.solve(folds), log.names[basis.columns]
    # The columns by weight: those that were chosen, then the others, each by their share of the value's spread.
    weight = np.abs(model.theta[:-1]) * folds.spread()
    heavy = np.lexsort((-weight, ~np.isin(basis.columns, () if chosen is None else chosen.support)))
    asked = {"weights": Ask(support.weight_sums, (model,))}
    if wanted():
        asked["second"] = Ask(second_way, (model,))
    if not facts.as_logged:
        asked |= {"influence": Ask(influence, (model,)), "extra": extra_sums(model, heavy)}
    found = yield {name: basis.ask(ask, k) for name, ask in asked.items()}
    if wanted():
        verify(model, found.second, basis.ridge(k))
    carried = support.support(found.weights, facts)
    if facts.as_logged:  # the mean return will take the place of this value, and rests on no features
        unknown = Value(model.value, np.zeros(facts.n_clusters))
        return Fitted(model, unknown, carried, Misfit())
    moved = log.joined(found.influence)
    if not (np.isfinite(model.value) and np.isfinite(moved).all()):
        raise ValueError(
            "The value is not a finite number: the rewards or the features of this log are too large to be added up; "
            "bring them to smaller units."
        )
    own = basis.widened(k, model.value, moved)
    fit = Fit(k, model, folds.total().C[0], basis.views, basis.ridge(k), np.concatenate(found.influence))
    missed = yield from misfit(fit, found.extra, names, heavy)
    return Fitted(model, own, carried, missed)


def _before_details(first: First) -> tuple[Choice, Array | None, list[LinearValue], Array]:
    """The features that matter, how often halves of the log choose each, the fits without each fold, and where the
    tenths of their predictions begin.
    """
    basis, chosen, settings = first.basis, first.basis.choice, first.log.settings
    settings.tell(f"choosing among {first.log.n_candidates} features")
    folds, raw = basis.moments[0], basis.raw()
    others, bins = held_out.without_each(folds), held_out.fine_bins(LinearValue.solve(folds), folds)
    asked = {"counts": basis.ask(Ask(held_out.prediction_counts, (others, bins), (first.groups.fold,)), 0)}
    if chosen is None:
        few = basis if raw.rows is basis.rows else basis.on(np.arange(len(raw.columns)))
        all_compete = settings.n_resamples and raw.groups is not None and len(raw.columns) <= choice.MAX_RIVALS
        kinds = ("reward", "td") if all_compete else ("reward",)
        asked |= {kind: few.ask(ask, 0) for kind, ask in choice.full_scores(raw.moments[0], kinds).items()}
    found = vars(answer(basis.rows, **asked))
    begins = held_out.tenths(found.pop("counts"), bins)
    omegas = {kind: scores.values for kind, scores in found.items()}
    if chosen is None and settings.estimator is not None and isinstance(raw.rows, Part):
        chosen = choice.choose(seen(raw.rows.whole().under(0), raw.views, {}).batch, settings.estimator)
    elif chosen is None:
        chosen = choice.choose_on(raw.rows, raw.moments[0], lambda ask: raw.ask(ask, 0), omegas["reward"])
    return chosen, _kept(first, raw, chosen, omegas) if settings.n_resamples else None, others, begins


def _detail(first: First, chosen: Choice, kept: Array | None, others: list[LinearValue], begins: Array) -> Walk[Detail]:
    """The walk that finds the details of a single policy."""
    log, basis, facts, ages, level = first.log, first.basis, first.facts[0], first.ages[0], first.log.settings.level
    folds, curved = basis.moments[0], basis.ridge(0) is not None
    assert ages is not None
    value, metric = LinearValue.solve(folds).value, held_out.metric_of(folds)
    inside = np.arange(len(basis.raw().columns)) if curved else np.searchsorted(basis.columns, chosen.support)
    few = LinearValue.solve(folds.on(np.append(inside, folds.b.shape[1] - 1)))
    edges = support.ratio_edges(facts.least[1], facts.most[1])
    constant = facts.gained / max(facts.left, 1e-12)  # γ = 1 leaves nothing to divide by
    asked = {
        "few": Ask(influence, (few,)).on(Part.on, inside),
        "power": Ask(score_powers, (few, np.eye(len(few.theta))[:-1])).on(Part.on, inside),
        "held": Ask(held_out.held_out_sums, (others, metric, constant, begins, value), (first.groups.fold,)),
        "ratios": Ask(support.ratio_counts, (edges,)),
    }
    sampling = Ask(support.sampling_influences, (facts, ages), whole=True).under(0)
    found = yield {**{name: basis.ask(ask, 0) for name, ask in asked.items()}, "sampling": sampling}
    errors, groups, terms, sizes = found.held.values
    own, columns = Value(few.value, log.joined(found.few)), columns_of(log, basis, level)
    # The frequency is that of the selector: it does not apply to a column that only its importance brought in.
    share = {} if kept is None else {column: float(kept[column]) for column in chosen.support}
    if curved:
        name, features = "LSTD, columns as they came", _curved_features(columns, share, chosen)
    else:
        weights = coefficients(few, found.power)
        name, features = "LSTD, features that matter", _chosen_features(first, weights, inside, share, chosen)
    robust = held_out.doubly_robust(terms, sizes, value, facts.n_episodes, facts.n_rows)
    shown = {
        "bellman": held_out.bellman_error(metric, errors),
        "features": tuple(sorted(features, key=lambda f: -abs(f.weight))),
        "fit": _fit_in_words(first, chosen, curved),
        "draw_path": partial(choice.path_picture, chosen, log.names),
        "convergence": choice.convergence_picture(chosen.model),
        "ratio_histogram": {"edges": edges.tolist(), "counts": found.ratios.tolist(), "zero": facts.n_zero},
        "calibration": tuple(held_out.agreement(groups, value, level)),
        "columns": columns,
    }
    rest = robust, *support.sampling_estimates(facts, ages, found.sampling)
    return Detail(own, own.estimate(name), rest, len(chosen.support), shown)


def _curved_features(columns: Sequence[Column], share: dict[int, float], chosen: Choice) -> list[Feature]:
    """The features of a curved value: the columns that matter by importance or by selection, with mean slopes."""
    found = [c for c in columns if c.matters or c.number in chosen.support]
    return [Feature(c.name, c.weight, c.interval, float("nan"), share.get(c.number), c.number) for c in found]


def _chosen_features(
    first: First, weights: Sequence[Estimate], inside: Array, share: dict[int, float], chosen: Choice
) -> list[Feature]:
    """The chosen features, with LSTD's weights on them alone."""
    basis, names, out = first.basis, first.log.names, []
    for width, j, e in zip(basis.moments[0].spread()[inside], chosen.support, weights, strict=True):
        low, high = (float(width * end) for end in e.interval(first.log.settings.level))
        own = e.value / float(basis.units.scale[j])
        out.append(Feature(str(names[j]), float(width * e.value), (low, high), own, share.get(j), int(j)))
    return out


def _fit_in_words(first: First, chosen: Choice, curved: bool) -> str:
    """A sentence about the functions of the columns that the value was computed from."""
    built, names = first.basis.built, first.log.names
    if built is None:
        return choice.fit_sentence(chosen, len(names), len(first.basis.columns))
    columns = "1 column" if built.n_raw == 1 else f"{built.n_raw:,} columns"
    n = len(names) - built.n_raw
    if not curved:
        return (
            f"The value is a sum of straight lines in {columns}. Bends and products of columns ({n:,} functions) were "
            "tried, but they did not lower the error on episodes that the model had not seen. The columns that are "
            "kept were chosen by elimination."
        )
    return (
        f"The value is computed from {columns} and {n:,} functions of them, which are bends and products of columns. "
        f"A penalty (a ridge of {built.lams[0]:g}) holds them back; it was chosen on episodes that the model had not "
        "seen."
    )


def _kept(first: First, basis: Basis, chosen: Choice, omegas: dict[str, choice.Omegas]) -> Array:
    """Selection frequency of every feature; `omegas` has Ω of all features if all of them compete."""
    log, groups, settings = first.log, first.groups, first.log.settings
    settings.tell(f"choosing again on {settings.n_resamples} random halves of the log")
    d, formed, near = log.n_candidates, basis.groups, np.arange(log.n_candidates)
    if formed is None or "td" not in omegas:
        rows = basis.rows if basis.choice is None else log.rows.in_units(basis.units)
        near = choice.rivals(first.facts[0].n_rows, d, not rows.is_sparse, chosen)
        formed = answer(rows, sums=policy_sums(groups.group, groups.n).on(Part.on, near)).sums.of_policy(0)
        asked = {kind: ask.under(0).on(Part.on, near) for kind, ask in choice.full_scores(formed).items()}
        omegas = {kind: found.values for kind, found in vars(answer(rows, **asked)).items()}
    out = np.zeros(d)
    out[near] = choice.frequencies(formed, omegas, d, settings.n_resamples, settings.random_state)
    return out


def _acts(log: Transitions, target: Target) -> dict[str, Any] | None:
    """The share of every action in the rows at hand (the first shards), as logged and under the target.

    None for the logged behaviour itself, and unless the actions are a few codes 0, 1, …
    """
    behavior = target.form is None and not target.of_logged
    if behavior or log.action is None or not 0 < log.n_actions <= MOST_SHOWN or log.action.min() < 0:
        return None
    counts = target.acts(log)
    before, after = (counts / counts.sum(axis=1, keepdims=True)).tolist()
    names = [*(log.action_names or ()), *map(str, range(len(log.action_names or ()), len(before)))]
    return {"actions": names, "logged": before, "target": after}


def _never(log: Opened, k: int) -> float:
    """The share of the policy's choices that nobody made in such situations; 0 unless the behaviour was estimated."""
    shares = None if log.behavior is None else log.targets[k].shares(log.log)
    if log.behavior is None or shares is None:
        return 0.0
    table, _ = shares
    known = log.behavior.taken.shape[1]  # actions with higher numbers do not occur in these rows at all
    never = (table[:, :known] * ~log.behavior.taken[:, : table.shape[1]]).sum() + table[:, known:].sum()
    return float(never / len(log.log))


def _with_evidence(
    first: First, k: int, logged: Logged, fitted: Fitted, detail: Detail | None, strengths: Callable[[], Any]
) -> Judged:
    """The policy with what it does, a second opinion, Γ* of its difference to the behaviour, and all its cautions."""
    log, target, opinions = first.log, first.log.targets[k], None
    if first.facts[k].as_logged:
        fitted = fitted._replace(value=logged.observed)
    elif log.behavior is not None:
        sample = log.sample.under(k).episodes
        args = (target, log.behavior, log.features, log.settings.gamma, sample, log.hashes[: len(sample)])
        opinions = second_opinion(log.log, *args)
    acts = _acts(log.log, target)
    own = Judged(first, k, logged, *fitted, detail, opinions or (), acts, _never(log, k))
    own = replace(own, robustness=_robustness(own, strengths))
    return replace(own, cautions=by_severity(found_in(own)))


def confounded(first: First, k: int) -> Confounded | None:
    """Rows of the sample, on the basis of the value, from which bounds under unrecorded causes are computed.

    If an action has too few rows for all functions, the basis is the raw columns alone. The result is None if the log
    has no behaviour probabilities.
    """
    log, basis = first.log, first.basis
    if log.log.behavior_prob is None:
        return None
    cause = Cause.of(basis.first_clusters.under(k).batch.ratio, log.log, log.targets[k])
    basis = basis if cause.affords(len(basis.columns)) else basis.raw()
    rows = basis.first_rows.under(k)
    sampled = log.spans is not None or len(rows.episodes) < len(log.hashes)
    sums = sums_of(rows).ridged(basis.ridge(k)) if sampled else basis.moments[k].total()
    return Confounded(rows, cause, sums, sampled)


def _robustness(own: Judged, strengths: Callable[[], Any]) -> Robustness | None:
    """Γ* of a policy's gain; None if the log has no behaviour probabilities, or if there is nothing to explain."""
    if own.facts.on_policy:
        return None
    level = own.first.log.settings.level
    low, high = own.difference.interval(level)
    if low <= 0 <= high:
        return Robustness(1.0, 1.0)
    rows = confounded(own.first, own.k)
    if rows is None:
        return None
    return robustness(rows, strengths, own.value, own.logged.value, level, own.facts.possible())
