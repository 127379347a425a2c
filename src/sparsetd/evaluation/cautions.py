"""The cautions that a careful reader needs: one table of rules, each with a code, a test, a sentence and a remedy.

A row of the table is a function. Its name is the code. Its docstring says what the caution means, when it is given,
what the reader is told and what to do. Its body is the test: how bad it is, if it applies. The sentence takes numbers
from `e`, the evidence, and from what the test hands over.

    note     worth knowing; the answer stands
    amber    read the answer with this in mind
    red      do not use the answer

Every answer of every function runs all rules that apply. `docs/cautions.md` is made from the table:

    python docs/extensions/cautions_page.py > docs/cautions.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from sparsetd.evaluation.behavior import BehaviorPolicy
from sparsetd.evaluation.episodes import Facts
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.misfit import CERTAIN, MATTERS, SURE, TOGETHER, Misfit, matters
from sparsetd.evaluation.support import Overlap, Support
from sparsetd.logs import Transitions, suspicions
from sparsetd.logs.suspicions import Check
from sparsetd.system import Array

Severity = Literal["note", "amber", "red"]
# The result of a test: nothing, a severity, or a severity with the further numbers that the sentence names.
Finding = Severity | tuple[Severity, dict[str, Any]] | None
Test = Callable[["Evidence"], Finding]
ORDER: tuple[Severity, ...] = ("note", "amber", "red")

SAID_UNSEEN, MUCH_UNSEEN, MOST_UNSEEN = 0.05, 0.2, 0.5  # mean discount at which episodes were cut (0: none was)
FEW_EPISODES = 20
MAX_LOOKED = 50_000  # rows in which something suspicious is looked for
DISAGREE = 3.0  # standard errors between two values that should agree
FEW, VERY_FEW = 50.0, 8.0  # effective episodes
FEW_SINGLE = 20.0  # the mean of fewer effective episodes of one step is not nearly normal
ENOUGH = 100.0  # with this many effective episodes, their share of the log no longer matters
SLIGHT = 0.25  # share of the episodes that are effective
THIN, THINNER = 0.05, 0.01  # share of the rows that are effective
NEGATIVE, VERY_NEGATIVE = 0.05, 0.3  # share of the implied weight that is negative
LOW_COVERAGE, VERY_LOW_COVERAGE = 0.95, 0.8  # mean ratio
HIGH_MEAN, VERY_HIGH_MEAN = 1 / LOW_COVERAGE, 1 / VERY_LOW_COVERAGE
HIGH_RATIO = 100.0
MANY_COPIES = 0.2  # with this share of copies, intervals are too narrow by a tenth
MOST_COMPARED = 200_000  # episodes that are compared with one another
REALIGN = "Move each reward to the row of its own action."
FRAGILE = 1.05  # Γ* below which hardly any unrecorded cause is needed to explain away a gain


@dataclass(frozen=True)
class Caution:
    """Say in a sentence what speaks against an answer, with a code and a severity.

    `remedy` is the part of the sentence that says what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import evaluate, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=40), rng.integers(2, size=40)
    >>> raw = {"x": x, "action": action, "reward": x}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = evaluate(log, "1 if x > 3; else 0", features=None, n_resamples=0)
    >>> worst = found.warnings[0]
    >>> worst.code, worst.severity
    ('few_effective_episodes', 'red')
    >>> worst.remedy.startswith("Collect more episodes")
    True
    """

    code: str
    severity: Severity
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.text


def worst(cautions: Iterable[Caution]) -> Severity | None:
    """The worst severity of the cautions; None if there are none."""
    found = [ORDER.index(c.severity) for c in cautions]
    return ORDER[max(found)] if found else None


def by_severity(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """The worst first, otherwise in the order they came."""
    return tuple(sorted(cautions, key=lambda c: -ORDER.index(c.severity)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that the rules may look at about one answer.

    `observed` is the mean return of the log, `modelled` what the features make of the logged behaviour, and `apart` the
    difference of the two. `few` is the value on the features that matter alone, and `fewer` its difference to the
    value; None where no feature was selected. `sample_mean` says that the answer is the mean return and rests on no
    model.
    """

    own: Estimate
    facts: Facts
    determined: bool
    support: Support
    overlap: Overlap
    misfit: Misfit
    observed: Estimate
    modelled: Estimate
    apart: Estimate
    log: Transitions
    digests: Array | None = None
    behavior: BehaviorPolicy | None = None
    n_chosen: int | None = None
    few: Estimate | None = None
    fewer: Estimate | None = None
    opinion: Estimate | None = None
    sample_mean: bool = False
    clustered: bool = False
    blocks: str = ""
    robustness: float | None = None
    suspected: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """One row of the table. `model` says that the rule is about a fitted value, not about a mean of returns."""

    code: str
    means: str
    when: str
    says: str
    remedy: str
    test: Test
    model: bool
    says_remedy: bool

    def finding(self, evidence: Evidence) -> tuple[Severity, str] | None:
        """The severity and the sentence of this rule; None if it does not apply."""
        found = self.test(evidence)
        if found is None:
            return None
        severity, named = found if isinstance(found, tuple) else (found, {})
        return severity, self.says.format(e=evidence, **named)

    def caution(self, evidence: Evidence) -> Caution | None:
        if (self.model and evidence.sample_mean) or (found := self.finding(evidence)) is None:
            return None
        severity, sentence = found
        text = f"{sentence} {self.remedy}" if self.says_remedy else sentence
        return Caution(self.code, severity, text, self.remedy)


RULES: list[Rule] = []


def rule(*, model: bool = True, says_remedy: bool = True) -> Callable[[Test], Test]:
    """Put a test into the table, with the four paragraphs of its docstring: meaning, limits, sentence, remedy."""

    def entered(test: Test) -> Test:
        means, when, says, remedy = (" ".join(part.split()) for part in str(test.__doc__).split("\n\n"))
        limits = when.removeprefix("When: ").format(**globals())
        texts = (means, limits, says.removeprefix("Says: "), remedy.removeprefix("Do: "))
        RULES.append(Rule(test.__name__, *texts, test, model, says_remedy))
        return test

    return entered


def found_in(evidence: Evidence) -> list[Caution]:
    """All cautions that apply to an answer."""
    cautions = (rule.caution(evidence) for rule in RULES)
    return [caution for caution in cautions if caution is not None]


def _graded(*, red: bool, amber: bool) -> Severity | None:
    return "red" if red else "amber" if amber else None


@rule()
def undetermined(e: Evidence) -> Finding:
    """More than one value fits the rows equally well.

    When: The start states do not lie in the row space of the system that LSTD solves.

    Says: The log does not determine the value, and the number is one of many that fit: there are too few rows for
    these features, or none that count in states that the policy reaches.

    Do: Use fewer features (`--features none`, or `features=` in Python), or a target closer to the log.
    """
    return None if e.determined else "red"


@rule()
def impossible_value(e: Evidence) -> Finding:
    """The value lies outside what rewards like these can add up to.

    When: It is below the least or above the greatest discounted sum of the logged rewards.

    Says: The value {e.own.value:.4g} is impossible: with the rewards of this log a return lies between {low:.4g} and
    {high:.4g}. The features do not fit the log.

    Do: Give features that fit (`features=` in Python), and look at the rewards with `sparsetd inspect`.
    """
    low, high = e.facts.possible()
    inside = low - 1e-9 * abs(low) <= e.own.value <= high + 1e-9 * abs(high)
    return None if inside else ("red", {"low": low, "high": high})


@rule(model=False)
def no_width(e: Evidence) -> Finding:
    """The interval has no width because nothing varies.

    When: The standard error is below a billionth of the value.

    Says: All weighted episodes are identical, so the interval has zero width; that is not certainty.

    Do: Look at the rewards and ratios with `sparsetd inspect`.
    """
    return None if e.own.standard_error > 1e-9 * abs(e.own.value) else "red"


@rule(model=False)
def few_episodes(e: Evidence) -> Finding:
    """Too few independent episodes (or clusters) for a reliable interval.

    When: Fewer than {FEW_EPISODES}.

    Says: The log has only {e.facts.n_clusters} {units}: the interval is rough.

    Do: Collect more of them.
    """
    units = "clusters" if e.clustered else "episodes"
    return None if e.facts.n_clusters >= FEW_EPISODES else ("amber", {"units": units})


@rule()
def cut_episodes(e: Evidence) -> Finding:
    """Part of the return lies after the rows where episodes were cut, and the model fills it in.

    When: The mean discount at the cut is above {SAID_UNSEEN:g} (note), {MUCH_UNSEEN:g} (amber) or {MOST_UNSEEN:g}
    (red); a note where the last rows have no reward.

    Says: {cut} of {e.facts.n_episodes} episodes were cut before they ended. A share of {unseen:.2f} of the value lies
    beyond what was seen, and the model fills it in. The observed return and the reweighted estimates (WIS, PDIS, WPDIS)
    do not count it.

    Do: Log longer episodes, or ask with a smaller `gamma` (`--gamma`).
    """
    unseen, nil = e.facts.unseen / e.facts.n_episodes, e.facts.late == 0
    if unseen <= SAID_UNSEEN:
        return None
    severity = _graded(red=unseen >= MOST_UNSEEN and not nil, amber=unseen >= MUCH_UNSEEN and not nil)
    return severity or "note", {"cut": e.facts.n_episodes - e.facts.n_complete, "unseen": unseen}


@rule(model=False)
def discounted_outcome(e: Evidence) -> Finding:
    """Outcomes that come late count less.

    When: Only the last row of an episode has a reward, every episode terminates, and the discount is below 1.

    Says: Only the last row of an episode has a reward, and the discount is {e.facts.gamma:g}: an outcome after ten rows
    counts {tenth:.2g} of one after the first.

    Do: Ask with `gamma=1` (`--gamma 1`), unless time itself matters.
    """
    discounted = e.facts.gamma != 1 and suspicions.only_outcomes(e.log)
    return ("note", {"tenth": e.facts.gamma**9}) if discounted else None


@rule()
def few_effective_episodes(e: Evidence) -> Finding:
    """A small part of the log carries the answer.

    When: Effective episodes below {FEW:g} or effective rows below {THIN:.0%} (amber); below a quarter of the
    episodes and {ENOUGH:g}, or rows below {THINNER:.0%} (red); in logs of single steps below {FEW_SINGLE:g} (red).

    Says: A small part of the log decides the answer: the {e.support.n_episodes} episodes say as much as
    {e.support.effective_episodes:.0f} that count alike (and as {e.support.share:.1%} of the rows).

    Do: Collect more episodes, closer to what the target policy would do, or ask about a policy closer to the log.
    """
    few, share, single = e.support.effective_episodes, e.support.share, e.facts.most[2] == 1
    if single:
        return _graded(red=few < FEW_SINGLE, amber=few < FEW)
    return _graded(red=(_thin(e.support) and few < ENOUGH) or share < THINNER, amber=few < FEW or share < THIN)


def _small(p: float) -> str:
    """A p-value in words: its exact size below 0.001 says nothing to anybody."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.1g}"


def _thin(support: Support) -> bool:
    """Whether a small share of the episodes carries the weight."""
    return support.effective_episodes < max(SLIGHT * support.n_episodes, VERY_FEW)


@rule()
def extrapolation(e: Evidence) -> Finding:
    """The value rests on states that the log hardly has.

    When: More than {NEGATIVE:.0%} of the implied weight is negative (red above {VERY_NEGATIVE:.0%}, or with thin
    support).

    Says: The policy goes where the log hardly has rows, and the value there is extrapolated:
    {e.support.negative:.0%} of the weight that the answer gives to the rows is negative.

    Do: Use fewer or coarser features (`--features none`, or `features=` in Python), ask about a policy closer to the
    log, or collect data closer to this one.
    """
    if e.support.negative <= NEGATIVE:
        return None
    slight = _thin(e.support) or e.support.share < THIN
    return _graded(red=slight or e.support.negative > VERY_NEGATIVE, amber=True)


@rule()
def misspecified(e: Evidence) -> Finding:
    """The value is not a linear function of the features.

    When: Products of features predict the TD errors (p < {SURE:g}); red where adding them moves the value beyond
    chance, or where it cannot be told whether it does.

    Says: The model has the wrong shape, beyond chance ({p}): a sum of these features cannot represent the value. What
    is missing goes with {columns}. Adding it moves the value by {change.value:+.3g} (± {change.standard_error:.2g}),
    which is {moved:.1f} standard errors of the value.

    Do: Ask boosted trees as well (`--check boosting`), or give more flexible features in Python (`features=`, for
    example `SplineTransformer` of scikit-learn), and evaluate again.
    """
    change, own = e.misfit.change, e.own
    if e.misfit.shape >= SURE or change is None:
        return None
    moved = abs(change.value / own.standard_error) if own.standard_error > 0 else np.inf
    named = {"change": change, "moved": moved, "columns": ", ".join(e.misfit.columns[:3]), "p": _small(e.misfit.shape)}
    return "red" if matters(change, own, e.misfit.bar) else "amber", named


@rule()
def unobserved_state(e: Evidence) -> Finding:
    """Earlier rows predict later errors: the features have the wrong shape, or the state is not fully recorded.

    When: p < {CERTAIN:g}; red where adding the earlier rows to the features moves the value beyond chance, or where
    it cannot be told whether it does. Red also where products of features stand out as well (`misspecified`), and both
    together move the value by more than {TOGETHER:.2g} of its standard error.

    Says: What happened in earlier rows still tells something about the future, beyond chance ({p}): {columns}. Either
    the model has the wrong shape, or the columns do not record all that matters; no test can tell these apart.{effect}

    Do: Add what is missing, or the columns of the step before, to the log; or give more flexible features
    (`features=`).
    """
    p, change, drift = min(e.misfit.memory, e.misfit.outcomes), e.misfit.change, e.misfit.drift
    if p >= CERTAIN:
        return None
    named = {"p": _small(p), "columns": ", ".join(e.misfit.remembered[:3]), "effect": ""}
    if drift is None:
        return "amber", named
    effect = f" Adding it moves the value by {drift.value:+.3g} (± {drift.standard_error:.2g})."
    both = change is not None and abs(change.value + drift.value) > TOGETHER * e.own.standard_error
    return "red" if both or matters(drift, e.own, e.misfit.bar) else "amber", {**named, "effect": effect}


@rule()
def behavior_misfit(e: Evidence) -> Finding:
    """The model is wrong about the logged behaviour, whose return is known.

    When: Modelled and observed return are three standard errors and half a standard error of the value apart.

    Says: The model says that what was done is worth {e.modelled.value:.4g}, but the mean return of the logged episodes
    is {observed:.4g}{tail}, {apart:.1f} standard errors apart. These features do not describe this log, so do not trust
    the value of the policy and the difference either.

    Do: Give other features (`--features none`, or `features=` in Python), and look at the log with `sparsetd inspect`.
    """
    apart, modelled = e.apart, e.modelled
    z = abs(apart.value) / apart.standard_error if apart.standard_error > 0 else 0.0
    away = abs(apart.value) / modelled.standard_error if modelled.standard_error > 0 else 0.0
    rounding = 1e-9 * (abs(modelled.value) + abs(e.observed.value))
    if z < DISAGREE or away < MATTERS or abs(apart.value) <= rounding:
        return None
    tail = "" if e.facts.complete else " (with the model's own value of what was cut)"
    return "red", {"observed": modelled.value - apart.value, "tail": tail, "apart": z}


@rule()
def no_feature(e: Evidence) -> Finding:
    """The log does not show that any feature matters.

    When: Selection keeps none.

    Says: No single feature stands out: the log does not show that any of them changes the value.

    Do: The value is then that of a constant; collect more episodes to learn what it depends on.
    """
    return "amber" if e.n_chosen == 0 else None


@rule()
def selection_disagrees(e: Evidence) -> Finding:
    """The list of features is not the whole story.

    When: The value on the listed features alone is more than three standard errors away.

    Says: The features listed as those that matter do not carry the whole value: with them alone it would be
    {e.few.value:.4g} instead of {e.own.value:.4g}, which is beyond chance.

    Do: The value is computed from all features; do not read the list as complete.
    """
    if not e.n_chosen or e.fewer is None or e.fewer.standard_error <= 0:
        return None
    return "amber" if abs(e.fewer.value) > DISAGREE * e.fewer.standard_error else None


@rule()
def low_coverage(e: Evidence) -> Finding:
    """The target does what the log never shows.

    When: The mean ratio is below {LOW_COVERAGE:g} (red: {VERY_LOW_COVERAGE:g}), beyond chance.

    Says: Only {e.overlap.coverage:.0%} of the policy's choices can be found in the log. What the others are worth is
    extrapolated, and the interval does not account for that.

    Do: Restrict the target to logged actions: a rule such as 'B if lactate > 2' leaves all others as they were.
    """
    high = e.overlap.coverage + 2 * e.overlap.coverage_error
    return _graded(red=high < VERY_LOW_COVERAGE, amber=high < LOW_COVERAGE)


@rule()
def wrong_ratios(e: Evidence) -> Finding:
    """The probabilities cannot be those of the logged actions.

    When: The mean ratio is above {HIGH_MEAN:.2f} (red: {VERY_HIGH_MEAN:.2f}), beyond chance.

    Says: The rows count {e.overlap.mean_ratio:.2f} times on average (their ratios), but for a policy that average is at
    most 1: the probabilities of the logged actions are too small, or belong to other actions. {source}

    Do: Check the logged probabilities, or estimate them with another classifier (`classifier=`, `--classifier`).
    """
    mean, error = e.overlap.mean_ratio, e.overlap.coverage_error
    if mean - 2 * error <= HIGH_MEAN:
        return None
    source = "They were estimated: the classifier does not fit." if e.behavior is not None else "They were logged."
    return "red" if mean - 3 * error > VERY_HIGH_MEAN else "amber", {"source": source}


@rule(says_remedy=False)
def large_ratio(e: Evidence) -> Finding:
    """A single row counts very often.

    When: A ratio is above {HIGH_RATIO:g}.

    Says: One row counts {e.overlap.max_ratio:.0f} times, because people rarely did there what the policy does: a few
    rows may decide the answer.

    Do: Ask about a policy closer to the log, for instance a rule that leaves more decisions as they were.
    """
    return "note" if e.overlap.max_ratio > HIGH_RATIO else None


@rule()
def behavior_uninformative(e: Evidence) -> Finding:
    """The behaviour policy could not be learnt from the state.

    When: Its held-out log loss is no better than that of the frequencies of the actions.

    Says: The estimate of how probable the actions were predicts them no better than their frequencies do. That is right
    if people chose without looking at these columns, and wrong otherwise.

    Do: Try another classifier (`classifier=`, `--classifier boosting`).
    """
    return "amber" if e.behavior is not None and e.behavior.log_loss >= e.behavior.log_loss_marginal else None


@rule()
def behavior_floored(e: Evidence) -> Finding:
    """Many estimated probabilities are nearly 0 for actions that were taken.

    When: More than one in a hundred was raised to the floor.

    Says: {e.behavior.n_floored} estimated probabilities of logged actions were nearly 0 and were raised to
    {e.behavior.floor:g}: the classifier is too sure of itself.

    Do: Try a simpler classifier (`classifier=`, `--classifier logistic`).
    """
    return "amber" if e.behavior is not None and e.behavior.n_floored > 0.01 * len(e.behavior.table) else None


@rule()
def opinions_differ(e: Evidence) -> Finding:
    """Two ways that fail for different reasons disagree.

    When: LSTD-Q, which needs no probabilities of the actions, is more than a standard error away.

    Says: The log does not say how probable its actions were. An estimate that does not need to know (LSTD-Q) gives
    {e.opinion.value:.4g} instead of {e.own.value:.4g}, more than a standard error apart: the estimated probabilities or
    the features miss something.

    Do: Log the probabilities of the actions (`behavior_prob`), or try another classifier (`--classifier boosting`, or
    `classifier=` in Python).
    """
    if e.opinion is None:
        return None
    return "amber" if abs(e.own.value - e.opinion.value) > e.own.standard_error else None


@rule()
def fragile(e: Evidence) -> Finding:
    """Hardly any unrecorded cause is needed to explain away the difference.

    When: Γ* is below {FRAGILE:g}.

    Says: An unrecorded cause that changes the odds of the logged actions by a factor of only {e.robustness:.2f} would
    explain away the difference to what was done.

    Do: Record more of what people looked at when they chose; `sparsetd sensitivity` shows the bounds.
    """
    return "amber" if e.robustness is not None and 1.0 < e.robustness < FRAGILE else None


@rule(model=False, says_remedy=False)
def repeated_episodes(e: Evidence) -> Finding:
    """Episodes are in the log twice.

    When: More than 2 % of them have the rewards and states of another (red: {MANY_COPIES:.0%}).

    Says: {found}

    Do: Remove the copies from the log: `sparsetd prepare` does so.
    """
    if e.digests is None or (sentence := next(suspicions.copied(e.digests), None)) is None:
        return None
    few = len(np.unique(e.digests[0])) > (1 - MANY_COPIES) * e.digests.shape[1]
    return "amber" if few else "red", {"found": _capital(sentence)}


@rule(model=False, says_remedy=False)
def repeated_ids(e: Evidence) -> Finding:
    """Episodes share an id, so they are not independent.

    When: A column whose name is that of an id is the same within every episode and repeats across episodes.

    Says: {found}

    Do: Pass the column as `cluster=` (`--cluster`).
    """
    return None if e.clustered else _suspected(e, suspicions.ids_that_repeat)


@rule(model=False, says_remedy=False)
def timeouts_marked_as_terminals(e: Evidence) -> Finding:
    """A time limit is logged as an end.

    When: Many episodes terminate at exactly the greatest length; red where lengths differ and no column is a clock.

    Says: {found}{told}

    Do: If a time limit cut these episodes, mark their last rows as `truncated`. If they truly end there, as a programme
    of fixed length does, nothing is to be done.
    """
    if (found := _suspected(e, suspicions.timeouts_marked_as_terminals)) is None:
        return None
    several, clock = len(np.unique(np.diff(e.log._bounds()))) > 1, has_clock(e.log)
    told = f" The column {clock} tells the end in advance, as in a programme of fixed length." if clock else ""
    return "red" if several and not clock else "amber", {**found[1], "told": told}


@rule(model=False, says_remedy=False)
def one_record(e: Evidence) -> Finding:
    """The log is one long record, cut into blocks.

    When: It has one episode that is long beside its autocorrelation.

    Says: {e.blocks}

    Do: Number the episodes in a column `episode` if it has several.
    """
    return "note" if e.blocks else None


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _suspected(e: Evidence, check: Check) -> tuple[Severity, dict[str, Any]] | None:
    """The sentence of a check of `inspect`, as an amber finding."""
    sentence = e.suspected.get(check.__name__)
    return None if sentence is None else ("amber", {"found": _capital(sentence)})


# The other checks of `inspect` that bear on the value: what each means, and what to do. The last is about logged
# probabilities.
SUSPECTED: dict[Check, tuple[str, str]] = {
    suspicions.successors_after_a_reset: (
        "A successor is the first state of the next episode.",
        "Log the state before the reset.",
    ),
    suspicions.broken_chains: ("Successors do not match the next rows.", "Complete, sort or realign the rows."),
    suspicions.first_rewards_are_zero: ("Rewards look one row late.", REALIGN),
    suspicions.rewards_fit_a_neighbour: ("Rewards look shifted by a row.", REALIGN),
    suspicions.codes_of_missing_text: (
        "−1 may stand for missing text.",
        "Start from the raw table with `sparsetd prepare`.",
    ),
    suspicions.repeated_rows: ("Rows are repeated.", "Remove the duplicates."),
    suspicions.impossible_propensities: (
        "Logged probabilities cannot be right.",
        "Log the probability of the action taken.",
    ),
}
CHECKED = (suspicions.timeouts_marked_as_terminals, suspicions.ids_that_repeat, *SUSPECTED)
RULES += [
    Rule(
        check.__name__,
        means,
        "`sparsetd inspect` finds it.",
        "{found}",
        remedy,
        partial(_suspected, check=check),
        False,
        False,
    )
    for check, (means, remedy) in SUSPECTED.items()
]


def suspected_in(log: Transitions, estimated: bool) -> dict[str, str]:
    """The suspicions of `inspect` that bear on the value, by the names of their checks.

    The last check is about logged probabilities, so it is left out if they were estimated.
    """
    bounds = log._bounds()
    some = log if len(log) <= MAX_LOOKED else log[: int(bounds[np.searchsorted(bounds, MAX_LOOKED)])]
    out = {}
    for check in CHECKED[:-1] if estimated else CHECKED:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest have no mean
            sentence = next(check(some), None)
        if sentence:
            out[check.__name__] = sentence
    return out


def has_clock(log: Transitions) -> str:
    """The name of a column that has one value in the last rows of the longest episodes and nowhere else; or nothing.

    Such a column counts the steps of a programme, so that its end is no time limit that the features cannot see.
    """
    bounds = log._bounds()
    length = np.diff(bounds)
    last = bounds[1:][length == length.max()] - 1
    elsewhere = np.ones(len(log), dtype=bool)
    elsewhere[last] = False
    for name, column in zip(log.labels(), log.observation.T, strict=True):
        if np.ptp(column[last]) == 0 and not (column[elsewhere] == column[last[0]]).any():
            return name
    return ""
