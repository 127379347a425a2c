"""The cautions that a careful reader needs: one table of rules, each with a code, a test, a sentence and a remedy.

A row of the table is a test, a function that returns a severity if the caution applies. Its name is the code. The words
for each code are in `cautions.toml`: what the caution means, when it is given, what the reader is told and what to do.
The sentence takes numbers from `e`, the evidence, and from the test itself.

    note     worth knowing; the answer stands
    amber    read the answer with this in mind
    red      do not use the answer

Every answer of every function runs all rules that apply. `docs/cautions.md` is made from the table:

    python docs/extensions/cautions_page.py > docs/cautions.md
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.misfit import BEFORE, CERTAIN, MATTERS, SURE, bar, matters
from sparsetd.evaluation.support import Support
from sparsetd.logs import Transitions, suspicions
from sparsetd.logs.suspicions import Check

if TYPE_CHECKING:
    from sparsetd.evaluation.evaluator import Judged

Severity = Literal["note", "amber", "red"]
# The result of a test: nothing, a severity, or a severity with the further numbers that the sentence names.
Finding = Severity | tuple[Severity, dict[str, Any]] | None
Test = Callable[["Judged"], Finding]
ORDER: tuple[Severity, ...] = ("note", "amber", "red")

SAID_UNSEEN, MUCH_UNSEEN, MOST_UNSEEN = 0.05, 0.2, 0.5  # mean discount at which episodes were cut (0: none was)
FEW_EPISODES = 20
MAX_LOOKED = 50_000  # rows in which something suspicious is looked for
DISAGREE = 3.0  # standard errors between two values that should agree
FEW, VERY_FEW = 50.0, 8.0  # effective episodes
FEW_SINGLE = 20.0  # the mean of fewer effective episodes of one step is not nearly normal
ENOUGH = 100.0  # with this many effective episodes, their share of the log no longer matters
SLIGHT = 0.25  # share of the episodes that are effective
SPREAD, THIN, THINNER = 0.2, 0.05, 0.01  # share of the rows that are effective
NEGATIVE, VERY_NEGATIVE = 0.05, 0.3  # share of the implied weight that is negative
LOW_COVERAGE, VERY_LOW_COVERAGE = 0.95, 0.8  # mean ratio
HIGH_MEAN, VERY_HIGH_MEAN = 1 / LOW_COVERAGE, 1 / VERY_LOW_COVERAGE
HIGH_RATIO = 100.0
MANY_COPIES = 0.2  # with this share of copies, intervals are too narrow by a tenth
MANY_ENDS = 0.1  # share of the ends that stand at a time limit
MOST_COMPARED = 200_000  # episodes that are compared with one another
CHOICES = f"how likely the policy makes the choices of the {BEFORE} rows before"
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
    return max((c.severity for c in cautions), key=ORDER.index, default=None)


def by_severity(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """The cautions from the worst to the mildest; equals keep their order."""
    return tuple(sorted(cautions, key=lambda c: -ORDER.index(c.severity)))


@dataclass(frozen=True)
class Rule:
    """One row of the table. `model` says that the rule is about a fitted value, not about a mean of returns."""

    code: str
    test: Test
    means: str
    when: str
    says: str
    remedy: str
    model: bool = True
    says_remedy: bool = True

    def caution(self, evidence: Judged) -> Caution | None:
        """The caution of this rule; None if it does not apply."""
        found = None if self.model and evidence.sample_mean else self.test(evidence)
        if found is None:
            return None
        severity, named = found if isinstance(found, tuple) else (found, {})
        text = self.says.format(e=evidence, **named)
        return Caution(self.code, severity, f"{text} {self.remedy}" if self.says_remedy else text, self.remedy)


WORDS = tomllib.loads(files("sparsetd.evaluation").joinpath("cautions.toml").read_text("utf-8"))
RULES: list[Rule] = []


def rule(test: Test, code: str = "") -> Test:
    """Put a test into the table under its name, which is the code, with the words for that code."""
    name = code or test.__name__
    RULES.append(Rule(name, test, **{**WORDS[name], "when": WORDS[name]["when"].format(**globals())}))
    return test


def found_in(evidence: Judged) -> list[Caution]:
    """All cautions that apply to an answer."""
    return [found for rule in RULES if (found := rule.caution(evidence)) is not None]


def _graded(*, red: bool, amber: bool) -> Severity | None:
    return "red" if red else "amber" if amber else None


@rule
def undetermined(e: Judged) -> Finding:
    """More than one value fits the rows equally well."""
    return None if e.model.determined() else "red"


@rule
def impossible_value(e: Judged) -> Finding:
    """The value lies outside what rewards like these can add up to."""
    low, high = e.facts.possible()
    inside = low - 1e-9 * abs(low) <= e.own.value <= high + 1e-9 * abs(high)
    return None if inside else ("red", {"low": low, "high": high})


@rule
def no_width(e: Judged) -> Finding:
    """The interval has no width because nothing varies."""
    return None if e.own.standard_error > 1e-9 * abs(e.own.value) else "red"


@rule
def few_episodes(e: Judged) -> Finding:
    """Too few independent episodes (or clusters) for a reliable interval."""
    units = "clusters" if _clustered(e) else "episodes"
    return None if e.facts.n_clusters >= FEW_EPISODES else ("amber", {"units": units})


@rule
def cut_episodes(e: Judged) -> Finding:
    """Part of the return lies after the rows where episodes were cut, and the model fills it in."""
    unseen, nil = e.facts.unseen / e.facts.n_episodes, e.facts.late == 0
    if unseen <= SAID_UNSEEN:
        return None
    severity = _graded(red=unseen >= MOST_UNSEEN and not nil, amber=unseen >= MUCH_UNSEEN and not nil)
    return severity or "note", {"cut": e.facts.n_episodes - e.facts.n_complete, "unseen": unseen}


@rule
def discounted_outcome(e: Judged) -> Finding:
    """Outcomes that come late count less."""
    gamma, bounds = e.facts.gamma, e.log._bounds()
    if gamma == 1 or not suspicions.only_outcomes(e.log.reward, e.log.terminated, e.log.start):
        return None
    lost = e.log.reward[bounds[1:] - 1] * (1 - gamma ** (np.diff(bounds) - 1.0))
    much = abs(lost.mean()) > MATTERS * e.own.standard_error
    return "amber" if much else "note", {"tenth": gamma**9, "lost": lost.mean()}


@rule
def few_effective_episodes(e: Judged) -> Finding:
    """A small part of the log carries the answer."""
    few, share, single = e.support.effective_episodes, e.support.share, e.facts.most[2] == 1
    if single:
        return _graded(red=few < FEW_SINGLE, amber=few < FEW)
    thin = _thin(e.support) and few < ENOUGH
    hardly_any = few < VERY_FEW or share < THINNER
    return _graded(red=hardly_any or (thin and share < SPREAD), amber=thin or few < FEW or share < THIN)


def _small(p: float) -> str:
    """A p-value in words: its exact size below 0.001 says nothing to anybody."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.1g}"


def _thin(support: Support) -> bool:
    """Whether a small share of the episodes carries the weight."""
    return support.effective_episodes < max(SLIGHT * support.n_episodes, VERY_FEW)


@rule
def extrapolation(e: Judged) -> Finding:
    """The value rests on states that the log hardly has."""
    if e.support.negative <= NEGATIVE:
        return None
    slight = _thin(e.support) or e.support.share < THIN
    return _graded(red=slight or e.support.negative > VERY_NEGATIVE, amber=True)


@rule
def misspecified(e: Judged) -> Finding:
    """The value is not a linear function of the features."""
    change, own = e.misfit.change, e.own
    if e.misfit.shape >= SURE or change is None:
        return None
    moved = abs(change.value / own.standard_error) if own.standard_error > 0 else np.inf
    named = {"change": change, "moved": moved, "columns": ", ".join(e.misfit.columns[:3]), "p": _small(e.misfit.shape)}
    return "red" if matters(change, own) else "amber", named


@rule
def unobserved_state(e: Judged) -> Finding:
    """Earlier rows predict later errors: the features have the wrong shape, or the state is not fully recorded."""
    found, p = e.misfit, min(e.misfit.memory, e.misfit.outcomes, e.misfit.choices)
    if p >= CERTAIN:
        return None
    follow = found.follow if found.choices < CERTAIN else None
    columns = CHOICES if p == found.choices else ", ".join(found.remembered[:3])
    effect = _moved("Adding it", found.drift) + _moved(f"Counting each row by {CHOICES}", follow)
    together = 0.0 if found.change is None or found.drift is None else found.change.value + found.drift.value
    alone = [move for move in (found.drift, follow) if move is not None]
    red = abs(together) > bar(e.own) or any(matters(move, e.own) for move in alone)
    return "red" if red else "amber", {"p": _small(p), "columns": columns, "effect": effect}


def _moved(how: str, by: Estimate | None) -> str:
    """A sentence about what a correction does to the value; nothing without one."""
    return "" if by is None else f" {how} moves the value by {by.value:+.3g} (± {by.standard_error:.2g})."


@rule
def behavior_misfit(e: Judged) -> Finding:
    """The model is wrong about the logged behaviour, whose return is known."""
    apart, modelled = e.logged.apart.estimate(), e.logged.modelled.estimate()
    z = abs(apart.value) / apart.standard_error if apart.standard_error > 0 else 0.0
    away = abs(apart.value) / modelled.standard_error if modelled.standard_error > 0 else 0.0
    rounding = 1e-9 * (abs(modelled.value) + abs(e.logged.observed.value))
    if z < DISAGREE or away < MATTERS or abs(apart.value) <= rounding:
        return None
    tail = "" if e.facts.complete else " (with the model's value of the rest, where episodes were cut)"
    return "red", {"observed": modelled.value - apart.value, "tail": tail, "apart": z}


@rule
def no_feature(e: Judged) -> Finding:
    """The log does not show that any feature matters."""
    return "amber" if e.compared is not None and e.compared.n_chosen == 0 else None


@rule
def selection_disagrees(e: Judged) -> Finding:
    """The list of features is not the whole story."""
    if e.compared is None or not e.compared.n_chosen:
        return None
    fewer = e.compared.few.less(e.value).estimate()
    return "amber" if abs(fewer.value) > DISAGREE * fewer.standard_error > 0 else None


@rule
def low_coverage(e: Judged) -> Finding:
    """The target does what the log never shows."""
    high = e.overlap.coverage + 2 * e.overlap.coverage_error
    return _graded(red=high < VERY_LOW_COVERAGE, amber=high < LOW_COVERAGE)


@rule
def wrong_ratios(e: Judged) -> Finding:
    """The probabilities cannot be those of the logged actions."""
    mean, error = e.overlap.mean_ratio, e.overlap.coverage_error
    if mean - 2 * error <= HIGH_MEAN:
        return None
    source = "They were estimated: the classifier does not fit." if e.behavior is not None else "They were logged."
    return "red" if mean - 2 * error > VERY_HIGH_MEAN else "amber", {"source": source}


@rule
def large_ratio(e: Judged) -> Finding:
    """A single row counts very often."""
    return "note" if e.overlap.max_ratio > HIGH_RATIO else None


@rule
def behavior_uninformative(e: Judged) -> Finding:
    """The behaviour policy could not be learnt from the state."""
    return "amber" if e.behavior is not None and e.behavior.log_loss >= e.behavior.log_loss_marginal else None


@rule
def behavior_floored(e: Judged) -> Finding:
    """Many estimated probabilities are nearly 0 for actions that were taken."""
    return "amber" if e.behavior is not None and e.behavior.n_floored > 0.01 * len(e.behavior.table) else None


@rule
def opinions_differ(e: Judged) -> Finding:
    """Two ways that fail for different reasons disagree."""
    apart = (abs(e.own.value - opinion.value) for opinion in e.opinions[:1])
    return "amber" if any(each > e.own.standard_error for each in apart) else None


@rule
def fragile(e: Judged) -> Finding:
    """Hardly any unrecorded cause is needed to explain away the difference."""
    gamma = None if e.robustness is None else e.robustness.gamma
    return "amber" if gamma is not None and 1.0 < gamma < FRAGILE else None


@rule
def repeated_episodes(e: Judged) -> Finding:
    """Episodes are in the log twice."""
    digests = e.first.digests
    if digests is None or (facts := suspicions.copied(digests)) is None:
        return None
    few = len(np.unique(digests[0])) > (1 - MANY_COPIES) * digests.shape[1]
    return "amber" if few else "red", {"found": _capital(suspicions.sentence("repeated_episodes", facts))}


@rule
def repeated_ids(e: Judged) -> Finding:
    """Episodes share an id, so they are not independent."""
    return None if _clustered(e) else _suspected(e, suspicions.ids_that_repeat)


@rule
def timeouts_marked_as_terminals(e: Judged) -> Finding:
    """A time limit is logged as an end."""
    if (found := _suspected(e, suspicions.timeouts_marked_as_terminals)) is None:
        return None
    if clock := has_clock(e.log):
        return "note", {**found[1], "told": f" The column {clock} tells the end in advance, as in a programme."}
    several = len(np.unique(np.diff(e.log._bounds()))) > 1
    told = (
        " If they truly end there, a column must count the steps, as `sparsetd prepare --keep time` makes one: what is "
        "left to gain depends on it."
    )
    return "red" if several else "amber", {**found[1], "told": told}


@rule
def ends_without_survivors(e: Judged) -> Finding:
    """At a time limit, episodes that end there are in the log, and episodes that went on are not.

    If a column is a clock, every row of that time is an end, and the values of earlier rows follow from ends alone.
    """
    if (facts := suspicions.ends_without_survivors(e.log)) is None:
        return None
    sentence = _capital(suspicions.sentence("ends_without_survivors", facts))
    many = facts["count"] > MANY_ENDS * facts["n"]
    return "red" if many or has_clock(e.log) else "amber", {"found": sentence}


@rule
def one_record(e: Judged) -> Finding:
    """The log is one long record, cut into blocks."""
    return "note" if e.first.log.blocks else None


def _clustered(e: Judged) -> bool:
    return e.first.log.settings.cluster is not None


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _suspected(e: Judged, check: Check) -> tuple[Severity, dict[str, Any]] | None:
    """The sentence of a check of `inspect`, as an amber finding."""
    sentence = e.first.suspected.get(check.__name__)
    return None if sentence is None else ("amber", {"found": _capital(sentence)})


# A check of `inspect` bears on the value if `cautions.toml` has words for it.
for check in suspicions.CHECKS:
    if check.__name__ in WORDS and check.__name__ not in {rule.code for rule in RULES}:
        rule(partial(_suspected, check=check), check.__name__)


def suspected_in(log: Transitions, estimated: bool) -> dict[str, str]:
    """The suspicions of `inspect` that bear on the value, by the names of their checks.

    A check of logged probabilities is left out if they were estimated.
    """
    bounds = log._bounds()
    some = log if len(log) <= MAX_LOOKED else log[: int(bounds[np.searchsorted(bounds, MAX_LOOKED)])]
    asked = {*WORDS, "ids_that_repeat"} - {"repeated_episodes"}  # this rule looks at all episodes, by their digests
    asked -= {"impossible_propensities"} if estimated else set()
    return suspicions.suspected(some, [check for check in suspicions.CHECKS if check.__name__ in asked])


def has_clock(log: Transitions) -> str:
    """The name of a column that has one value in the last rows of the longest episodes and nowhere else; "" if none.

    This column counts the steps of a programme. Its end is not a hidden time limit, because the features show it.
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
