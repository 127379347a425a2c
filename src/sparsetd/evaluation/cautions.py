"""What a careful reader must be told: one table of rules, each with a code, a test, a sentence and a remedy.

    note     worth knowing; the answer stands
    amber    read the answer with this in mind
    red      do not use the answer

Every answer of every function runs all rules that apply. `docs/cautions.md` is made from the table:

    python -c "from sparsetd.evaluation import cautions; print(cautions.page(), end='')" > docs/cautions.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sparsetd.evaluation.behavior import BehaviorPolicy
from sparsetd.evaluation.episodes import Facts
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.misfit import CERTAIN, MATTERS, SURE, Misfit, matters
from sparsetd.evaluation.support import Overlap, Support
from sparsetd.logs import Transitions, suspicions
from sparsetd.system import Array

Severity = Literal["note", "amber", "red"]
Finding = tuple[Severity, str] | None
Test = Callable[["Evidence"], Finding]
ORDER: tuple[Severity, ...] = ("note", "amber", "red")

SAID_UNSEEN, MUCH_UNSEEN, MOST_UNSEEN = 0.05, 0.2, 0.5  # mean discount at which episodes were cut (0: none was)
FEW_EPISODES = 20
MAX_LOOKED = 50_000  # rows that are looked at for what is suspicious
DISAGREE = 3.0  # standard errors between two values that should agree
FEW, VERY_FEW = 50.0, 8.0  # effective episodes
FEW_SINGLE = 20.0  # effective episodes of one step, below which their mean is not nearly normal
ENOUGH = 100.0  # effective episodes from which their share no longer matters
SLIGHT = 0.25  # share of the episodes
THIN, THINNER = 0.05, 0.01  # share of the rows
NEGATIVE, VERY_NEGATIVE = 0.05, 0.3
LOW_COVERAGE, VERY_LOW_COVERAGE = 0.95, 0.8  # of the mean ratio
HIGH_MEAN, VERY_HIGH_MEAN = 1 / LOW_COVERAGE, 1 / VERY_LOW_COVERAGE
HIGH_RATIO = 100.0
MANY_COPIES = 0.2  # a share of copies from which intervals are wrong by a tenth
MOST_COMPARED = 200_000  # episodes that are compared with one another
FRAGILE = 1.05  # Γ* below which hardly any unrecorded cause is needed to explain a gain away


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
    """The worst severity among them; None where there is none."""
    found = [ORDER.index(c.severity) for c in cautions]
    return ORDER[max(found)] if found else None


def by_severity(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """The worst first, otherwise in the order they came."""
    return tuple(sorted(cautions, key=lambda c: -ORDER.index(c.severity)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of one answer.

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
    remedy: str
    test: Callable[[Evidence], Finding]
    model: bool
    says_remedy: bool

    def caution(self, evidence: Evidence) -> Caution | None:
        if (self.model and evidence.sample_mean) or (found := self.test(evidence)) is None:
            return None
        severity, sentence = found
        text = f"{sentence} {self.remedy}" if self.says_remedy else sentence
        return Caution(self.code, severity, text, self.remedy)


RULES: list[Rule] = []


def rule(*, model: bool = True, says_remedy: bool = True) -> Callable[[Test], Test]:
    """Put a test into the table: its name is the code, its docstring the meaning, the limits and the remedy."""

    def entered(test: Test) -> Test:
        means, when, remedy = (" ".join(part.split()) for part in str(test.__doc__).format(**globals()).split("\n\n"))
        row = (test.__name__, means, when.removeprefix("When: "), remedy.removeprefix("Do: "), test)
        RULES.append(Rule(*row, model, says_remedy))
        return test

    return entered


def found_in(evidence: Evidence) -> list[Caution]:
    """Return what all rules say of an answer."""
    cautions = (rule.caution(evidence) for rule in RULES)
    return [caution for caution in cautions if caution is not None]


@rule()
def undetermined(e: Evidence) -> Finding:
    """More than one value fits the rows equally well.

    When: The start states do not lie in the row space of the system that LSTD solves.

    Do: Use fewer features (`--features none`, or `features=` in Python), or a target closer to the log.
    """
    if e.determined:
        return None
    return "red", (
        "The log does not determine the value: it has too few rows for these features, or none with weight in states "
        "that the target reaches; the number is one of many that fit."
    )


@rule()
def impossible_value(e: Evidence) -> Finding:
    """The value lies outside what rewards like these can add up to.

    When: It is below the least or above the greatest discounted sum of the logged rewards.

    Do: Give features that fit (`features=` in Python), and look at the rewards with `sparsetd inspect`.
    """
    low, high = e.facts.possible()
    if low - 1e-9 * abs(low) <= e.own.value <= high + 1e-9 * abs(high):
        return None
    return "red", (
        f"The value {e.own.value:.4g} is impossible: with the rewards of this log a return lies between {low:.4g} and "
        f"{high:.4g}. The features do not fit the log."
    )


@rule(model=False)
def no_width(e: Evidence) -> Finding:
    """The interval has no width because nothing varies.

    When: The standard error is below a billionth of the value.

    Do: Look at the rewards and ratios with `sparsetd inspect`.
    """
    if e.own.standard_error > 1e-9 * abs(e.own.value):
        return None
    return "red", "All weighted episodes are identical, so the interval has zero width; that is not certainty."


@rule(model=False)
def few_episodes(e: Evidence) -> Finding:
    """Too few independent episodes (or clusters) for a reliable interval.

    When: Fewer than {FEW_EPISODES}.

    Do: Collect more of them.
    """
    if e.facts.n_clusters >= FEW_EPISODES:
        return None
    what = "clusters" if e.clustered else "episodes"
    return "amber", f"The log has only {e.facts.n_clusters} {what}: the interval is rough."


@rule()
def cut_episodes(e: Evidence) -> Finding:
    """Part of the return lies after the rows where episodes were cut, and the model fills it in.

    When: The mean discount at the cut is above {SAID_UNSEEN:g} (note), {MUCH_UNSEEN:g} (amber) or {MOST_UNSEEN:g}
    (red); a note where no reward was earned in the last rows.

    Do: Log longer episodes, or ask with a smaller `gamma` (`--gamma`).
    """
    facts = e.facts
    unseen = facts.unseen / facts.n_episodes
    if unseen <= SAID_UNSEEN:
        return None
    cut = facts.n_episodes - facts.n_complete
    nil = facts.late == 0
    severity: Severity = "note" if unseen < MUCH_UNSEEN or nil else "amber" if unseen < MOST_UNSEEN else "red"
    return severity, (
        f"{cut} of {facts.n_episodes} episodes were cut, at a mean discount of {unseen:.2f}: that share of the weight "
        "lies beyond what was seen, and the model fills it in. Observed return, WIS, PDIS and WPDIS do not count it."
    )


@rule(model=False)
def discounted_outcome(e: Evidence) -> Finding:
    """Outcomes that come late count less.

    When: Only the last row of an episode has a reward, every episode terminates, and the discount is below 1.

    Do: Ask with `gamma=1` (`--gamma 1`), unless time itself matters.
    """
    gamma = e.facts.gamma
    if gamma == 1 or not suspicions.only_outcomes(e.log):
        return None
    return "note", (
        f"Only the last row of an episode has a reward, and the discount is {gamma:g}: an outcome after ten rows "
        f"counts {gamma**9:.2g} of one after the first."
    )


@rule()
def few_effective_episodes(e: Evidence) -> Finding:
    """A small part of the log carries the answer.

    When: Effective episodes below {FEW:g} or effective rows below {THIN:.0%} (amber); below a quarter of the
    episodes and {ENOUGH:g}, or rows below {THINNER:.0%} (red); in logs of single steps below {FEW_SINGLE:g} (red).

    Do: Collect more episodes, closer to what the target policy would do, or ask about a policy closer to the log.
    """
    support, single = e.support, e.facts.most[2] == 1
    few = support.effective_episodes
    thin = few < max(SLIGHT * support.n_episodes, VERY_FEW)
    bad = few < FEW_SINGLE if single else (thin and few < ENOUGH) or support.share < THINNER
    if not (bad or few < FEW or (support.share < THIN and not single)):
        return None
    return "red" if bad else "amber", (
        f"The weight of the answer is spread like that of {few:.0f} of {support.n_episodes} episodes "
        f"({support.share:.1%} of the rows): a few of them decide it."
    )


@rule()
def extrapolation(e: Evidence) -> Finding:
    """The value rests on states that the log hardly has.

    When: More than {NEGATIVE:.0%} of the implied weight is negative (red above {VERY_NEGATIVE:.0%}, or with thin
    support).

    Do: Use fewer or coarser features (`--features none`, or `features=` in Python), or collect data closer to the
    target.
    """
    support = e.support
    if support.negative <= NEGATIVE:
        return None
    thin = support.effective_episodes < max(SLIGHT * support.n_episodes, VERY_FEW)
    bad = thin or support.share < THIN or support.negative > VERY_NEGATIVE
    return "red" if bad else "amber", (
        f"{support.negative:.0%} of the weight that the answer gives to the rows is negative: the value is "
        "extrapolated beyond the states of the log."
    )


@rule()
def misspecified(e: Evidence) -> Finding:
    """The value is not a linear function of the features.

    When: Products of features predict the TD errors (p < {SURE:g}); red where adding them moves the value beyond
    chance, or where it cannot be told whether it does.

    Do: Ask boosted trees as well (`--check boosting`), or give more flexible features in Python (`features=`, for
    example `SplineTransformer` of scikit-learn), and evaluate again.
    """
    change, own = e.misfit.change, e.own
    if e.misfit.shape >= SURE or change is None:
        return None
    moved = change.value / own.standard_error if own.standard_error > 0 else np.inf
    return "red" if matters(change, own, e.misfit.bar) else "amber", (
        f"A linear function of these features cannot represent the value (p = {e.misfit.shape:.1g}; what is missing "
        f"goes with {', '.join(e.misfit.columns[:3])}). Adding it moves the value by {change.value:+.3g}, "
        f"{abs(moved):.1f} standard errors, with a standard error of {change.standard_error:.3g}."
    )


@rule()
def unobserved_state(e: Evidence) -> Finding:
    """Earlier rows predict later errors: the features have the wrong shape, or the state is not fully recorded.

    When: p < {CERTAIN:g}; red where adding the earlier rows to the features moves the value beyond chance, or where
    it cannot be told whether it does.

    Do: Add what is missing, or the columns of the step before, to the log; or give more flexible features
    (`features=`).
    """
    p = min(e.misfit.memory, e.misfit.outcomes)
    if p >= CERTAIN:
        return None
    drift = e.misfit.drift
    bad = drift is not None and matters(drift, e.own, e.misfit.bar)
    effect = ""
    if drift is not None:
        effect = f" Adding it moves the value by {drift.value:+.3g} (± {drift.standard_error:.2g})."
    return "red" if bad else "amber", (
        f"What happened before still tells something about the future (p = {p:.1g}; "
        f"{', '.join(e.misfit.remembered[:3])}): the features have the wrong shape, or the state is not fully "
        f"recorded; no test can tell these apart.{effect}"
    )


@rule()
def behavior_misfit(e: Evidence) -> Finding:
    """The model is wrong about the logged behaviour, whose return is known.

    When: Modelled and observed return are three standard errors and half a standard error of the value apart.

    Do: Give other features (`--features none`, or `features=` in Python), and look at the log with `sparsetd inspect`.
    """
    apart, modelled = e.apart, e.modelled
    z = apart.value / apart.standard_error if apart.standard_error > 0 else 0.0
    away = abs(apart.value) / modelled.standard_error if modelled.standard_error > 0 else 0.0
    rounding = 1e-9 * (abs(modelled.value) + abs(e.observed.value))
    if abs(z) < DISAGREE or away < MATTERS or abs(apart.value) <= rounding:
        return None
    earned = modelled.value - apart.value
    tail = "" if e.facts.complete else " (with the model's own value of what was cut)"
    return "red", (
        f"The model puts the logged behaviour at {modelled.value:.4g}, but its episodes earned {earned:.4g}{tail}, "
        f"{abs(z):.1f} standard errors apart: these features do not describe this log, so the value of the target and "
        "the difference are not to be trusted either."
    )


@rule()
def no_feature(e: Evidence) -> Finding:
    """The log does not show that any feature matters.

    When: Selection keeps none.

    Do: The value is then that of a constant; collect more episodes to learn what it depends on.
    """
    if e.n_chosen is None or e.n_chosen:
        return None
    return "amber", "No single feature stands out: the log does not show that any of them changes the value."


@rule()
def selection_disagrees(e: Evidence) -> Finding:
    """The list of features is not the whole story.

    When: The value on the listed features alone is more than three standard errors away.

    Do: The value is computed from all features; do not read the list as complete.
    """
    if not e.n_chosen or e.few is None or e.fewer is None:
        return None
    if e.fewer.standard_error <= 0 or abs(e.fewer.value) <= DISAGREE * e.fewer.standard_error:
        return None
    return "amber", (
        "The features listed as those that matter do not carry the whole value: with them alone it would be "
        f"{e.few.value:.4g} instead of {e.own.value:.4g}, which is beyond chance."
    )


@rule()
def low_coverage(e: Evidence) -> Finding:
    """The target does what the log never shows.

    When: The mean ratio is below {LOW_COVERAGE:g} (red: {VERY_LOW_COVERAGE:g}), beyond chance.

    Do: Restrict the target to logged actions: a rule such as 'B if lactate > 2' leaves all others as they were.
    """
    high = e.overlap.coverage + 2 * e.overlap.coverage_error
    if high >= LOW_COVERAGE:
        return None
    return "red" if high < VERY_LOW_COVERAGE else "amber", (
        f"Only {e.overlap.coverage:.0%} of the target policy's choices can be found in the log: its value where it "
        "does something else is extrapolated, and the interval does not cover that."
    )


@rule()
def wrong_ratios(e: Evidence) -> Finding:
    """The probabilities cannot be those of the logged actions.

    When: The mean ratio is above {HIGH_MEAN:.2f} (red: {VERY_HIGH_MEAN:.2f}), beyond chance.

    Do: Check the logged probabilities, or estimate them with another classifier (`classifier=`, `--classifier`).
    """
    mean, error = e.overlap.mean_ratio, e.overlap.coverage_error
    if mean - 2 * error <= HIGH_MEAN:
        return None
    source = "They were estimated: the classifier does not fit." if e.behavior is not None else "They were logged."
    return "red" if mean - 3 * error > VERY_HIGH_MEAN else "amber", (
        f"The ratios average {mean:.2f}, but those of a policy average at most 1: the behaviour probabilities are too "
        f"small, or belong to other actions. {source}"
    )


@rule(says_remedy=False)
def large_ratio(e: Evidence) -> Finding:
    """A single row counts very often.

    When: A ratio is above {HIGH_RATIO:g}.

    Do: Ask about a policy closer to the log, for instance a rule that leaves more decisions as they were.
    """
    if e.overlap.max_ratio <= HIGH_RATIO:
        return None
    return "note", f"One transition counts {e.overlap.max_ratio:.0f} times: a few rows may decide the answer."


@rule()
def behavior_uninformative(e: Evidence) -> Finding:
    """The behaviour policy could not be learnt from the state.

    When: Its held-out log loss is no better than that of the frequencies of the actions.

    Do: Try another classifier (`classifier=`, `--classifier boosting`).
    """
    if e.behavior is None or e.behavior.log_loss < e.behavior.log_loss_marginal:
        return None
    return "amber", (
        "The estimated behaviour policy predicts actions no better than their frequencies: right if they did not "
        "depend on the state, wrong otherwise."
    )


@rule()
def behavior_floored(e: Evidence) -> Finding:
    """Many estimated probabilities are nearly 0 for actions that were taken.

    When: More than one in a hundred was raised to the floor.

    Do: Try a simpler classifier (`classifier=`, `--classifier logistic`).
    """
    if e.behavior is None or e.behavior.n_floored <= 0.01 * len(e.behavior.table):
        return None
    return "amber", (
        f"{e.behavior.n_floored} estimated behaviour probabilities were raised to {e.behavior.floor:g}: the classifier "
        "is too sure of itself."
    )


@rule()
def opinions_differ(e: Evidence) -> Finding:
    """Two ways that fail for different reasons disagree.

    When: LSTD-Q, which needs no propensities, is more than a standard error away.

    Do: Log the propensities (`behavior_prob`), or try another classifier (`classifier=`).
    """
    if e.opinion is None or abs(e.own.value - e.opinion.value) <= e.own.standard_error:
        return None
    return "amber", (
        f"Without logged propensities the value was also estimated without any (LSTD-Q): {e.opinion.value:.4g} instead "
        f"of {e.own.value:.4g}, more than a standard error apart. The estimated propensities or the features miss "
        "something."
    )


@rule()
def fragile(e: Evidence) -> Finding:
    """Hardly any unrecorded cause is needed to explain the difference away.

    When: Γ* is below {FRAGILE:g}.

    Do: Record more of what the actions followed; `sparsetd sensitivity` shows the bounds.
    """
    if e.robustness is None or not 1.0 < e.robustness < FRAGILE:
        return None
    return "amber", (
        f"An unrecorded cause that changes the odds of the logged actions by a factor of {e.robustness:.2f} would "
        "explain the difference to the logged behaviour away."
    )


@rule(model=False, says_remedy=False)
def repeated_episodes(e: Evidence) -> Finding:
    """Episodes are in the log twice.

    When: More than 2 % of them have the rewards and states of another (red: {MANY_COPIES:.0%}).

    Do: Remove the copies from the log: `sparsetd prepare` does so.
    """
    if e.digests is None or (sentence := suspicions.copied(e.digests)) is None:
        return None
    few = len(np.unique(e.digests[0])) > (1 - MANY_COPIES) * e.digests.shape[1]
    return "amber" if few else "red", _sentence(sentence)


@rule(model=False, says_remedy=False)
def repeated_ids(e: Evidence) -> Finding:
    """Episodes share an id, so they are not independent.

    When: A column whose name is that of an id is the same within every episode and repeats across episodes.

    Do: Pass the column as `cluster=` (`--cluster`).
    """
    sentence = e.suspected.get("ids_that_repeat")
    return None if e.clustered or sentence is None else ("amber", _sentence(sentence))


@rule(model=False, says_remedy=False)
def timeouts_marked_as_terminals(e: Evidence) -> Finding:
    """A time limit is logged as an end.

    When: Many episodes terminate at exactly the greatest length; red where lengths differ and no column is a clock.

    Do: Mark those rows as `truncated`.
    """
    if (sentence := e.suspected.get("timeouts_marked_as_terminals")) is None:
        return None
    several = len(np.unique(np.diff(e.log._bounds()))) > 1
    clock = has_clock(e.log)
    words = f" The column {clock} tells the end in advance, as in a programme of fixed length." if clock else ""
    return "red" if several and not clock else "amber", _sentence(sentence) + words


@rule(model=False, says_remedy=False)
def one_record(e: Evidence) -> Finding:
    """The log is one long record, cut into blocks.

    When: It has one episode that is long beside its autocorrelation.

    Do: Number the episodes in a column `episode` if it has several.
    """
    return ("note", e.blocks) if e.blocks else None


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


# Checks of `inspect` that bear on the value: what each means, and what to do; logged probabilities come last.
SUSPECTED: dict[Callable[[Transitions], str | None], tuple[str, str]] = {
    suspicions.successors_after_a_reset: (
        "A successor is the first state of the next episode.",
        "Log the state before the reset.",
    ),
    suspicions.broken_chains: ("Successors do not match the next rows.", "Complete, sort or realign the rows."),
    suspicions.first_rewards_are_zero: (
        "Rewards look one row late.",
        "Move each reward to the row of its own action.",
    ),
    suspicions.rewards_fit_a_neighbour: (
        "Rewards look shifted by a row.",
        "Move each reward to the row of its own action.",
    ),
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


def _is_suspected(code: str) -> Test:
    def test(e: Evidence) -> Finding:
        sentence = e.suspected.get(code)
        return None if sentence is None else ("amber", _sentence(sentence))

    return test


RULES += [
    Rule(check.__name__, means, "`sparsetd inspect` finds it.", remedy, _is_suspected(check.__name__), False, False)
    for check, (means, remedy) in SUSPECTED.items()
]


def suspected_in(log: Transitions, estimated: bool) -> dict[str, str]:
    """What `inspect` finds suspicious in a log, as far as it bears on the value; logged probabilities come last."""
    bounds = log._bounds()
    some = log if len(log) <= MAX_LOOKED else log[: int(bounds[np.searchsorted(bounds, MAX_LOOKED)])]
    out = {}
    for check in CHECKED[:-1] if estimated else CHECKED:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest have no mean
            sentence = check(some)
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


def page() -> str:
    """The table as a page of the documentation."""
    lines = [
        "# Cautions",
        "",
        "Every answer of `evaluate`, `compare`, `improve` and `sensitivity` runs all rules of this table that apply to",
        "it. **Red** means: do not use the answer. **Amber**: read it with this in mind. A **note** is worth knowing.",
        "The page is made from the table in `sparsetd.evaluation.cautions`. What no rule can test is on the page",
        "[Assumptions](assumptions.md).",
        "",
    ]
    for row in RULES:
        lines += [f"## {row.code}", "", row.means, "", f"*When:* {row.when}", "", f"*What to do:* {row.remedy}", ""]
    return "\n".join(lines)
