"""`improve`: propose a better policy, and recommend it only if episodes it has never seen say so, in several splits.

    split the episodes → learn and choose on one part → test one policy once on the other → recommend if low > 0

Candidates are chosen by value − 1 standard error of their difference to the logged behaviour, each learnt on one half
of the first part and judged on its other half. The chosen recipe is then carried out on the whole first part. Judging
many candidates on the episodes that are left would invent a gain: exactly one is tested there. One split may be lucky,
so all of it is done for several: the difference and the ends of its interval are the medians over the splits, each
interval at the level 1 − (1 − level)/2 (Chernozhukov et al., 2018), and the policy is that of the median difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd._tools.lazy_names import renamed
from sparsetd._tools.numbers import Numbers, at_level
from sparsetd.evaluation.cautions import FRAGILE
from sparsetd.evaluation.episodes import cluster_of
from sparsetd.evaluation.estimate import Estimate
from sparsetd.evaluation.evaluator import gains, judge
from sparsetd.evaluation.reading import Progress, Settings
from sparsetd.evaluation.result import ASSUMPTIONS, Decision, Evaluation, Robustness
from sparsetd.evaluation.score_policy import Recipe, ScorePolicy, candidates
from sparsetd.evaluation.subgroups import Place, places, thirds_of
from sparsetd.logs import Transitions, concatenate, shards
from sparsetd.logs.engines import Engine
from sparsetd.logs.partition import cuts, hashed, parts_between
from sparsetd.system import Array

WIDE = 500  # with more actions times columns than this, candidates are ranked on the columns as they came
FEWEST = 20  # episodes (or clusters) in each part


@dataclass(frozen=True, eq=False)
class Split:
    """One split: the proposed policy, its test on the other episodes, and all candidates."""

    policy: ScorePolicy
    evaluation: Evaluation
    where: tuple[Place, ...]
    candidates: tuple[tuple[Recipe, Estimate], ...]
    n_learnt: int


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(Decision, Split):
    """Hold the policy that `improve` proposes, its test, and whether to follow it.

    Attributes
    ----------
    recommended : bool
        Whether the difference to the logged behaviour is above 0 beyond chance on episodes that the policy has not
        seen, the test has no caution of severity "red", the episodes that taught it spoke for it as well, and more
        than a slight unrecorded cause would be needed to explain it away.
    difference : Estimate
        The median over the splits, whose number is odd.
    interval : tuple of float
        The medians of the lower and of the upper ends over the splits.
    policy : ScorePolicy
        The policy that was tested, recommended or not.
    evaluation : Evaluation
        The test.
    where : tuple of Place
        Where the policy differs from what was done in the test episodes, for whom, and what that is worth.
    candidates : tuple of (Recipe, Estimate)
        The candidates of the first part with their differences to what was done, the best first.
    splits : tuple of Split
        All splits; the attributes above are those of the one with the median difference.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import improve, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = improve(log, features=None, n_resamples=3)
    >>> found.recommended, len(found.splits), found.n_learnt
    (True, 3, 150)
    >>> found.interval[0] < found.difference.value < found.interval[1]
    True
    """

    splits: tuple[Split, ...]
    _page = "decision_page:improvement"

    @classmethod
    def of(cls, splits: Sequence[Split]) -> Improvement:
        """The split of the median difference, with all of them."""
        ranked = sorted(splits, key=lambda split: split.evaluation.difference.value)
        return cls(**vars(ranked[(len(ranked) - 1) // 2]), splits=tuple(splits))

    @property
    def level(self) -> float:
        return self.evaluation.level

    @property
    def robustness(self) -> Robustness | None:
        return self.evaluation.robustness

    @property
    def difference(self) -> Estimate:
        return self.evaluation.difference

    @property
    def interval(self) -> tuple[float, float]:
        # The median of several intervals holds at the level only if each has half the error (Chernozhukov et al.).
        level = self.level if len(self.splits) == 1 else 1 - (1 - self.level) / 2
        ends = [split.evaluation.difference.interval(level) for split in self.splits]
        low, high = np.median(np.array(ends), axis=0)
        return float(low), float(high)

    @property
    def recommended(self) -> bool:
        return not self.against()

    def against(self) -> str:
        """The first reason against the policy, in words; "" if it is recommended."""
        if self.interval[0] <= 0:
            return "it is not shown to be better than what was done"
        red = [split.evaluation.severity == "red" for split in self.splits]
        if np.mean(red) > 0.5 or self.evaluation.severity == "red":
            return "the test itself is not to be trusted: see what speaks against it below"
        if np.mean([_cautious(split.candidates[0][1]) <= 0 for split in self.splits]) > 0.5:
            return "the episodes that it was learnt from did not speak for it"
        found = self.robustness
        if found is not None and found.gamma is not None and found.gamma < FRAGILE:
            return (
                f"an unrecorded cause that changes the odds of the actions by {found.gamma:.2f} would explain it away"
            )
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for the page."""
        tried = [
            {"recipe": str(r), "difference": e.value, "standard_error": e.standard_error} for r, e in self.candidates
        ]
        splits = []
        for split in self.splits:
            gain, recipe = split.evaluation.difference, str(split.candidates[0][0])
            told = {"difference": gain.value, "interval": gain.interval(self.level), "recipe": recipe}
            splits.append({**told, "severity": split.evaluation.severity})
        return {
            "recommended": self.recommended,
            "difference": {"value": self.difference.value, "interval": self.interval},
            "sentence": self.sentence(),
            "policy": self.policy.to_dict(),
            "recipe": str(self.candidates[0][0]),
            "n_learnt": self.n_learnt,
            "n_tested": self.evaluation.overlap.n_episodes,
            "candidates": tried,
            "splits": splits,
            "evaluation": self.evaluation.to_dict(),
            "where": [place.to_dict(self.level) for place in self.where],
            "assumptions": ASSUMPTIONS,
        }

    def sentence(self) -> str:
        """The decision in words."""
        ends, value = self.interval, self.difference.value
        signed = Numbers.of([value, *ends]).signed
        found = f"{signed(value)} ({at_level(self.level, ends, signed)})"
        n, times = self.evaluation.overlap.n_episodes, len(self.splits)
        start = f"Learnt from {self.n_learnt:,} episodes and tested once on {n:,} others, the proposed policy differs "
        start += f"from what was done by {found}{f', the median of {times} such splits' if times > 1 else ''}."
        against = self.against()
        if against:
            return f"{start} It is not recommended: {against}."
        return f"{start} It is better and is recommended, if every cause of action and outcome was recorded."


@renamed
def improve(
    transitions: Any,
    *,
    gamma: float = 0.99,
    features: Any = "auto",
    classifier: Any = None,
    level: float = 0.95,
    learn: float = 0.5,
    n_folds: int = 5,
    n_resamples: int = 5,
    random_state: int = 0,
    cluster: Any = None,
    engine: Engine | None = None,
    checkpoint: str | None = None,
    progress: Progress | None = None,
) -> Improvement:
    """Learn a readable policy on one part of the episodes and test it once on the other, for several splits.

    Parameters
    ----------
    transitions : Transitions, or path
        The log, in whole episodes, with integer actions; of a log in shards all rows are read into memory. Missing
        behaviour probabilities are estimated.
    level : float
        Level of the interval of the difference; a policy is recommended only if its lower end is above 0.
    learn : float
        Share of the episodes to learn and choose from.
    n_resamples : int
        Number of random splits, an odd one; their median decides.
    random_state : int
        Seed of the splits.
    gamma, features, classifier, n_folds, cluster, engine, checkpoint
        As in `evaluate`, for the test.

    See also `compare`: policies that are known beforehand; `save`: keeps the policy in a file.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsetd import improve, prepare
    >>> rng = np.random.default_rng(0)
    >>> x, action = rng.normal(size=300), rng.integers(2, size=300)
    >>> raw = {"x": x, "action": action, "reward": action * x + rng.normal(0, 0.5, size=300)}
    >>> log = prepare(raw, bandit=True).transitions
    >>> found = improve(log, features=None, n_resamples=1)
    >>> found.recommended
    True
    >>> found.policy.act([[-2.0], [2.0]]).tolist()
    [0, 1]
    >>> found.interval[0] > 0.1
    True
    """
    if n_resamples < 1 or n_resamples % 2 == 0:
        raise ValueError(f"`n_resamples` is {n_resamples}: pass an odd number of splits, so that one is the median.")
    log = concatenate([part.read() for part in shards(transitions)])
    how = (gamma, features, None, classifier, level, n_folds, 0, random_state, cluster)
    settings = Settings(*how, engine, checkpoint, progress)
    own = replace(log, target_prob=None, ratio=None)
    groups = own.ids() if cluster is None else cluster_of(own, cluster)
    _check(own, groups, learn)
    splits = [_split(own, groups, learn, settings, f"{random_state} {k}") for k in range(n_resamples)]
    return Improvement.of(splits)


def _split(log: Transitions, groups: Array, learn: float, settings: Settings, salt: str) -> Split:
    """Learn and choose on one part, test on the other; clusters stay together."""
    hashes = hashed(groups, f"improve {salt}")
    distinct = np.sort(np.unique(hashes))
    later = parts_between(distinct[[round(learn * len(distinct))]], hashes)
    first, test = (_rows_of(log, later == part) for part in (0, 1))
    n_actions = int(np.asarray(log.action).max()) + 1
    ranked = _ranked(log[first], groups[later == 0], n_actions, settings, salt)
    settings.tell(f"learning the chosen policy ({ranked[0][0]}) on {int((later == 0).sum())} episodes")
    policy = candidates(log[first], settings.gamma, n_actions, ranked[0][0])[ranked[0][0]]
    settings.tell(f"testing it once on {int((later == 1).sum())} other episodes")
    asked = replace(policy, learnt_from=policy.learnt_from[:0])  # the test episodes were set aside; no check is needed
    tested = replace(settings, cluster=None if settings.cluster is None else groups[later == 1])
    (found,) = judge(log[test], {"the proposed policy": asked}, tested)
    (where,) = places([found], None, thirds_of(found.log)).values()
    return Split(policy, found.evaluation(), where, tuple(ranked), int((later == 0).sum()))


def _rows_of(log: Transitions, members: Array) -> Array:
    """The rows of some episodes."""
    return np.flatnonzero(np.repeat(members, np.diff(log._bounds())))


def _check(log: Transitions, groups: Array, learn: float) -> None:
    if log.action is None or log.action.ndim != 1 or log.action.dtype.kind != "i":
        raise ValueError("`action` must be a column of integers 0, 1, … to learn a policy: log the actions.")
    if len(np.unique(log.action)) < 2:
        raise ValueError("The log shows a single action: there is nothing to choose from.")
    if not 0 < learn < 1:
        raise ValueError(f"`learn` must lie strictly between 0 and 1, but it is {learn}: pass a share of the episodes.")
    n = len(np.unique(groups))
    smaller = min(round(learn * n), n - round(learn * n))
    if smaller < FEWEST:
        raise ValueError(
            f"The smaller part of the split has {smaller} of {n} episodes, too few to learn from or to test on: "
            f"collect at least {FEWEST} for each part."
        )


def _ranked(
    log: Transitions, groups: Array, n_actions: int, settings: Settings, salt: str
) -> list[tuple[Recipe, Estimate]]:
    """Recipes by value − 1 s.e. of their difference to the behaviour, over both inner halves."""
    hashes = hashed(groups, f"choose {salt}")
    inner = parts_between(cuts(np.unique(hashes), 2), hashes)
    found: dict[Recipe, list[Estimate]] = {}
    # Ranking takes most of the time; with many actions and columns the columns as they came rank as well as a basis.
    wide = n_actions * log.observation.shape[1] > WIDE and settings.features == "auto"
    settings = replace(settings, n_folds=2, features=None if wide else settings.features)
    for half in (0, 1):
        settings.tell(f"learning candidates, half {half + 1} of 2")
        learnt = candidates(log[_rows_of(log, inner == half)], settings.gamma, n_actions)
        other = inner != half
        own = replace(settings, cluster=None if settings.cluster is None else groups[other])
        policies = {str(recipe): replace(p, learnt_from=p.learnt_from[:0]) for recipe, p in learnt.items()}
        judged = gains(log[_rows_of(log, other)], policies, own)
        for recipe, gain in zip(learnt, judged, strict=True):
            found.setdefault(recipe, []).append(gain.estimate("difference"))
    pooled = []
    for recipe, each in found.items():
        value, error = np.mean([e.value for e in each]), np.sqrt(sum(e.standard_error**2 for e in each)) / len(each)
        rests = sum(e.n_effective for e in each), min(e.freedom for e in each)
        pooled.append((recipe, Estimate(str(recipe), float(value), float(error), *rests)))
    ranked = sorted(pooled, key=lambda entry: -_cautious(entry[1]))
    simple = next((entry for entry in ranked if entry[0].few), ranked[0])
    # A table of few columns is taken where it is as good as the best to within the error.
    good = _cautious(simple[1]) >= _cautious(ranked[0][1]) - ranked[0][1].standard_error
    return [simple, *(entry for entry in ranked if entry is not simple)] if good else ranked


def _cautious(e: Estimate) -> float:
    return e.value - e.standard_error
