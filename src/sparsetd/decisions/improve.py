"""`improve`: propose a better policy, and recommend it only if episodes it has never seen say so.

    split the episodes → learn and choose on one part → test one policy once on the other → recommend if low > 0

Candidates are chosen by value − 1 standard error of their difference to the logged behaviour, each learnt on one half
of the first part and judged on its other half. The chosen recipe is then carried out on the whole first part. Judging
many candidates on the episodes that are left would invent a gain: exactly one is tested there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.decisions.candidates import Recipe, candidates
from sparsetd.decisions.judge import Judge, numbered
from sparsetd.decisions.score_policy import ScorePolicy
from sparsetd.decisions.shown import Decision
from sparsetd.decisions.simultaneous import Value, minus
from sparsetd.decisions.where import Place, places
from sparsetd.evaluation.behavior import estimate_behavior
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.evaluate import evaluate
from sparsetd.evaluation.result import Evaluation
from sparsetd.logs import Transitions
from sparsetd.logs.partition import hashed, parts_between

FEWEST = 20  # episodes in each part


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Decision):
    """What was proposed, and whether to follow it.

    Attributes
    ----------
    recommended : bool
        Whether the difference to the logged behaviour is above 0 beyond chance on episodes that the policy has not
        seen, the test has no caution of severity "red", and the episodes that taught it spoke for it as well.
    difference : Estimate
    interval : tuple of float
    policy : ScorePolicy
        What was tested, recommended or not.
    evaluation : Evaluation
        The test.
    where : tuple of Place
        Where it differs from what was done in those episodes, for whom, and what that is worth.
    candidates : tuple of (Recipe, Estimate)
        What was tried on the first part, with the inner differences, the best first.
    """

    difference: Estimate
    policy: ScorePolicy
    evaluation: Evaluation
    where: tuple[Place, ...]
    candidates: tuple[tuple[Recipe, Estimate], ...]
    n_learnt: int
    _page = "improvement_page"

    @property
    def interval(self) -> tuple[float, float]:
        return self.difference.interval(self.evaluation.level)

    @property
    def recommended(self) -> bool:
        return not self.against()

    def against(self) -> str:
        """What speaks against the policy; nothing where it is recommended."""
        if self.interval[0] <= 0:
            return "it is not shown to be better than what was done"
        if self.evaluation.severity == "red":
            return "the test itself is not to be trusted: see what speaks against it below"
        if _cautious(self.candidates[0][1]) <= 0:
            return "the episodes that it was learnt from did not speak for it"
        return ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "recommended": self.recommended,
            "difference": {"value": self.difference.value, "interval": self.interval},
            "sentence": self.sentence(),
            "policy": self.policy.to_dict(),
            "recipe": str(self.candidates[0][0]),
            "n_learnt": self.n_learnt,
            "n_tested": self.evaluation.overlap.n_episodes,
            "candidates": [
                {"recipe": str(r), "difference": e.value, "standard_error": e.standard_error}
                for r, e in self.candidates
            ],
            "evaluation": self.evaluation.to_dict(),
            "where": [place.to_dict(self.evaluation.level) for place in self.where],
        }

    def __str__(self) -> str:
        return "\n".join([self.sentence(), str(self.policy), "the test:", str(self.evaluation)])

    def sentence(self) -> str:
        """The decision in words."""
        low, high = self.interval
        level = f"{100 * self.evaluation.level:.6g} %"
        found = f"{self.difference.value:+.4f} ({level} interval {low:+.4f} to {high:+.4f})"
        n = self.evaluation.overlap.n_episodes
        start = f"Learnt from {self.n_learnt} episodes and tested once on {n} others, the proposed policy differs from "
        start += f"what was done by {found}."
        against = self.against()
        return f"{start} It is not recommended: {against}." if against else f"{start} It is better and is recommended."


def improve(
    log: Transitions,
    *,
    gamma: float = 0.99,
    classifier: Any = None,
    level: float = 0.95,
    learn: float = 0.5,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Improvement:
    """Learn a readable policy on one part of the episodes and test it once on the other.

    Parameters
    ----------
    log : Transitions
        In whole episodes, with integer actions. Missing behaviour probabilities are estimated.
    level : float
        Of the interval of the difference; the policy is recommended if its lower end is above 0.
    learn : float
        Share of the episodes to learn and choose from.
    seed : int
        Of the split.
    """
    tell = progress or (lambda _: None)
    _check(log, learn)
    needed = log.behavior_prob is None or classifier is not None
    behavior = estimate_behavior(log, classifier) if needed else None  # it sees no rewards: no part learns of the other
    known = replace(log if behavior is None else behavior.apply(log), target_prob=None, ratio=None)
    hashes, cut = hashed(known.ids(), f"improve {seed}"), round(learn * known.n_episodes)
    later = parts_between(np.sort(hashes)[[cut]], hashes)[numbered(known)]
    first, test = (known[np.flatnonzero(later == part)] for part in (0, 1))
    n_actions = int(np.asarray(log.action).max()) + 1
    ranked = _ranked(first, gamma, n_actions, seed, tell)
    tell(f"learning the chosen policy ({ranked[0][0]}) on {cut} episodes")
    policy = candidates(first, gamma, n_actions)[ranked[0][0]]
    tell(f"testing it once on {test.n_episodes} other episodes")
    gain, where = _tested(test, policy, gamma)
    asked = replace(policy, learnt_from=policy.learnt_from[:0])  # none of these: they were set aside
    found = evaluate(test, asked, gamma=gamma, level=level, n_resamples=0, seed=seed)
    found = replace(found, behavior_policy=None if behavior is None else behavior.summary())
    return Improvement(gain, policy, found, where, tuple(ranked), cut)


def _tested(test: Transitions, policy: ScorePolicy, gamma: float) -> tuple[Estimate, tuple[Place, ...]]:
    """The difference to the behaviour, both fitted to the same features, and where it comes from."""
    judge = Judge.of(test, gamma)
    own, same = judge.fit(judge.ratio(policy, "proposed")), judge.fit(np.ones(len(test)))
    return _gain(own.value, same.value), places(judge, own, same)


def _check(log: Transitions, learn: float) -> None:
    if log.action is None or log.action.ndim != 1 or log.action.dtype.kind != "i":
        raise ValueError("`action` must be a column of integers 0, 1, … to learn a policy: log the actions.")
    if len(np.unique(log.action)) < 2:
        raise ValueError("The log shows a single action: there is nothing to choose from.")
    if not 0 < learn < 1:
        raise ValueError(f"`learn` must lie strictly between 0 and 1, but it is {learn}: pass a share of the episodes.")
    smaller = min(round(learn * log.n_episodes), log.n_episodes - round(learn * log.n_episodes))
    if smaller < FEWEST:
        raise ValueError(
            f"The smaller part of the split has {smaller} of {log.n_episodes} episodes, too few to learn from or to "
            f"test on: collect at least {FEWEST} for each part."
        )


def _ranked(
    log: Transitions, gamma: float, n_actions: int, seed: int, tell: Callable[[str], None]
) -> list[tuple[Recipe, Estimate]]:
    """Recipes by value − 1 s.e. of their difference to the behaviour, over both inner halves."""
    inner = log.parts(2, f"choose {seed}")
    found: dict[Recipe, list[Estimate]] = {}
    for half in (0, 1):
        tell(f"learning candidates, half {half + 1} of 2")
        learnt = candidates(log[np.flatnonzero(inner == half)], gamma, n_actions)
        judge = Judge.of(log[np.flatnonzero(inner != half)], gamma)
        same = judge.value(np.ones(len(judge.log)))
        for recipe, policy in learnt.items():
            found.setdefault(recipe, []).append(_gain(judge.value(judge.ratio(policy, str(recipe))), same))
    pooled = [(recipe, _pooled(str(recipe), pair)) for recipe, pair in found.items()]
    ranked = sorted(pooled, key=lambda entry: -_cautious(entry[1]))
    simple = next((entry for entry in ranked if entry[0].few), ranked[0])
    # A table of few columns is taken where it is as good as the best to within the error.
    good = _cautious(simple[1]) >= _cautious(ranked[0][1]) - ranked[0][1].standard_error
    return [simple, *(entry for entry in ranked if entry is not simple)] if good else ranked


def _gain(own: Value, same: Value) -> Estimate:
    return Estimate.of_influence("difference", *minus(own, same))


def _cautious(e: Estimate) -> float:
    return e.value - e.standard_error


def _pooled(name: str, halves: list[Estimate]) -> Estimate:
    value = float(np.mean([e.value for e in halves]))
    error = float(np.sqrt(sum(e.standard_error**2 for e in halves))) / len(halves)
    return Estimate(name, value, error, sum(e.n_effective for e in halves), min(e.freedom for e in halves))
