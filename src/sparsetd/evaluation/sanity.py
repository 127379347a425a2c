"""What the number and its interval, or the log itself, do not say by themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.evaluation.cautions import Caution
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.facts import Facts
from sparsetd.evaluation.linear import LinearValue
from sparsetd.evaluation.target import Question
from sparsetd.logs import suspicions
from sparsetd.system import Array

MAX_UNSEEN = 0.05  # mean discount at which episodes were cut (0: none was) from which that is said
FEW_EPISODES = 20
MAX_LOOKED = 50_000  # rows that are looked at for what is suspicious
# Checks of `inspect` that bear on the value; the last one is of logged probabilities.
SUSPECTED = (
    suspicions.timeouts_marked_as_terminals,
    suspicions.successors_after_a_reset,
    suspicions.broken_chains,
    suspicions.first_rewards_are_zero,
    suspicions.rewards_fit_a_neighbour,
    suspicions.codes_of_missing_text,
    suspicions.repeated_rows,
    suspicions.impossible_propensities,
)
DISAGREE = 3.0  # standard errors between the value on the features that matter and on all of them


@dataclass(frozen=True)
class Selected:
    """The value on the features that matter alone, and its difference to the value on all of them."""

    estimate: Estimate
    change: Estimate


def on_the_value(model: LinearValue, own: Estimate, facts: Facts) -> list[Caution]:
    """Undetermined, impossible or without width; cut episodes; too few of them."""
    out = []
    if not model.determined():
        out.append(
            Caution(
                "undetermined",
                "red",
                "The log does not determine the value: it has too few rows for these features, or none with weight in "
                "states that the target reaches; the number is one of many that fit.",
            )
        )
    low, high = possible(facts)
    if not low - 1e-9 * abs(low) <= own.value <= high + 1e-9 * abs(high):
        out.append(
            Caution(
                "impossible_value",
                "red",
                f"The value {own.value:.4g} is impossible: with the rewards of this log a return lies between "
                f"{low:.4g} and {high:.4g}. The features do not fit the log.",
            )
        )
    if own.standard_error <= 1e-9 * abs(own.value):
        out.append(
            Caution(
                "no_width",
                "red",
                "No episode with weight differs from the others: the interval has no width, which is no sign of "
                "certainty.",
            )
        )
    if facts.n_episodes < FEW_EPISODES:
        out.append(
            Caution("few_episodes", "amber", f"The log has only {facts.n_episodes} episodes: the interval is rough.")
        )
    if facts.unseen / facts.n_episodes > MAX_UNSEEN:
        cut = facts.n_episodes - facts.n_complete
        out.append(
            Caution(
                "cut_episodes",
                "note",
                f"{cut} of {facts.n_episodes} episodes were cut: the value counts what would have followed; the "
                "observed return, WIS, PDIS and WPDIS do not.",
            )
        )
    return out


def possible(facts: Facts) -> tuple[float, float]:
    """The least and the greatest return that rewards like these allow.

    Rewards that come only where an episode terminates are earned once. Otherwise they are earned at every step, for
    ever where an episode was cut, and for twice the longest episode where all of them ended.
    """
    low, high = min(float(facts.least[0]), 0.0), max(float(facts.most[0]), 0.0)
    if not facts.n_early:
        return low, high
    gamma, steps = facts.gamma, 2.0 * float(facts.most[2]) if facts.complete else np.inf
    total = steps if gamma == 1 else (1.0 - gamma**steps) / (1.0 - gamma)
    with np.errstate(invalid="ignore"):
        return tuple(end * total if end else 0.0 for end in (low, high))  # type: ignore[return-value]


def on_the_selection(support: Array, own: Estimate, selected: Selected) -> list[Caution]:
    """No feature kept, or kept ones that do not carry the value."""
    if not len(support):
        return [
            Caution(
                "no_feature",
                "amber",
                "No single feature stands out: the log does not show that any of them changes the value.",
            )
        ]
    change = selected.change
    if change.standard_error > 0 and abs(change.value) > DISAGREE * change.standard_error:
        return [
            Caution(
                "selection_disagrees",
                "amber",
                f"The features listed as those that matter do not carry the whole value: with them alone it would be "
                f"{selected.estimate.value:.4g} instead of {own.value:.4g}, which is beyond chance. The value is "
                "computed from all features; the list is not the whole story.",
            )
        ]
    return []


def on_the_behavior(question: Question) -> list[Caution]:
    """An estimated behaviour policy that says little, or is off."""
    found = question.behavior
    out: list[Caution] = []
    if found is None:
        return out
    if found.log_loss >= found.log_loss_marginal:
        out.append(
            Caution(
                "behavior_uninformative",
                "amber",
                "The estimated behaviour policy predicts actions no better than their frequencies: right if they did "
                "not depend on the state; otherwise try another classifier.",
            )
        )
    if found.n_floored > 0.01 * len(question.log):
        out.append(
            Caution(
                "behavior_floored",
                "amber",
                f"{found.n_floored} estimated behaviour probabilities were raised to {found.floor:g}: the classifier "
                "is too sure of itself; try a simpler or a calibrated one.",
            )
        )
    return out


def on_the_log(question: Question) -> list[Caution]:
    """What `inspect` finds suspicious in the log, as far as it bears on the value."""
    log = question.log
    some = log if len(log) <= MAX_LOOKED else log[: int(log._bounds()[np.searchsorted(log._bounds(), MAX_LOOKED)])]
    out = []
    for check in SUSPECTED if question.behavior is None else SUSPECTED[:-1]:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest have no mean
            sentence = check(some)
        if sentence:
            clear = check is suspicions.timeouts_marked_as_terminals and len(np.unique(np.diff(some._bounds()))) > 1
            out.append(Caution(check.__name__, "red" if clear else "amber", sentence[0].upper() + sentence[1:]))
    return out
